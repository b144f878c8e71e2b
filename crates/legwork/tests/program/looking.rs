//! The verbs that look: what they show while work runs and afterwards, how ids are found, and that looking changes nothing.

use legwork_testkit::server::{Script, ScriptedServer, Scripts, call, gate, say, unauthorized};
use serde_json::{Value, json};

use crate::harness::{Home, Running, tasks_toml, until};

fn scripts() -> Scripts {
    let done =
        Script::new().step(call("terminal", json!({"command": "echo looked"}))).step(say("it is done"));
    Scripts::default()
        .agent("done", done)
        .agent("held", Script::new().step(say("I begin").gate("held").say(" and end")))
}

/// A delegation with a child that has ended and one that is in the middle of its reply.
fn half_done(server: &ScriptedServer, home: &Home) -> (Running, String) {
    home.write("tasks.toml", tasks_toml(&["done", "held"]));
    let running = home.legwork(&["delegate", "tasks.toml", "--json"]).start();
    server.gate("held").wait_reached();
    (running, home.wait_for_states(&["completed", "running"]))
}

#[track_caller]
fn json(home: &Home, arguments: &[&str]) -> Value {
    let ended = home.legwork(&[arguments, &["--json"]].concat()).run();
    assert_eq!(ended.code, 0, "{ended}");
    assert_eq!(ended.stderr, "", "{ended}");
    ended.json()
}

#[track_caller]
fn assert_keys(value: &Value, keys: &[&str]) {
    for key in keys {
        assert!(value.get(*key).is_some(), "{key} is missing in {value}");
    }
}

/// Proves REG-13, REG-12.
#[test]
fn k39_ps_and_show_tell_of_running_work_from_another_process() {
    let server = ScriptedServer::start(scripts());
    let home = Home::with(&server);
    let (running, id) = half_done(&server, &home);
    let list = json(&home, &["ps"]);
    let delegation = &list["delegations"][0];
    assert_keys(delegation, &["delegation_id", "session_id", "state", "units"]);
    assert_eq!(delegation["state"], json!("running"));
    let unit = &delegation["units"][0];
    assert_eq!((&unit["unit_id"], &unit["delivery"]), (&json!(id), &json!("held")));
    for (index, child) in unit["children"].as_array().expect("children").iter().enumerate() {
        assert_keys(
            child,
            &[
                "subagent_id",
                "goal",
                "state",
                "phase",
                "elapsed_seconds",
                "quiet_seconds",
                "tokens",
                "cost_usd",
            ],
        );
        assert_eq!((&child["task_index"], &child["owner_pid"]), (&json!(index), &json!(running.pid())));
    }
    let text = home.legwork(&["ps"]).run();
    for part in [&id, "1/2 settled", "completed", "running", "done", "held"] {
        assert!(text.stdout.contains(part), "{part:?}: {text}");
    }
    let shown = json(&home, &["show", &id]);
    assert_keys(&shown, &["kind", "outcome", "steps", "steers", "ledger", "children", "units"]);
    assert_eq!((&shown["kind"], &shown["ledger"][0]["state"]), (&json!("delegation"), &json!("held")));
    assert_keys(&shown["ledger"][0], &["at", "state", "claimant", "reason"]);
    let partial = home.legwork(&["results", &id, "--json"]).run();
    assert_eq!((partial.code, &partial.json()["complete"]), (1, &json!(false)), "{partial}");
    assert_eq!(partial.statuses(), ["completed"], "{partial}");
    server.gate("held").open();
    assert_eq!(running.wait().code, 0);
    assert_eq!(home.legwork(&["ps"]).run().stdout, "nothing is running\n");
    let all = json(&home, &["ps", "--all"]);
    assert_eq!(all["delegations"][0]["state"], json!("settled"));
}

