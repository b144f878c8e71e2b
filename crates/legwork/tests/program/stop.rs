//! `legwork stop` from another terminal: it reaches what it names and everything below, in whichever process that runs, and
//! nothing else.

use legwork_testkit::server::{Script, ScriptedServer, Scripts, call, gate, say};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::harness::{Home, Running, tasks_toml, until};

const SLEEPS: &str = "sleep 998 & setsid sleep 998 & sleep 998";

fn scripts() -> Scripts {
    Scripts::default()
        .agent("tool", Script::new().step(call("terminal", json!({"command": SLEEPS}))))
        .agent("held", Script::new().step(gate("held").say("held is done")))
}

/// Two tasks, one in a command and one at a gate; the program, its delegation and its children's ids.
fn under_way(server: &ScriptedServer, home: &Home, gate_waits: usize) -> (Running, String, Vec<String>) {
    home.write("tasks.toml", tasks_toml(&["tool", "held"]));
    let running = home.legwork(&["delegate", "tasks.toml", "--json"]).start();
    let id = running.delegation();
    server.gate("held").wait_waiting(gate_waits);
    home.wait_for_processes("sleep 998", 3 * gate_waits);
    let shown = home.legwork(&["show", &id, "--json"]).run().json();
    let children = shown["children"].as_array().expect("children").iter();
    let ids = children.map(|child| child["subagent_id"].as_str().expect("an id").to_owned()).collect();
    (running, id, ids)
}

#[track_caller]
fn stop(home: &Home, arguments: &[&str]) -> Value {
    let ended = home.legwork(&[&["stop", "--json"], arguments].concat()).run();
    assert_eq!(ended.code, 0, "{ended}");
    ended.json()
}

/// Proves ROUTE-12, KILL-5.
#[test]
fn k12_a_stop_of_one_child_stops_that_child_only() {
    let server = ScriptedServer::start(scripts());
    let home = Home::with(&server);
    let (running, _, ids) = under_way(&server, &home, 1);
    assert_eq!(stop(&home, &[&ids[0]]), json!({"stopped": [ids[0]], "pending": [], "unreadable": []}));
    assert!(home.commands().is_empty(), "its processes are gone when the stop is answered");
    home.wait_for_states(&["interrupted", "running"]);
    server.gate("held").open();
    let ended = running.wait();
    assert_eq!(
        (ended.code, ended.statuses()),
        (1, vec!["interrupted".into(), "completed".into()]),
        "{ended}"
    );
    assert_eq!(ended.results()[0]["exit_reason"], json!("interrupted"));
    assert_eq!(ended.results()[1]["summary"], json!("held is done"));
    home.assert_nothing_runs();
}

#[test]
fn k12_a_stop_of_the_delegation_ends_all_its_children_and_no_others() {
    let server = ScriptedServer::start(scripts());
    let home = Home::with(&server);
    let (stopped, id, ids) = under_way(&server, &home, 1);
    let (other, _, others) = under_way(&server, &home, 2);
    assert_eq!(stop(&home, &[&id[..11]])["stopped"], json!(ids), "a prefix is enough");
    let ended = stopped.wait();
    assert_eq!((ended.code, ended.statuses()), (1, vec!["interrupted".into(); 2]), "{ended}");
    home.wait_for_states(&["running", "running"]);
    assert_eq!(stop(&home, &[&id])["stopped"], json!([]), "it has ended already");
    assert_eq!(stop(&home, &[&others[0], &others[1]])["stopped"], json!(others));
    assert_eq!(other.wait().code, 1);
    home.assert_nothing_runs();
}

/// Proves REG-14, KILL-3.
#[test]
fn stop_all_ends_the_work_of_every_process() {
    let server = ScriptedServer::start(scripts());
    let home = Home::with(&server);
    let (one, _, _) = under_way(&server, &home, 1);
    let (two, _, _) = under_way(&server, &home, 2);
    let answer = home.legwork(&["stop", "--all"]).run();
    assert_eq!(answer.code, 0, "{answer}");
    assert!(answer.stdout.starts_with("stopped: ") && answer.stdout.matches("sa-").count() == 4, "{answer}");
    for running in [one, two] {
        let ended = running.wait();
        assert_eq!((ended.code, ended.statuses()), (1, vec!["interrupted".into(); 2]), "{ended}");
    }
    home.assert_nothing_runs();
    let later = home.legwork(&["delegate", "--goal", "anything", "--json"]).run();
    assert_eq!(later.code, 0, "an old stop does not reach later work: {later}");
}

/// Proves REG-15, ROUTE-9, SEC-12, DISP-2, DISP-23, KILL-3.
#[test]
fn a_stop_by_session_reaches_what_that_session_started() {
    let server = ScriptedServer::start(scripts());
    let home = Home::with(&server);
    let (running, id, ids) = under_way(&server, &home, 1);
    let session = home.legwork(&["show", &id, "--json"]).run().json()["session_id"].clone();
    let session = session.as_str().expect("an id");
    assert_eq!(stop(&home, &["--session", session])["stopped"], json!(ids));
    assert_eq!(running.wait().code, 1);
    home.legwork(&["stop", "--json", "--session", &id]).run().assert_refused(
        4,
        "not_found",
        &["not a session"],
    );
}

