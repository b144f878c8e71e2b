//! The turn loop: ask the model, run the tools it wants, append what they say, and ask again until it answers.
//!
//! Every limit of the loop is in [`TurnLimits`], and every way out of it is a [`Way`]. The loop does not know what a
//! tool does, who asked for the work, or what becomes of the report.

mod ask;
mod call;
mod tally;
mod trace;

use crate::excerpt::head_of;
use crate::journal::{Journal, Next, Outputs};
use crate::models::{Model, ModelError, ModelRequest, RetryPolicy, ToolSpec};
use crate::tools::{Site, Toolbox};
use ask::Call;
use call::{Batch, Done, Prepared};
use futures::stream::{self, StreamExt};
use legwork_core::message::{Author, Message, Part};
use legwork_core::outcome::{Ending, FailureKind, Limit};
use legwork_core::ports::{Pending, StopNotice, StoreError};
use legwork_core::pulse::LineEvent;
use legwork_core::report::{FailureReason, Report};
use legwork_core::step::Reply;
use std::sync::Arc;
use std::time::Duration;
use tally::Tally;

pub(crate) use call::kind;

/// Bytes of a failing call that the report repeats.
const FAILURE_BYTES_MAX: usize = 500;

/// What one run may take, apart from its allowance of steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TurnLimits {
    /// Harmless calls of one reply that run side by side; the others of them wait.
    pub side_by_side_max: usize,
    /// Calls of one reply that are carried out; the others are answered with an error.
    pub calls_per_reply_max: usize,
    /// `delegate_task` calls of one reply that are carried out (TOOL-21).
    pub spawns_per_reply_max: usize,
    /// How often a call may fail in the same way, reply after reply, before the run ends.
    pub same_failure_max: u32,
    /// Bytes of one tool result; tools keep smaller limits of their own.
    pub result_bytes_max: usize,
    /// How a model's passing failures are met.
    pub retry: RetryPolicy,
    /// How long a model may send nothing at all; adapters keep smaller limits of their own.
    pub silence_max: Duration,
}

impl Default for TurnLimits {
    fn default() -> Self {
        TurnLimits {
            side_by_side_max: 8,
            calls_per_reply_max: 64,
            spawns_per_reply_max: 10,
            same_failure_max: 3,
            result_bytes_max: 1 << 20,
            retry: RetryPolicy::default(),
            silence_max: Duration::from_secs(600),
        }
    }
}

/// An agent that can take turns: its model, its tools and where it stands.
pub struct Agent {
    /// The model that is asked.
    pub model: Arc<dyn Model>,
    /// The tools, with rights checked at the call.
    pub toolbox: Arc<Toolbox>,
    /// How the tools are offered; some of them may be left out.
    pub offered: Arc<[ToolSpec]>,
    /// Who the agent is and what it may do and use up.
    pub site: Arc<Site>,
    /// The limits of the loop.
    pub limits: TurnLimits,
}

/// A way out of the loop before an answer.
enum Way {
    Stopped,
    Exhausted(Limit),
    Model(ModelError),
    Store(StoreError),
    SameFailure(String),
}

impl From<StoreError> for Way {
    fn from(error: StoreError) -> Self {
        Way::Store(error)
    }
}

/// Resolves when the run is told to stop. It is polled until then and never again.
type Stop<'a> = Pending<'a, StopNotice>;

/// Runs `agent` on the `opening` messages until it answers, or until a limit, a failure or a stop. A stop is heard at
/// every wait for the model or a tool, and drops it; a commit is never cut off.
///
/// Dropping the future ends the run where it is: model call and tools go with it.
pub async fn run(agent: &Agent, journal: &mut Journal, opening: Vec<Arc<Message>>) -> Report {
    let mut turn = Turn { agent, journal, messages: opening, tally: Tally::new(&agent.model.facts().name) };
    let end = turn.until_answered().await;
    turn.report(end)
}

struct Turn<'a> {
    agent: &'a Agent,
    journal: &'a mut Journal,
    messages: Vec<Arc<Message>>,
    tally: Tally,
}

