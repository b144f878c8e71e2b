//! Writes chat completions: the events of a stream, the whole answer and the error object.

use serde_json::{Map, Value, json};

use crate::server::act::{Finish, Usage};
use crate::server::fault::ProviderError;
use crate::server::wire::{Answer, Closing, Delivery, Delta, Encoder, Label};

/// When every answer says it was made. A fixed time keeps recorded replies equal between runs.
const CREATED: u64 = 1_700_000_000;

/// One streamed answer.
pub(super) struct Stream {
    label: Label,
    delivery: Delivery,
    role_sent: bool,
}

impl Stream {
    pub(super) fn new(label: Label, delivery: Delivery) -> Self {
        Self { label, delivery, role_sent: false }
    }

    fn event(&self, choices: Value) -> Map<String, Value> {
        let mut event = head(&self.label, "chat.completion.chunk");
        event.insert("choices".to_owned(), choices);
        if self.delivery == Delivery::StreamWithUsage {
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
    fn delta(&mut self, delta: Delta<'_>) -> String {
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
        self.choice(delta, Value::Null)
    }

    fn error(&mut self, error: &ProviderError) -> String {
        sse(&self::error(error))
    }

    fn close(&mut self, closing: Closing) -> Vec<String> {
        let mut events = vec![self.choice(json!({}), json!(finish_reason(closing.finish)))];
        if let (Delivery::StreamWithUsage, Some(counts)) = (self.delivery, closing.usage) {
            let mut event = self.event(json!([]));
            event.insert("usage".to_owned(), usage(counts));
            events.push(sse(&Value::Object(event)));
        }
        events.push("data: [DONE]\n\n".to_owned());
        events
    }
}

pub(super) fn whole(label: &Label, answer: &Answer, closing: Closing) -> Value {
    let mut message = json!({ "role": "assistant", "content": answer.text, "refusal": null });
    if !answer.reasoning.is_empty() {
        message["reasoning_content"] = json!(answer.reasoning);
    }
    if !answer.calls.is_empty() {
        let calls = answer.calls.iter().map(|call| {
            let function = json!({ "name": call.name, "arguments": call.arguments });
            json!({ "id": call.id, "type": "function", "function": function })
        });
        message["tool_calls"] = calls.collect();
        if answer.text.is_empty() {
            message["content"] = Value::Null;
        }
    }
    let finish = finish_reason(closing.finish);
    let mut body = head(label, "chat.completion");
    let choices = json!([{ "index": 0, "message": message, "logprobs": null, "finish_reason": finish }]);
    body.insert("choices".to_owned(), choices);
    if let Some(counts) = closing.usage {
        body.insert("usage".to_owned(), usage(counts));
    }
    Value::Object(body)
}

pub(super) fn error(error: &ProviderError) -> Value {
    let ProviderError { message, kind, code, param } = error;
    json!({ "error": { "message": message, "type": kind, "param": param, "code": code } })
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
