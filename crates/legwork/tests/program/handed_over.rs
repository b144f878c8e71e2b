//! Processes that subagents have handed over go with the process of legwork that they run under. Whoever was told of one
//! hears that, once, and is not told that it goes on.

use legwork_testkit::server::{Conversation, Reply, Script, ScriptedServer, Scripts, call, gate, say};
use serde_json::{Value, json};

use crate::harness::{Home, Screen, until};
use crate::processes::{COMPLETION, PROCESS, sent_last, whole};

/// What is said of a process that is gone.
const LOST: &str = "runs no longer. It has ended with the process of legwork that it ran under";

fn background() -> Reply {
    call("terminal", json!({"command": "echo serving; exec sleep 974", "background": true}))
}

fn hand_off(id: &str) -> Reply {
    call("process", json!({"action": "hand_off", "id": id, "purpose": "It serves the pages."}))
}

/// Hands a process over and answers; some wait in between, and some hand over another one then.
fn giver() -> Script {
    Script::from_fn(|talk: &Conversation| {
        let waits = talk.first_user_text().contains("slowly");
        match talk.step() {
            0 => background(),
            1 => hand_off("proc_1"),
            2 if waits => gate("answer")
                .call("terminal", json!({"command": "echo serving; exec sleep 973", "background": true})),
            3 if waits => hand_off("proc_2"),
            _ => say("it serves"),
        }
    })
}

/// The id of a process in what was said, as its heir calls it.
fn heirs_id(text: &str) -> String {
    let place = text.find("proc_1-of-").expect("it was named");
    let of_id = |char: &char| char.is_alphanumeric() || matches!(char, '_' | '-');
    text[place..].chars().take_while(of_id).collect()
}

fn server() -> ScriptedServer {
    let main = Script::from_fn(|talk: &Conversation| match talk.last_text() {
        "get a server" => call("delegate_task", json!({"tasks": [{"goal": "server: make one run"}]})),
        "get two slowly" => {
            call("delegate_task", json!({"tasks": [{"goal": "server: make two run, slowly"}]}))
        }
        "ask for one" => call("delegate_task", json!({"tasks": [{"goal": "boss: get a server"}]})),
        "end it" => {
            let all: String = talk.messages.iter().map(|message| message.text.as_str()).collect();
            call("process", json!({"action": "kill", "id": heirs_id(&all)}))
        }
        "what now" => say("Nothing more."),
        last if last.contains("because you asked for it") => say("Ended it."),
        last if last.contains(PROCESS) => say("Heard of its end."),
        last if last.contains(COMPLETION) => say("Noted the server."),
        _ => say("Done with that."),
    });
    let boss = Script::from_fn(|talk: &Conversation| match talk.step() {
        0 => call("delegate_task", json!({"goal": "server: make one run"})),
        _ => gate("boss").say("the boss is done"),
    });
    ScriptedServer::start(Scripts::default().agent("server:", giver()).agent("boss:", boss).otherwise(main))
}

fn chat(home: &Home, arguments: &[&str]) -> Screen {
    let order = home.legwork(arguments).env("NO_COLOR", "1").env("TERM", "xterm-256color");
    let screen = order.set("max_spawn_depth", 2).at_terminal(120, 30);
    screen.wait_for("›");
    screen
}

/// A chat that has taken a process over and is idle.
fn heir(home: &Home) -> Screen {
    let mut screen = chat(home, &["chat"]);
    screen.press("get a server\r");
    screen.wait_for("Noted the server.");
    screen.wait_for_rest();
    screen
}