impl Turn<'_> {
    async fn until_answered(&mut self) -> Result<(), Way> {
        let line = Arc::clone(&self.agent.site.line);
        let mut stop = line.stopped();
        self.journal.begin(&self.messages, self.next_call()).await?;
        loop {
            if let Some(limit) = self.exhausted() {
                return Err(Way::Exhausted(limit));
            }
            let reply = self.ask(&mut stop).await?;
            if reply.message.calls().next().is_none() {
                return self.accept(reply, Next::Nothing).await;
            }
            self.carry_out(reply, &mut stop).await?;
        }
    }

    /// One model call. Its failure is stored like its success.
    async fn ask(&mut self, stop: &mut Stop<'_>) -> Result<Reply, Way> {
        let agent = self.agent;
        let request = ModelRequest { messages: self.messages.clone(), tools: Arc::clone(&agent.offered) };
        self.tally.model_calls += 1;
        let call = Call { request, number: self.tally.model_calls };
        let answered = tokio::select! {
            biased;
            _ = &mut *stop => return Err(Way::Stopped),
            answered = ask::ask(agent, call, &mut self.tally.unfinished) => answered,
        };
        match answered {
            Ok(reply) => Ok(reply),
            Err(error) => {
                self.journal.failed(&error.message).await?;
                Err(Way::Model(error))
            }
        }
    }

    /// Runs the calls of a reply, group after group, and appends their results as one message.
    async fn carry_out(&mut self, reply: Reply, stop: &mut Stop<'_>) -> Result<(), Way> {
        let calls = call::prepare(self.agent, &reply.message);
        let mut batches = call::batches(calls).into_iter().peekable();
        self.accept(reply, batches.peek().map_or(Next::Nothing, Batch::intent)).await?;
        let mut results = Vec::new();
        while let Some(batch) = batches.next() {
            let outputs = self.run_batch(batch, stop).await?;
            results.extend(outputs.results.iter().cloned().map(Part::Result));
            let next = batches.peek().map_or_else(|| self.next_call(), Batch::intent);
            self.journal.ran(outputs, next).await?;
        }
        self.messages.push(Arc::new(Message { author: Author::Tool, parts: results }));
        match self.tally.failures.end_of_reply(self.agent.limits.same_failure_max) {
            Some(failure) => Err(Way::SameFailure(failure)),
            None => Ok(()),
        }
    }

    /// Runs calls side by side. A stop drops those that run; when all have ended their results are kept, whatever
    /// came meanwhile.
    async fn run_batch(&mut self, batch: Batch, stop: &mut Stop<'_>) -> Result<Outputs, Way> {
        let agent = self.agent;
        let calls = batch.calls.len();
        let running = batch.calls.into_iter().map(|prepared: Prepared| prepared.run(agent));
        let mut running = stream::iter(running).buffered(agent.limits.side_by_side_max.max(1));
        let mut outputs = Outputs::default();
        while outputs.results.len() < calls {
            let done: Done = tokio::select! {
                biased;
                _ = &mut *stop => return Err(Way::Stopped),
                Some(done) = running.next() => done,
                else => break,
            };
            self.tally.called(&done);
            outputs.results.push(done.result);
            outputs.acknowledge.extend(done.acknowledge);
        }
        Ok(outputs)
    }

    /// Stores a reply, and only then tells of it.
    async fn accept(&mut self, reply: Reply, next: Next) -> Result<(), Way> {
        let Reply { usage, cost, .. } = reply;
        let message = Arc::new(reply.message.clone());
        self.tally.replied(&reply);
        self.journal.replied(reply, next).await?;
        self.messages.push(message);
        self.agent.site.line.tell(LineEvent::Replied { usage, cost });
        Ok(())
    }

    fn exhausted(&self) -> Option<Limit> {
        self.agent.site.setting.allowance.exhausted_by(self.tally.model_calls)
    }

    fn next_call(&self) -> Next {
        if self.exhausted().is_some() { Next::Nothing } else { Next::Model }
    }

    fn report(self, end: Result<(), Way>) -> Report {
        let answer = self.tally.last_text(&self.messages);
        let last = self.messages.last().map(|message| message.plain_text()).unwrap_or_default();
        let (ending, error) = match &end {
            Ok(()) if tally::is_blank(&last) => (
                Ending::Failed(FailureKind::EmptyAnswer),
                Some("the model ended with a blank answer".to_owned()),
            ),
            Ok(()) => (Ending::Answered, None),
            Err(way) => (way.ending(), way.error(self.agent)),
        };
        let failure_reason = end.err().and_then(|way| way.failure_reason());
        Report { answer, error, failure_reason, ..self.tally.into_report(ending) }
    }
}

impl Way {
    fn ending(&self) -> Ending {
        match self {
            Way::Stopped => Ending::Interrupted,
            Way::Exhausted(limit) => Ending::CutShort(*limit),
            Way::Model(_) => Ending::Failed(FailureKind::Model),
            Way::Store(_) => Ending::Failed(FailureKind::Store),
            Way::SameFailure(_) => Ending::Failed(FailureKind::Tool),
        }
    }

    fn error(&self, agent: &Agent) -> Option<String> {
        match self {
            Way::Stopped => None,
            Way::Exhausted(Limit::Steps) => Some(format!(
                "cut off after {} model calls, the limit set by delegation.max_iterations",
                agent.site.setting.allowance.steps_max,
            )),
            Way::Exhausted(Limit::Spend) => Some("cut off at the spending limit".to_owned()),
            Way::Model(error) => Some(error.message.clone()),
            Way::Store(error) => Some(error.to_string()),
            Way::SameFailure(failure) => Some(format!(
                "the model made the same failing call {} times in a row: {}",
                agent.limits.same_failure_max,
                head_of(failure, FAILURE_BYTES_MAX),
            )),
        }
    }

    fn failure_reason(&self) -> Option<FailureReason> {
        match self {
            Way::Model(error) => Some(error.reason),
            Way::Stopped | Way::Exhausted(_) | Way::Store(_) | Way::SameFailure(_) => None,
        }
    }
}
