//! What a Gemini client sends, and how it reads what comes back.

use serde_json::{Value, json};

use super::super::client::{Line, Response};
use crate::server::ScriptedServer;

/// The model of the newest generation, whose calls are signed.
pub(super) const MODEL: &str = "gemini-3-flash";

const HEAD: &str = "x-goog-api-key: k-1\r\nconnection: close\r\n";

/// Asks for an answer in one piece.
pub(super) fn ask(server: &ScriptedServer, body: &Value) -> Response {
    ask_at(server, &format!("/v1beta/models/{MODEL}:generateContent"), body)
}

pub(super) fn ask_streamed(server: &ScriptedServer, body: &Value) -> Response {
    ask_at(server, &format!("/v1beta/models/{MODEL}:streamGenerateContent?alt=sse"), body)
}

pub(super) fn ask_at(server: &ScriptedServer, path: &str, body: &Value) -> Response {
    ask_with(server, path, body, HEAD)
}

pub(super) fn ask_with(server: &ScriptedServer, path: &str, body: &Value, head: &str) -> Response {
    Response::parse(&Line::post_to(server, path, body, head).read_rest())
}

/// A request of a client that wants to see thoughts.
pub(super) fn body(contents: Value) -> Value {
    json!({ "contents": contents, "generationConfig": { "thinkingConfig": { "includeThoughts": true } } })
}

pub(super) fn user(text: &str) -> Value {
    json!({ "role": "user", "parts": [{ "text": text }] })
}

pub(super) fn model(parts: Value) -> Value {
    json!({ "role": "model", "parts": parts })
}

/// A call that this server did not make, with what the provider lets pass for its signature.
pub(super) fn call(id: &str) -> Value {
    let call = json!({ "id": id, "name": "look", "args": {} });
    json!({ "functionCall": call, "thoughtSignature": "skip_thought_signature_validator" })
}

pub(super) fn response(id: &str) -> Value {
    json!({ "functionResponse": { "id": id, "name": "look", "response": { "result": "seen" } } })
}

pub(super) fn responses(ids: &[&str]) -> Value {
    json!({ "role": "user", "parts": ids.iter().map(|id| response(id)).collect::<Value>() })
}

/// The responses that a stream consists of.
pub(super) fn chunks(response: &Response) -> Vec<Value> {
    let events = response.body.split_terminator("\r\n\r\n");
    events.map(|event| serde_json::from_str(event.strip_prefix("data: ").unwrap()).unwrap()).collect()
}

/// The parts of all chunks; texts of one kind that follow one another become one part, as clients join them.
pub(super) fn parts(chunks: &[Value]) -> Vec<Value> {
    let mut parts: Vec<Value> = Vec::new();
    for part in
        chunks.iter().filter_map(|chunk| chunk["candidates"][0]["content"]["parts"].as_array()).flatten()
    {
        let same = |last: &&mut Value| last["text"].is_string() && last["thought"] == part["thought"];
        match (part["text"].as_str(), parts.last_mut().filter(same)) {
            (Some(text), Some(last)) => {
                last["text"] = json!(format!("{}{text}", last["text"].as_str().unwrap()));
                if let Some(signature) = part.get("thoughtSignature") {
                    last["thoughtSignature"] = signature.clone();
                }
            }
            (Some(""), None) if part.get("thoughtSignature").is_none() => {}
            _ => parts.push(part.clone()),
        }
    }
    parts
}
