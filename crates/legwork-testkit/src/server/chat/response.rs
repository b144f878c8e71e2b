//! Writes chat completions: the events of a stream, the whole answer and the error object.

use serde_json::{Map, Value, json};

use crate::server::act::{Finish, Usage};
use crate::server::fault::ProviderError;
use crate::server::openai;
use crate::server::wire::{Delivery, Delta, Encoder, Label, MadeCall, Piece};

/// When every answer says it was made. A fixed time keeps recorded replies equal between runs.
const CREATED: u64 = 1_700_000_000;

/// One streamed answer.
pub(super) struct Stream {
    label: Label,
    role_sent: bool,
}

impl Stream {
    pub(super) fn new(label: Label) -> Self {
        Self { label, role_sent: false }
    }

    fn event(&self, choices: Value) -> Map<String, Value> {
        let mut event = head(&self.label, "chat.completion.chunk");
        event.insert("choices".to_owned(), choices);
        if self.label.manner.delivery == Delivery::StreamWithUsage {
            event.insert("usage".to_owned(), Value::Null);
        }
        event
    }

    fn choice(&mut self, mut delta: Value, finish: Value) -> String {
        if !std::mem::replace(&mut self.role_sent, true) {
            delta["role"] = json!("assistant");
        }
        let choices = json!([{ "index": 0, "delta": delta, "logprobs": null, "finish_reason": finish }]);
        sse(&Value::Object(self.event(choices)))
    }
}

impl Encoder for Stream {
    fn delta(&mut self, delta: Delta<'_>) -> Vec<String> {
        let delta = match delta {
            Delta::Text(text) => json!({ "content": text }),
            Delta::Reasoning(text) => json!({ "reasoning_content": text }),
            Delta::Call { index, id, name } => {
                let function = json!({ "name": name, "arguments": "" });
                json!({ "tool_calls": [{ "index": index, "id": id, "type": "function", "function": function }] })
            }
            Delta::Arguments { index, fragment } => {
                json!({ "tool_calls": [{ "index": index, "function": { "arguments": fragment } }] })
            }
        };
        vec![self.choice(delta, Value::Null)]
    }

    fn error(&mut self, error: &ProviderError) -> Vec<String> {
        vec![sse(&openai::error(error))]
    }

    fn close(&mut self, finish: Finish) -> Vec<String> {
        let mut events = vec![self.choice(json!({}), json!(finish_reason(finish)))];
        if let (Delivery::StreamWithUsage, Some(counts)) = (self.label.manner.delivery, self.label.usage) {
            let mut event = self.event(json!([]));
            event.insert("usage".to_owned(), usage(counts));
            events.push(sse(&Value::Object(event)));
        }
        events.push("data: [DONE]\n\n".to_owned());
        events
    }
}

pub(super) fn whole(label: &Label, pieces: &[Piece], finish: Finish) -> Value {
    let choices = json!([{
        "index": 0,
        "message": message(pieces),
        "logprobs": null,
        "finish_reason": finish_reason(finish),
    }]);
    let mut body = head(label, "chat.completion");
    body.insert("choices".to_owned(), choices);
    if let Some(counts) = label.usage {
        body.insert("usage".to_owned(), usage(counts));
    }
    Value::Object(body)
}

fn message(pieces: &[Piece]) -> Value {
    let (mut text, mut reasoning, mut calls) = (String::new(), String::new(), Vec::new());
    for piece in pieces {
        match piece {
            Piece::Text(more) => text.push_str(more),
            Piece::Reasoning(more) => reasoning.push_str(more),
            Piece::Call(made) => calls.push(call(made)),
        }
    }
    let content = if text.is_empty() && !calls.is_empty() { Value::Null } else { Value::String(text) };
    let mut message = json!({ "role": "assistant", "content": content, "refusal": null });
    if !reasoning.is_empty() {
        message["reasoning_content"] = json!(reasoning);
    }
    if !calls.is_empty() {
        message["tool_calls"] = Value::Array(calls);
    }
    message
}

fn call(made: &MadeCall) -> Value {
    let function = json!({ "name": made.name, "arguments": made.arguments });
    json!({ "id": made.id, "type": "function", "function": function })
}

fn head(label: &Label, object: &str) -> Map<String, Value> {
    let fields = [
        ("id", json!(format!("chatcmpl-{}", label.id))),
        ("object", json!(object)),
        ("created", json!(CREATED)),
        ("model", json!(label.model)),
    ];
    fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn usage(usage: Usage) -> Value {
    json!({
        "prompt_tokens": usage.prompt,
        "completion_tokens": usage.completion,
        "total_tokens": usage.prompt + usage.completion,
        "prompt_tokens_details": { "cached_tokens": usage.cached },
        "completion_tokens_details": { "reasoning_tokens": usage.reasoning },
    })
}

fn finish_reason(finish: Finish) -> &'static str {
    match finish {
        Finish::Stop => "stop",
        Finish::Calls => "tool_calls",
        Finish::Length => "length",
        Finish::Filtered => "content_filter",
    }
}

fn sse(value: &Value) -> String {
    format!("data: {value}\n\n")
}
