//! Writes Ollama's answers: one object, or a row of them, each on its line.
//!
//! Calls come whole: the daemon reads them out of the model's text and says nothing of them before they are complete.

use serde_json::{Map, Value, json};

use super::errors;
use crate::server::act::Finish;
use crate::server::fault::ProviderError;
use crate::server::wire::{Delta, Encoder, Label, MadeCall, Piece, Whole};

/// When every answer says it was made. A fixed time keeps recorded replies equal between runs.
const CREATED: &str = "2023-11-14T22:13:20Z";

/// How long an answer says that each part of the work took, in nanoseconds.
const DURATION_NS: u64 = 1_000_000;

pub(super) fn whole(label: &Label, pieces: &[Piece], finish: Finish) -> Whole {
    let (mut content, mut thinking, mut calls) = (String::new(), String::new(), Vec::new());
    for piece in pieces {
        match piece {
            Piece::Text(text) => content.push_str(text),
            Piece::Reasoning(text) => thinking.push_str(text),
            Piece::Call(call) => match self::call(call, calls.len()) {
                Ok(call) => calls.push(call),
                Err(unreadable) => return Whole::new(500, unreadable),
            },
        }
    }
    let mut message = json!({ "content": content });
    if !thinking.is_empty() {
        message["thinking"] = json!(thinking);
    }
    if !calls.is_empty() {
        message["tool_calls"] = Value::Array(calls);
    }
    Whole::new(200, last(label, message, finish))
}

/// One streamed answer.
pub(super) struct Stream {
    label: Label,
    calls: usize,
    /// The call whose arguments are not complete yet.
    open: Option<MadeCall>,
    /// Set when an error has ended the stream before its time.
    ended: bool,
}

impl Stream {
    pub(super) fn new(label: Label) -> Self {
        Self { label, calls: 0, open: None, ended: false }
    }

    fn end_call(&mut self) -> Vec<String> {
        let Some(open) = self.open.take() else { return Vec::new() };
        match call(&open, self.calls) {
            Ok(call) => {
                self.calls += 1;
                vec![self.message(json!({ "content": "", "tool_calls": [call] }))]
            }
            Err(unreadable) => {
                self.ended = true;
                vec![line(&unreadable)]
            }
        }
    }

    fn message(&self, message: Value) -> String {
        line(&Value::Object(head(&self.label, message)))
    }
}

impl Encoder for Stream {
    fn delta(&mut self, delta: Delta<'_>) -> Vec<String> {
        if let (Delta::Arguments { fragment, .. }, Some(call)) = (delta, &mut self.open) {
            call.arguments.push_str(fragment);
            return Vec::new();
        }
        let mut lines = self.end_call();
        if self.ended {
            return lines;
        }
        match delta {
            Delta::Text(text) => lines.push(self.message(json!({ "content": text }))),
            Delta::Reasoning(text) => lines.push(self.message(json!({ "content": "", "thinking": text }))),
            Delta::Call { id, name, .. } => {
                let arguments = String::new();
                self.open = Some(MadeCall { id: id.to_owned(), name: name.to_owned(), arguments });
            }
            Delta::Arguments { .. } => unreachable!("BUG: arguments without a call"),
        }
        lines
    }

    fn error(&mut self, error: &ProviderError) -> Vec<String> {
        let mut lines = self.end_call();
        if !self.ended {
            lines.push(line(&errors::error(&error.message)));
        }
        lines
    }

    fn close(&mut self, finish: Finish) -> Vec<String> {
        let mut lines = self.end_call();
        if !self.ended {
            lines.push(line(&last(&self.label, json!({ "content": "" }), finish)));
        }
        lines
    }
}

/// A call, or the error of a daemon that cannot read what the model wrote for one.
fn call(call: &MadeCall, index: usize) -> Result<Value, Value> {
    let arguments: Result<Map<String, Value>, _> = serde_json::from_str(&call.arguments);
    let arguments = arguments.map_err(|error| {
        errors::error(&format!("error parsing tool call: raw='{}', err={error}", call.arguments))
    })?;
    Ok(json!({ "id": call.id, "function": { "index": index, "name": call.name, "arguments": arguments } }))
}

fn head(label: &Label, mut message: Value) -> Map<String, Value> {
    message["role"] = json!("assistant");
    let fields = [
        ("model", json!(label.model)),
        ("created_at", json!(CREATED)),
        ("message", message),
        ("done", json!(false)),
    ];
    fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// The last object of an answer, with the counts. This provider has no word for an end by calls or by a filter.
fn last(label: &Label, message: Value, finish: Finish) -> Value {
    let mut last = Value::Object(head(label, message));
    last["done"] = json!(true);
    last["done_reason"] = match finish {
        Finish::Stop | Finish::Calls | Finish::Filtered => json!("stop"),
        Finish::Length => json!("length"),
    };
    for name in ["total_duration", "load_duration", "prompt_eval_duration", "eval_duration"] {
        last[name] = json!(DURATION_NS);
    }
    if let Some(counts) = label.usage {
        last["prompt_eval_count"] = json!(counts.prompt);
        last["eval_count"] = json!(counts.completion);
    }
    last
}

fn line(value: &Value) -> String {
    format!("{value}\n")
}
