//! `legwork delegate`: many tasks side by side, their results in input order, and what is kept of them.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use legwork_testkit::server::{Script, ScriptedServer, Scripts, call, gate, say, unauthorized};
use serde_json::{Value, json};

use crate::harness::{Home, tasks_toml};

/// A script of three steps, each with another tool, whose answer says what it read.
fn three_steps(name: &str) -> Script {
    let (made, written) = (format!("{name}.made"), format!("{name}.written"));
    Script::new()
        .step(call("terminal", json!({"command": format!("echo made by {name} > {made}")})))
        .step(call("read_file", json!({"path": made})))
        .step(call("write_file", json!({"path": written, "content": format!("written by {name}\n")})))
        .step(say(format!("{name} is done")))
}

fn eight() -> (Vec<String>, Scripts) {
    let names: Vec<String> = (1..=8).map(|number| format!("job-{number}")).collect();
    let scripts = names.iter().fold(Scripts::default(), |all, name| all.agent(name, three_steps(name)));
    (names, scripts)
}

/// Proves ENTRY-1.
#[test]
fn out_01_eight_tasks_of_three_steps_complete_in_input_order() {
    let (names, scripts) = eight();
    let server = ScriptedServer::start(scripts);
    let home = Home::with(&server);
    home.write("tasks.toml", tasks_toml(&names));
    let ended = home.legwork(&["delegate", "tasks.toml", "--json"]).run();
    assert_eq!(ended.code, 0, "{ended}");
    let document = ended.json();
    let mut keys: Vec<&String> = document.as_object().expect("an object").keys().collect();
    keys.sort();
    assert_eq!(keys, ["delegation_id", "live_transcripts", "results", "total_duration_seconds"]);
    assert!(document["delegation_id"].as_str().is_some_and(|id| id.starts_with("deleg_") && id.len() == 14));
    for (index, (entry, name)) in ended.results().iter().zip(&names).enumerate() {
        check_entry(entry, index, name);
        assert_eq!(home.read(&format!("{name}.written")), format!("written by {name}\n"));
    }
    assert_eq!(ended.results().len(), 8);
    let log = server.log();
    assert!(log.violations().is_empty(), "{}", log.summary());
    assert_eq!(log.entries().len(), 32);
    assert!(home.ps().is_empty());
    home.assert_nothing_runs();
}

/// The keys and values of one entry (ENTRY-1).
#[track_caller]
fn check_entry(entry: &Value, index: usize, name: &str) {
    for (key, value) in [
        ("task_index", json!(index)),
        ("status", json!("completed")),
        ("summary", json!(format!("{name} is done"))),
        ("api_calls", json!(4)),
        ("exit_reason", json!("completed")),
        ("truncated", json!(false)),
        ("tokens", json!({"input": 400, "output": 80})),
        ("cost_status", json!("unknown")),
    ] {
        assert_eq!(entry[key], value, "{key} in {entry}");
    }
    for key in ["duration_seconds", "cost_usd"] {
        assert!(entry[key].is_number(), "{key} in {entry}");
    }
    assert!(entry["model"].as_str().is_some_and(|model| model.contains("test")), "{entry}");
    assert!(entry.get("error").is_none() && entry.get("failure_reason").is_none(), "{entry}");
    let trace = entry["tool_trace"].as_array().expect("a trace");
    let tools: Vec<_> = trace.iter().map(|item| (item["tool"].as_str(), item["status"].as_str())).collect();
    let ok = Some("ok");
    assert_eq!(tools, [(Some("terminal"), ok), (Some("read_file"), ok), (Some("write_file"), ok)]);
    let summary = &trace[1]["input_summary"];
    assert_eq!(summary["argument_keys"], json!(["path"]), "{entry}");
    assert_eq!(summary["targets"], json!([format!("{name}.made")]), "{entry}");
    assert!(trace.iter().all(|item| item["args_bytes"].is_u64() && item["result_bytes"].is_u64()));
}

