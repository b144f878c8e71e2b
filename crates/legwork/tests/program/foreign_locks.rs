//! Somebody else keeps the database for thirty seconds at the moments at which most depends on it: when a call is
//! accepted, when its result settles, and when that is taken and delivered. And two processes with many subagents each.

use std::time::Duration;

use legwork_testkit::server::{Call, Entry};
use legwork_testkit::server::{Conversation, Script, ScriptedServer, Scripts, calls, gate, say};
use serde_json::json;

use crate::harness::{Home, Screen, tasks_toml, until, within};

/// Longer than the store waits for a lock, and shorter than what was done is kept.
const LOCKED_FOR: Duration = Duration::from_secs(30);
const COMPLETION: &str = "[The result of a subagent: delegation ";
const TASK: &str = "the piece of work";

/// A conversation that sends one subagent out, and says at gates what it says.
fn server() -> ScriptedServer {
    let main = |said: &str| match said {
        said if said.starts_with(COMPLETION) => say("it has come"),
        said if said.contains("send it") => {
            let call = Call::new("delegate_task", json!({"tasks": [{"goal": TASK}]}));
            gate("ask").then(calls([call]))
        }
        said if said.contains("talk on") => gate("talk").say("this was talked"),
        _result => say("it is on its way"),
    };
    ScriptedServer::start(Scripts::default().otherwise(Script::from_fn(move |talk: &Conversation| {
        match talk.first_user_text().starts_with(TASK) {
            true => gate("work").say("the answer"),
            false => main(talk.last_text()),
        }
    })))
}

fn delivery(home: &Home) -> Option<String> {
    let list = home.list();
    let unit = list.first()?["units"][0]["delivery"].as_str();
    unit.map(str::to_owned)
}

/// Keeps the database from everybody while the gate opens and for a while after.
#[track_caller]
fn locked_over(home: &Home, server: &ScriptedServer, name: &str) {
    server.gate(name).wait_reached();
    let lock = home.lock_database();
    server.gate(name).open();
    let asked = || server.log().entries().len();
    let before = asked();
    let went_on = within(LOCKED_FOR, || (asked() > before).then_some(()));
    assert!(
        went_on.is_none(),
        "nothing is asked on the ground of what is not stored: {}",
        server.log().summary()
    );
    drop(lock);
}

/// The conversation at a terminal, with the database locked over this gate.
#[track_caller]
fn converse(locked: &str) {
    let server = server();
    let home = Home::with(&server);
    let mut screen: Screen =
        home.legwork(&["chat"]).env("NO_COLOR", "1").env("TERM", "xterm-256color").at_terminal(100, 30);
    screen.wait_for("›");
    screen.press("send it\r");
    pass(&home, &server, ("ask", locked));
    screen.wait_for("it is on its way");
    if locked == "talk" {
        screen.press("talk on\r");
        server.gate("talk").wait_reached();
        pass(&home, &server, ("work", locked));
        until("the result to be ready", || (delivery(&home)? == "ready").then_some(()));
        pass(&home, &server, ("talk", locked));
        screen.wait_for("this was talked");
    } else {
        pass(&home, &server, ("work", locked));
    }
    screen.wait_for("it has come");
    until("the result to be delivered", || (delivery(&home)? == "delivered").then_some(()));
    assert_eq!(screen.leave(), 0);
    let log = server.log();
    let told = |entry: &&Entry| entry.body["messages"].to_string().matches(COMPLETION).count();
    let counts: Vec<usize> =
        log.entries().iter().map(|entry| told(&entry)).filter(|count| *count > 0).collect();
    assert_eq!(counts, [1], "it was told once: {}", log.summary());
    let expected = if locked == "talk" { 5 } else { 4 };
    assert_eq!(log.entries().len(), expected, "nothing was asked twice: {}", log.summary());
    assert_eq!(home.list().len(), 1, "nothing was delegated twice");
    let everything = screen.everything();
    for word in ["failed", "interrupted", "given up"] {
        assert!(!everything.contains(word), "{word}: {everything}");
    }
    let told = everything.matches("kept and offered again").count();
    assert!(told <= 1, "what is kept meanwhile is told once: {everything}");
    home.assert_nothing_runs();
}

#[track_caller]
fn pass(home: &Home, server: &ScriptedServer, (name, locked): (&str, &str)) {
    if name == locked { locked_over(home, server, name) } else { server.gate(name).open() }
}

#[test]
fn k35_a_call_outlives_a_foreign_lock_of_thirty_seconds() {
    converse("ask");
}

#[test]
fn k35_a_result_outlives_a_foreign_lock_of_thirty_seconds() {
    converse("work");
}

#[test]
fn k35_a_delivery_outlives_a_foreign_lock_of_thirty_seconds() {
    converse("talk");
}

/// Proves DUR-1.
#[test]
fn k35_nobody_hears_of_a_lock_while_two_processes_run_fifty_subagents_each() {
    let server =
        ScriptedServer::start(Scripts::default().otherwise(Script::from_fn(|talk: &Conversation| {
            match talk.step() {
                0 => calls([Call::new("terminal", json!({"command": "true"}))]),
                _ => say(format!("done: {}", talk.first_user_text())),
            }
        })));
    let home = Home::with(&server);
    for process in ["a", "b"] {
        let goals: Vec<String> = (0..50).map(|n| format!("task {process}{n} of many")).collect();
        home.write(&format!("{process}.toml"), tasks_toml(&goals));
    }
    let start =
        |file: &str| home.legwork(&["delegate", file, "--json"]).set("max_concurrent_children", 25).start();
    let running = ["a", "b"].map(|process| (process, start(&format!("{process}.toml"))));
    for (process, running) in running {
        let ended = running.wait();
        assert_eq!(ended.code, 0, "{ended}");
        assert!(!format!("{ended}").contains("locked"), "{ended}");
        let results = ended.results();
        assert_eq!(results.len(), 50, "{ended}");
        for (n, entry) in results.iter().enumerate() {
            assert!(
                entry["summary"]
                    .as_str()
                    .is_some_and(|text| text.contains(&format!("task {process}{n} of many"))),
                "{entry}"
            );
        }
    }
    let list = home.list();
    let delivered = list.iter().filter(|delegation| delegation["units"][0]["delivery"] == json!("delivered"));
    assert_eq!((list.len(), delivered.count()), (2, 2));
    assert_eq!(server.log().entries().len(), 200, "nothing was asked twice");
    home.assert_nothing_runs();
}
