//! What an Anthropic client sends, and how it reads what comes back.

use serde_json::{Value, json};

use super::super::client::{Line, Response};
use crate::server::ScriptedServer;

/// The head lines of a client that keeps to the format.
pub(super) const HEAD: &str = "x-api-key: k-1\r\nanthropic-version: 2023-06-01\r\nconnection: close\r\n";

pub(super) fn ask(server: &ScriptedServer, body: &Value) -> Response {
    ask_with(server, body, HEAD)
}

pub(super) fn ask_with(server: &ScriptedServer, body: &Value, head: &str) -> Response {
    Response::parse(&Line::post_to(server, "/v1/messages", body, head).read_rest())
}

/// A request for an answer in one piece.
pub(super) fn plain(messages: Value) -> Value {
    json!({ "model": "m", "max_tokens": 2048, "messages": messages })
}

pub(super) fn streamed(messages: Value) -> Value {
    let mut body = plain(messages);
    body["stream"] = json!(true);
    body
}

pub(super) fn user(text: &str) -> Value {
    json!({ "role": "user", "content": text })
}

pub(super) fn assistant(content: Value) -> Value {
    json!({ "role": "assistant", "content": content })
}

/// An assistant message that calls `look` once for each of these ids.
pub(super) fn calling(ids: &[&str]) -> Value {
    let calls = ids.iter().map(|id| json!({ "type": "tool_use", "id": id, "name": "look", "input": {} }));
    assistant(calls.collect())
}

/// A user message with a result for each of these ids.
pub(super) fn results(ids: &[&str]) -> Value {
    let results = ids.iter().map(|id| json!({ "type": "tool_result", "tool_use_id": id, "content": "seen" }));
    json!({ "role": "user", "content": results.collect::<Value>() })
}

/// Puts the message together from its events, as a client does, and checks their order on the way.
pub(super) fn assemble(response: &Response) -> Value {
    let events = response.named_events();
    let (first, rest) = events.split_first().unwrap();
    let mut message = first["message"].clone();
    let mut arguments = String::new();
    for event in rest {
        match event["type"].as_str().unwrap() {
            "ping" => {}
            "content_block_start" => {
                assert_eq!(event["index"], message["content"].as_array().unwrap().len());
                message["content"].as_array_mut().unwrap().push(event["content_block"].clone());
                arguments.clear();
            }
            "content_block_delta" => fill(message["content"].as_array_mut().unwrap(), event, &mut arguments),
            "content_block_stop" => {}
            "message_delta" => {
                message["stop_reason"] = event["delta"]["stop_reason"].clone();
                message["usage"] = event["usage"].clone();
            }
            "message_stop" => assert_eq!(event, events.last().unwrap()),
            other => panic!("there is no event {other}"),
        }
    }
    message
}

fn fill(content: &mut [Value], event: &Value, arguments: &mut String) {
    assert_eq!(event["index"], content.len() - 1);
    let block = content.last_mut().unwrap();
    let delta = &event["delta"];
    let add = |block: &mut Value, field: &str| {
        block[field] = json!(format!("{}{}", block[field].as_str().unwrap(), delta[field].as_str().unwrap()));
    };
    match delta["type"].as_str().unwrap() {
        "text_delta" => add(block, "text"),
        "thinking_delta" => add(block, "thinking"),
        "signature_delta" => add(block, "signature"),
        "input_json_delta" => {
            arguments.push_str(delta["partial_json"].as_str().unwrap());
            block["input"] = serde_json::from_str(arguments).unwrap_or(json!({}));
        }
        other => panic!("there is no delta {other}"),
    }
}