/// Proves DUR-8.
#[test]
fn show_tells_of_a_child_its_steps_and_its_outcome() {
    let server = ScriptedServer::start(scripts());
    let home = Home::with(&server);
    let id = home.legwork(&["delegate", "--goal", "done", "--json"]).run().json()["delegation_id"].clone();
    let delegation = json(&home, &["show", id.as_str().expect("an id")]);
    let child = delegation["children"][0]["subagent_id"].as_str().expect("an id");
    let shown = json(&home, &["show", child]);
    assert_eq!((&shown["kind"], &shown["goal"]), (&json!("child"), &json!("done")));
    let steps: Vec<_> = shown["steps"]
        .as_array()
        .expect("steps")
        .iter()
        .map(|step| (step["action"].as_str(), step["state"].as_str()))
        .collect();
    let done = |action| (Some(action), Some("done"));
    assert_eq!(steps, [done("open"), done("model"), done("tool"), done("model")]);
    assert_eq!(shown["outcome"]["summary"], json!("it is done"));
    let states: Vec<&Value> =
        shown["ledger"].as_array().expect("a ledger").iter().map(|line| &line["state"]).collect();
    assert_eq!(states, ["held", "ready", "claimed", "delivered"]);
    let text = home.legwork(&["show", child]).run();
    for part in ["kind: child", "goal: done", "tool: terminal", "summary: it is done", "ledger:"] {
        assert!(text.stdout.contains(part), "{part:?}: {text}");
    }
    let one = home.legwork(&["results", child, "--json"]).run();
    assert_eq!((one.code, one.statuses()), (0, vec!["completed".to_owned()]), "{one}");
}

#[test]
fn ids_may_be_shortened_until_they_are_ambiguous() {
    let server = ScriptedServer::start(Scripts::default());
    let home = Home::with(&server);
    for _ in 0..2 {
        home.legwork(&["delegate", "--goal", "any"]).run();
    }
    let listed = json(&home, &["ps", "--all"]);
    let id = |index: usize| listed["delegations"][index]["delegation_id"].as_str().expect("an id").to_owned();
    for verb in ["show", "results", "tail", "stop"] {
        let ambiguous = home.legwork(&[verb, "deleg_", "--json"]).run();
        ambiguous.assert_refused(2, "usage", &["deleg_", &id(0), &id(1), "type more"]);
        let absent = home.legwork(&[verb, "deleg_zzzz", "--json"]).run();
        absent.assert_refused(4, "not_found", &["deleg_zzzz", "legwork ps --all"]);
        let exact = home.legwork(&[verb, &id(0)]).run();
        assert_eq!(exact.code, 0, "{exact}");
        let prefix = home.legwork(&[verb, &id(0)[..13]]).run();
        assert!(prefix.stdout == exact.stdout || id(0)[..13] == id(1)[..13], "{prefix}");
    }
    home.legwork(&["results", "ses_", "--json"]).run().assert_refused(2, "usage", &["several ids"]);
    let session = listed["delegations"][0]["session_id"].as_str().expect("an id");
    home.legwork(&["results", session, "--json"]).run().assert_refused(4, "not_found", &["is a session"]);
}

#[test]
fn looking_creates_nothing() {
    let home = Home::without_model();
    for verb in ["show", "results", "tail"] {
        home.legwork(&[verb, "deleg_1", "--json"]).run().assert_refused(4, "not_found", &["deleg_1"]);
    }
    assert_eq!(json(&home, &["ps"]), json!({"delegations": [], "unreadable": [], "paused": false}));
    assert_eq!(home.legwork(&["ps", "--all"]).run().stdout, "nothing is running\n");
    home.legwork(&["doctor", "--offline"]).run();
    assert_eq!(home.legwork(&["config", "show"]).run().code, 0);
    assert!(!home.state().exists());
    assert!(std::fs::read_dir(home.project()).expect("there").next().is_none(), "the project is untouched");
}

/// Proves EVTC-6, LIVE-13.
#[test]
fn tail_follows_the_merged_transcripts_to_the_end() {
    let server = ScriptedServer::start(scripts());
    let home = Home::with(&server);
    let (running, id) = half_done(&server, &home);
    let following = home.legwork(&["tail", "-f", &id]).start();
    let lines = home.legwork(&["tail", "-f", &id, "--json"]).start();
    until("the first lines", || following.stdout().contains("[0] ").then_some(()));
    let so_far = home.legwork(&["tail", &id]).run();
    assert!(so_far.stdout.contains("[1] ") && !so_far.stdout.contains("and end"), "{so_far}");
    server.gate("held").open();
    assert_eq!(running.wait().code, 0);
    let followed = following.wait();
    assert_eq!(followed.code, 0, "{followed}");
    for part in ["[0] ", "[1] ", "it is done", "I begin and end", "terminal"] {
        assert!(followed.stdout.contains(part), "{part:?}: {followed}");
    }
    assert_eq!(followed.stdout.matches("final").count(), 2, "{followed}");
    let documents: Vec<Value> =
        lines.wait().stdout.lines().map(|line| serde_json::from_str(line).expect("JSON lines")).collect();
    let texts: Vec<&str> =
        documents.iter().map(|document| document["line"].as_str().expect("a line")).collect();
    let mut sorted = (texts, followed.stdout.lines().collect::<Vec<_>>());
    sorted.0.sort_unstable();
    sorted.1.sort_unstable();
    assert_eq!(sorted.0, sorted.1, "both forms tell the same");
    let whole = json(&home, &["tail", &id]);
    assert_eq!(whole["lines"].as_array().map(Vec::len), Some(sorted.0.len()));
}

