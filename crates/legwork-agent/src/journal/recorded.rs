//! What a journal holds, read back: the messages as they were, and the steps that a crash left open. Nothing is
//! computed anew (design page, "Resume re-reads, it does not re-execute").
//!
//! It does not decide what becomes of the open steps.

use legwork_core::message::{Author, Message, Part, ToolResult};
use legwork_core::report::{Cost, Usage};
use legwork_core::step::{Action, Product, StepRecord, StepState};
use std::sync::Arc;

/// The recorded part of a run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Recorded {
    /// The conversation so far, in order.
    pub messages: Vec<Arc<Message>>,
    /// Model calls that were begun, whatever came of them.
    pub model_calls: u32,
    /// The tokens of all stored replies.
    pub usage: Usage,
    /// Their price.
    pub cost: Cost,
    /// Steps that were begun and whose result is not stored.
    pub unfinished: Vec<StepRecord>,
}

impl Recorded {
    /// Reads a journal from its steps, which come in order.
    pub(super) fn fold(steps: Vec<StepRecord>) -> Self {
        let mut recorded = Recorded::default();
        let mut results = Vec::new();
        for step in steps {
            if matches!(step.action, Action::Model) {
                recorded.model_calls += 1;
                recorded.close_results(&mut results);
            }
            recorded.take(step, &mut results);
        }
        recorded.close_results(&mut results);
        recorded
    }

    fn take(&mut self, step: StepRecord, results: &mut Vec<Part>) {
        match (step.state, step.action) {
            (StepState::Intended, action) => {
                self.unfinished.push(StepRecord { seq: step.seq, action, state: StepState::Intended });
            }
            (StepState::Done(Product::Opened(messages)), _) => {
                self.messages.extend(messages.into_iter().map(Arc::new));
            }
            (StepState::Done(Product::Reply(reply)), _) => {
                self.usage += reply.usage;
                self.cost = self.cost.plus(reply.cost);
                self.messages.push(Arc::new(reply.message));
            }
            (StepState::Done(Product::Output(result)), _) => results.push(Part::Result(result)),
            (StepState::Failed(error), Action::Tool { call, .. }) => {
                results.push(Part::Result(ToolResult { call_id: call.id, content: error, is_error: true }));
            }
            (StepState::Done(Product::Compacted(message) | Product::Steered(message)), _) => {
                self.close_results(results);
                self.messages.push(Arc::new(message));
            }
            (StepState::Failed(_), Action::Open | Action::Model | Action::Compact | Action::Steer { .. }) => {
            }
        }
    }

    fn close_results(&mut self, results: &mut Vec<Part>) {
        if !results.is_empty() {
            let parts = std::mem::take(results);
            self.messages.push(Arc::new(Message { author: Author::Tool, parts }));
        }
    }
}