/// Proves PROC-3, EVT-4, K39, and the 20th invariant: the conversation was told that it goes on, and its process has ended or
/// died since.
#[test]
fn proc_03_a_conversation_that_goes_on_hears_once_of_the_end_of_what_it_was_told_to_have() {
    for is_killed in [true, false] {
        let server = server();
        let home = Home::with(&server);
        let mut screen = heir(&home);
        if is_killed {
            screen.kill();
        } else {
            assert_eq!(screen.leave(), 0);
        }
        let mut screen = chat(&home, &["chat", "--resume"]);
        screen.wait_for("Heard of its end.");
        let shown = screen.everything();
        assert!(shown.contains("◆ Background process: proc_1-of-sa-0-"), "{shown}");
        let told = whole(&mut screen, &server);
        assert_eq!(told.matches(PROCESS).count(), 1, "killed: {is_killed}: {told}");
        assert!(told.contains(LOST) && told.contains("| echo serving; exec sleep 974"), "{told}");
        screen.kill();
        let mut screen = chat(&home, &["chat", "--resume"]);
        let told = whole(&mut screen, &server);
        assert_eq!(told.matches(PROCESS).count(), 1, "killed: {is_killed}: once: {told}");
        assert_eq!(screen.leave(), 0);
        home.assert_nothing_runs();
    }
}

/// Proves PROC-3: whoever has ended it, or seen its end, knows of it.
#[test]
fn proc_03_the_end_of_a_process_that_the_agent_has_looked_at_is_not_told_when_it_goes_on() {
    let server = server();
    let home = Home::with(&server);
    let mut screen = heir(&home);
    screen.press("end it\r");
    screen.wait_for("Ended it.");
    screen.wait_for_rest();
    screen.kill();
    let mut screen = chat(&home, &["chat", "--resume"]);
    let told = whole(&mut screen, &server);
    assert!(told.contains("was ended because you asked for it"), "{told}");
    assert_eq!(told.matches(PROCESS).count(), 0, "{told}");
    assert_eq!(screen.leave(), 0);
    home.assert_nothing_runs();
}

/// How a conversation loses its process while a subagent works.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Lost {
    /// Whoever opens it goes on with the subagent.
    Killed,
    /// A worker goes on with it.
    Left,
    /// Nobody does: it is stopped.
    Stopped,
}

/// Proves PROC-3, PROC-8: the process that took it over is gone before the subagent has ended.
#[test]
fn proc_03_what_was_handed_over_before_a_process_was_lost_is_told_with_the_result() {
    for lost in [Lost::Killed, Lost::Left, Lost::Stopped] {
        let server = server();
        let home = Home::with(&server);
        let mut screen = chat(&home, &["chat"]);
        screen.press("get two slowly\r");
        screen.wait_for("Done with that.");
        server.gate("answer").wait_waiting(1);
        screen.wait_for("1 running");
        screen.wait_for_rest();
        if lost == Lost::Left {
            screen.press("\u{4}");
            screen.wait_for("[l]eave them to a worker");
            screen.press("l");
            assert_eq!(screen.wait_for_end(), 0);
            server.gate("answer").open();
            until("the worker to end", || home.processes().is_empty().then_some(()));
        } else {
            screen.kill();
        }
        if lost == Lost::Stopped {
            assert_eq!(home.legwork(&["stop", "--all"]).run().code, 0);
        }
        let goes_on = usize::from(lost == Lost::Killed);
        let mut screen = chat(&home, &["chat", "--resume"]);
        server.gate("answer").open();
        screen.wait_for("Noted the server.");
        let told = whole(&mut screen, &server);
        let id = heirs_id(&told);
        assert!(told.contains(&format!("{id} over to you, but it runs no longer")), "{told}");
        assert_eq!(told.matches("it goes on and is yours now").count(), goes_on, "{lost:?}: {told}");
        assert_eq!(told.matches(PROCESS).count(), 0, "with the result and not besides: {told}");
        let results = home.legwork(&["results", &home.only_delegation(), "--json"]).run();
        let handed = &results.results()[0]["handed_off_processes"];
        let gone = handed.as_array().and_then(|handed| handed.iter().find(|one| one["ended"] == true));
        let gone = gone.unwrap_or_else(|| panic!("one is gone: {results}"));
        assert_eq!(gone["session_id"], json!(id), "{results}");
        assert_eq!(gone["command"], "echo serving; exec sleep 974", "{results}");
        assert_eq!(gone["purpose"], "It serves the pages.", "{results}");
        let other = handed.as_array().into_iter().flatten().find(|one| one["ended"] != true);
        let other = other.map(|one| one["session_id"].as_str().unwrap_or_default().to_owned());
        let second = (lost == Lost::Killed).then(|| id.replacen("proc_1", "proc_2", 1));
        assert_eq!(other, second, "what is begun later has a name of its own: {results}");
        assert_eq!(screen.leave(), 0);
        home.assert_nothing_runs();
    }
}

