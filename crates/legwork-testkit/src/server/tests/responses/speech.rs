//! What the server says in the way of Responses: items, numbered events, usage, and the same in one piece.

use serde_json::{Value, json};

use super::client::{ask, assemble, output, plain, streamed, user};
use crate::server::{
    Call, Finish, ProviderError, Reply, Script, ScriptedServer, Scripts, Usage, call, empty, reason, say,
};

fn server(reply: Reply) -> ScriptedServer {
    ScriptedServer::start(Scripts::default().otherwise(Script::new().step(reply).step(say("final"))))
}

fn everything() -> Reply {
    let calls = [
        Call::new("look", json!({ "path": "größe/ä.txt" })).id("c1"),
        Call::malformed("nowhere", "{\"path\": ").id("c2"),
    ];
    let usage = Usage::new(100, 30).cached(60).reasoning(12);
    reason("let me think").say("I look").calls(calls).usage(usage)
}

/// The types of the events without `response.`, each once where several of them follow one another.
fn kinds(events: &[Value]) -> Vec<&str> {
    let kinds = events.iter().map(|event| event["type"].as_str().unwrap().trim_start_matches("response."));
    let mut kinds: Vec<&str> = kinds.collect();
    kinds.dedup();
    kinds
}

#[test]
fn a_stream_begins_and_ends_as_the_format_says() {
    let response = ask(&server(reason("deep").say("one two")), &streamed(json!([user("hi")])));
    assert_eq!(response.status, 200);
    assert!(response.whole && response.head.contains("content-type: text/event-stream"));
    assert!(response.head.contains("\r\nx-request-id: req_"), "{}", response.head);
    let events = response.named_events();
    assert_eq!(events.len(), response.chunks, "each event is a chunk of its own");
    let expected = [
        "created",
        "in_progress",
        "output_item.added",
        "reasoning_summary_part.added",
        "reasoning_summary_text.delta",
        "reasoning_summary_text.done",
        "reasoning_summary_part.done",
        "output_item.done",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "completed",
    ];
    assert_eq!(kinds(&events), expected);
    assert!(!response.body.contains("[DONE]"));
}

#[test]
fn a_stream_and_an_answer_in_one_piece_say_the_same() {
    let shown = assemble(&ask(&server(everything()), &streamed(json!([user("hi")]))));
    let whole = ask(&server(everything()), &plain(json!([user("hi")]))).json();
    for response in [&shown, &whole] {
        assert_eq!((&response["object"], &response["status"]), (&json!("response"), &json!("completed")));
        let items = response["output"].as_array().unwrap();
        assert_eq!(items[0]["summary"], json!([{ "type": "summary_text", "text": "let me think" }]));
        assert!(!items[0]["encrypted_content"].as_str().unwrap().is_empty());
        assert_eq!(items[1]["content"][0]["text"], "I look");
        assert_eq!((&items[2]["call_id"], &items[2]["name"]), (&json!("c1"), &json!("look")));
        assert_eq!(items[2]["arguments"], "{\"path\":\"größe/ä.txt\"}");
        assert_eq!(items[3]["arguments"], "{\"path\": ");
        assert!(items[3]["id"].as_str().unwrap().starts_with("fc_"));
        assert_eq!(response["usage"]["input_tokens"], 100);
        assert_eq!(response["usage"]["input_tokens_details"]["cached_tokens"], 60);
        assert_eq!(response["usage"]["output_tokens_details"]["reasoning_tokens"], 12);
        assert_eq!(response["usage"]["total_tokens"], 130);
    }
    let kinds = |response: &Value| -> Vec<Value> {
        response["output"].as_array().unwrap().iter().map(|item| item["type"].clone()).collect()
    };
    assert_eq!(kinds(&shown), kinds(&whole));
}

#[test]
fn arguments_come_in_pieces() {
    let response = ask(&server(call("look", json!({ "path": "a.txt" }))), &streamed(json!([user("hi")])));
    let events = response.named_events();
    let pieces = events.iter().filter(|event| event["type"] == "response.function_call_arguments.delta");
    assert!(pieces.count() > 1);
    assert_eq!(assemble(&response)["output"][0]["arguments"], "{\"path\":\"a.txt\"}");
}

#[test]
fn the_whole_exchange_passes_with_all_that_was_said_sent_back() {
    for ask_for in [plain as fn(Value) -> Value, streamed] {
        let calls = [Call::new("look", json!({})).id("c1"), Call::new("look", json!({})).id("c2")];
        let server = server(reason("deep").say("I look").calls(calls));
        let response = ask(&server, &ask_for(json!([user("hi")])));
        let said = if response.head.contains("event-stream") { assemble(&response) } else { response.json() };
        let mut history = vec![user("hi")];
        history.extend(said["output"].as_array().unwrap().iter().cloned());
        history.extend([output("c2"), output("c1")]);
        let last = ask(&server, &ask_for(Value::Array(history)));
        assert_eq!(last.status, 200, "{}", last.body);
        assert!(server.log().violations().is_empty());
        assert_eq!(server.log().entries()[1].step, 1);
    }
}

#[test]
fn a_summary_and_a_seal_come_only_where_they_are_asked_for() {
    let ask_with = |change: fn(&mut Value)| {
        let mut body = streamed(json!([user("hi")]));
        change(&mut body);
        assemble(&ask(&server(reason("deep").say("x")), &body))["output"].clone()
    };
    let no_summary = ask_with(|body| body["reasoning"] = json!({ "effort": "high" }));
    assert_eq!((&no_summary[0]["type"], &no_summary[0]["summary"]), (&json!("reasoning"), &json!([])));
    assert!(!no_summary[0]["encrypted_content"].is_null());
    let no_seal = ask_with(|body| body["include"] = json!([]));
    assert_eq!(no_seal[0]["summary"][0]["text"], "deep");
    assert!(no_seal[0].get("encrypted_content").is_none());
    let none = ask_with(|body| body["reasoning"] = json!({ "effort": "none" }));
    assert_eq!(none[0]["type"], "message");
}

#[test]
fn the_reason_for_the_end_is_told() {
    let ends = [
        (say("x"), "completed", Value::Null),
        (empty(), "completed", Value::Null),
        (say("x").finish(Finish::Length), "incomplete", json!("max_output_tokens")),
        (say("x").finish(Finish::Filtered), "incomplete", json!("content_filter")),
    ];
    for (reply, status, reason) in ends {
        let response = assemble(&ask(&server(reply), &streamed(json!([user("hi")]))));
        assert_eq!(response["status"], status);
        assert_eq!(response["incomplete_details"]["reason"], reason);
    }
    let unknown = ask(&server(say("x").without_usage()), &plain(json!([user("hi")]))).json();
    assert!(unknown["usage"].is_null());
}

#[test]
fn an_error_event_and_a_failed_response_end_a_stream() {
    let reply =
        say("x").error_chunk(ProviderError::new("server_error", "too much").code("server_is_overloaded"));
    let events = ask(&server(reply), &streamed(json!([user("hi")]))).named_events();
    let [.., error, failed] = &events[..] else { panic!("two events are expected") };
    assert_eq!((&error["type"], &error["code"]), (&json!("error"), &json!("server_is_overloaded")));
    assert_eq!(error["message"], "too much");
    assert_eq!(
        (&failed["type"], &failed["response"]["status"]),
        (&json!("response.failed"), &json!("failed"))
    );
    assert_eq!(failed["response"]["error"]["message"], "too much");
}
