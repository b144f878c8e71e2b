//! A prompt in a session whose subagents have lost their process: what `run` takes up it brings to its end, unless it is told
//! otherwise (K02).

use legwork_testkit::server::{Conversation, Script, ScriptedServer, Scripts, call, gate, say};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::harness::{Ended, Home, Running, Seen, until};

const COMMAND: &str = "echo once >> steps.txt";

/// Answers what it is told, and sends out a child that runs a command and waits at the gate before its answer.
fn scripts() -> Scripts {
    let child = Script::new()
        .step(call("terminal", json!({"command": COMMAND})))
        .step(gate("held").say("the piece is done"));
    let session = Script::from_fn(|talk: &Conversation| match talk.last_text() {
        text if text.contains("wait at the gate") => gate("prompt").say("the prompt is answered"),
        text if text.contains("the piece is done") => say("noted"),
        text => say(format!("heard: {text}")),
    });
    Scripts::default().agent("a piece of work", child).otherwise(session)
}

/// A session with work in the background that a worker has begun.
struct Begun {
    session: String,
    id: String,
    worker: Seen,
}

fn begun(server: &ScriptedServer, home: &Home) -> Begun {
    let session = home.conversation();
    let id = home.leave_piece(&session, "a piece of work");
    server.gate("held").wait_reached();
    let worker = until("the worker to be seen", || {
        home.processes().into_iter().find(|seen| seen.command.contains("worker"))
    });
    Begun { session, id, worker }
}

fn owner_of(home: &Home, id: &str) -> Option<i64> {
    let list = home.ps();
    let known = list.iter().find(|known| known["delegation_id"] == json!(id))?;
    known["units"][0]["children"][0]["owner_pid"].as_i64()
}

fn until_taken_up(home: &Home, id: &str, running: &mut Running) {
    until("it to be taken up", || {
        assert!(!running.has_ended(), "it ended: {}", running.stderr());
        (owner_of(home, id) == Some(running.pid().into())).then_some(())
    });
}

/// Each result came once, and nothing was done or asked twice but the call that was cut off.
fn assert_brought(server: &ScriptedServer, home: &Home, begun: &Begun) {
    assert_eq!(home.read("steps.txt"), "once\n");
    assert_eq!(server.log().of("a piece of work").len(), 3, "{}", server.log().summary());
    let exported = home.legwork(&["sessions", "export", &begun.session, "--json"]).run().json();
    let history = exported["history"].as_array().expect("a history").clone();
    let came: Vec<&Value> = history.iter().filter(|message| message["author"] == "completion").collect();
    assert_eq!(came.len(), 1, "{history:?}");
    assert!(came[0].to_string().contains("the piece is done"), "{history:?}");
    let shown = home.legwork(&["show", &begun.id, "--json"]).run().json();
    assert_eq!(shown["units"][0]["delivery"], "delivered", "{}", shown["ledger"]);
    home.assert_nothing_runs();
}

#[test]
fn k02_a_prompt_waits_for_what_it_has_taken_up_and_is_asked_after_its_results() {
    let server = ScriptedServer::start(scripts());
    let home = Home::with(&server);
    let begun = begun(&server, &home);
    begun.worker.kill();
    let mut running = home.legwork(&["run", "and now?", "--resume", &begun.session, "--json"]).start();
    until_taken_up(&home, &begun.id, &mut running);
    server.gate("held").open();
    let ended = running.wait();
    assert_eq!((ended.code, ended.json()["answer"].as_str()), (0, Some("heard: and now?")), "{ended}");
    assert_eq!(ended.json()["delegations"][0]["delegation_id"], json!(begun.id), "{ended}");
    assert_eq!(ended.json()["delegations"][0]["results"][0]["summary"], "the piece is done", "{ended}");
    assert!(ended.stderr.contains("the prompt is asked when their results are there"), "{ended}");
    assert_brought(&server, &home, &begun);
}

/// What loses its process while the prompt is answered is waited for behind it.
#[test]
fn k02_what_is_taken_up_during_the_prompt_is_brought_to_its_end_too() {
    let server = ScriptedServer::start(scripts());
    let home = Home::with(&server);
    let begun = begun(&server, &home);
    let mut running =
        home.legwork(&["run", "wait at the gate", "--resume", &begun.session, "--json"]).start();
    server.gate("prompt").wait_reached();
    begun.worker.kill();
    until_taken_up(&home, &begun.id, &mut running);
    server.gate("prompt").open();
    until("the prompt to be answered", || {
        let shown = home.legwork(&["sessions", "export", &begun.session, "--json"]).run();
        shown.stdout.contains("the prompt is answered").then_some(())
    });
    server.gate("held").open();
    let ended = running.wait();
    assert_eq!((ended.code, ended.json()["answer"].as_str()), (0, Some("the prompt is answered")), "{ended}");
    assert_brought(&server, &home, &begun);
}

fn told(signal: Signal) -> (ScriptedServer, Home, Begun, Ended) {
    let server = ScriptedServer::start(scripts());
    let home = Home::with(&server);
    let begun = begun(&server, &home);
    begun.worker.kill();
    let mut running = home.legwork(&["run", "and now?", "--resume", &begun.session]).start();
    until_taken_up(&home, &begun.id, &mut running);
    server.gate("held").wait_waiting(1);
    running.signal(signal);
    let ended = running.wait();
    (server, home, begun, ended)
}

/// Ctrl-C stops what the prompt waits for, as it stops what it has sent out itself.
#[test]
fn k12_a_prompt_that_is_interrupted_while_it_waits_stops_what_it_has_taken_up() {
    let (server, home, begun, ended) = told(Signal::SIGINT);
    assert_eq!((ended.code, ended.stdout.as_str()), (130, ""), "{ended}");
    assert!(ended.stderr.contains("before the prompt was asked"), "{ended}");
    let results = home.legwork(&["results", &begun.id, "--json"]).run();
    assert_eq!(results.statuses(), ["interrupted"], "{results}");
    assert!(!server.log().entries().iter().any(|entry| entry.body.to_string().contains("and now?")));
    home.assert_nothing_runs();
}

#[test]
fn k33_a_prompt_that_is_told_to_end_while_it_waits_leaves_what_it_has_taken_up() {
    let (server, home, begun, ended) = told(Signal::SIGTERM);
    assert_eq!(ended.code, 143, "{ended}");
    server.gate("held").open();
    let results = home.legwork(&["results", &begun.id, "--wait", "--json"]).run();
    assert_eq!((results.code, results.statuses()), (0, vec!["completed".to_owned()]), "{results}");
    assert_eq!(home.read("steps.txt"), "once\n");
    home.assert_nothing_runs();
}
