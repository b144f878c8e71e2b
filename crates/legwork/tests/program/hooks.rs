//! Command hooks: what they hear, in which order, and that none of them can do harm.

use std::fs;

use legwork_testkit::server::{Script, ScriptedServer, Scripts, call, say};
use serde_json::{Value, json};

use crate::harness::Home;

/// A user's own configuration with these hooks.
fn with_hooks(home: &Home, hooks: &str) -> String {
    let path = home.project().join("../hooks.toml");
    fs::write(&path, format!("[hooks]\n{hooks}")).expect("it is written");
    path.display().to_string()
}

fn lines(home: &Home, name: &str) -> Vec<Value> {
    let text = home.read(name);
    text.lines().map(|line| serde_json::from_str(line).expect("a hook hears JSON")).collect()
}

fn server() -> ScriptedServer {
    let child = |name: &str| {
        Script::new()
            .step(call("write_file", json!({"path": format!("{name}.txt"), "content": "it's secret $(id)"})))
            .step(say(format!("{name} is 'done' $(id)")))
    };
    ScriptedServer::start(Scripts::default().agent("one", child("one")).agent("two", child("two")))
}

/// Proves HOOK-1, HOOK-2, HOOK-3, FIN-5, FIN-6, BUILD-28.
#[test]
fn hook_02_hooks_hear_of_every_subagent_once_and_one_after_another() {
    let server = server();
    let home = Home::with(&server);
    let append = |name: &str| format!("[\"cat >>{name}; echo >>{name}\"]");
    let config = with_hooks(
        &home,
        &format!(
            "subagent_start = {}\nsubagent_stop = {}\ndelegation_finished = {}\n",
            append("starts"),
            append("stops"),
            append("ends")
        ),
    );
    let ended =
        home.legwork(&["delegate", "--goal", "one", "--goal", "two", "--json", "--config", &config]).run();
    assert_eq!(ended.code, 0, "{ended}");
    let starts = lines(&home, "starts");
    assert_eq!(starts.len(), 2, "{starts:?}");
    for start in &starts {
        assert!(start["parent_session_id"].as_str().is_some_and(|id| id.starts_with("ses_")), "{start}");
        assert!(start["child_subagent_id"].as_str().is_some_and(|id| id.starts_with("sa-")), "{start}");
        assert_eq!(
            (&start["child_role"], &start["parent_subagent_id"]),
            (&json!("leaf"), &Value::Null),
            "{start}"
        );
        assert!(start.get("parent_turn_id").is_some() && start.get("child_session_id").is_some(), "{start}");
    }
    let stops = lines(&home, "stops");
    assert_eq!(stops.len(), 2, "{stops:?}");
    for stop in &stops {
        assert_eq!(stop["child_status"], "completed", "{stop}");
        assert!(
            stop["child_summary"].as_str().is_some_and(|text| text.contains("is 'done' $(id)")),
            "{stop}"
        );
        assert!(stop["duration_ms"].is_u64(), "{stop}");
        let item = &stop["tool_call_history"][0];
        assert_eq!((&item["tool_name"], &item["status"]), (&json!("write_file"), &json!("ok")), "{stop}");
        assert!(item["input_bytes"].is_u64() && item["output_bytes"].is_u64(), "{stop}");
        assert!(
            !stop["tool_call_history"].to_string().contains("secret"),
            "whole values are not told: {stop}"
        );
    }
    let [end] = lines(&home, "ends").try_into().expect("one unit");
    let goals: Vec<&Value> =
        end["results"].as_array().expect("a list").iter().map(|result| &result["task"]).collect();
    assert_eq!(goals, [&json!("one"), &json!("two")], "{end}");
    assert!(end["results"][0]["result"].as_str().is_some_and(|text| text.contains("one is")), "{end}");
    home.assert_nothing_runs();
}

#[test]
fn hook_02_a_hook_that_fails_or_hangs_changes_nothing() {
    let server = server();
    let home = Home::with(&server);
    let config = with_hooks(&home, "subagent_start = [\"exit 3\"]\nsubagent_stop = [\"sleep 999\"]\n");
    let ended = home.legwork(&["delegate", "--goal", "one", "--json", "--config", &config]).run();
    assert_eq!(ended.code, 0, "{ended}");
    assert_eq!(ended.statuses(), ["completed"]);
    assert!(ended.stderr.contains("hook"), "{ended}");
    home.assert_nothing_runs();
}

#[test]
fn inv_18_a_project_brings_no_hooks() {
    let server = server();
    let home = Home::with(&server);
    fs::create_dir_all(home.project().join(".legwork")).expect("it is made");
    home.write(".legwork/config.toml", "[hooks]\nsubagent_start = [\"touch ran\"]\n");
    let ended = home.legwork(&["delegate", "--goal", "one"]).run();
    assert_eq!(ended.code, 2, "{ended}");
    assert!(!home.project().join("ran").exists());
}