/// Proves CTRL-12.
#[test]
fn k12_a_stop_in_the_middle_of_a_tree_reaches_what_is_below_and_nothing_above() {
    let nested = |goal: &'static str| {
        Script::from_fn(move |talk| match talk.step() {
            0 => call("delegate_task", json!({"goal": goal})),
            _ => say(format!("heard: {}", talk.last_text())),
        })
    };
    let scripts = scripts()
        .agent("the prompt", nested("middle work to be done"))
        .agent("middle work", nested("tool work to be done"));
    let server = ScriptedServer::start(scripts);
    let home = Home::with(&server);
    let running = home.legwork(&["run", "the prompt", "--json"]).set("max_spawn_depth", 2).start();
    home.wait_for_processes("sleep 998", 3);
    let (middle, leaf) = ends_of_the_tree(&home);
    let stopped = stop(&home, &[&middle]);
    assert_eq!(
        stopped,
        json!({"stopped": [middle, leaf], "pending": [], "unreadable": []}),
        "all that was below is listed"
    );
    let ended = running.wait();
    home.assert_nothing_runs();
    assert_eq!(ended.code, 1, "{ended}");
    assert!(ended.json()["answer"].as_str().is_some_and(|text| text.contains("interrupted")), "{ended}");
    let leaf = home.legwork(&["show", &leaf, "--json"]).run().json();
    assert_eq!(leaf["outcome"]["status"], json!("interrupted"), "{leaf}");
    assert!(leaf["outcome"]["error"].as_str().is_some_and(|text| text.contains("parent")), "{leaf}");
    assert!(home.ps().is_empty());
}

/// The child of the session and the child of that child.
fn ends_of_the_tree(home: &Home) -> (String, String) {
    let mut ids = ["middle work to be done", "tool work to be done"].map(|goal| {
        let list = home.ps();
        let children = list
            .iter()
            .flat_map(|delegation| delegation["units"][0]["children"].as_array().expect("children"));
        let mut found = children.filter(|child| child["goal"] == goal);
        found.next().expect("it runs")["subagent_id"].as_str().expect("an id").to_owned()
    });
    (std::mem::take(&mut ids[0]), std::mem::take(&mut ids[1]))
}

/// The commands of a turn belong to no delegation. Those of a process that lives are let alone.
/// Proves K15.
#[test]
fn inv_13_what_a_killed_turn_left_running_ends_with_a_stop_and_with_the_deletion_of_its_session() {
    let turn = |sleep: &str| Script::new().step(call("terminal", json!({"command": sleep})));
    for way in ["stop", "delete"] {
        let scripts = Scripts::default()
            .agent("first prompt", turn("sleep 998 & sleep 998 & sleep 998"))
            .agent("second prompt", turn("sleep 997"));
        let server = ScriptedServer::start(scripts);
        let home = Home::with(&server);
        let killed = home.legwork(&["run", "the first prompt"]).start();
        home.wait_for_processes("sleep 998", 3);
        let living = home.legwork(&["run", "the second prompt"]).start();
        home.wait_for_processes("sleep 997", 1);
        killed.kill();
        home.wait_for_processes("sleep 998", 3);
        if way == "stop" {
            assert_eq!(stop(&home, &["--all"]), json!({"stopped": [], "pending": [], "unreadable": []}));
        } else {
            let sessions = home.legwork(&["sessions", "list", "--json"]).run().json();
            let sessions = sessions["sessions"].as_array().expect("a list");
            let dead = sessions.iter().find(|session| session["open_in_pid"].is_null()).expect("it is free");
            let id = dead["session_id"].as_str().expect("an id");
            let deleted = home.legwork(&["sessions", "delete", id, "--yes", "--json"]).run();
            assert_eq!(deleted.code, 0, "{deleted}");
        }
        home.wait_for_processes("sleep 998", 0);
        home.wait_for_processes("sleep 997", 1);
        living.signal(Signal::SIGINT);
        living.wait();
        home.assert_nothing_runs();
    }
}

/// At once, and nothing of its siblings: they go on afterwards, and the results come to their own places.
/// Proves CTRL-12, K12.
#[test]
fn k12_a_stop_of_one_orphaned_child_ends_it_at_once_and_its_siblings_go_on() {
    for twice in [false, true] {
        let server = ScriptedServer::start(scripts());
        let home = Home::with(&server);
        let (running, id, ids) = under_way(&server, &home, 1);
        running.kill();
        let stopped = if twice { stop(&home, &[&ids[0], &ids[0]]) } else { stop(&home, &[&ids[0]]) };
        assert_eq!(stopped, json!({"stopped": [ids[0]], "pending": [], "unreadable": []}));
        assert!(home.commands().is_empty(), "its processes are gone when the stop is answered");
        let shown = home.legwork(&["show", &ids[0], "--json"]).run().json();
        assert_eq!(shown["outcome"]["status"], json!("interrupted"), "{shown}");
        let open = home.count("SELECT count(*) FROM requests WHERE settled_at IS NULL");
        assert_eq!(open, 0, "nobody is asked for it any more");
        let again = stop(&home, &[&ids[0]]);
        assert_eq!(again, json!({"stopped": [], "pending": [], "unreadable": []}));
        server.gate("held").open();
        let ended = home.legwork(&["results", &id, "--wait", "--json"]).run();
        assert_eq!(ended.statuses(), ["interrupted", "completed"], "{ended}");
        home.assert_nothing_runs();
    }
}

