//! The end of the program while everything is going on at once: within its bound, with nothing lost and nothing left.

use std::time::Instant;

use legwork_testkit::server::{Conversation, Reply, Script, ScriptedServer, Scripts, call, gate, say};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::harness::{Ended, HangUp, Home, RELEASE_MAX, Running, until};

/// Work that comes to no end by itself: a model that does not answer, and a command that does not listen.
fn endless() -> Scripts {
    let command = "trap '' TERM HUP INT; sleep 994 & sleep 994";
    Scripts::default()
        .agent("in a command", Script::always(call("terminal", json!({"command": command}))))
        .agent("in a model call", Script::new().step(gate("model").say("never said")))
        .otherwise(Script::from_fn(|talk: &Conversation| match talk.step() {
            0 => call("delegate_task", json!({"tasks": endless_tasks()})),
            _ => say("they are on their way"),
        }))
}

fn endless_tasks() -> Value {
    json!([{"goal": "this is work in a command"}, {"goal": "this is work in a model call"}])
}

fn is_under_way(server: &ScriptedServer, home: &Home) {
    server.gate("model").wait_waiting(1);
    home.wait_for_processes("sleep 994", 2);
}

/// A delegation that has lost its process.
fn orphaned(server: &ScriptedServer, home: &Home) -> String {
    home.write("tasks.json", json!({"tasks": endless_tasks()}).to_string());
    let first = home.legwork(&["delegate", "tasks.json"]).start();
    let id = first.delegation();
    is_under_way(server, home);
    first.kill();
    home.commands().iter().for_each(|seen| seen.kill());
    until("its commands to end", || home.commands().is_empty().then_some(()));
    until("its request to end", || (server.gate("model").waiting() == 0).then_some(()));
    id
}

/// Every verb that works, told to end while its work would go on for ever.
#[test]
fn k33_inv_29_every_verb_that_works_ends_within_its_stop_grace_and_a_second() {
    for verb in ["delegate", "run", "worker", "results", "chat"] {
        let server = ScriptedServer::start(endless());
        let home = Home::with(&server);
        let ended: Ended = if verb == "chat" {
            let order = home.legwork(&["chat"]).env("NO_COLOR", "1").env("TERM", "xterm-256color");
            let mut screen = order.at_terminal(100, 30);
            screen.wait_for("›");
            screen.press("send them out\r");
            is_under_way(&server, &home);
            screen.wait_for("they are on their way");
            let told = Instant::now();
            screen.signal(Signal::SIGTERM);
            let code = screen.wait_for_end();
            Ended {
                code,
                took: told.elapsed(),
                lived: told.elapsed(),
                stdout: String::new(),
                stderr: screen.everything(),
            }
        } else {
            let start = |arguments: &[&str]| -> Running {
                let running = home.legwork(arguments).start();
                is_under_way(&server, &home);
                running
            };
            let running = match verb {
                "delegate" => {
                    home.write("tasks.json", json!({"tasks": endless_tasks()}).to_string());
                    start(&["delegate", "tasks.json"])
                }
                "run" => start(&["run", "the prompt"]),
                "worker" => start(&["worker", "--only", &orphaned(&server, &home)]),
                _ => start(&["results", &orphaned(&server, &home), "--wait"]),
            };
            running.signal(Signal::SIGTERM);
            running.wait()
        };
        assert_eq!(ended.code, 143, "{verb}: {ended}");
        assert!(ended.took < RELEASE_MAX, "{verb} took {:?}: {ended}", ended.took);
        assert!(!ended.stderr.contains("panicked"), "{verb}: {ended}");
        home.assert_nothing_runs();
        let states: Vec<Value> = home.ps().iter().map(|delegation| delegation["state"].clone()).collect();
        assert_eq!(states.len(), 1, "{verb}: all of it is kept: {states:?}");
    }
}

/// How a conversation comes to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Signal(Signal),
    /// Its terminal is closed.
    HangUp,
    /// It is killed right after it was told to end.
    KilledAtOnce,
    /// It is killed in the middle of its end, when the answer that came in it is stored.
    KilledInTheMiddle,
}

const GATED: [&str; 3] = ["red", "green", "blue"];

