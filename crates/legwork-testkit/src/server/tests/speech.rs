//! What a well-behaved model sends: events, pieces, calls, usage, whole answers.

use serde_json::{Value, json};

use super::client::{Line, Response, ask, plain, request, streamed, user};
use crate::server::{
    Call, Ending, Finish, Reply, Script, ScriptedServer, Scripts, Usage, call, calls, empty, reason, say,
};

fn server(reply: Reply) -> ScriptedServer {
    ScriptedServer::start(Scripts::default().otherwise(Script::new().step(reply)))
}

#[test]
fn a_stream_is_framed_as_events_that_end_with_usage_and_done() {
    let server = server(say("one two three").usage(Usage::new(11, 7).cached(5).reasoning(3)));
    let response = ask(&server, &streamed(json!([user("hi")])));
    assert_eq!(response.status, 200);
    assert!(response.whole);
    assert!(response.head.contains("content-type: text/event-stream"), "{}", response.head);
    let events = response.events();
    assert_eq!(events.len(), response.chunks, "each event is a chunk of its own");
    assert_eq!(events.last(), Some(&"[DONE]"));
    let parsed: Vec<Value> =
        events[..events.len() - 1].iter().map(|event| serde_json::from_str(event).unwrap()).collect();
    let (usage, spoken) = parsed.split_last().unwrap();
    assert_eq!(usage["choices"], json!([]));
    assert_eq!(usage["usage"]["prompt_tokens"], 11);
    assert_eq!(usage["usage"]["completion_tokens"], 7);
    assert_eq!(usage["usage"]["total_tokens"], 18);
    assert_eq!(usage["usage"]["prompt_tokens_details"]["cached_tokens"], 5);
    assert_eq!(usage["usage"]["completion_tokens_details"]["reasoning_tokens"], 3);
    assert!(
        spoken.iter().all(|event| event["usage"].is_null() && event["object"] == "chat.completion.chunk")
    );
    assert_eq!(spoken[0]["choices"][0]["delta"]["role"], "assistant");
    assert_eq!(spoken.last().unwrap()["choices"][0]["finish_reason"], "stop");
    assert_eq!(response.pieces("content").concat(), "one two three");
    assert!(response.pieces("content").len() > 1);
}

#[test]
fn usage_is_reported_only_where_it_was_asked_for_and_is_known() {
    let unasked = ask(&server(say("x")), &json!({ "model": "m", "stream": true, "messages": [user("hi")] }));
    assert!(!unasked.body.contains("usage"));
    let unknown = ask(&server(say("x").without_usage()), &streamed(json!([user("hi")])));
    assert!(!unknown.body.contains("prompt_tokens"));
    assert!(unknown.body.ends_with("data: [DONE]\n\n"));
}

#[test]
fn several_calls_come_with_their_arguments_in_pieces() {
    let reply = say("looking").calls([
        Call::new("read_file", json!({ "path": "größe/ä.txt" })).id("c1"),
        Call::malformed("nowhere", "{\"path\": ").id("c2"),
    ]);
    let response = ask(&server(reply), &streamed(json!([user("hi")])));
    let fragments = |index: u64| -> Vec<String> {
        let calls = response.deltas().into_iter().filter_map(|delta| delta["tool_calls"].get(0).cloned());
        let calls = calls.filter(|call| call["index"] == index);
        calls.map(|call| call["function"]["arguments"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(fragments(0).concat(), "{\"path\":\"größe/ä.txt\"}");
    assert!(fragments(0).len() > 2, "the name and at least two pieces");
    assert_eq!(fragments(1).concat(), "{\"path\": ");
    assert!(response.body.contains("\"name\":\"nowhere\""));
    assert!(response.body.contains("\"finish_reason\":\"tool_calls\""));
    assert_eq!(response.pieces("content").concat(), "looking");
}

#[test]
fn call_ids_are_unique_unless_the_script_names_them() {
    let server = ScriptedServer::start(Scripts::default().otherwise(Script::always(call("look", json!({})))));
    let ids: Vec<String> = (0..2)
        .map(|_| ask(&server, &plain(json!([user("hi")]))).json())
        .map(|body| body["choices"][0]["message"]["tool_calls"][0]["id"].as_str().unwrap().to_owned())
        .collect();
    assert_ne!(ids[0], ids[1]);
}

#[test]
fn reasoning_comes_apart_from_the_text() {
    let response = ask(&server(reason("let me think").say("done")), &streamed(json!([user("hi")])));
    assert_eq!(response.pieces("reasoning_content").concat(), "let me think");
    assert_eq!(response.pieces("content").concat(), "done");
}

#[test]
fn an_empty_answer_has_an_end_and_no_content() {
    let response = ask(&server(empty()), &streamed(json!([user("hi")])));
    assert!(response.pieces("content").is_empty());
    assert!(response.body.contains("\"finish_reason\":\"stop\""));
    let cut_short = ask(&server(say("I was").finish(Finish::Length)), &streamed(json!([user("hi")])));
    assert!(cut_short.body.contains("\"finish_reason\":\"length\""));
}

#[test]
fn an_answer_in_one_piece_says_the_same() {
    let reply = reason("hm").say("see").calls([Call::new("look", json!({ "n": 1 })).id("c1")]);
    let body = ask(&server(reply.usage(Usage::new(3, 4))), &plain(json!([user("hi")]))).json();
    let choice = &body["choices"][0];
    assert_eq!(body["object"], "chat.completion");
    assert_eq!(choice["finish_reason"], "tool_calls");
    assert_eq!(choice["message"]["content"], "see");
    assert_eq!(choice["message"]["reasoning_content"], "hm");
    assert_eq!(
        choice["message"]["tool_calls"][0]["function"],
        json!({ "name": "look", "arguments": "{\"n\":1}" })
    );
    assert_eq!(body["usage"]["total_tokens"], 7);
    let silent = ask(&server(calls([Call::new("look", json!({}))])), &plain(json!([user("hi")]))).json();
    assert!(silent["choices"][0]["message"]["content"].is_null());
}

#[test]
fn raw_bytes_stand_in_the_stream_as_written() {
    let response = ask(
        &server(say("a").raw(": ping\n\n").raw("data: {nonsense\n\n").say("b")),
        &streamed(json!([user("hi")])),
    );
    assert!(response.body.contains("\n\n: ping\n\ndata: {nonsense\n\ndata: {"));
    assert!(response.body.ends_with("data: [DONE]\n\n"));
}

#[test]
fn one_connection_carries_one_request_after_the_other() {
    let server = ScriptedServer::start(Scripts::default());
    let body = plain(json!([user("hi")]));
    let mut line = Line::post(&server, &body, "");
    line.read_reply();
    assert_eq!(server.log().entries()[0].ending, Ending::Answered, "who has the whole reply finds it ended");
    line.send(&request(&body, "expect: 100-continue\r\nconnection: close\r\n"));
    assert_eq!(line.read_until("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
    assert_eq!(Response::parse(&line.read_rest()).status, 200);
    assert_eq!(server.log().entries().len(), 2);
}