/// Proves DISP-15, LIVE-12, LIVE-14.
#[test]
fn live_01_every_child_leaves_a_transcript_and_the_call_a_manifest() {
    let (names, scripts) = eight();
    let server = ScriptedServer::start(scripts);
    let home = Home::with(&server);
    home.write("tasks.toml", tasks_toml(&names));
    let document = home.legwork(&["delegate", "tasks.toml", "--json"]).run().json();
    let id = document["delegation_id"].as_str().expect("an id");
    let folder = home.state().join("live").join(id);
    let listed = document["live_transcripts"].as_array().expect("a list");
    assert_eq!(listed.len(), 8);
    for (index, name) in names.iter().enumerate() {
        let path = folder.join(format!("task-{index}.log"));
        assert_eq!(listed[index].as_str().map(Path::new), Some(path.as_path()));
        let text = fs::read_to_string(&path).expect("the transcript is there");
        for part in [id, name, "terminal", "read_file", "write_file", "| ", &format!("{name} is done")] {
            assert!(text.contains(part), "{part:?} is missing in {text}");
        }
        let last = text.lines().last().expect("a line");
        assert!(last.contains("final") && last.contains("completed"), "{last}");
        assert_eq!(fs::metadata(&path).expect("there").permissions().mode() & 0o777, 0o600);
    }
    let manifest = fs::read(folder.join("manifest.json")).expect("the manifest is there");
    let manifest: Value = serde_json::from_slice(&manifest).expect("it is JSON");
    assert_eq!((&manifest["delegation_id"], &manifest["task_count"]), (&json!(id), &json!(8)));
    assert!(!manifest["started"].is_null() && !manifest["completed"].is_null(), "{manifest}");
    for task in manifest["tasks"].as_array().expect("tasks") {
        assert_eq!((&task["status"], &task["exit_reason"]), (&json!("completed"), &json!("completed")));
    }
}

#[test]
fn k16_two_hundred_tasks_all_complete_and_never_more_than_ten_at_once() {
    let server = ScriptedServer::start(
        Scripts::default().otherwise(Script::from_fn(|talk| gate("all").say(talk.first_user_text()))),
    );
    let home = Home::with(&server);
    let goals: Vec<String> = (0..200).map(|number| format!("say number {number:03}")).collect();
    home.write("tasks.toml", tasks_toml(&goals));
    let running = home.legwork(&["delegate", "tasks.toml", "--json"]).start();
    server.gate("all").wait_waiting(10);
    server.gate("all").open();
    let ended = running.wait();
    assert_eq!(ended.code, 0, "{ended}");
    let results = ended.results();
    assert_eq!(results.len(), 200);
    for (index, (entry, goal)) in results.iter().zip(&goals).enumerate() {
        assert_eq!(entry["task_index"], json!(index));
        assert!(entry["summary"].as_str().is_some_and(|text| text.contains(goal)), "{goal}: {entry}");
    }
    let log = server.log();
    assert_eq!((log.entries().len(), log.peak_in_flight()), (200, 10));
    assert!(log.violations().is_empty(), "{}", log.summary());
}

/// Proves DISP-12, PROG-1, PROG-2, PROG-8.
#[test]
fn prog_04_people_read_results_on_stdout_and_progress_on_stderr() {
    let server = ScriptedServer::start(
        Scripts::default()
            .agent("first", Script::new().step(say("the first answer")))
            .agent("second", Script::new().step(say("line one\nline two"))),
    );
    let home = Home::with(&server);
    let ended = home.legwork(&["delegate", "--goal", "the first goal", "--goal", "the second goal"]).run();
    assert_eq!(ended.code, 0, "{ended}");
    for part in ["✓ 1/2  the first goal  (completed", "    the first answer", "✓ 2/2  ", "    line two"] {
        assert!(ended.stdout.contains(part), "{part:?}: {ended}");
    }
    assert!(ended.stdout.trim_end().lines().last().is_some_and(|line| line.contains("2 of 2 completed")));
    for part in [
        "2 tasks; ",
        "\n🔀 [set 1] 2 tasks\n",
        "\n  ▶ [set 1 · 1/2] the first goal\n",
        "\n  ✓ [set 1 · 2/2] the second goal  (",
    ] {
        assert!(ended.stderr.contains(part), "{part:?}: {ended}");
    }
    let quiet = home.legwork(&["delegate", "-q", "--goal", "the first goal"]).run();
    assert_eq!((quiet.code, quiet.stderr.as_str()), (0, ""), "{quiet}");
}

