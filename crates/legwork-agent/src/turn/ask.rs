//! One model call: the stream is told on the line as it arrives, and comes back as one whole reply.
//!
//! It does not store anything and does not decide what the reply means.

use super::Agent;
use crate::models::{ModelError, ModelRequest, ReplyPart, ReplyStream};
use futures::StreamExt;
use legwork_core::ports::Line;
use legwork_core::pulse::LineEvent;
use legwork_core::report::FailureReason;
use legwork_core::step::Reply;
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// Pieces of a reply that arrive faster than this are told together.
const TELL_EVERY: Duration = Duration::from_millis(50);
/// More than this is told at once.
const TELL_BYTES: usize = 2048;

/// Asks the model. `unfinished` holds the text of the reply for as long as it is not whole.
pub(super) async fn ask(
    agent: &Agent,
    request: ModelRequest,
    unfinished: &mut String,
) -> Result<Reply, ModelError> {
    unfinished.clear();
    agent.site.line.tell(LineEvent::ModelCalled);
    let stream = agent.model.respond(request);
    listen(stream, agent, unfinished).await
}

async fn listen(
    mut stream: ReplyStream,
    agent: &Agent,
    unfinished: &mut String,
) -> Result<Reply, ModelError> {
    let silence_max = agent.limits.silence_max;
    let mut teller = Teller::new(&*agent.site.line);
    // Deadline: a provider that keeps the connection open and says nothing would hold the run for ever.
    let mut silent_at = Instant::now() + silence_max;
    loop {
        let due = teller.due();
        let part = tokio::select! {
            biased;
            part = stream.next() => part,
            // Deadline: what was held back to be told with more is told although nothing more came.
            () = sleep_until(due.unwrap_or(silent_at)) => match due {
                Some(_) => { teller.flush(); continue }
                None => return Err(silent(silence_max)),
            },
        };
        silent_at = Instant::now() + silence_max;
        match part {
            Some(Ok(ReplyPart::Text(text))) => {
                unfinished.push_str(&text);
                teller.take(Kind::Text, &text);
            }
            Some(Ok(ReplyPart::Thinking(text))) => teller.take(Kind::Thinking, &text),
            Some(Ok(ReplyPart::Done(reply))) => return Ok(*reply),
            Some(Err(error)) => return Err(error),
            None => return Err(cut_off()),
        }
    }
}

fn silent(silence_max: Duration) -> ModelError {
    ModelError {
        reason: FailureReason::Timeout,
        message: format!("the model sent nothing for {} seconds", silence_max.as_secs()),
        retryable: true,
        retry_after: None,
    }
}

fn cut_off() -> ModelError {
    ModelError {
        reason: FailureReason::Network,
        message: "the model's reply ended before it was whole".to_owned(),
        retryable: true,
        retry_after: None,
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Thinking,
}

/// Tells pieces on the line, small ones together, in order. What it holds when it is dropped is told then.
struct Teller<'a> {
    line: &'a dyn Line,
    held: String,
    kind: Kind,
    told_at: Option<Instant>,
}

impl<'a> Teller<'a> {
    fn new(line: &'a dyn Line) -> Self {
        Teller { line, held: String::new(), kind: Kind::Text, told_at: None }
    }

    /// When the held pieces must be told; `None` when none are held.
    fn due(&self) -> Option<Instant> {
        let told_at = self.told_at?;
        (!self.held.is_empty()).then_some(told_at + TELL_EVERY)
    }

    fn take(&mut self, kind: Kind, text: &str) {
        if kind != self.kind {
            self.flush();
            self.kind = kind;
        }
        self.held.push_str(text);
        let overdue = self.told_at.is_none_or(|told_at| told_at.elapsed() >= TELL_EVERY);
        if overdue || self.held.len() >= TELL_BYTES {
            self.flush();
        }
    }

    fn flush(&mut self) {
        if self.held.is_empty() {
            return;
        }
        let held = std::mem::take(&mut self.held);
        self.line.tell(match self.kind {
            Kind::Text => LineEvent::Text(held),
            Kind::Thinking => LineEvent::Thinking(held),
        });
        self.told_at = Some(Instant::now());
    }
}

impl Drop for Teller<'_> {
    fn drop(&mut self) {
        self.flush();
    }
}
