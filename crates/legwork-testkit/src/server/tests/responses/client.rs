//! What a Responses client sends, and how it reads what comes back.

use serde_json::{Value, json};

use super::super::client::{Line, Response};
use crate::server::ScriptedServer;

const HEAD: &str = "authorization: Bearer k-1\r\nconnection: close\r\n";

pub(super) fn ask(server: &ScriptedServer, body: &Value) -> Response {
    Response::parse(&Line::post_to(server, "/v1/responses", body, HEAD).read_rest())
}

/// A request for an answer in one piece, of a client that keeps its conversation itself and wants the reasoning.
pub(super) fn plain(input: Value) -> Value {
    let reasoning = json!({ "effort": "medium", "summary": "auto" });
    let include = json!(["reasoning.encrypted_content"]);
    json!({ "model": "m", "store": false, "include": include, "reasoning": reasoning, "input": input })
}

pub(super) fn streamed(input: Value) -> Value {
    let mut body = plain(input);
    body["stream"] = json!(true);
    body
}

pub(super) fn user(text: &str) -> Value {
    json!({ "type": "message", "role": "user", "content": [{ "type": "input_text", "text": text }] })
}

pub(super) fn assistant(text: &str) -> Value {
    let content = json!([{ "type": "output_text", "text": text, "annotations": [] }]);
    json!({ "type": "message", "role": "assistant", "id": "msg_1", "status": "completed", "content": content })
}

pub(super) fn calling(call_id: &str) -> Value {
    json!({ "type": "function_call", "call_id": call_id, "name": "look", "arguments": "{}" })
}

pub(super) fn output(call_id: &str) -> Value {
    json!({ "type": "function_call_output", "call_id": call_id, "output": "seen" })
}

/// Puts the response together from its events, as a client does, and checks their order on the way.
pub(super) fn assemble(response: &Response) -> Value {
    let events = response.named_events();
    let mut output: Vec<Value> = Vec::new();
    let mut written = String::new();
    for (number, event) in events.iter().enumerate() {
        assert_eq!(event["sequence_number"], number);
        match event["type"].as_str().unwrap() {
            "response.created" | "response.in_progress" => assert!(number < 2),
            "response.output_item.added" => {
                assert_eq!(event["output_index"], output.len());
                written.clear();
            }
            "response.output_text.delta"
            | "response.reasoning_summary_text.delta"
            | "response.function_call_arguments.delta" => {
                assert_eq!(event["output_index"], output.len());
                written.push_str(event["delta"].as_str().unwrap());
            }
            "response.output_text.done" | "response.reasoning_summary_text.done" => {
                assert_eq!(event["text"], written);
            }
            "response.function_call_arguments.done" => assert_eq!(event["arguments"], written),
            "response.content_part.added" | "response.reasoning_summary_part.added" => {
                assert_eq!(event["part"]["text"], "");
            }
            "response.content_part.done" | "response.reasoning_summary_part.done" => {
                assert_eq!(event["part"]["text"], written);
            }
            "response.output_item.done" => output.push(event["item"].clone()),
            "response.completed" | "response.incomplete" => {
                assert_eq!(number, events.len() - 1);
                assert_eq!(event["response"]["output"], Value::Array(output.clone()));
            }
            other => panic!("there is no event {other}"),
        }
    }
    events.last().unwrap()["response"].clone()
}