/// What it had sent out ends with it, and whoever waits for it goes on with that.
#[test]
fn k12_a_stop_in_the_middle_of_an_orphaned_tree_ends_what_is_below_and_nothing_above() {
    let nested = |goal: &'static str| {
        Script::from_fn(move |talk| match talk.step() {
            0 => call("delegate_task", json!({"goal": goal})),
            _ => say(format!("heard: {}", talk.last_text())),
        })
    };
    let scripts = scripts()
        .agent("the prompt", nested("top work to be done"))
        .agent("top work", nested("middle work to be done"))
        .agent("middle work", nested("tool work to be done"));
    let server = ScriptedServer::start(scripts);
    let home = Home::with(&server);
    let running = home.legwork(&["run", "the prompt", "--json"]).set("max_spawn_depth", 3).start();
    home.wait_for_processes("sleep 998", 3);
    let (middle, leaf) = ends_of_the_tree(&home);
    running.kill();
    let stopped = stop(&home, &[&middle]);
    assert_eq!(
        stopped,
        json!({"stopped": [middle, leaf], "pending": [], "unreadable": []}),
        "all that was below is listed"
    );
    home.assert_nothing_runs();
    for child in [&middle, &leaf] {
        let shown = home.legwork(&["show", child, "--json"]).run().json();
        assert_eq!(shown["outcome"]["status"], json!("interrupted"), "{shown}");
    }
    let ended = home.legwork(&["run", "--last", "and?", "--json"]).set("max_spawn_depth", 3).run();
    assert!(!ended.stdout.is_empty() && home.ps().is_empty(), "{ended}");
    let all = home.list();
    let children = all.iter().flat_map(|one| one["units"][0]["children"].as_array().expect("a list"));
    let top = children.clone().find(|child| child["goal"] == json!("top work to be done"));
    assert_eq!(top.map(|child| &child["state"]), Some(&json!("completed")), "it went on: {all:?}");
}

/// It is stored, and it is said why nothing happens.
#[test]
fn k34_a_stop_beside_a_process_that_stands_still_says_why_it_waits_and_until_when() {
    let server = ScriptedServer::start(scripts());
    let home = Home::with(&server);
    let (running, _, ids) = under_way(&server, &home, 1);
    running.signal(Signal::SIGSTOP);
    let order = home.legwork(&["stop", "--json", &ids[0]]).start();
    until("the reason", || {
        let told = order.stderr();
        let is_told = told.contains("is stopped and does not renew its lease of 10 s")
            && told.contains("31 s after the last renewal");
        is_told.then_some(())
    });
    running.signal(Signal::SIGCONT);
    let ended = order.wait();
    assert_eq!(ended.json(), json!({"stopped": [ids[0]], "pending": [], "unreadable": []}), "{ended}");
    server.gate("held").open();
    assert_eq!(running.wait().statuses(), ["interrupted", "completed"]);
    home.assert_nothing_runs();
}

/// Nobody is left who would carry it out, so that it does so itself, and does not wait until its time is over.
#[test]
fn k12_a_stop_ends_the_work_itself_when_the_process_that_it_waits_for_dies() {
    for whole in [true, false] {
        let server = ScriptedServer::start(scripts());
        let home = Home::with(&server);
        let (running, id, ids) = under_way(&server, &home, 1);
        running.signal(Signal::SIGSTOP);
        let order = home.legwork(&["stop", "--json", if whole { &id } else { &ids[0] }]).start();
        until("the stop waits", || order.stderr().contains("is stopped").then_some(()));
        running.kill();
        let ended = order.wait();
        let stopped = if whole { json!(ids) } else { json!([ids[0]]) };
        assert_eq!(ended.json(), json!({"stopped": stopped, "pending": [], "unreadable": []}), "{ended}");
        home.assert_nothing_runs();
        assert_eq!(home.ps().is_empty(), whole, "its siblings wait for whoever goes on");
    }
}

#[test]
fn what_does_not_exist_cannot_be_stopped() {
    let home = Home::without_model();
    home.legwork(&["stop", "--json", "deleg_00000000"]).run().assert_refused(
        4,
        "not_found",
        &["deleg_00000000"],
    );
    assert_eq!(stop(&home, &["--all"]), json!({"stopped": [], "pending": [], "unreadable": []}));
    assert!(!home.state().exists(), "nothing is made by a stop of nothing");
    let server = ScriptedServer::start(Scripts::default());
    let home = Home::with(&server);
    home.legwork(&["delegate", "--goal", "any"]).run();
    home.legwork(&["stop", "--json", "sa-0-00000000"]).run().assert_refused(
        4,
        "not_found",
        &["sa-0-00000000", "ps --all"],
    );
}