/// Proves PROC-3 for a subagent that asked for another one.
#[test]
fn proc_03_a_subagent_that_goes_on_hears_of_the_end_of_what_it_was_told_to_have() {
    let server = server();
    let home = Home::with(&server);
    let mut screen = chat(&home, &["chat"]);
    screen.press("ask for one\r");
    server.gate("boss").wait_waiting(1);
    screen.kill();
    let mut screen = chat(&home, &["chat", "--resume"]);
    server.gate("boss").open();
    screen.wait_for("Noted the server.");
    let log = server.log();
    let bodies: Vec<String> =
        log.of("boss:").iter().map(|entry| entry.body["messages"].to_string()).collect();
    let last = bodies.last().expect("requests");
    assert!(last.contains("it goes on and is yours now"), "{last}");
    assert_eq!(last.matches(LOST).count(), 1, "{last}");
    assert!(log.violations().is_empty(), "{}", log.summary());
    assert_eq!(screen.leave(), 0);
    home.assert_nothing_runs();
}

/// Proves PROC-3 for one-shots, whose processes end with them.
#[test]
fn proc_03_a_prompt_that_goes_on_with_a_session_hears_of_what_ended_with_the_last_one() {
    let server = server();
    let home = Home::with(&server);
    assert_eq!(home.legwork(&["run", "get a server"]).run().code, 0);
    for _ in 0..2 {
        assert_eq!(home.legwork(&["run", "--last", "what now"]).run().code, 0);
        let told = sent_last(&server);
        assert_eq!(told.matches(LOST).count(), 1, "{told}");
    }
    home.assert_nothing_runs();
}

/// Proves PROC-8: nobody has ended it yet, and nobody has it.
#[test]
fn proc_08_beside_a_dead_conversation_nothing_is_said_to_go_on() {
    let server = server();
    let home = Home::with(&server);
    let mut screen = heir(&home);
    let id = home.only_delegation();
    let look = |verb: &str| home.legwork(&[verb, &id, "--json"]).run();
    let alive = look("results");
    assert!(alive.json()["process_notes"].to_string().contains("it goes on and is yours now"), "{alive}");
    screen.kill();
    let dead = look("results");
    let notes = dead.json()["process_notes"].to_string();
    assert!(notes.contains("the process of legwork that it ran under has died"), "{dead}");
    assert!(!notes.contains("yours now") && !notes.contains("runs no longer"), "{dead}");
    assert_eq!(dead.results()[0]["handed_off_processes"][0]["left"], true, "{dead}");
    let shown = look("show").json();
    assert!(finds(&shown, "left") && !finds(&shown, "ended"), "{shown}");
    let mut screen = chat(&home, &["chat", "--resume"]);
    screen.wait_for("Heard of its end.");
    let gone = look("results");
    assert_eq!(gone.results()[0]["handed_off_processes"][0]["ended"], true, "{gone}");
    assert_eq!(screen.leave(), 0);
    home.assert_nothing_runs();
}

/// Whether a process that was handed over has this mark, wherever it stands.
fn finds(value: &Value, mark: &str) -> bool {
    match value {
        Value::Object(fields) => {
            let handed = fields.get("handed_off_processes").and_then(|handed| handed[0].get(mark));
            handed.is_some() || fields.values().any(|field| finds(field, mark))
        }
        Value::Array(items) => items.iter().any(|item| finds(item, mark)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}
