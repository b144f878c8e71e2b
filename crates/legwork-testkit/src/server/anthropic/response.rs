//! Writes an Anthropic message: the whole of it, and the parts that its stream shares with it.

use serde_json::{Map, Value, json};

use crate::server::act::{Finish, Usage};
use crate::server::seal::{named, seal};
use crate::server::wire::{Label, MadeCall, Piece, Thinking};

pub(super) fn whole(label: &Label, pieces: &[Piece], finish: Finish) -> Value {
    let content: Vec<Value> = pieces.iter().map(|piece| block(label, piece)).collect();
    let mut message = message(label, Value::Array(content), json!(stop_reason(finish)));
    if let Some(counts) = label.usage {
        message.insert("usage".to_owned(), Value::Object(usage(counts)));
    }
    Value::Object(message)
}

/// A message without its usage.
pub(super) fn message(label: &Label, content: Value, stop_reason: Value) -> Map<String, Value> {
    let fields = [
        ("id", json!(format!("msg_{}", label.id))),
        ("type", json!("message")),
        ("role", json!("assistant")),
        ("model", json!(label.model)),
        ("content", content),
        ("stop_reason", stop_reason),
        ("stop_sequence", Value::Null),
    ];
    fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn block(label: &Label, piece: &Piece) -> Value {
    match piece {
        Piece::Text(text) => json!({ "type": "text", "text": text }),
        Piece::Reasoning(text) => {
            let signature = signature(label, text);
            let shown = if label.manner.thinking == Thinking::Shown { text } else { "" };
            json!({ "type": "thinking", "thinking": shown, "signature": signature })
        }
        Piece::Call(call) => tool_use(call),
    }
}

/// The provider's parser only lets objects through. A script that says otherwise breaks that on purpose, and its text
/// goes out as a string.
fn tool_use(call: &MadeCall) -> Value {
    let parsed = serde_json::from_str(&call.arguments).ok().filter(Value::is_object);
    let input = parsed.unwrap_or_else(|| json!(call.arguments));
    json!({ "type": "tool_use", "id": call.id, "name": call.name, "input": input })
}

/// The signature of a thinking block. Where its text is not shown, nothing could be checked against it.
pub(super) fn signature(label: &Label, text: &str) -> String {
    match label.manner.thinking {
        Thinking::Shown => seal(text),
        Thinking::Hidden | Thinking::Off => named(&label.id),
    }
}

/// The token counts. What was read from the cache or written to it is counted beside the input, not in it.
pub(super) fn usage(usage: Usage) -> Map<String, Value> {
    let counted_apart = usage.cached + usage.cache_written;
    let thinking = json!({ "thinking_tokens": usage.reasoning });
    let fields = [
        ("input_tokens", json!(usage.prompt.saturating_sub(counted_apart))),
        ("cache_creation_input_tokens", json!(usage.cache_written)),
        ("cache_read_input_tokens", json!(usage.cached)),
        ("output_tokens", json!(usage.completion)),
        ("output_tokens_details", thinking),
    ];
    fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

pub(super) fn stop_reason(finish: Finish) -> &'static str {
    match finish {
        Finish::Stop => "end_turn",
        Finish::Calls => "tool_use",
        Finish::Length => "max_tokens",
        Finish::Filtered => "refusal",
    }
}