fn busy(talk: &Conversation) -> Reply {
    let (first, last) = (talk.first_user_text(), talk.last_text());
    if !talk.tools.iter().any(|tool| tool == "delegate_task") {
        let place = if first.contains("ending") { "ending" } else { "held" };
        let name = first.rsplit(' ').next().unwrap_or_default();
        return gate(place).say(format!("answer-{name}"));
    }
    if last.ends_with("send them out") {
        let gated = GATED.iter().map(|name| json!({"goal": format!("held piece {name}")}));
        let others = [json!({"goal": "ending piece amber"}), json!({"goal": "pending piece white"})];
        let tasks: Vec<Value> = gated.chain(others).collect();
        return call("delegate_task", json!({ "tasks": tasks }));
    }
    let late = talk
        .messages
        .iter()
        .flat_map(|message| &message.calls)
        .any(|call| call.arguments.contains("late piece"));
    let is_result = talk.messages.last().is_some_and(|last| last.answers.is_some());
    match (is_result, late) {
        (true, false) => gate("dispatch").call("delegate_task", json!({"goal": "late piece black"})),
        _ => say("Noted."),
    }
}

/// Three wait for their model, one gets its answer as the end begins, one waits for a slot, and a call for another one
/// is on its way.
#[test]
fn k33_inv_29_whatever_ends_a_busy_conversation_all_of_it_is_kept_and_each_result_comes_once() {
    for way in [
        Way::Signal(Signal::SIGTERM),
        Way::Signal(Signal::SIGHUP),
        Way::HangUp,
        Way::KilledAtOnce,
        Way::KilledInTheMiddle,
    ] {
        let server = ScriptedServer::start(Scripts::default().otherwise(Script::from_fn(busy)));
        let home = Home::with(&server);
        let order = home.legwork(&["chat"]).set("max_concurrent_children", 4).env("TERM", "xterm-256color");
        let (running, mut terminal) = order.env("NO_COLOR", "1").start_with_terminal();
        terminal.wait_for("›");
        terminal.press("send them out\r");
        server.gate("held").wait_waiting(3);
        server.gate("ending").wait_waiting(1);
        server.gate("dispatch").wait_waiting(1);
        end(way, (&server, &home), running, terminal);
        home.assert_nothing_runs();
        let delegations = home.list();
        let of =
            |delegation: &Value| delegation["units"][0]["children"].as_array().expect("children").clone();
        let children =
            delegations.iter().map(of).find(|all| all.len() == 5).expect("those that were sent out");
        assert!(children.iter().all(|child| child["state"].is_string()), "{way:?}: {children:?}");

        ["held", "ending", "dispatch"].map(|name| server.gate(name)).iter().for_each(|gate| gate.open());
        let order = home.legwork(&["run", "and now?", "--last"]).set("oneshot_max_children", 0);
        let ended = order.run();
        assert_eq!(ended.code, 0, "{way:?}: {ended}");
        assert!(!ended.stderr.contains("panicked"), "{way:?}: {ended}");
        assert_told_once(&home, way);
        home.assert_nothing_runs();
    }
}

/// Ends the conversation, while an answer and a call arrive.
fn end(way: Way, (server, home): (&ScriptedServer, &Home), running: Running, terminal: HangUp) {
    let arrive = || ["ending", "dispatch"].map(|name| server.gate(name)).iter().for_each(|gate| gate.open());
    match way {
        Way::Signal(signal) => running.signal(signal),
        Way::HangUp => drop(terminal),
        Way::KilledAtOnce => {
            running.signal(Signal::SIGTERM);
            running.kill();
            return;
        }
        Way::KilledInTheMiddle => {
            running.signal(Signal::SIGTERM);
            arrive();
            until("the answer to be stored", || home.state_of("amber").filter(|state| state == "completed"));
            running.kill();
            return;
        }
    }
    arrive();
    let ended = running.wait();
    assert_eq!(ended.code, 143, "{way:?}: {ended}");
    assert!(ended.took < RELEASE_MAX, "{way:?} took {:?}: {ended}", ended.took);
}

/// Each answer is in the conversation once, and so is each call.
fn assert_told_once(home: &Home, way: Way) {
    let sessions = home.legwork(&["sessions", "--json"]).run().json();
    let session = sessions["sessions"][0]["session_id"].as_str().expect("an id").to_owned();
    let exported = home.legwork(&["sessions", "export", &session, "--json"]).run().json();
    let history: Vec<String> =
        exported["history"].as_array().expect("a history").iter().map(ToString::to_string).collect();
    for name in GATED.into_iter().chain(["amber", "white", "black"]) {
        let told: usize =
            history.iter().map(|message| message.matches(&format!("answer-{name}")).count()).sum();
        assert_eq!(told, 1, "{way:?}: {name} in {history:#?}");
    }
    assert_eq!(home.list().len(), 2, "{way:?}: the call that was on its way was made once");
}
