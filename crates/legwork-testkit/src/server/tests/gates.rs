//! Gates, the counts of what is open at once, and the ends that the log tells apart.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use serde_json::json;

use super::client::{DEADLINE, Line, Response, plain, streamed, user};
use crate::server::{Ending, Script, ScriptedServer, Scripts, gate, say};

fn gated() -> ScriptedServer {
    ScriptedServer::start(Scripts::default().otherwise(Script::always(gate("g").say("through"))))
}

fn post(server: &ScriptedServer) -> Line {
    Line::post(server, &plain(json!([user("hi")])), "connection: close\r\n")
}

#[test]
fn a_gate_holds_a_reply_before_its_headers_until_it_is_opened() {
    let server = gated();
    let mut line = post(&server);
    server.gate("g").wait_reached();
    assert_eq!(server.log().entries()[0].ending, Ending::Open);
    server.gate("g").open();
    assert_eq!(Response::parse(&line.read_rest()).status, 200);
    assert_eq!(Response::parse(&post(&server).read_rest()).status, 200, "an open gate stays open");
}

#[test]
fn a_gate_in_the_middle_holds_the_rest_of_the_stream() {
    let reply = say("a").gate("g").say("b");
    let server = ScriptedServer::start(Scripts::default().otherwise(Script::new().step(reply)));
    let mut line = Line::post(&server, &streamed(json!([user("hi")])), "connection: close\r\n");
    let first = line.read_until("\n\n\r\n");
    assert!(first.contains("\"content\":\"a\"") && !first.contains("\"content\":\"b\""));
    server.gate("g").wait_reached();
    server.gate("g").open();
    assert!(String::from_utf8(line.read_rest()).unwrap().contains("\"content\":\"b\""));
}

#[test]
fn a_gate_lets_through_as_many_as_it_is_told() {
    let server = gated();
    let lines: Vec<Line> = (0..3).map(|_| post(&server)).collect();
    server.gate("g").wait_waiting(3);
    server.gate("g").let_through(2);
    server.wait_for(|log| log.in_flight() == 1, DEADLINE);
    assert_eq!(server.gate("g").waiting(), 1);
    server.gate("g").let_through(1);
    let log = server.wait_for(|log| log.in_flight() == 0, DEADLINE);
    assert_eq!((log.peak_in_flight(), log.peak_held(), log.held()), (3, 3, 0));
    drop(lines);
}

#[test]
fn a_client_that_leaves_at_a_gate_is_noted_and_holds_it_no_longer() {
    let server = gated();
    let line = post(&server);
    server.gate("g").wait_waiting(1);
    assert_eq!(line.leave(), b"");
    let log = server.wait_for(|log| log.in_flight() == 0, DEADLINE);
    assert_eq!(log.entries()[0].ending, Ending::ClientGone);
    assert_eq!(log.held(), 0);
    assert!(log.entries()[0].ended.unwrap() >= log.entries()[0].arrived);
}

#[test]
fn requests_one_after_the_other_are_never_counted_as_two_at_once() {
    let server = ScriptedServer::start(Scripts::default());
    for _ in 0..200 {
        post(&server).read_rest();
    }
    assert_eq!(server.log().peak_in_flight(), 1);
    assert!(server.log().entries().iter().all(|entry| entry.ending == Ending::Answered));
}

#[test]
fn a_wait_in_vain_fails_with_what_came_instead() {
    let server = ScriptedServer::start(Scripts::default().patience(Duration::from_millis(5)));
    post(&server).read_rest();
    let gate = server.gate("never");
    let panic = catch_unwind(AssertUnwindSafe(|| gate.wait_reached())).unwrap_err();
    let message = panic.downcast_ref::<String>().unwrap();
    assert!(message.contains("a request to reach the gate `never`"), "{message}");
    assert!(message.contains("#0 POST /v1/chat/completions"), "{message}");
}

#[test]
fn a_dropped_server_closes_its_connections() {
    let server = gated();
    let mut line = post(&server);
    server.gate("g").wait_reached();
    drop(server);
    assert_eq!(line.read_rest(), b"");
}
