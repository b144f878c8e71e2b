//! What the server says in Anthropic's way: events, blocks, usage, and the same in one piece.

use serde_json::{Value, json};

use super::client::{ask, assemble, assistant, plain, results, streamed, user};
use crate::server::{
    Call, Finish, ProviderError, Reply, Script, ScriptedServer, Scripts, Usage, call, empty, reason, say,
};

fn server(reply: Reply) -> ScriptedServer {
    ScriptedServer::start(Scripts::default().otherwise(Script::new().step(reply).step(say("final"))))
}

fn everything() -> Reply {
    let calls = [
        Call::new("look", json!({ "path": "größe/ä.txt" })).id("c1"),
        Call::new("look", json!({ "n": [1, 2] })).id("c2"),
    ];
    let usage = Usage::new(100, 30).cached(60).cache_written(25).reasoning(12);
    reason("let me think").say("I look").calls(calls).usage(usage)
}

#[test]
fn a_stream_begins_and_ends_as_the_format_says() {
    let response = ask(&server(say("one two three")), &streamed(json!([user("hi")])));
    assert_eq!(response.status, 200);
    assert!(response.whole);
    assert!(response.head.contains("content-type: text/event-stream"), "{}", response.head);
    assert!(response.head.contains("\r\nrequest-id: req_"), "{}", response.head);
    let kinds: Vec<String> =
        response.named_events().iter().map(|event| event["type"].as_str().unwrap().to_owned()).collect();
    assert_eq!(kinds.len(), response.chunks, "each event is a chunk of its own");
    assert_eq!(kinds[..3], ["message_start", "content_block_start", "ping"]);
    assert_eq!(kinds[kinds.len() - 3..], ["content_block_stop", "message_delta", "message_stop"]);
    assert!(kinds.iter().filter(|kind| *kind == "content_block_delta").count() > 1);
}

#[test]
fn a_stream_and_an_answer_in_one_piece_say_the_same() {
    let shown = assemble(&ask(&server(everything()), &streamed(json!([user("hi")]))));
    let whole = ask(&server(everything()), &plain(json!([user("hi")]))).json();
    for message in [&shown, &whole] {
        assert_eq!((&message["type"], &message["role"]), (&json!("message"), &json!("assistant")));
        let content = message["content"].as_array().unwrap();
        assert_eq!(content[0]["thinking"], "let me think");
        assert!(!content[0]["signature"].as_str().unwrap().is_empty());
        assert_eq!(content[1], json!({ "type": "text", "text": "I look" }));
        let look =
            |id: &str, input: Value| json!({ "type": "tool_use", "id": id, "name": "look", "input": input });
        assert_eq!(content[2], look("c1", json!({ "path": "größe/ä.txt" })));
        assert_eq!(content[3], look("c2", json!({ "n": [1, 2] })));
        assert_eq!(message["stop_reason"], "tool_use");
    }
    assert_eq!(shown["content"], whole["content"]);
    assert_eq!(shown["usage"], whole["usage"]);
}

#[test]
fn usage_counts_the_cache_beside_the_input() {
    let response = ask(&server(everything()), &streamed(json!([user("hi")])));
    let events = response.named_events();
    let expected = json!({
        "input_tokens": 15,
        "cache_creation_input_tokens": 25,
        "cache_read_input_tokens": 60,
        "output_tokens": 30,
        "output_tokens_details": { "thinking_tokens": 12 },
    });
    assert_eq!(assemble(&response)["usage"], expected);
    let start = &events[0]["message"]["usage"];
    assert_eq!((&start["input_tokens"], &start["output_tokens"]), (&json!(15), &json!(1)));
    let unknown = ask(&server(say("x").without_usage()), &streamed(json!([user("hi")])));
    assert!(!unknown.body.contains("usage"));
}

#[test]
fn arguments_come_in_pieces_and_need_not_be_json() {
    let reply = empty().calls([Call::malformed("nowhere", "{\"path\": ")]);
    let response = ask(&server(reply.clone()), &streamed(json!([user("hi")])));
    let deltas = response.named_events().into_iter().filter(|event| event["type"] == "content_block_delta");
    let pieces: Vec<String> =
        deltas.map(|event| event["delta"]["partial_json"].as_str().unwrap().to_owned()).collect();
    assert_eq!(pieces.concat(), "{\"path\": ");
    assert!(pieces.len() > 2 && pieces[0].is_empty());
    let whole = ask(&server(reply), &plain(json!([user("hi")]))).json();
    assert_eq!(whole["content"][0]["input"], "{\"path\": ");
}

#[test]
fn the_whole_exchange_passes_with_all_that_was_said_sent_back() {
    for ask_for in [plain as fn(Value) -> Value, streamed] {
        let server = server(everything());
        let response = ask(&server, &ask_for(json!([user("hi")])));
        let said = if response.head.contains("event-stream") { assemble(&response) } else { response.json() };
        let history = json!([user("hi"), assistant(said["content"].clone()), results(&["c2", "c1"])]);
        let last = ask(&server, &ask_for(history));
        assert_eq!(last.status, 200, "{}", last.body);
        assert!(server.log().violations().is_empty());
        assert_eq!(server.log().entries()[1].step, 1);
    }
}

#[test]
fn thinking_is_shown_as_far_as_it_was_asked_for() {
    let with = |thinking: Value| {
        let mut body = streamed(json!([user("hi")]));
        body["thinking"] = thinking;
        assemble(&ask(&server(reason("deep").call("look", json!({}))), &body))["content"][0].clone()
    };
    let enabled = json!({ "type": "enabled", "budget_tokens": 1024 });
    assert_eq!(with(enabled)["thinking"], "deep");
    assert_eq!(with(json!({ "type": "adaptive" }))["thinking"], "deep");
    let omitted = with(json!({ "type": "adaptive", "display": "omitted" }));
    assert_eq!(omitted["thinking"], "");
    assert!(!omitted["signature"].as_str().unwrap().is_empty());
    assert_eq!(with(json!({ "type": "disabled" }))["type"], "tool_use");
}

#[test]
fn the_reason_for_the_end_is_told() {
    let ends = [
        (say("x"), "end_turn"),
        (empty(), "end_turn"),
        (call("look", json!({})), "tool_use"),
        (say("x").finish(Finish::Length), "max_tokens"),
        (say("x").finish(Finish::Filtered), "refusal"),
    ];
    for (reply, reason) in ends {
        let message = assemble(&ask(&server(reply), &streamed(json!([user("hi")]))));
        assert_eq!(message["stop_reason"], reason);
    }
}

#[test]
fn an_error_event_ends_a_stream() {
    let reply = say("x").error_chunk(ProviderError::new("overloaded_error", "Overloaded"));
    let response = ask(&server(reply), &streamed(json!([user("hi")])));
    let error = json!({ "type": "overloaded_error", "message": "Overloaded" });
    assert_eq!(response.named_events().last(), Some(&json!({ "type": "error", "error": error })));
    assert!(!response.body.contains("message_stop"));
}
