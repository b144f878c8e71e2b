//! One model call: the stream is told on the line as it arrives, and comes back as one whole reply.
//!
//! It does not store anything and does not decide what the reply means.

use super::Agent;
use crate::models::{self, Heard, HeardStream, ModelError, ModelRequest, Retrying, StoodIn};
use futures::StreamExt;
use legwork_core::ports::Line;
use legwork_core::pulse::LineEvent;
use legwork_core::report::FailureReason;
use legwork_core::step::Reply;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// Pieces of a reply that arrive faster than this are told together.
const TELL_EVERY: Duration = Duration::from_millis(50);
/// More than this is told at once.
const TELL_BYTES: usize = 2048;

/// One model call of a run.
pub(super) struct Call {
    pub(super) request: ModelRequest,
    /// Which call of the run it is, from 1.
    pub(super) number: u32,
}

/// Asks the model, again after failures that pass. `unfinished` holds the text of the reply for as long as it is not
/// whole.
pub(super) async fn ask(agent: &Agent, call: Call, unfinished: &mut String) -> Result<Reply, ModelError> {
    unfinished.clear();
    agent.site.line.tell(LineEvent::ModelCalled);
    let seed = seed(agent, call.number);
    let stream = models::ask(Arc::clone(&agent.model), call.request, agent.limits.retry, seed);
    let teller = Teller::new(&*agent.site.line, Voice::Aloud);
    listen(stream, (agent, teller), unfinished).await
}

/// Asks the model for something that is not part of its run: of the reply only signs of life are told. `number` is that of
/// the last call of the run.
pub(super) async fn quietly(agent: &Agent, request: ModelRequest, number: u32) -> Result<Reply, ModelError> {
    let seed = seed(agent, number);
    let stream = models::ask(Arc::clone(&agent.model), request, agent.limits.retry, seed);
    let teller = Teller::new(&*agent.site.line, Voice::Quiet);
    listen(stream, (agent, teller), &mut String::new()).await
}

/// Spreads the pauses of agents whose calls failed together.
fn seed(agent: &Agent, number: u32) -> u64 {
    let mut hasher = DefaultHasher::new();
    (agent.site.actor.as_str(), number).hash(&mut hasher);
    hasher.finish()
}

async fn listen(
    mut stream: HeardStream,
    (agent, mut teller): (&Agent, Teller<'_>),
    unfinished: &mut String,
) -> Result<Reply, ModelError> {
    let silence_max = agent.limits.silence_max;
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
            Some(Ok(Heard::Text(text))) => {
                unfinished.push_str(&text);
                teller.take(Kind::Text, &text);
            }
            Some(Ok(Heard::Thinking(text))) => teller.take(Kind::Thinking, &text),
            Some(Ok(Heard::Moved)) => teller.moved(),
            Some(Ok(Heard::Retrying(retrying))) => agent.site.line.tell(told(retrying)),
            Some(Ok(Heard::StoodIn(stood_in))) => agent.site.line.tell(replaced(stood_in)),
            Some(Ok(Heard::Done(reply))) => return Ok(*reply),
            Some(Err(error)) => return Err(error),
            None => return Err(cut_off()),
        }
    }
}

fn told(retrying: Retrying) -> LineEvent {
    let Retrying { error, attempt, attempts_max, pause } = retrying;
    LineEvent::Retrying {
        error: format!("attempt {attempt} of {attempts_max}: {}", error.message),
        pause_ms: u64::try_from(pause.as_millis()).unwrap_or(u64::MAX),
    }
}

fn replaced(stood_in: StoodIn) -> LineEvent {
    let StoodIn { failed, error, instead } = stood_in;
    LineEvent::Note(format!("{failed} could not answer ({}); {instead} is asked instead", error.message))
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

/// How much of a reply is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Voice {
    /// All of it.
    Aloud,
    /// Only that it goes on.
    Quiet,
}

/// Tells pieces on the line, small ones together, in order. What it holds when it is dropped is told then.
struct Teller<'a> {
    line: &'a dyn Line,
    voice: Voice,
    held: String,
    kind: Kind,
    told_at: Option<Instant>,
}

impl<'a> Teller<'a> {
    fn new(line: &'a dyn Line, voice: Voice) -> Self {
        Teller { line, voice, held: String::new(), kind: Kind::Text, told_at: None }
    }

    /// When the held pieces must be told; `None` when none are held.
    fn due(&self) -> Option<Instant> {
        let told_at = self.told_at?;
        (!self.held.is_empty()).then_some(told_at + TELL_EVERY)
    }

    fn take(&mut self, kind: Kind, text: &str) {
        if self.voice == Voice::Quiet {
            return self.moved();
        }
        if kind != self.kind {
            self.flush();
            self.kind = kind;
        }
        self.held.push_str(text);
        if self.overdue() || self.held.len() >= TELL_BYTES {
            self.flush();
        }
    }

    /// A sign of life without a text, told as often as a piece of text would be.
    fn moved(&mut self) {
        if self.overdue() {
            self.flush();
            self.line.tell(LineEvent::ToolMoved);
            self.told_at = Some(Instant::now());
        }
    }

    fn overdue(&self) -> bool {
        self.told_at.is_none_or(|told_at| told_at.elapsed() >= TELL_EVERY)
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
