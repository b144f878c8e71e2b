//! The turn loop: ask the model, run the tools it wants, append what they say, and ask again until it answers.
//!
//! Every limit of the loop is in [`TurnLimits`], and every way out of it is a `Way`. The loop does not know what a
//! tool does, who asked for the work, or what becomes of the report.

mod ask;
mod call;
mod tally;
mod way;

use crate::journal::{Journal, Next, Outputs};
use crate::models::{Model, ModelRequest, RetryPolicy, ToolSpec};
use crate::tools::{Site, Toolbox};
use ask::Call;
use call::{Batch, Done, Prepared};
use futures::stream::{self, StreamExt};
use legwork_core::message::{Author, Message, Part};
use legwork_core::outcome::{Ending, FailureKind, Limit};
use legwork_core::ports::{Pending, StopNotice};
use legwork_core::pulse::LineEvent;
use legwork_core::report::Report;
use legwork_core::step::{Finish, Reply};
use std::sync::Arc;
use std::time::Duration;
use tally::Tally;
use way::Way;

pub(crate) use call::kind;

/// What a reader of the transcript is told about a reply that the provider cut off.
const CUT_NOTE: &str = "the reply reached the provider's limit of output tokens and was cut off";

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

/// Resolves when the run is told to stop. It is polled until then and never again.
type Stop<'a> = Pending<'a, StopNotice>;

/// Runs `agent` on the `opening` messages until it answers, or until a limit, a failure or a stop. A stop is heard at
/// every wait for the model or a tool, and drops it; a commit is never cut off.
///
/// Dropping the future ends the run where it is: model call and tools go with it.
pub async fn run(agent: &Agent, journal: &mut Journal, opening: Vec<Arc<Message>>) -> Report {
    let mut turn = Turn { agent, journal, messages: opening, tally: Tally::new(agent) };
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
                // The model's failure came first, so it is what the report says.
                if let Err(refused) = self.journal.failed(&error.message).await {
                    tracing::warn!(%refused, "the failure of a model call could not be stored");
                }
                Err(Way::Model(error))
            }
        }
    }

    /// Runs the calls of a reply, group after group, and appends their results as one message.
    async fn carry_out(&mut self, reply: Reply, stop: &mut Stop<'_>) -> Result<(), Way> {
        let calls = call::prepare(self.agent, &reply);
        let mut batches = call::batches(calls).into_iter().peekable();
        self.accept(reply, batches.peek().map_or(Next::Nothing, Batch::intent)).await?;
        let mut results = Vec::new();
        let mut repeated = None;
        while let Some(batch) = batches.next() {
            let outputs = self.run_batch(batch, stop).await?;
            results.extend(outputs.results.iter().cloned().map(Part::Result));
            let next = match batches.peek() {
                Some(batch) => batch.intent(),
                None => {
                    repeated = self.tally.failures.end_of_reply();
                    if repeated.is_some() { Next::Nothing } else { self.next_call() }
                }
            };
            self.journal.ran(outputs, next).await?;
        }
        self.messages.push(Arc::new(Message { author: Author::Tool, parts: results }));
        repeated.map_or(Ok(()), |failure| Err(Way::SameFailure(failure)))
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
            let mut done: Done = tokio::select! {
                biased;
                _ = &mut *stop => return Err(Way::Stopped),
                Some(done) = running.next() => done,
                else => break,
            };
            self.tally.called(&mut done);
            outputs.results.push(done.result);
            outputs.acknowledge.extend(done.acknowledge);
        }
        Ok(outputs)
    }

    /// Stores a reply, and only then tells of it.
    async fn accept(&mut self, reply: Reply, next: Next) -> Result<(), Way> {
        let Reply { usage, cost, finish, .. } = reply;
        let message = Arc::new(reply.message.clone());
        self.tally.replied(&reply);
        self.journal.replied(reply, next).await?;
        self.messages.push(message);
        self.agent.site.line.tell(LineEvent::Replied { usage, cost });
        if finish == Finish::Length {
            self.agent.site.line.tell(LineEvent::Note(CUT_NOTE.to_owned()));
        }
        Ok(())
    }

    fn exhausted(&self) -> Option<Limit> {
        self.agent.site.setting.allowance.exhausted_by(self.tally.model_calls)
    }

    fn next_call(&self) -> Next {
        if self.exhausted().is_some() { Next::Nothing } else { Next::Model }
    }

    fn report(self, end: Result<(), Way>) -> Report {
        let answer = match &end {
            Ok(()) => self.tally.answer(&self.messages),
            Err(_) => self.tally.last_text(&self.messages),
        };
        let last = self.messages.last().map(|message| message.plain_text()).unwrap_or_default();
        let (ending, error) = match &end {
            Ok(()) if tally::is_blank(&last) => {
                (Ending::Failed(FailureKind::EmptyAnswer), Some(self.tally.why_blank()))
            }
            Ok(()) => (Ending::Answered, None),
            Err(way) => (way.ending(), way.error(self.agent)),
        };
        let failure_reason = end.err().and_then(|way| way.failure_reason());
        Report { answer, error, failure_reason, ..self.tally.into_report(ending) }
    }
}
