//! What the server says in Ollama's way: lines, calls, counts, and the same in one piece.

use serde_json::{Value, json};

use super::client::{ask, assemble, lines, plain, result, streamed, user};
use crate::server::{
    Call, Finish, ProviderError, Reply, Script, ScriptedServer, Scripts, Usage, empty, reason, say,
};

fn server(reply: Reply) -> ScriptedServer {
    ScriptedServer::start(Scripts::default().otherwise(Script::new().step(reply).step(say("final"))))
}

fn everything() -> Reply {
    let calls = [
        Call::new("look", json!({ "path": "größe/ä.txt" })).id("c1"),
        Call::new("look", json!({ "n": [1, 2] })).id("c2"),
    ];
    reason("let me think").say("I look").calls(calls).usage(Usage::new(100, 30).reasoning(12))
}

#[test]
fn a_stream_is_a_row_of_lines_of_which_the_last_is_done() {
    let response = ask(&server(say("one two three")), &streamed(json!([user("hi")])));
    assert_eq!(response.status, 200);
    assert!(response.whole && response.head.contains("content-type: application/x-ndjson"));
    let lines = lines(&response);
    assert_eq!(lines.len(), response.chunks, "each line is a chunk of its own");
    assert!(lines.len() > 2);
    let (last, before) = lines.split_last().unwrap();
    assert!(before.iter().all(|line| line["done"] == false && line.get("done_reason").is_none()));
    assert_eq!((&last["done"], &last["done_reason"]), (&json!(true), &json!("stop")));
    assert!(lines.iter().all(|line| line["model"] == "m" && line["message"]["role"] == "assistant"));
    assert_eq!(assemble(&lines)["content"], "one two three");
}

#[test]
fn a_stream_and_an_answer_in_one_piece_say_the_same() {
    let lines = lines(&ask(&server(everything()), &streamed(json!([user("hi")]))));
    let whole = ask(&server(everything()), &plain(json!([user("hi")]))).json();
    let expected = json!({
        "role": "assistant",
        "content": "I look",
        "thinking": "let me think",
        "tool_calls": [
            { "id": "c1", "function": { "index": 0, "name": "look", "arguments": { "path": "größe/ä.txt" } } },
            { "id": "c2", "function": { "index": 1, "name": "look", "arguments": { "n": [1, 2] } } },
        ],
    });
    assert_eq!(assemble(&lines), expected);
    assert_eq!(whole["message"], expected);
    for last in [lines.last().unwrap(), &whole] {
        assert_eq!((&last["prompt_eval_count"], &last["eval_count"]), (&json!(100), &json!(30)));
        assert!(last["total_duration"].is_u64() && last["eval_duration"].is_u64());
        assert_eq!(last["done_reason"], "stop");
    }
}

#[test]
fn a_call_that_cannot_be_read_is_an_error_of_the_daemon() {
    let reply = || say("x").calls([Call::malformed("look", "{\"path\": ")]).say("never");
    let response = ask(&server(reply()), &streamed(json!([user("hi")])));
    let last = lines(&response).pop().unwrap();
    assert!(last["error"].as_str().unwrap().starts_with("error parsing tool call: raw='{\"path\": '"));
    assert!(!response.body.contains("never") && !response.body.contains("\"done\":true"));
    let whole = ask(&server(reply()), &plain(json!([user("hi")])));
    assert_eq!(whole.status, 500);
    assert!(whole.json()["error"].as_str().unwrap().starts_with("error parsing tool call"));
}

#[test]
fn the_whole_exchange_passes_with_all_that_was_said_sent_back() {
    for ask_for in [plain as fn(Value) -> Value, streamed] {
        let server = server(everything());
        let response = ask(&server, &ask_for(json!([user("hi")])));
        let said = if response.head.contains("ndjson") {
            assemble(&lines(&response))
        } else {
            response.json()["message"].clone()
        };
        let last = ask(&server, &ask_for(json!([user("hi"), said, result("c1"), result("c2")])));
        assert_eq!(last.status, 200, "{}", last.body);
        assert!(last.body.contains("final") || assemble(&lines(&last))["content"] == "final");
        assert!(server.log().violations().is_empty());
        assert_eq!(server.log().entries()[1].step, 1);
    }
}

#[test]
fn thinking_can_be_turned_off() {
    let with = |think: Value| {
        let mut body = plain(json!([user("hi")]));
        body["think"] = think;
        ask(&server(reason("deep").say("x")), &body).json()["message"]["thinking"].clone()
    };
    assert_eq!(with(json!(true)), "deep");
    assert_eq!(with(json!("high")), "deep");
    assert_eq!(with(Value::Null), "deep");
    assert!(with(json!(false)).is_null());
}

#[test]
fn the_reason_for_the_end_is_told_and_counts_only_where_they_are_known() {
    let cut = ask(&server(say("x").finish(Finish::Length)), &plain(json!([user("hi")]))).json();
    assert_eq!(cut["done_reason"], "length");
    let silent = ask(&server(empty().without_usage()), &plain(json!([user("hi")]))).json();
    assert_eq!((&silent["message"]["content"], &silent["done"]), (&json!(""), &json!(true)));
    assert!(silent.get("eval_count").is_none());
}

#[test]
fn an_error_line_ends_a_stream() {
    let reply = say("x").error_chunk(ProviderError::new("overloaded_error", "too much"));
    let lines = lines(&ask(&server(reply), &streamed(json!([user("hi")]))));
    assert_eq!(lines.last(), Some(&json!({ "error": "too much" })));
}
