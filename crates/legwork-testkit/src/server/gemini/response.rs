//! Writes a `generateContent` response: the whole of it, and the parts that its stream shares with it.

use serde_json::{Map, Value, json};

use super::names::Generation;
use crate::server::act::{Finish, Usage};
use crate::server::seal::named;
use crate::server::wire::{Label, MadeCall, Piece};

pub(super) fn whole(label: &Label, pieces: &[Piece], finish: Finish) -> Value {
    let mut calls = Calls::default();
    let mut parts: Vec<Value> = Vec::new();
    for piece in pieces {
        match piece {
            Piece::Text(text) => parts.push(text_part(text)),
            Piece::Reasoning(text) => parts.push(thought_part(text)),
            Piece::Call(call) => parts.extend(calls.part(label, call)),
        }
    }
    if let (Some(signature), Some(last)) = (calls.last_signature(label), parts.last_mut()) {
        last["thoughtSignature"] = json!(signature);
    }
    response(label, parts, Some(calls.end(finish)))
}

/// One response; in a stream there are several, of which the last one has an end.
pub(super) fn response(label: &Label, parts: Vec<Value>, end: Option<End>) -> Value {
    let mut content = json!({ "role": "model" });
    if !parts.is_empty() {
        content["parts"] = Value::Array(parts);
    }
    let mut candidate = json!({ "content": content, "index": 0 });
    let ended = end.is_some();
    if let Some(end) = end {
        candidate["finishReason"] = json!(end.reason);
        if let Some(message) = end.message {
            candidate["finishMessage"] = json!(message);
        }
    }
    let mut response = json!({
        "candidates": [candidate],
        "modelVersion": label.model,
        "responseId": format!("resp-{}", label.id),
    });
    if let Some(counts) = label.usage {
        response["usageMetadata"] = if ended { usage(counts) } else { usage_so_far(counts) };
    }
    response
}

/// How a response ends.
pub(super) struct End {
    reason: &'static str,
    message: Option<String>,
}

pub(super) fn text_part(text: &str) -> Value {
    json!({ "text": text })
}

pub(super) fn thought_part(text: &str) -> Value {
    json!({ "text": text, "thought": true })
}

/// The calls written so far.
#[derive(Default)]
pub(super) struct Calls {
    written: usize,
    /// The call that could not be written, because its arguments are no object.
    malformed: Option<String>,
}

impl Calls {
    /// The part of a call. The first of a reply has the signature. What is no object cannot be a call here: the
    /// provider drops it and ends the response with a reason of its own.
    pub(super) fn part(&mut self, label: &Label, call: &MadeCall) -> Option<Value> {
        let args = serde_json::from_str(&call.arguments).ok().filter(Value::is_object);
        let Some(args) = args else {
            self.malformed.get_or_insert_with(|| format!("{}({})", call.name, call.arguments));
            return None;
        };
        let mut part = json!({ "functionCall": { "name": call.name, "args": args } });
        if Generation::of(&label.model) == Generation::Signed {
            part["functionCall"]["id"] = json!(call.id);
            if self.written == 0 {
                part["thoughtSignature"] = json!(named(&call.id));
            }
        }
        self.written += 1;
        Some(part)
    }

    /// The signature of the last part of a reply without calls.
    pub(super) fn last_signature(&self, label: &Label) -> Option<String> {
        let signed = self.written == 0 && Generation::of(&label.model) == Generation::Signed;
        signed.then(|| named(&format!("resp-{}", label.id)))
    }

    pub(super) fn end(&self, finish: Finish) -> End {
        if let Some(call) = &self.malformed {
            let message = Some(format!("Malformed function call: {call}"));
            return End { reason: "MALFORMED_FUNCTION_CALL", message };
        }
        let reason = match finish {
            Finish::Stop | Finish::Calls => "STOP",
            Finish::Length => "MAX_TOKENS",
            Finish::Filtered => "SAFETY",
        };
        End { reason, message: None }
    }
}

/// The token counts. Thoughts are counted beside the candidates; counts of nothing are left out.
fn usage(usage: Usage) -> Value {
    let mut counts = Map::new();
    let fields = [
        ("candidatesTokenCount", usage.completion.saturating_sub(usage.reasoning)),
        ("thoughtsTokenCount", usage.reasoning),
        ("cachedContentTokenCount", usage.cached),
    ];
    counts.insert("promptTokenCount".to_owned(), json!(usage.prompt));
    for (name, count) in fields.into_iter().filter(|(_, count)| *count > 0) {
        counts.insert(name.to_owned(), json!(count));
    }
    counts.insert("totalTokenCount".to_owned(), json!(usage.prompt + usage.completion));
    Value::Object(counts)
}

fn usage_so_far(usage: Usage) -> Value {
    json!({ "promptTokenCount": usage.prompt, "totalTokenCount": usage.prompt })
}
