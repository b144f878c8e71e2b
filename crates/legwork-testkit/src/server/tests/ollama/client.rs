//! What an Ollama client sends, and how it reads what comes back.

use serde_json::{Value, json};

use super::super::client::{Line, Response};
use crate::server::ScriptedServer;

pub(super) fn ask(server: &ScriptedServer, body: &Value) -> Response {
    Response::parse(&Line::post_to(server, "/api/chat", body, "connection: close\r\n").read_rest())
}

/// A request for an answer in one piece.
pub(super) fn plain(messages: Value) -> Value {
    json!({ "model": "m", "stream": false, "messages": messages })
}

/// A request that says nothing of streams, and so gets one.
pub(super) fn streamed(messages: Value) -> Value {
    json!({ "model": "m", "messages": messages })
}

pub(super) fn user(text: &str) -> Value {
    json!({ "role": "user", "content": text })
}

/// An assistant message that calls `look` once for each of these ids.
pub(super) fn calling(ids: &[&str]) -> Value {
    let calls = ids.iter().map(|id| json!({ "id": id, "function": { "name": "look", "arguments": {} } }));
    json!({ "role": "assistant", "content": "", "tool_calls": calls.collect::<Value>() })
}

pub(super) fn result(id: &str) -> Value {
    json!({ "role": "tool", "tool_name": "look", "tool_call_id": id, "content": "seen" })
}

/// The objects of a stream, one a line.
pub(super) fn lines(response: &Response) -> Vec<Value> {
    response.body.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Puts the message together from its lines, as a client does.
pub(super) fn assemble(lines: &[Value]) -> Value {
    let text =
        |field: &str| -> String { lines.iter().filter_map(|line| line["message"][field].as_str()).collect() };
    let calls = lines.iter().filter_map(|line| line["message"]["tool_calls"].as_array()).flatten().cloned();
    let mut message = json!({ "role": "assistant", "content": text("content") });
    if !text("thinking").is_empty() {
        message["thinking"] = json!(text("thinking"));
    }
    let calls: Vec<Value> = calls.collect();
    if !calls.is_empty() {
        message["tool_calls"] = json!(calls);
    }
    message
}
