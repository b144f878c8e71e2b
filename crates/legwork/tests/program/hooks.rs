//! Command hooks: what they hear, in which order, and that none of them can do harm.

use std::fs;

use legwork_testkit::server::{Script, ScriptedServer, Scripts, call, gate, say};
use nix::sys::signal::Signal;
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

/// Two children that wait at the gate, and a process that dies there.
fn killed(server: &ScriptedServer, home: &Home, config: &str) -> String {
    let tasks = "[[tasks]]\ngoal = 'lost'\non_crash = 'report'\n[[tasks]]\ngoal = 'kept'\n";
    home.write("tasks.toml", tasks);
    let running = home.legwork(&["delegate", "tasks.toml", "--config", config]).start();
    let id = running.delegation();
    server.gate("here").wait_waiting(2);
    running.kill();
    server.gate("here").open();
    id
}

/// Proves HOOK-2, FIN-5.
#[test]
fn hook_02_an_end_that_a_later_process_finds_out_is_told_once_by_the_process_that_settles_it() {
    let ways: [(&[&str], [&str; 2]); 2] =
        [(&["stop"], ["interrupted", "interrupted"]), (&["results", "--wait"], ["unknown", "completed"])];
    for (verb, statuses) in ways {
        let child = Script::from_fn(|_| gate("here").say("done"));
        let server = ScriptedServer::start(Scripts::default().otherwise(child));
        let home = Home::with(&server);
        let append = |name: &str| format!("[\"cat >>{name}; echo >>{name}\"]");
        let hooks =
            format!("subagent_stop = {}\ndelegation_finished = {}\n", append("stops"), append("ends"));
        let config = with_hooks(&home, &hooks);
        let id = killed(&server, &home, &config);
        assert!(!home.project().join("stops").exists(), "nothing has ended");
        home.legwork(&[verb, &[&id, "--config", &config]].concat()).run();
        home.legwork(&["results", &id, "--config", &config]).run();
        let mut stops = lines(&home, "stops");
        stops.sort_by_key(|stop| stop["child_subagent_id"].to_string());
        let told: Vec<&Value> = stops.iter().map(|stop| &stop["child_status"]).collect();
        assert_eq!(told, statuses, "{verb:?}: each end once");
        let [end] = lines(&home, "ends").try_into().expect("one unit, once");
        assert_eq!(end["results"].as_array().map(Vec::len), Some(2), "{verb:?}: {end}");
        home.assert_nothing_runs();
    }
}

#[test]
fn k33_a_slow_hook_does_not_hold_up_a_program_that_was_told_to_end() {
    let child = Script::new().step(gate("here").say("never"));
    let server = ScriptedServer::start(Scripts::default().otherwise(child));
    let home = Home::with(&server);
    let config = with_hooks(&home, "subagent_start = [\"touch begun; sleep 998\"]\n");
    let running = home.legwork(&["delegate", "--goal", "any", "--config", &config]).start();
    server.gate("here").wait_reached();
    home.wait_for_processes("sleep 998", 1);
    running.signal(Signal::SIGTERM);
    let ended = running.wait();
    assert_eq!(ended.code, 143, "{ended}");
    assert!(ended.stderr.contains("hooks were cut with the end of the program: they had 0.2 s"), "{ended}");
    home.assert_nothing_runs();
}
