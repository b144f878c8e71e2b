//! One model call: the stream is told on the line as it arrives, and comes back as one whole reply.
//!
//! It does not store anything and does not decide what the reply means.

use super::Agent;
use crate::models::{
    self, BegunReply, Heard, HeardStream, ModelError, ModelRequest, RetryPolicy, Retrying, Spent, StoodIn,
};
use futures::StreamExt;
use legwork_core::ports::Line;
use legwork_core::pulse::LineEvent;
use legwork_core::report::{FailureReason, NetworkFault};
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
    /// Which call of the run it is, from 1; for one that is not part of it, the last one before.
    pub(super) number: u32,
}

/// A model call that is under way. Dropping it cancels it.
pub(super) struct Asking<'a> {
    agent: &'a Agent,
    stream: HeardStream,
    teller: Teller<'a>,
    /// The text so far.
    text: String,
    /// What attempts took that failed, as far as it was not asked for.
    spent: Spent,
    /// When the model has sent nothing for too long.
    silent_at: Instant,
    /// How long all of it may take, and when that is over.
    limit: Option<(Duration, Instant)>,
}

/// What comes of listening.
pub(super) enum Answer {
    /// The reply is whole.
    Whole(Box<Reply>),
    /// Another model of the chain is asked from here on; it goes on when it is listened to again.
    FromAnother,
}

impl<'a> Asking<'a> {
    /// Asks the model, again after failures that pass, and tells on the line what it says.
    pub(super) fn aloud(agent: &'a Agent, call: Call) -> Self {
        agent.site.line.tell(LineEvent::ModelCalled);
        Asking::new(agent, call, Voice::Aloud, None)
    }

    /// Asks the model for something that is not part of its run and may take so long: of the reply only signs of life are
    /// told. The number of the call is that of the last one of the run.
    pub(super) fn quietly(agent: &'a Agent, call: Call, limit: Duration) -> Self {
        Asking::new(agent, call, Voice::Quiet, Some(limit))
    }

    fn new(agent: &'a Agent, call: Call, voice: Voice, limit: Option<Duration>) -> Self {
        let seed = seed(agent, call.number);
        let now = Instant::now();
        Asking {
            agent,
            stream: models::ask(Arc::clone(&agent.model), call.request, retry(agent, voice), seed),
            teller: Teller::new(&*agent.site.line, voice),
            text: String::new(),
            spent: Spent::default(),
            silent_at: now + agent.limits.silence_max,
            limit: limit.map(|limit| (limit, now + limit)),
        }
    }

    /// The text of a reply that is told, as long as it is not whole.
    pub(super) fn unfinished(&self) -> Option<&str> {
        match self.teller.voice {
            Voice::Aloud => Some(&self.text),
            Voice::Quiet => None,
        }
    }

    /// What attempts took that failed since this was asked.
    pub(super) fn take_spent(&mut self) -> Spent {
        std::mem::take(&mut self.spent)
    }

    /// Listens until the reply is whole or another model is asked. Dropping the future loses nothing that was heard.
    pub(super) async fn go_on(&mut self) -> Result<Answer, ModelError> {
        let silence_max = self.agent.limits.silence_max;
        loop {
            let due = self.teller.due();
            let over = self.limit.map_or(self.silent_at, |(_, over)| over.min(self.silent_at));
            let part = tokio::select! {
                biased;
                part = self.stream.next() => part,
                // Deadline: what was held back to be told with more is told although nothing more came; a provider that keeps
                // the connection open and says nothing, or writes without end, would hold the run for ever.
                () = sleep_until(due.unwrap_or(over)) => match due {
                    Some(_) => { self.teller.flush(); continue }
                    None => return Err(self.too_long()),
                },
            };
            self.silent_at = Instant::now() + silence_max;
            if self.limit.is_some_and(|(_, over)| Instant::now() >= over) {
                return Err(self.too_long());
            }
            match part {
                Some(Ok(Heard::Text(text))) => {
                    self.text.push_str(&text);
                    self.teller.take(Kind::Text, &text);
                }
                Some(Ok(Heard::Thinking(text))) => self.teller.take(Kind::Thinking, &text),
                Some(Ok(Heard::Moved)) => self.teller.moved(),
                Some(Ok(Heard::Retrying(retrying))) => {
                    // Until the next attempt nothing is to be heard of the model.
                    self.silent_at += retrying.pause;
                    self.spent += retrying.error.spent;
                    self.begin_anew(told(retrying));
                }
                Some(Ok(Heard::StoodIn(stood_in))) => {
                    self.spent += stood_in.error.spent;
                    self.begin_anew(replaced(stood_in));
                    return Ok(Answer::FromAnother);
                }
                Some(Ok(Heard::Done(reply))) => return Ok(Answer::Whole(reply)),
                Some(Err(error)) => {
                    self.spent += error.spent;
                    return Err(error);
                }
                None => return Err(cut_off()),
            }
        }
    }

    /// What was heard so far does not count, because of this.
    fn begin_anew(&mut self, because: LineEvent) {
        self.text.clear();
        self.teller.flush();
        self.agent.site.line.tell(because);
    }

    fn too_long(&self) -> ModelError {
        match self.limit {
            Some((limit, over)) if Instant::now() >= over => {
                timed_out(format!("it took longer than {} seconds", limit.as_secs()))
            }
            Some(_) | None => {
                let seconds = self.agent.limits.silence_max.as_secs();
                timed_out(format!("the model sent nothing for {seconds} seconds"))
            }
        }
    }
}

/// A conversation's replies are read while they come. A subagent's answer is read when it is whole, and a summary by
/// its model alone: one broken connection costs neither of them its work (K28).
fn retry(agent: &Agent, voice: Voice) -> RetryPolicy {
    let begun = match voice {
        Voice::Aloud if agent.site.lineage.depth == 0 => BegunReply::Fails,
        Voice::Aloud | Voice::Quiet => BegunReply::AskedAgain,
    };
    RetryPolicy { begun, ..agent.limits.retry }
}

/// Spreads the pauses of agents whose calls failed together.
fn seed(agent: &Agent, number: u32) -> u64 {
    let mut hasher = DefaultHasher::new();
    (agent.site.actor.as_str(), number).hash(&mut hasher);
    hasher.finish()
}

fn told(retrying: Retrying) -> LineEvent {
    let Retrying { error, attempt, attempts_max, pause } = retrying;
    let attempt = match attempts_max {
        Some(most) => format!("attempt {attempt} of {most}"),
        None => format!("attempt {attempt}"),
    };
    LineEvent::Retrying {
        reason: error.reason,
        error: format!("{attempt}: {}", error.message),
        pause_ms: u64::try_from(pause.as_millis()).unwrap_or(u64::MAX),
    }
}

fn replaced(stood_in: StoodIn) -> LineEvent {
    let StoodIn { failed, error, instead } = stood_in;
    LineEvent::Note(format!("{failed} could not answer ({}); {instead} is asked instead", error.message))
}

fn timed_out(message: String) -> ModelError {
    ModelError {
        reason: FailureReason::Timeout,
        message,
        retryable: true,
        retry_after: None,
        spent: Spent::default(),
    }
}

fn cut_off() -> ModelError {
    ModelError {
        reason: FailureReason::Network,
        message: format!("{}: the model ended it before it was whole", NetworkFault::CutOff.words()),
        retryable: true,
        retry_after: None,
        spent: Spent::default(),
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
