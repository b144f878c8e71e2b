//! What a journal holds, read back: the messages as they were, and the steps that a crash left open. Nothing is
//! computed anew (docs/design/006-journal-two-commits-a-turn.md).
//!
//! It does not decide what becomes of the open steps.

use super::says_something;
use crate::models::Link;
use legwork_core::handover;
use legwork_core::message::{Author, Message, Part, ToolCall, ToolResult};
use legwork_core::report::{Cost, TraceItem, Usage};
use legwork_core::step::{Action, Product, Repeat, Reply, StepRecord, StepState, Summarised};
use std::sync::Arc;

/// The recorded part of a run, or of the last turn of a session.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Recorded {
    /// The conversation so far, in order, without a reply whose calls have not all ended.
    pub messages: Vec<Arc<Message>>,
    /// That reply.
    pub exchange: Option<OpenExchange>,
    /// Model calls that were begun, whatever came of them.
    pub model_calls: u32,
    /// The tokens of all stored replies, and of all summaries.
    pub usage: Usage,
    /// Their price.
    pub cost: Cost,
    /// The model that gave the last of them, as the provider names it.
    pub model: Option<String>,
    /// The model of a chain that was asked last; the first of it when nothing is recorded.
    pub link: Option<Link>,
    /// The tool calls that have ended, in order.
    pub trace: Vec<TraceItem>,
    /// Those of them whose effect is not known.
    pub in_doubt: Vec<TraceItem>,
    /// Steps that were begun and whose result is not stored: a model call, a summary, or tool calls that ran side by side.
    /// When there are none the run or turn had ended by itself.
    pub unfinished: Vec<StepRecord>,
    /// The last reply, if it was a whole answer and nothing was begun after it.
    pub answer: Option<Reply>,
    /// The answer that was to be corrected, if one was.
    pub corrected: Option<Reply>,
    /// The last answer after which something was said to the agent, as long as no other came.
    pub answered: Option<Reply>,
    /// How many processes it has started in the background in its whole life.
    pub started: u32,
    /// Whether the last that is recorded is the result of a call: the process ended in good order before the model was asked again.
    pub awaits_reply: bool,
}

/// A reply whose calls have not all ended.
#[derive(Debug, Clone, PartialEq)]
pub struct OpenExchange {
    /// The reply.
    pub reply: Reply,
    /// The results of its first calls, in order.
    pub results: Vec<ToolResult>,
}

impl Recorded {
    /// Reads a journal from its steps, which come in order. What was before the last beginning is not read.
    pub(super) fn fold(mut steps: Vec<StepRecord>) -> Self {
        let last = steps.iter().rposition(|step| matches!(step.action, Action::Open));
        let mut recorded = Recorded { started: handover::started_in(&steps), ..Recorded::default() };
        for step in steps.drain(last.unwrap_or(0)..) {
            recorded.take(step);
        }
        recorded
    }

    fn take(&mut self, step: StepRecord) {
        // Which model was asked is noted behind the call that it answered.
        let answered = if matches!(step.action, Action::Switch { .. }) { None } else { self.answer.take() };
        match step.action {
            Action::Correct { .. } => self.corrected = self.corrected.take().or(answered),
            Action::Steer { .. } => {
                let said = answered.filter(|reply| says_something(&reply.message));
                self.answered = said.or(self.answered.take());
            }
            Action::Open | Action::Model | Action::Compact | Action::Tool { .. } | Action::Switch { .. } => {}
        }
        self.awaits_reply = matches!(step.action, Action::Tool { .. }) && step.state != StepState::Intended;
        if matches!(step.action, Action::Model) {
            self.model_calls += 1;
        }
        match (step.state, step.action) {
            (StepState::Intended, action) => {
                self.unfinished.push(StepRecord { seq: step.seq, action, state: StepState::Intended });
            }
            (StepState::Done(Product::Opened(messages)), _) => {
                self.messages.extend(messages.into_iter().map(Arc::new));
            }
            (StepState::Done(Product::Compacted(summary)), _) => self.summarised(summary),
            (StepState::Done(Product::Steered(message)), _) => self.messages.push(Arc::new(message)),
            (StepState::Done(Product::Switched), action) => {
                if let Action::Switch { place, model } = action {
                    self.link = Some(Link { place, model });
                }
            }
            (StepState::Done(Product::Reply(reply)), _) => self.replied(reply),
            (StepState::Done(Product::Output(result)), action) => {
                if let Some((call, _)) = action.call() {
                    self.ended(call, result);
                }
            }
            (StepState::Failed(error), action) => self.failed(&action, error),
        }
    }

    /// A call of a tool that was closed without its result; other steps that failed left nothing.
    fn failed(&mut self, action: &Action, error: String) {
        let Some((call, repeat)) = action.call() else { return };
        let result = ToolResult { call_id: call.id.clone(), content: error, is_error: true };
        if repeat == Repeat::InDoubt {
            self.in_doubt.push(TraceItem::of(call, &result));
        }
        self.ended(call, result);
    }

    fn summarised(&mut self, summary: Summarised) {
        self.usage += summary.usage;
        self.cost = self.cost.plus(summary.cost);
        self.messages.push(Arc::new(summary.message));
    }

    fn replied(&mut self, reply: Reply) {
        self.usage += reply.usage;
        self.cost = self.cost.plus(reply.cost);
        self.model = reply.model.clone().or_else(|| self.model.take());
        if reply.message.calls().next().is_some() {
            self.exchange = Some(OpenExchange { reply, results: Vec::new() });
            return;
        }
        if says_something(&reply.message) {
            self.messages.push(Arc::new(reply.message.clone()));
            self.answered = None;
        }
        self.answer = Some(reply);
    }

    fn ended(&mut self, call: &ToolCall, result: ToolResult) {
        self.trace.push(TraceItem::of(call, &result));
        let Some(exchange) = &mut self.exchange else { return };
        exchange.results.push(result);
        if exchange.results.len() < exchange.reply.message.calls().count() {
            return;
        }
        if let Some(OpenExchange { reply, results }) = self.exchange.take() {
            let parts = results.into_iter().map(Part::Result).collect();
            self.messages.push(Arc::new(reply.message));
            self.messages.push(Arc::new(Message { author: Author::Tool, parts }));
        }
    }
}
