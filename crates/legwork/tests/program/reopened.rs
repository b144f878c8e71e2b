//! A conversation that is opened again at once by another process, while the one that had it open is still ending: that is
//! waited for, and everything goes on.

use legwork_testkit::server::{Conversation, Script, ScriptedServer, Scripts, call, gate, say};
use nix::sys::signal::Signal;
use serde_json::json;

use crate::harness::{Home, Screen, until};

/// Time that work has when its program is told to end: the model is not answered before it is over.
const GRACE_MS: u64 = 2500;

fn server() -> ScriptedServer {
    ScriptedServer::start(Scripts::default().otherwise(Script::from_fn(|talk: &Conversation| {
        match (talk.first_user_text(), talk.last_text()) {
            (goal, _) if goal.contains("the piece") => gate("here").say("the piece is done"),
            (_, last) if last.contains("the piece is done") => say("Noted, it is there."),
            (_, last) if last.contains("send it out") => {
                call("delegate_task", json!({"goal": "this is the piece of work"}))
            }
            _ => say("It is on its way."),
        }
    })))
}

fn chat(home: &Home, arguments: &[&str]) -> Screen {
    let order = home.legwork(arguments).set("stop_grace_ms", GRACE_MS);
    order.env("NO_COLOR", "1").env("TERM", "xterm-256color").at_terminal(150, 30)
}

fn deliveries(home: &Home, id: &str) -> usize {
    let shown = home.legwork(&["show", id, "--json"]).run().json();
    let ledger = shown["ledger"].as_array().expect("a ledger").clone();
    ledger.iter().filter(|line| line["state"] == "delivered").count()
}

#[test]
fn k33_a_conversation_that_is_opened_while_its_process_ends_goes_on_with_its_subagents() {
    for signal in [Signal::SIGTERM, Signal::SIGHUP] {
        let server = server();
        let home = Home::with(&server);
        let mut first = chat(&home, &["chat"]);
        first.wait_for("›");
        first.press("send it out\r");
        first.wait_for("It is on its way.");
        server.gate("here").wait_waiting(1);
        let id = home.only_delegation();
        first.signal(signal);
        let mut second = chat(&home, &["chat", "--resume"]);
        second.wait_for(&format!("is open in process {}, which is waited for", first.pid()));
        second.wait_for("›");
        second.wait_for("1 subagent(s) go(es) on");
        server.gate("here").wait_waiting(1);
        server.gate("here").open();
        second.wait_for("Noted, it is there.");
        assert_eq!(second.leave(), 0);
        assert_eq!(first.wait_for_end(), 143);
        assert_eq!(deliveries(&home, &id), 1);
        home.assert_nothing_runs();
    }
}

#[test]
fn k33_a_prompt_that_comes_while_the_process_of_the_one_before_ends_goes_on_with_it() {
    let server = server();
    let home = Home::with(&server);
    let first = home.legwork(&["run", "send it out"]).set("stop_grace_ms", GRACE_MS).start();
    server.gate("here").wait_waiting(1);
    let id = home.only_delegation();
    first.signal(Signal::SIGTERM);
    let mut second = home.legwork(&["run", "--last", "and?"]).set("stop_grace_ms", GRACE_MS).start();
    let waits = format!("is open in process {}, which is waited for", first.pid());
    until("the second to wait", || {
        assert!(!second.has_ended(), "{}", second.stderr());
        second.stderr().contains(&waits).then_some(())
    });
    assert_eq!(first.wait().code, 143);
    server.gate("here").open();
    let ended = second.wait();
    assert_eq!((ended.code, ended.stdout.as_str()), (0, "It is on its way.\n"), "{ended}");
    assert_eq!(deliveries(&home, &id), 1);
    home.assert_nothing_runs();
}

/// What a program has to print may find no reader; the session is free by then.
#[test]
fn k33_a_session_is_opened_again_although_nobody_reads_the_last_words_of_its_process() {
    let server =
        ScriptedServer::start(Scripts::default().otherwise(Script::from_fn(|talk: &Conversation| {
            if talk.last_text() == "talk much" { say("a word ".repeat(60_000)) } else { say("It is quiet.") }
        })));
    let home = Home::with(&server);
    let (first, unread) = home.legwork(&["run", "talk much"]).start_with_stdout();
    until("the answer to be there", || {
        let log = server.log();
        (log.entries().len() == 1 && log.in_flight() == 0).then_some(())
    });
    let second = home.legwork(&["run", "--last", "and?"]).set("stop_grace_ms", 9000).run();
    assert_eq!((second.code, second.stdout.as_str()), (0, "It is quiet.\n"), "{second}");
    drop(unread);
    first.wait();
    home.assert_nothing_runs();
}