#[test]
fn ps_watch_writes_a_document_for_each_change() {
    let server = ScriptedServer::start(scripts());
    let home = Home::with(&server);
    let (running, id) = half_done(&server, &home);
    let watching = home.legwork(&["ps", "--watch", "--json"]).start();
    until("the running work", || watching.stdout().contains(&id).then_some(()));
    server.gate("held").open();
    running.wait();
    until("the end of it", || {
        watching.stdout().ends_with("{\"delegations\":[],\"unreadable\":[],\"paused\":false}\n").then_some(())
    });
    watching.kill();
}

#[test]
fn doctor_asks_the_model_and_tells_what_is_wrong() {
    let scripts = Scripts::default().otherwise(Script::new().step(say("ok").on_retry(unauthorized())));
    let server = ScriptedServer::start(scripts);
    let home = Home::with(&server);
    let well = json(&home, &["doctor"]);
    assert_eq!(well["ok"], json!(true), "{well}");
    for check in well["checks"].as_array().expect("checks") {
        assert_keys(check, &["name", "state", "detail", "fix"]);
    }
    let ill = home.legwork(&["doctor", "--json"]).run();
    assert_eq!((ill.code, &ill.json()["ok"]), (1, &json!(false)), "{ill}");
    assert!(ill.stdout.contains("Incorrect API key provided."), "{ill}");
    let none = Home::without_model();
    let text = none.legwork(&["doctor"]).run();
    assert_eq!(text.code, 1, "{text}");
    assert!(text.stdout.contains("✗ model") && text.stdout.contains("fix: "), "{text}");
}

#[test]
fn doctor_names_the_work_of_a_process_that_died() {
    let server = ScriptedServer::start(Scripts::default().otherwise(Script::always(gate("held"))));
    let home = Home::with(&server);
    let running = home.legwork(&["delegate", "--goal", "any"]).start();
    server.gate("held").wait_reached();
    running.kill();
    let told = home.legwork(&["doctor", "--offline"]).run();
    assert_eq!(told.code, 0, "{told}");
    assert!(told.stdout.contains("⚠ work: 1 delegation(s) belong to a process that has died"), "{told}");
}

#[test]
fn help_lists_the_verbs_that_are_built_and_completions_know_them() {
    let home = Home::without_model();
    let help = home.legwork(&["--help"]).run();
    assert_eq!(help.code, 0, "{help}");
    let verbs = help.stdout.split("Commands:").nth(1).expect("a list").split("\n\n").next().expect("its end");
    let verbs: Vec<&str> = verbs
        .lines()
        .filter_map(|line| line.strip_prefix("  ")?.split(' ').next())
        .filter(|word| !word.is_empty())
        .collect();
    let built = [
        "chat",
        "run",
        "delegate",
        "ps",
        "show",
        "results",
        "worker",
        "dismiss",
        "tail",
        "steer",
        "stop",
        "pause",
        "sessions",
        "doctor",
        "config",
        "completions",
        "help",
    ];
    assert_eq!(verbs, built);
    for shell in ["bash", "zsh", "fish"] {
        let script = home.legwork(&["completions", shell]).run();
        assert_eq!((script.code, script.stderr.as_str()), (0, ""), "{script}");
        assert!(built.iter().all(|verb| script.stdout.contains(verb)), "{script}");
    }
    for unbuilt in ["serve", "mcp", "acp"] {
        let ended = home.legwork(&[unbuilt]).run();
        assert_eq!((ended.code, ended.stdout.as_str()), (2, ""), "{ended}");
    }
    let version = home.legwork(&["--version"]).run();
    assert_eq!((version.code, version.stdout.starts_with("legwork ")), (0, true), "{version}");
}
