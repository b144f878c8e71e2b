//! The items of a response, as they stand in it whole and as they begin in its stream.

use serde_json::{Value, json};

use crate::server::seal::named;
use crate::server::wire::{Label, Seal, Thinking};

/// What an item is.
#[derive(Clone, Debug)]
pub(super) enum Kind {
    Message,
    Reasoning,
    Call { call_id: String, name: String },
}

/// One item with all that was written into it so far.
#[derive(Clone, Debug)]
pub(super) struct Item {
    pub kind: Kind,
    pub id: String,
    pub text: String,
}

impl Item {
    /// An item at this place in the output.
    pub(super) fn new(label: &Label, index: usize, kind: Kind) -> Self {
        let prefix = match kind {
            Kind::Message => "msg",
            Kind::Reasoning => "rs",
            Kind::Call { .. } => "fc",
        };
        Self { kind, id: format!("{prefix}_{}_{index}", label.id), text: String::new() }
    }

    /// The item before anything is written into it.
    pub(super) fn begun(&self, label: &Label) -> Value {
        let mut item = Self { text: String::new(), ..self.clone() }.done(label, "in_progress");
        if let Kind::Message = self.kind {
            item["content"] = json!([]);
        }
        item
    }

    /// The item with this status.
    pub(super) fn done(&self, label: &Label, status: &str) -> Value {
        let Self { kind, id, text } = self;
        match kind {
            Kind::Message => {
                let content = json!([self.part()]);
                json!({ "id": id, "type": "message", "status": status, "role": "assistant", "content": content })
            }
            Kind::Reasoning => self.reasoning(label),
            Kind::Call { call_id, name } => json!({
                "id": id,
                "type": "function_call",
                "status": status,
                "call_id": call_id,
                "name": name,
                "arguments": text,
            }),
        }
    }

    /// The part that holds the text of a message or of a summary.
    pub(super) fn part(&self) -> Value {
        match self.kind {
            Kind::Reasoning => json!({ "type": "summary_text", "text": self.text }),
            Kind::Message | Kind::Call { .. } => {
                json!({ "type": "output_text", "text": self.text, "annotations": [], "logprobs": [] })
            }
        }
    }

    fn reasoning(&self, label: &Label) -> Value {
        let shown = label.manner.thinking == Thinking::Shown && !self.text.is_empty();
        let summary = if shown { json!([self.part()]) } else { json!([]) };
        let mut item = json!({ "id": self.id, "type": "reasoning", "summary": summary });
        if label.manner.seal == Seal::Given {
            item["encrypted_content"] = json!(named(&self.id));
        }
        item
    }
}
