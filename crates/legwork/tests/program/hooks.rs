//! Command hooks: what they hear, in which order, and that none of them can do harm.

use std::fs;

use legwork_testkit::server::{Script, ScriptedServer, Scripts, call, gate, say, unauthorized};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::harness::{Home, until};

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

/// The goal of the task that a hook tells of.
fn goal_of(told: &Value) -> Value {
    let id = told["child_subagent_id"].as_str().expect("an id");
    json!(if id.starts_with("sa-0-") { "one" } else { "two" })
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
        // Nobody's turn asked for it.
        assert_eq!(
            (start.get("parent_turn_id"), &start["child_goal"]),
            (Some(&Value::Null), &goal_of(start))
        );
        assert_eq!(start["child_session_id"], start["child_subagent_id"], "{start}");
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

/// Whose agents delegate to one another: a prompt, a subagent, and one below it that its model refuses.
fn nested() -> ScriptedServer {
    let asks = |goal: &str, then: &str| {
        Script::new().step(call("delegate_task", json!({"goal": goal}))).step(say(then))
    };
    ScriptedServer::start(
        Scripts::default()
            .agent("ask for it", asks("begin one", "it is there"))
            .agent("begin one", asks("begin two", "one is done"))
            .agent("begin two", Script::always(unauthorized())),
    )
}

/// Proves HOOK-1, FIN-5, FIN-6: who asked, in which turn and in which role, also of one that failed; and no hook begins before
/// the one before it has ended.
#[test]
fn hook_02_hooks_hear_of_a_tree_and_are_run_one_after_another() {
    let server = nested();
    let home = Home::with(&server);
    let hook = |name: &str| {
        format!("[\"echo begins >>log; sleep 0.1; cat >>{name}; echo >>{name}; echo ends >>log\"]")
    };
    let hooks = ["subagent_start", "subagent_stop", "delegation_finished"];
    let config = with_hooks(&home, &hooks.map(|name| format!("{name} = {}\n", hook(name))).concat());
    let ended = home
        .legwork(&["run", "ask for it", "--config", &config])
        .env("LEGWORK_DELEGATION_MAX_SPAWN_DEPTH", "2")
        .run();
    assert!(ended.stdout.contains("it is there"), "{ended}");
    let [above, below] = lines(&home, "subagent_start").try_into().expect("two began");
    let id = |told: &Value| told["child_subagent_id"].clone();
    assert_eq!((&above["parent_subagent_id"], &below["parent_subagent_id"]), (&Value::Null, &id(&above)));
    assert_eq!((&above["child_role"], &below["child_role"]), (&json!("orchestrator"), &json!("leaf")));
    assert_eq!((&above["child_goal"], &below["child_goal"]), (&json!("begin one"), &json!("begin two")));
    let stops: [Value; 2] = lines(&home, "subagent_stop").try_into().expect("two ended");
    for (stop, start) in stops.iter().zip([&below, &above]) {
        let same =
            ["parent_session_id", "parent_turn_id", "child_session_id", "child_subagent_id", "child_role"];
        for key in same {
            assert_eq!((&stop[key], stop[key].is_string()), (&start[key], true), "{key}: {stop}");
        }
    }
    let [failed, answered] = &stops;
    assert_eq!((&failed["child_status"], &failed["child_summary"]), (&json!("failed"), &Value::Null));
    assert_eq!(
        (&answered["child_status"], &answered["child_summary"]),
        (&json!("completed"), &json!("one is done"))
    );
    assert_eq!(answered["tool_call_history"][0]["tool_name"], json!("delegate_task"));
    let took = |stop: &Value| stop["duration_ms"].as_u64().expect("whole milliseconds");
    assert!(took(answered) >= took(failed) && took(answered) > 0, "one waited for the other: {stops:?}");
    let results: Vec<Value> =
        lines(&home, "delegation_finished").into_iter().map(|unit| unit["results"].clone()).collect();
    let result = |start: &Value, result: &str, status: &str| json!([{"task": start["child_goal"], "result": result, "child_session_id": id(start), "status": status}]);
    assert_eq!(results, [result(&below, "", "failed"), result(&above, "one is done", "completed")]);
    assert_eq!(home.read("log"), "begins\nends\n".repeat(6));
    home.assert_nothing_runs();
}

/// Proves FIN-5: also when a hook is told of an end long after it.
#[test]
fn fin_05_the_results_of_a_unit_are_told_after_all_of_its_ends() {
    let server = server();
    let home = Home::with(&server);
    let hooks = "subagent_start = [\"until test -e go; do sleep 0.05; done\"]\n\
                 subagent_stop = [\"echo stop >>log\"]\ndelegation_finished = [\"echo end >>log\"]\n";
    let config = with_hooks(&home, hooks);
    let running = home.legwork(&["delegate", "--goal", "one", "--goal", "two", "--config", &config]).start();
    until("both to have ended", || {
        let list = home.list();
        (list.first()?.to_string().matches("\"completed\"").count() >= 2).then_some(())
    });
    home.write("go", "");
    let ended = running.wait();
    assert_eq!((ended.code, home.read("log").as_str()), (0, "stop\nstop\nend\n"), "{ended}");
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
    assert!(ended.stderr.contains("those for 1 event(s) did not run, or not to their end"), "{ended}");
    home.assert_nothing_runs();
}

/// What hangs at the first event holds up all others: two starts and two ends.
#[test]
fn hook_02_the_warning_about_hooks_that_were_cut_says_for_how_many_events() {
    let server = server();
    let home = Home::with(&server);
    let config = with_hooks(&home, "subagent_start = [\"sleep 994\"]\nsubagent_stop = [\"true\"]\n");
    let ended = home.legwork(&["delegate", "--goal", "one", "--goal", "two", "--config", &config]).run();
    assert_eq!(ended.code, 0, "{ended}");
    assert!(ended.stderr.contains("they had 3 s after its work; those for 4 event(s)"), "{ended}");
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

/// Proves HOOK-1, BUILD-28: one that goes on in another process has begun before.
#[test]
fn hook_01_a_subagent_that_is_gone_on_with_does_not_begin_once_more() {
    let server =
        ScriptedServer::start(Scripts::default().otherwise(Script::from_fn(|_| gate("here").say("done"))));
    let home = Home::with(&server);
    let config = with_hooks(&home, "subagent_start = [\"cat >>starts; echo >>starts\"]\n");
    let order = home.legwork(&["delegate", "--goal", "one", "--goal", "two", "--config", &config]);
    let running = order.set("max_concurrent_children", 1).start();
    let id = running.delegation();
    let told = || fs::read_to_string(home.project().join("starts")).is_ok_and(|text| text.ends_with('\n'));
    until("the first to be told of", || told().then_some(()));
    server.gate("here").wait_waiting(1);
    running.kill();
    server.gate("here").open();
    let order = home.legwork(&["results", &id, "--wait", "--json", "--config", &config]);
    let ended = order.set("max_concurrent_children", 1).run();
    assert_eq!((ended.code, ended.statuses()), (0, vec!["completed".to_owned(); 2]), "{ended}");
    let begun: Vec<Value> = lines(&home, "starts").iter().map(goal_of).collect();
    assert_eq!(begun, ["one", "two"], "the second one had not begun before");
    home.assert_nothing_runs();
}

/// Whoever stops it tells of it, and of its sibling whoever goes on with that.
#[test]
fn hook_02_the_end_of_one_orphaned_subagent_that_is_stopped_is_told_at_once() {
    let child = Script::from_fn(|_| gate("here").say("done"));
    let server = ScriptedServer::start(Scripts::default().otherwise(child));
    let home = Home::with(&server);
    let config = with_hooks(&home, "subagent_stop = [\"cat >>stops; echo >>stops\"]\n");
    let id = killed(&server, &home, &config);
    let stopped = home.only_child(0);
    let told = |count: usize| {
        let stops = lines(&home, "stops");
        assert_eq!(stops.len(), count, "each end once: {stops:?}");
        stops[count - 1]["child_subagent_id"].clone()
    };
    assert_eq!(home.legwork(&["stop", &stopped, "--config", &config]).run().code, 0);
    assert_eq!(told(1), json!(stopped));
    let ended = home.legwork(&["results", &id, "--wait", "--json", "--config", &config]).run();
    assert_eq!(ended.statuses(), ["interrupted", "completed"], "{ended}");
    assert_eq!(told(2), json!(home.only_child(1)));
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
