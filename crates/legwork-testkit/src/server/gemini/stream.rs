//! Writes a `generateContent` response as a stream: each event is a response with a part of the content.
//!
//! Calls come whole: their arguments are no text here, and nothing of them is known before they are complete.

use serde_json::{Value, json};

use super::errors;
use super::response::{Calls, response, text_part, thought_part};
use crate::server::act::Finish;
use crate::server::fault::ProviderError;
use crate::server::wire::{Delta, Encoder, Label, MadeCall};

/// One streamed response.
pub(super) struct Stream {
    label: Label,
    calls: Calls,
    /// The call whose arguments are not complete yet.
    open: Option<MadeCall>,
}

impl Stream {
    pub(super) fn new(label: Label) -> Self {
        Self { label, calls: Calls::default(), open: None }
    }

    fn end_call(&mut self) -> Vec<String> {
        let call = self.open.take();
        let part = call.and_then(|call| self.calls.part(&self.label, &call));
        part.into_iter().map(|part| self.event(part)).collect()
    }

    fn event(&self, part: Value) -> String {
        sse(&response(&self.label, vec![part], None))
    }
}

impl Encoder for Stream {
    fn delta(&mut self, delta: Delta<'_>) -> Vec<String> {
        if let (Delta::Arguments { fragment, .. }, Some(call)) = (delta, &mut self.open) {
            call.arguments.push_str(fragment);
            return Vec::new();
        }
        let mut events = self.end_call();
        match delta {
            Delta::Text(text) => events.push(self.event(text_part(text))),
            Delta::Reasoning(text) => events.push(self.event(thought_part(text))),
            Delta::Call { id, name, .. } => {
                let arguments = String::new();
                self.open = Some(MadeCall { id: id.to_owned(), name: name.to_owned(), arguments });
            }
            Delta::Arguments { .. } => unreachable!("BUG: arguments without a call"),
        }
        events
    }

    fn error(&mut self, error: &ProviderError) -> Vec<String> {
        let mut events = self.end_call();
        events.push(sse(&errors::in_stream(error)));
        events
    }

    fn close(&mut self, finish: Finish) -> Vec<String> {
        let mut events = self.end_call();
        let mut last = text_part("");
        if let Some(signature) = self.calls.last_signature(&self.label) {
            last["thoughtSignature"] = json!(signature);
        }
        let end = self.calls.end(finish);
        events.push(sse(&response(&self.label, vec![last], Some(end))));
        events
    }
}

/// An event. This provider ends lines as HTTP does.
fn sse(event: &Value) -> String {
    format!("data: {event}\r\n\r\n")
}