/// The result of one that is alone follows at once, so only its failure has a line, and its reason is told in our words.
/// Proves PROG-3, PROG-7, PROG-11.
#[test]
fn of_a_single_task_only_a_failure_is_told_beside_its_result() {
    let server = ScriptedServer::start(
        Scripts::default()
            .agent("well", Script::new().step(say("done")))
            .agent("ill", Script::always(unauthorized())),
    );
    let home = Home::with(&server);
    let well = home.legwork(&["delegate", "--goal", "well"]).run();
    assert!(well.stderr.contains("\n  ▶ well\n") && !well.stderr.contains("✓"), "{well}");
    let ill = home.legwork(&["delegate", "--goal", "ill"]).run();
    assert_eq!(ill.code, 1, "{ill}");
    let warning =
        ill.stderr.lines().find(|line| line.starts_with("⚠ subagent failed: ill  (")).expect("a warning");
    assert!(warning.ends_with(" — the provider refused the key") && !ill.stderr.contains("✗"), "{ill}");
}

#[test]
fn tasks_come_from_json_and_from_stdin_and_share_the_context_of_the_file() {
    let server = ScriptedServer::start(Scripts::default().otherwise(Script::from_fn(|talk| {
        say(format!("{} {}", talk.system_text(), talk.first_user_text()))
    })));
    let home = Home::with(&server);
    let json =
        r#"{"context": "shared words", "tasks": [{"goal": "uno"}, {"goal": "due", "context": "own words"}]}"#;
    home.write("tasks.json", json);
    for ended in [
        home.legwork(&["delegate", "tasks.json", "--json"]).run(),
        home.legwork(&["delegate", "-", "--json"]).stdin(json).run(),
    ] {
        let results = ended.results();
        let said = |index: usize| results[index]["summary"].as_str().expect("text").to_owned();
        assert!(said(0).contains("uno") && said(0).contains("shared words"), "{ended}");
        assert!(said(1).contains("due") && said(1).contains("own words"), "{ended}");
        assert!(
            !said(1).contains("shared words") && !said(0).contains("due"),
            "a task sees itself only: {ended}"
        );
    }
}

#[test]
fn the_rules_of_the_project_are_read_by_every_child() {
    let server =
        ScriptedServer::start(Scripts::default().otherwise(Script::from_fn(|talk| say(talk.system_text()))));
    let home = Home::with(&server);
    home.write("AGENTS.md", "Always answer in verse.\n");
    let ended = home.legwork(&["delegate", "--goal", "any", "--json"]).run();
    assert!(
        ended.results()[0]["summary"].as_str().expect("text").contains("Always answer in verse."),
        "{ended}"
    );
}

#[test]
fn the_example_reads_three_real_files_without_a_key_or_a_service() {
    let home = Home::without_model();
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let script = format!("scripted/{root}/examples/three-readers.script.toml");
    let tasks = format!("{root}/examples/three-readers.toml");
    let ended = home.legwork(&["delegate", &tasks, "--cwd", root, "--model", &script, "--json"]).run();
    assert_eq!(ended.code, 0, "{ended}");
    assert_eq!(ended.statuses(), ["completed"; 3]);
    for entry in ended.results() {
        assert_eq!(entry["tool_trace"][0]["tool"], json!("read_file"), "{entry}");
        assert_eq!(entry["tool_trace"][0]["status"], json!("ok"), "{entry}");
    }
}
