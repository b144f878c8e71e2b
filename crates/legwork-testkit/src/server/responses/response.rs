//! Writes a response object: the whole of it, and the states that its stream tells of.

use serde_json::{Value, json};

use super::items::{Item, Kind};
use crate::server::act::{Finish, Usage};
use crate::server::fault::ProviderError;
use crate::server::wire::{Label, Piece};

/// When every response says it was made. A fixed time keeps recorded replies equal between runs.
const CREATED: u64 = 1_700_000_000;

pub(super) fn whole(label: &Label, pieces: &[Piece], finish: Finish) -> Value {
    let items = pieces.iter().enumerate().map(|(index, piece)| item(label, index, piece));
    let last = pieces.len().saturating_sub(1);
    let output = items.enumerate().map(|(index, item)| {
        let status = if index == last { status(finish) } else { "completed" };
        item.done(label, status)
    });
    ended(label, output.collect(), finish)
}

fn item(label: &Label, index: usize, piece: &Piece) -> Item {
    let (kind, text) = match piece {
        Piece::Text(text) => (Kind::Message, text),
        Piece::Reasoning(text) => (Kind::Reasoning, text),
        Piece::Call(call) => {
            let kind = Kind::Call { call_id: call.id.clone(), name: call.name.clone() };
            (kind, &call.arguments)
        }
    };
    Item { text: text.clone(), ..Item::new(label, index, kind) }
}

/// The response while it is made.
pub(super) fn begun(label: &Label) -> Value {
    json!({
        "id": format!("resp_{}", label.id),
        "object": "response",
        "created_at": CREATED,
        "status": "in_progress",
        "background": false,
        "error": null,
        "incomplete_details": null,
        "instructions": null,
        "max_output_tokens": null,
        "metadata": {},
        "model": label.model,
        "output": [],
        "parallel_tool_calls": true,
        "previous_response_id": null,
        "temperature": 1.0,
        "text": { "format": { "type": "text" } },
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "truncation": "disabled",
        "usage": null,
    })
}

/// The response with all its items.
pub(super) fn ended(label: &Label, output: Vec<Value>, finish: Finish) -> Value {
    let mut response = begun(label);
    response["status"] = json!(status(finish));
    response["output"] = Value::Array(output);
    response["usage"] = label.usage.map_or(Value::Null, usage);
    if let Some(reason) = incomplete(finish) {
        response["incomplete_details"] = json!({ "reason": reason });
    }
    response
}

/// The response that failed with this error.
pub(super) fn failed(label: &Label, output: Vec<Value>, error: &ProviderError) -> Value {
    let mut response = begun(label);
    response["status"] = json!("failed");
    response["output"] = Value::Array(output);
    response["error"] = json!({ "code": code(error), "message": error.message });
    response
}

/// The code of an error; where it has none, its class.
pub(super) fn code(error: &ProviderError) -> &str {
    error.code.as_deref().unwrap_or(&error.kind)
}

pub(super) fn status(finish: Finish) -> &'static str {
    if incomplete(finish).is_some() { "incomplete" } else { "completed" }
}

fn incomplete(finish: Finish) -> Option<&'static str> {
    match finish {
        Finish::Stop | Finish::Calls => None,
        Finish::Length => Some("max_output_tokens"),
        Finish::Filtered => Some("content_filter"),
    }
}

fn usage(usage: Usage) -> Value {
    json!({
        "input_tokens": usage.prompt,
        "input_tokens_details": { "cached_tokens": usage.cached, "cache_write_tokens": usage.cache_written },
        "output_tokens": usage.completion,
        "output_tokens_details": { "reasoning_tokens": usage.reasoning },
        "total_tokens": usage.prompt + usage.completion,
    })
}
