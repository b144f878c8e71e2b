//! What happens in any conversation while subagents work: it ends none of them, and their results are told once. And
//! where each of them stands, however it is stuck.

use legwork_testkit::server::{Conversation, Reply, Script, ScriptedServer, Scripts, call, gate, say};
use serde_json::{Value, json};

use crate::harness::{Home, Screen, until};

const ENTER: &str = "\r";
const INTERRUPT: &str = "\u{3}";
/// Steps that an agent takes in one turn at most.
const STEPS_MAX: u64 = 6;
const WINDOW_TOKENS: &str = "20000";

fn is_conversation(talk: &Conversation) -> bool {
    talk.tools.iter().any(|tool| tool == "delegate_task")
}

fn talkative(talk: &Conversation) -> Reply {
    if talk.first_user_text().contains("the gated piece") && !is_conversation(talk) && !talk.tools.is_empty()
    {
        return gate("piece").say("the piece is done");
    }
    let asked =
        talk.messages.iter().rev().find(|message| message.answers.is_none() && message.calls.is_empty());
    let asked = asked.map(|message| message.text.clone()).unwrap_or_default();
    let is_result = talk.messages.last().is_some_and(|last| last.answers.is_some());
    match asked {
        // Summaries, and the words behind the last step.
        _ if talk.tools.is_empty() => say("this is how far it came"),
        asked if asked.contains("the piece is done") => say("Noted."),
        asked if asked.ends_with("send it out") && !is_result => {
            call("delegate_task", json!({"goal": "this is the gated piece of work"}))
        }
        asked if asked.ends_with("go round") => call("terminal", json!({"command": "true"})),
        asked if asked.ends_with("think long") => gate("thought").say("never said"),
        asked if asked.ends_with("tell me more") => {
            say(format!("Here it is. {}", "More and more. ".repeat(1000)))
        }
        _ => say("Yes, I am here."),
    }
}

/// The child waits for its model, and the store says so.
#[track_caller]
fn assert_alive(server: &ScriptedServer, home: &Home, after: &str) {
    assert_eq!(server.gate("piece").waiting(), 1, "after {after}: {}", server.log().summary());
    assert_eq!(home.state_of("gated piece of work").as_deref(), Some("running"), "after {after}");
}

fn say_and_wait(screen: &mut Screen, words: &str, server: &ScriptedServer) {
    let before = answered(server);
    screen.press(words).press(ENTER);
    until("the answer", || (answered(server) > before).then_some(()));
    screen.wait_for_rest();
}

/// Requests of the conversation itself that were answered.
fn answered(server: &ScriptedServer) -> usize {
    let log = server.log();
    let of_it =
        log.entries().iter().filter(|entry| entry.body["tools"].to_string().contains("delegate_task"));
    of_it.filter(|entry| entry.ended.is_some()).count()
}

fn summaries(server: &ScriptedServer) -> usize {
    let log = server.log();
    log.entries().iter().filter(|entry| entry.body["tools"].as_array().is_none_or(Vec::is_empty)).count()
}

#[test]
fn k13_inv_12_nothing_but_a_stop_ends_a_subagent_and_its_result_is_told_once() {
    let server = ScriptedServer::start(Scripts::default().otherwise(Script::from_fn(talkative)));
    let home = Home::with(&server);
    let order = home.legwork(&["chat"]).env("NO_COLOR", "1").env("TERM", "xterm-256color");
    let order = order.set("max_iterations", STEPS_MAX).env("LEGWORK_MODEL_WINDOW_TOKENS", WINDOW_TOKENS);
    let mut screen = order.at_terminal(100, 30);
    screen.wait_for("›");
    say_and_wait(&mut screen, "send it out", &server);
    server.gate("piece").wait_waiting(1);
    assert_alive(&server, &home, "the end of the turn");

    say_and_wait(&mut screen, "are you there?", &server);
    assert_alive(&server, &home, "a message");

    screen.press("think long").press(ENTER);
    server.gate("thought").wait_waiting(1);
    screen.wait_for_turn("think long");
    screen.press(INTERRUPT);
    screen.wait_for("stopped");
    until("the turn to be cut", || (server.gate("thought").waiting() == 0).then_some(()));
    assert_alive(&server, &home, "an interrupt of the turn");

    let before = answered(&server);
    screen.press("go round").press(ENTER);
    until("the last step", || (answered(&server) >= before + STEPS_MAX as usize).then_some(()));
    screen.wait_for_rest();
    assert_alive(&server, &home, "the limit of the conversation's own steps");

    let summarised = summaries(&server);
    for _ in 0..20 {
        if summaries(&server) > summarised {
            break;
        }
        say_and_wait(&mut screen, "tell me more", &server);
    }
    assert!(summaries(&server) > summarised, "the window is full: {}", server.log().summary());
    assert_alive(&server, &home, "a summary");

    // The conversation is left to nobody and taken up again by another process, while the child's own goes on with it.
    let other = home.legwork(&["ps"]).run();
    assert_eq!(other.code, 0, "{other}");
    assert_alive(&server, &home, "a look of another process");

    server.gate("piece").open();
    screen.wait_for("Noted.");
    assert_eq!(screen.leave(), 0);
    assert_eq!(home.state_of("gated piece of work").as_deref(), Some("completed"));
    let sessions = home.legwork(&["sessions", "--json"]).run().json();
    let session = sessions["sessions"][0]["session_id"].as_str().expect("an id").to_owned();
    let exported = home.legwork(&["sessions", "export", &session, "--json"]).run().json();
    let told = exported["history"].as_array().expect("a history").iter();
    let told = told.filter(|message| message["author"] == "completion").count();
    assert_eq!(told, 1);
    home.assert_nothing_runs();
}

