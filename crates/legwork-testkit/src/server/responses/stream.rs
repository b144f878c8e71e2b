//! Writes a response as a stream: item after item, each added, filled and done, with numbered events.

use serde_json::{Value, json};

use super::items::{Item, Kind};
use super::response::{begun, code, ended, failed, status};
use crate::server::act::Finish;
use crate::server::fault::ProviderError;
use crate::server::wire::{Delta, Encoder, Label, Thinking};

/// One streamed response.
pub(super) struct Stream {
    label: Label,
    open: Option<Item>,
    output: Vec<Value>,
    events: u64,
}

impl Stream {
    pub(super) fn new(label: Label) -> Self {
        Self { label, open: None, output: Vec::new(), events: 0 }
    }

    /// Writes an event with these fields; its number goes in front of them.
    fn event(&mut self, kind: &str, mut fields: Value) -> String {
        fields["type"] = json!(kind);
        fields["sequence_number"] = json!(self.events);
        self.events += 1;
        format!("event: {kind}\ndata: {fields}\n\n")
    }

    fn begin_response(&mut self) -> Vec<String> {
        if self.events > 0 {
            return Vec::new();
        }
        let response = begun(&self.label);
        let kinds = ["response.created", "response.in_progress"];
        kinds.into_iter().map(|kind| self.event(kind, json!({ "response": response }))).collect()
    }

    /// Ends the item before and adds a new one.
    fn begin(&mut self, kind: Kind) -> Vec<String> {
        let mut events = self.begin_response();
        events.extend(self.end_item("completed"));
        let item = Item::new(&self.label, self.output.len(), kind);
        let added = json!({ "output_index": self.output.len(), "item": item.begun(&self.label) });
        events.push(self.event("response.output_item.added", added));
        if let Some((place, part)) = self.part_of(&item) {
            let mut fields = self.at(&item, place);
            fields["part"] = item.part();
            events.push(self.event(&format!("response.{part}.added"), fields));
        }
        self.open = Some(item);
        events
    }

    /// What the part of an item is counted by and called in events; items without a visible part have none.
    fn part_of(&self, item: &Item) -> Option<(&'static str, &'static str)> {
        match item.kind {
            Kind::Message => Some(("content_index", "content_part")),
            Kind::Reasoning if self.label.manner.thinking == Thinking::Shown => {
                Some(("summary_index", "reasoning_summary_part"))
            }
            Kind::Reasoning | Kind::Call { .. } => None,
        }
    }

    /// The fields that say where in the response an event belongs.
    fn at(&self, item: &Item, part: &str) -> Value {
        let mut fields = json!({ "item_id": item.id, "output_index": self.output.len() });
        if !part.is_empty() {
            fields[part] = json!(0);
        }
        fields
    }

    fn fill(&mut self, text: &str) -> Vec<String> {
        let Some(mut item) = self.open.take() else { return Vec::new() };
        item.text.push_str(text);
        let mut events = Vec::new();
        if let Some((name, place)) = self.text_of(&item) {
            let mut fields = self.at(&item, place);
            fields["delta"] = json!(text);
            if let Kind::Message = item.kind {
                fields["logprobs"] = json!([]);
            }
            events.push(self.event(&format!("response.{name}.delta"), fields));
        }
        self.open = Some(item);
        events
    }

    /// What the text of an item is called in events, and what its part is counted by.
    fn text_of(&self, item: &Item) -> Option<(&'static str, &'static str)> {
        match item.kind {
            Kind::Message => Some(("output_text", "content_index")),
            Kind::Reasoning if self.label.manner.thinking == Thinking::Shown => {
                Some(("reasoning_summary_text", "summary_index"))
            }
            Kind::Reasoning => None,
            Kind::Call { .. } => Some(("function_call_arguments", "")),
        }
    }

    fn end_item(&mut self, status: &str) -> Vec<String> {
        let Some(item) = self.open.take() else { return Vec::new() };
        let mut events = Vec::new();
        if let Some((name, place)) = self.text_of(&item) {
            let mut fields = self.at(&item, place);
            match &item.kind {
                Kind::Message => {
                    fields["text"] = json!(item.text);
                    fields["logprobs"] = json!([]);
                }
                Kind::Reasoning => fields["text"] = json!(item.text),
                Kind::Call { name, .. } => {
                    fields["arguments"] = json!(item.text);
                    fields["name"] = json!(name);
                }
            }
            events.push(self.event(&format!("response.{name}.done"), fields));
        }
        if let Some((place, part)) = self.part_of(&item) {
            let mut fields = self.at(&item, place);
            fields["part"] = item.part();
            events.push(self.event(&format!("response.{part}.done"), fields));
        }
        let done = item.done(&self.label, status);
        let fields = json!({ "output_index": self.output.len(), "item": done });
        events.push(self.event("response.output_item.done", fields));
        self.output.push(done);
        events
    }
}

impl Encoder for Stream {
    fn delta(&mut self, delta: Delta<'_>) -> Vec<String> {
        let open = self.open.as_ref().map(|item| &item.kind);
        let (mut events, text) = match delta {
            Delta::Text(text) if matches!(open, Some(Kind::Message)) => (Vec::new(), text),
            Delta::Text(text) => (self.begin(Kind::Message), text),
            Delta::Reasoning(text) if matches!(open, Some(Kind::Reasoning)) => (Vec::new(), text),
            Delta::Reasoning(text) => (self.begin(Kind::Reasoning), text),
            Delta::Call { id, name, .. } => {
                return self.begin(Kind::Call { call_id: id.to_owned(), name: name.to_owned() });
            }
            Delta::Arguments { fragment, .. } => (Vec::new(), fragment),
        };
        events.extend(self.fill(text));
        events
    }

    /// The error itself, and the response that failed of it. What was open stays unfinished.
    fn error(&mut self, error: &ProviderError) -> Vec<String> {
        let mut events = self.begin_response();
        let fields = json!({ "code": code(error), "message": error.message, "param": error.param });
        events.push(self.event("error", fields));
        let response = failed(&self.label, self.output.clone(), error);
        events.push(self.event("response.failed", json!({ "response": response })));
        events
    }

    fn close(&mut self, finish: Finish) -> Vec<String> {
        let mut events = self.begin_response();
        events.extend(self.end_item(status(finish)));
        let response = ended(&self.label, std::mem::take(&mut self.output), finish);
        let kind = format!("response.{}", status(finish));
        events.push(self.event(&kind, json!({ "response": response })));
        events
    }
}
