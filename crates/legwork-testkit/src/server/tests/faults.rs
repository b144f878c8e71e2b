//! Every fault, as it arrives at the client and as the log tells it.

use std::time::Duration;

use serde_json::json;

use super::client::{DEADLINE, Line, ask, plain, streamed, user};
use crate::server::{
    Ending, Log, ProviderError, Reply, Script, ScriptedServer, Scripts, empty, gate, hang,
    hang_after_headers, hang_up, rate_limited, raw_response, say, server_error, status, status_page,
    unauthorized,
};

fn server(reply: Reply) -> ScriptedServer {
    ScriptedServer::start(Scripts::default().otherwise(Script::new().step(reply)))
}

fn first_ending(log: &Log) -> Option<Ending> {
    log.entries().first().map(|entry| entry.ending).filter(|ending| *ending != Ending::Open)
}

fn wait_for_ending(server: &ScriptedServer) -> Option<Ending> {
    first_ending(&server.wait_for(|log| first_ending(log).is_some(), DEADLINE))
}

#[test]
fn error_responses_carry_status_and_the_providers_words() {
    let cases = [
        (unauthorized(), 401, "invalid_api_key"),
        (rate_limited(2), 429, "rate_limit_exceeded"),
        (server_error(), 500, "server_error"),
        (status(503, "overloaded, come back later"), 503, "overloaded, come back later"),
        (status_page(502, "text/html", "<h1>Bad gateway</h1>"), 502, "<h1>Bad gateway</h1>"),
    ];
    for (reply, code, words) in cases {
        let response = ask(&server(reply), &streamed(json!([user("hi")])));
        assert_eq!(response.status, code);
        assert!(response.body.contains(words), "{}", response.body);
        assert!(response.whole);
    }
}

#[test]
fn a_rate_limit_says_when_to_come_back() {
    let seconds = ask(&server(rate_limited(2)), &streamed(json!([user("hi")])));
    assert!(seconds.head.contains("retry-after: 2"), "{}", seconds.head);
    let date = server_error().retry_after("Wed, 21 Oct 2026 07:28:00 GMT");
    let date = ask(&server(date), &streamed(json!([user("hi")])));
    assert!(date.head.contains("retry-after: wed, 21 oct 2026 07:28:00 gmt"), "{}", date.head);
}

#[test]
fn a_hang_sends_nothing_until_the_client_leaves() {
    let server = server(hang());
    let line = Line::post(&server, &streamed(json!([user("hi")])), "");
    server.wait_for(|log| log.in_flight() == 1, DEADLINE);
    assert_eq!(line.leave(), b"");
    assert_eq!(wait_for_ending(&server), Some(Ending::ClientGone));
    assert_eq!(server.log().in_flight(), 0);
}

#[test]
fn a_hang_after_the_headers_sends_only_those() {
    for body in [streamed(json!([user("hi")])), plain(json!([user("hi")]))] {
        let server = server(hang_after_headers());
        let mut line = Line::post(&server, &body, "");
        assert!(line.read_until("\r\n\r\n").starts_with("HTTP/1.1 200 OK"));
        assert_eq!(line.leave(), b"");
        assert_eq!(wait_for_ending(&server), Some(Ending::ClientGone));
    }
}

#[test]
fn a_stalled_stream_falls_silent_in_the_middle() {
    let server = server(say("x").stall());
    let mut line = Line::post(&server, &streamed(json!([user("hi")])), "");
    line.read_until("\n\n\r\n");
    assert_eq!(line.leave(), b"");
    assert_eq!(wait_for_ending(&server), Some(Ending::ClientGone));
}

#[test]
fn a_cut_stream_has_no_end() {
    let server = server(say("some words").cut());
    let response = ask(&server, &streamed(json!([user("hi")])));
    assert_eq!(response.pieces("content").concat(), "some words");
    assert!(!response.whole);
    assert_eq!(wait_for_ending(&server), Some(Ending::HungUp));
}

#[test]
fn an_answer_in_one_piece_is_cut_in_its_middle() {
    let response = ask(&server(say("some words").cut()), &plain(json!([user("hi")])));
    assert!(!response.whole && !response.body.is_empty());
    let truncated = ask(&server(say("some words").truncate()), &plain(json!([user("hi")])));
    assert!(truncated.whole);
    assert!(serde_json::from_str::<serde_json::Value>(&truncated.body).is_err());
}

#[test]
fn a_truncated_stream_ends_in_good_order_without_its_last_events() {
    let response = ask(&server(say("some words").truncate()), &streamed(json!([user("hi")])));
    assert!(response.whole);
    assert!(!response.body.contains("[DONE]") && !response.body.contains("\"stop\""));
}

#[test]
fn an_error_object_ends_a_stream() {
    let error = ProviderError::new("overloaded_error", "Overloaded").code("overloaded");
    let response = ask(&server(say("x").error_chunk(error.clone())), &streamed(json!([user("hi")])));
    assert_eq!(response.status, 200);
    let last: serde_json::Value = serde_json::from_str(response.events().last().unwrap()).unwrap();
    assert_eq!(
        last["error"],
        json!({ "message": "Overloaded", "type": "overloaded_error", "param": null, "code": "overloaded" })
    );
    let plain = ask(&server(empty().error_chunk(error)), &plain(json!([user("hi")])));
    assert_eq!(plain.json()["error"]["code"], "overloaded");
}

#[test]
fn a_hang_up_and_noise_take_the_place_of_a_response() {
    let server_gone = server(hang_up());
    assert_eq!(Line::post(&server_gone, &streamed(json!([user("hi")])), "").read_rest(), b"");
    assert_eq!(wait_for_ending(&server_gone), Some(Ending::HungUp));
    let noise = server(raw_response(*b"SSH-2.0-\xff\r\n"));
    assert_eq!(Line::post(&noise, &streamed(json!([user("hi")])), "").read_rest(), b"SSH-2.0-\xff\r\n");
}

#[test]
fn a_drip_sends_word_by_word() {
    let server = server(empty().drip("one two three", Duration::from_millis(1)));
    let response = ask(&server, &streamed(json!([user("hi")])));
    assert_eq!(response.pieces("content"), ["one ", "two ", "three"]);
    let log = server.log();
    let entry = &log.entries()[0];
    assert!(entry.ended.unwrap() - entry.arrived >= Duration::from_millis(3));
}

#[test]
fn a_fault_can_wait_at_a_gate() {
    let server = server(gate("g").then(unauthorized()));
    let mut line = Line::post(&server, &streamed(json!([user("hi")])), "connection: close\r\n");
    server.gate("g").wait_reached();
    server.gate("g").open();
    assert!(line.read_rest().starts_with(b"HTTP/1.1 401 Unauthorized"));
}

#[test]
#[should_panic(expected = "BUG: nothing can follow Cut")]
fn words_after_a_fault_are_refused_when_the_script_is_written() {
    drop(say("x").cut().say("y"));
}

#[test]
#[should_panic(expected = "comes before anything is said")]
fn an_error_response_after_words_is_refused_when_the_script_is_written() {
    drop(say("x").then(unauthorized()));
}
