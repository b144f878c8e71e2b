//! `legwork pause`: no new subagent starts in any process of the state folder, running ones go on, and everybody is told.

use legwork_testkit::server::{Script, ScriptedServer, Scripts, call, gate, say};
use serde_json::{Value, json};

use crate::harness::{Home, tasks_toml, until};

#[track_caller]
fn pause(home: &Home, switch: &[&str]) -> Value {
    let ended = home.legwork(&[&["pause", "--json"], switch].concat()).run();
    assert_eq!((ended.code, ended.stderr.as_str()), (0, ""), "{ended}");
    ended.json()
}

#[test]
fn kill_01_the_switch_can_be_set_read_and_set_back_from_any_process() {
    let home = Home::without_model();
    assert_eq!(pause(&home, &[]), json!({"paused": false, "changed": false}));
    assert_eq!(pause(&home, &["off"]), json!({"paused": false, "changed": false}));
    assert!(!home.state().exists(), "asking makes nothing");
    assert_eq!(pause(&home, &["on"]), json!({"paused": true, "changed": true}));
    assert_eq!(pause(&home, &["on"]), json!({"paused": true, "changed": false}));
    assert_eq!(pause(&home, &[]), json!({"paused": true, "changed": false}));
    let told = home.legwork(&["pause"]).run();
    assert!(told.stdout.starts_with("paused: ") && told.stdout.contains("legwork pause off"), "{told}");
    assert_eq!(
        home.legwork(&["ps", "--json"]).run().json(),
        json!({"delegations": [], "unreadable": [], "paused": true})
    );
    let list = home.legwork(&["ps"]).run();
    assert!(list.stdout.contains("paused: no new subagent starts"), "{list}");
    let doctor = home.legwork(&["doctor", "--offline"]).run();
    assert!(doctor.stdout.contains("⚠ pause: ") && doctor.stdout.contains("legwork pause off"), "{doctor}");
    assert_eq!(pause(&home, &["off"]), json!({"paused": false, "changed": true}));
    let told = home.legwork(&["pause"]).run();
    assert_eq!(told.stdout, "there is no pause: new subagents may start\n");
    let doctor = home.legwork(&["doctor", "--offline"]).run();
    assert!(!doctor.stdout.contains("pause"), "{doctor}");
    home.legwork(&["pause", "maybe", "--json"]).run().assert_refused(2, "usage", &["maybe", "on", "off"]);
}

#[test]
fn kill_01_tasks_from_the_shell_are_refused_while_there_is_a_pause() {
    let server = ScriptedServer::start(Scripts::default());
    let home = Home::with(&server);
    pause(&home, &["on"]);
    let refused = home.legwork(&["delegate", "--goal", "any", "--json"]).run();
    refused.assert_refused(3, "paused", &["nothing was started", "legwork pause off"]);
    assert_eq!((server.log().entries().len(), home.list().len()), (0, 0), "nothing was asked or stored");
    pause(&home, &["off"]);
    assert_eq!(home.legwork(&["delegate", "--goal", "any"]).run().code, 0);
}

#[test]
fn tool_17_a_prompt_is_answered_while_its_agent_is_told_that_it_cannot_delegate() {
    let prompt = Script::from_fn(|talk| match talk.step() {
        0 => call("delegate_task", json!({"goal": "a piece of work"})),
        // What else is wrong with a call comes after that (TOOL-13).
        1 if talk.last_text().contains("delegation is paused") => {
            call("delegate_task", json!({"tasks": [{}]}))
        }
        _ => say(format!("I heard: {}", talk.last_text())),
    });
    let server = ScriptedServer::start(Scripts::default().agent("the prompt", prompt));
    let home = Home::with(&server);
    pause(&home, &["on"]);
    let ended = home.legwork(&["run", "the prompt", "--json"]).run();
    assert_eq!((ended.code, &ended.json()["delegations"]), (0, &json!([])), "{ended}");
    let heard = ended.json()["answer"].as_str().expect("text").to_owned();
    assert!(heard.contains("delegation is paused"), "{heard}");
    assert!(ended.stderr.contains("legwork pause off"), "a person is told too: {ended}");
    assert_eq!(server.log().entries().len(), 3, "no child asked: {}", server.log().summary());
}

#[test]
fn kill_01_what_runs_goes_on_and_what_waits_starts_after_the_pause() {
    let scripts = Scripts::default()
        .agent("first piece", Script::new().step(gate("held").say("first is done")))
        .otherwise(Script::new().step(say("done later")));
    let server = ScriptedServer::start(scripts);
    let home = Home::with(&server);
    home.write("tasks.toml", tasks_toml(&["first piece", "second piece", "third piece"]));
    let running =
        home.legwork(&["delegate", "tasks.toml", "--json"]).set("max_concurrent_children", 1).start();
    server.gate("held").wait_reached();
    let id = home.wait_for_states(&["running", "queued", "queued"]);
    pause(&home, &["on"]);
    // The stop comes to the other process on the same way as the pause and after it, so once it is carried out the pause
    // is known there.
    let children = home.legwork(&["show", &id, "--json"]).run().json()["children"].clone();
    let third = children[2]["subagent_id"].as_str().expect("an id");
    assert_eq!(home.legwork(&["stop", third]).run().code, 0);
    server.gate("held").open();
    home.wait_for_states(&["completed", "queued", "interrupted"]);
    assert_eq!(server.log().entries().len(), 1, "nobody else asked: {}", server.log().summary());
    pause(&home, &["off"]);
    until("the second piece", || (server.log().entries().len() == 2).then_some(()));
    let ended = running.wait();
    assert_eq!(ended.statuses(), ["completed", "completed", "interrupted"], "{ended}");
}

#[test]
fn kill_01_whoever_waits_for_work_is_told_that_none_begins() {
    let server =
        ScriptedServer::start(Scripts::default().agent("held", Script::always(gate("held").say("done"))));
    let home = Home::with(&server);
    let running = home.legwork(&["delegate", "--goal", "held"]).start();
    let id = running.delegation();
    server.gate("held").wait_reached();
    pause(&home, &["on"]);
    let words = "note: there is a pause, so no subagent starts; `legwork pause off` ends it";
    let told = |waiting: &crate::harness::Running| {
        until("the note", || waiting.stderr().contains(words).then_some(()));
    };
    let waiting = home.legwork(&["results", &id, "--wait"]).start();
    told(&waiting);
    let worker = home.legwork(&["worker"]).start();
    told(&worker);
    worker.signal(nix::sys::signal::Signal::SIGTERM);
    assert_eq!(worker.wait().code, 143);
    server.gate("held").open();
    let ended = waiting.wait();
    assert_eq!((ended.code, ended.stderr.matches(words).count()), (0, 1), "{ended}");
    assert_eq!(running.wait().code, 0);
    let quiet = home.legwork(&["-q", "results", &id, "--wait"]).run();
    assert_eq!((quiet.code, quiet.stderr.as_str()), (0, ""), "{quiet}");
}