/// One stuck in each place: before its reply, in the middle of it, behind a tool, in a tool, on its own child, and that
/// one in the queue.
fn stuck(talk: &Conversation) -> Reply {
    let first = talk.first_user_text();
    let step = talk.step();
    match first.split("stuck ").nth(1).and_then(|rest| rest.split_whitespace().next()) {
        Some("connect") => gate("connect").say("never"),
        Some("stream") => say("half of it").gate("stream").say("never"),
        Some("gap") if step == 0 => call("terminal", json!({"command": "true"})),
        Some("gap") => gate("gap").say("never"),
        Some("tool") => call("terminal", json!({"command": "sleep 993"})),
        Some("below") if step == 0 => call("delegate_task", json!({"goal": "this is stuck leaf work"})),
        Some(name @ ("sixth" | "leaf")) => gate(name).say("never"),
        _ if talk.last_text().ends_with("send them out") => {
            let goals = ["connect", "stream", "gap", "tool", "below", "sixth"];
            let tasks: Vec<Value> =
                goals.iter().map(|name| json!({"goal": format!("this is stuck {name} work")})).collect();
            call("delegate_task", json!({ "tasks": tasks }))
        }
        _ if talk.last_text().ends_with("are you there?") => say("I am here."),
        _ => say("They are on their way."),
    }
}

/// State and phase of the child with this goal, as another process is told.
fn place(home: &Home, name: &str) -> (String, String) {
    let list = home.ps();
    let units = list.iter().flat_map(|delegation| delegation["units"].as_array().expect("units"));
    let mut children = units.flat_map(|unit| unit["children"].as_array().expect("children"));
    let wanted = format!("this is stuck {name} work");
    let child = children.find(|child| child["goal"] == wanted);
    let text = |key: &str| child.map(|child| child[key].as_str().unwrap_or_default().to_owned());
    (text("state").unwrap_or_default(), text("phase").unwrap_or_default())
}

#[test]
fn k08_inv_07_each_stuck_subagent_is_shown_where_it_is_while_the_conversation_answers() {
    let server = ScriptedServer::start(Scripts::default().otherwise(Script::from_fn(stuck)));
    let home = Home::with(&server);
    let order = home.legwork(&["chat"]).env("NO_COLOR", "1").env("TERM", "xterm-256color");
    // A parent that waits holds no slot: the sixth has its, and its own child waits for one.
    let order = order.set("max_concurrent_children", 5).set("max_spawn_depth", 2);
    let mut screen = order.at_terminal(100, 40);
    screen.wait_for("›");
    screen.press("send them out\r");
    screen.wait_for("They are on their way.");
    for name in ["connect", "stream", "gap", "sixth"] {
        server.gate(name).wait_waiting(1);
    }
    home.wait_for_processes("sleep 993", 1);
    let wanted = [
        ("connect", "running", "model"),
        ("stream", "running", "model"),
        ("gap", "running", "model"),
        ("tool", "running", "terminal"),
        ("below", "parked", "children"),
        ("sixth", "running", "model"),
        ("leaf", "queued", ""),
    ];
    for (name, state, phase) in wanted {
        until(&format!("{name} to be {state} in {phase}, and not {:?}", place(&home, name)), || {
            let (is_state, is_phase) = place(&home, name);
            (is_state == state && is_phase.contains(phase)).then_some(())
        });
    }
    screen.press("are you there?\r");
    screen.wait_for("I am here.");
    for name in ["connect", "stream", "gap", "sixth"] {
        assert_eq!(server.gate(name).waiting(), 1, "{name} is stuck as before");
    }

    let stopped = home.legwork(&["stop", "--all", "--json"]).run();
    assert_eq!(stopped.json()["stopped"].as_array().map(Vec::len), Some(7), "{stopped}");
    screen.wait_without(" running");
    assert!(home.ps().is_empty(), "each has come to its end");
    let ended = home.list();
    let units = ended.iter().flat_map(|delegation| delegation["units"].as_array().expect("units"));
    let children: Vec<&Value> =
        units.flat_map(|unit| unit["children"].as_array().expect("children")).collect();
    assert_eq!(children.len(), 7);
    assert!(children.iter().all(|child| child["state"] == "interrupted"), "{children:?}");
    assert!(home.commands().is_empty(), "{:?}", home.commands());
    until("their requests to end", || (server.log().held() == 0).then_some(()));
}
