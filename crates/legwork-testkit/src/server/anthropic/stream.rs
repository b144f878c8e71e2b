//! Writes an Anthropic message as a stream: one block after the other, each begun, filled and ended.

use serde_json::{Value, json};

use super::errors;
use super::response::{message, signature, stop_reason, usage};
use crate::server::act::Finish;
use crate::server::fault::ProviderError;
use crate::server::wire::{Delta, Encoder, Label, Thinking};

/// One streamed message.
pub(super) struct Stream {
    label: Label,
    open: Option<Block>,
    /// How many blocks were begun.
    blocks: usize,
}

/// The block that is being filled.
enum Block {
    Text,
    /// With all that was thought in it so far.
    Thinking(String),
    ToolUse,
}

impl Stream {
    pub(super) fn new(label: Label) -> Self {
        Self { label, open: None, blocks: 0 }
    }

    fn text(&mut self, text: &str) -> Vec<String> {
        let mut events = Vec::new();
        if !matches!(self.open, Some(Block::Text)) {
            events = self.begin(Block::Text, json!({ "type": "text", "text": "" }));
        }
        events.push(self.fill(json!({ "type": "text_delta", "text": text })));
        events
    }

    fn thinking(&mut self, text: &str) -> Vec<String> {
        let mut events = Vec::new();
        if !matches!(self.open, Some(Block::Thinking(_))) {
            let block = json!({ "type": "thinking", "thinking": "", "signature": "" });
            events = self.begin(Block::Thinking(String::new()), block);
        }
        if let Some(Block::Thinking(thought)) = &mut self.open {
            thought.push_str(text);
        }
        if self.label.manner.thinking == Thinking::Shown {
            events.push(self.fill(json!({ "type": "thinking_delta", "thinking": text })));
        }
        events
    }

    /// Ends the block before and begins this one.
    fn begin(&mut self, kind: Block, block: Value) -> Vec<String> {
        let mut events = self.begin_message();
        events.extend(self.end_block());
        let first = self.blocks == 0;
        self.open = Some(kind);
        self.blocks += 1;
        let index = self.index();
        let event = json!({ "type": "content_block_start", "index": index, "content_block": block });
        events.push(sse(&event));
        if first {
            events.push(sse(&json!({ "type": "ping" })));
        }
        events
    }

    fn begin_message(&self) -> Vec<String> {
        if self.blocks > 0 {
            return Vec::new();
        }
        let mut message = message(&self.label, json!([]), Value::Null);
        if let Some(counts) = self.label.usage {
            let mut usage = usage(counts);
            usage.insert("output_tokens".to_owned(), json!(1));
            usage.remove("output_tokens_details");
            message.insert("usage".to_owned(), Value::Object(usage));
        }
        vec![sse(&json!({ "type": "message_start", "message": message }))]
    }

    fn end_block(&mut self) -> Vec<String> {
        let Some(open) = self.open.take() else { return Vec::new() };
        let mut events = Vec::new();
        if let Block::Thinking(thought) = open {
            let signature = signature(&self.label, &thought);
            events.push(self.fill(json!({ "type": "signature_delta", "signature": signature })));
        }
        events.push(sse(&json!({ "type": "content_block_stop", "index": self.index() })));
        events
    }

    fn fill(&self, delta: Value) -> String {
        sse(&json!({ "type": "content_block_delta", "index": self.index(), "delta": delta }))
    }

    /// The index of the block begun last.
    fn index(&self) -> usize {
        self.blocks - 1
    }
}

impl Encoder for Stream {
    fn delta(&mut self, delta: Delta<'_>) -> Vec<String> {
        match delta {
            Delta::Text(text) => self.text(text),
            Delta::Reasoning(text) => self.thinking(text),
            Delta::Call { id, name, .. } => {
                let block = json!({ "type": "tool_use", "id": id, "name": name, "input": {} });
                let mut events = self.begin(Block::ToolUse, block);
                events.push(self.fill(json!({ "type": "input_json_delta", "partial_json": "" })));
                events
            }
            Delta::Arguments { fragment, .. } => {
                vec![self.fill(json!({ "type": "input_json_delta", "partial_json": fragment }))]
            }
        }
    }

    fn error(&mut self, error: &ProviderError) -> Vec<String> {
        vec![sse(&errors::error(&error.kind, &error.message))]
    }

    fn close(&mut self, finish: Finish) -> Vec<String> {
        let mut events = self.begin_message();
        events.extend(self.end_block());
        let delta = json!({ "stop_reason": stop_reason(finish), "stop_sequence": null });
        let mut event = json!({ "type": "message_delta", "delta": delta });
        if let Some(counts) = self.label.usage {
            event["usage"] = Value::Object(usage(counts));
        }
        events.extend([sse(&event), sse(&json!({ "type": "message_stop" }))]);
        events
    }
}

/// An event, named for its type.
fn sse(event: &Value) -> String {
    let name = event["type"].as_str().unwrap_or_default();
    format!("event: {name}\ndata: {event}\n\n")
}
