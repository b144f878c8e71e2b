//! The turn loop: ask the model, run the tools it wants, append what they say, and ask again until it answers.
//!
//! Every limit of the loop is in [`TurnLimits`], and every way out of it is a `Way`. The loop does not know what a
//! tool does, who asked for the work, or what becomes of the report.

mod ask;
mod call;
mod compaction;
mod conclusion;
mod context;
mod correction;
mod exchange;
mod fit;
mod gauge;
mod resume;
mod steers;
mod stop;
mod tally;
mod way;
mod window;
mod words;

use crate::contract::{Checked, Contract};
use crate::journal::{Journal, Next, Recorded, says_something};
use crate::models::{Model, ModelError, RetryPolicy, ToolSpec};
use crate::tools::{Site, Toolbox};
use ask::{Answer, Asking, Call};
use compaction::Pace;
use correction::Earlier;
use exchange::lets_finish;
use legwork_core::message::{Author, Message};
use legwork_core::outcome::{Limit, StopReason};
use legwork_core::ports::{Facts, StopNotice, TROUBLE_MAX};
use legwork_core::pulse::LineEvent;
use legwork_core::report::{Cost, Report, Usage};
use legwork_core::step::{Actor, Finish, Reply};
use std::sync::Arc;
use std::time::Duration;
use steers::marked;
use stop::Stop;
use tally::Tally;
use way::Way;

pub(crate) use call::kind;
pub(crate) use conclusion::{Terms, concluded};
pub use context::Context;
pub(crate) use words::broken_off;

/// What a reader of the transcript is told about a reply that the provider cut off.
const CUT_NOTE: &str = "the reply reached the provider's limit of output tokens and was cut off";

/// What is said of an answer that it cut off.
const CUT_SHORT: &str = "cut off at the provider's limit of output tokens";

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
    /// The window of a model that does not tell its own, in tokens.
    pub window_default: u64,
    /// The size of a history, in tokens, from which on earlier messages are summarised although the window has room for more
    /// (`delegation.compression_threshold_tokens`, for children).
    pub summarise_from: Option<u64>,
    /// How long an answer may be held against its schema.
    pub schema_check_max: Duration,
    /// How long the store may take nothing before the run is given up here.
    pub store_trouble_max: Duration,
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
            window_default: 128_000,
            summarise_from: None,
            schema_check_max: Duration::from_secs(5),
            store_trouble_max: TROUBLE_MAX,
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
    /// Where it can be seen what became of the agent's delegations, for summaries of what it said earlier.
    pub facts: Arc<dyn Facts>,
    /// The limits of the loop.
    pub limits: TurnLimits,
    /// What the answer must meet, if it must meet anything.
    pub contract: Option<Contract>,
}

/// How a run begins.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "there is one of them in a run, and it is taken apart at once")]
pub enum Start {
    /// A child's first attempt: the messages of the context are fixed in the journal as its opening.
    Fresh,
    /// A session's turn: the incoming message is in history and context already, and the journal marks its beginning.
    Turn,
    /// A run or a turn that was cut off goes on from what the journal holds: for a child its whole run, for a session the
    /// turn. The context holds the messages that are whole.
    Resumed(Recorded),
}

/// Runs `agent` until it answers, or until a limit, a failure or a stop. A stop is heard at every wait for the model or
/// a tool, and drops it, and where a store in trouble is waited for; a commit is never cut off. The context has grown
/// by all that was said, and is legal to send afterwards, whatever way the run ended: calls that were cut off have
/// results that say so, stored before the report comes back.
///
/// Dropping the future ends the run where it is: model call and tools go with it, and what is stored can be resumed.
pub async fn run(agent: &Agent, journal: &mut Journal, context: &mut Context, start: Start) -> Report {
    let mut turn = Turn {
        agent,
        journal,
        stored: context.messages().len(),
        context,
        tally: Tally::new(agent),
        pace: Pace::default(),
        tools_bytes: gauge::tools_size(&agent.offered),
        stop: Stop::new(agent.site.line.stopped()),
        ahead: Ahead::Answered,
        corrected: None,
        answered: None,
        checked: None,
        place: 0,
        untold: Vec::new(),
    };
    let end = turn.until_answered(start).await.map_err(|way| turn.outdone(way));
    turn.report(end).await
}

struct Turn<'a> {
    agent: &'a Agent,
    journal: &'a mut Journal,
    context: &'a mut Context,
    /// How many messages of the context are stored. What a commit is about to store stands behind them already.
    stored: usize,
    tally: Tally,
    /// How its summaries follow each other.
    pace: Pace,
    /// About how many bytes the tools have in every request.
    tools_bytes: usize,
    stop: Stop<'a>,
    /// What comes after the commit that was made last.
    ahead: Ahead,
    /// The answer that was to be corrected, if one was.
    corrected: Option<Earlier>,
    /// The last answer after which something was said to the agent, as long as no other came.
    answered: Option<Earlier>,
    /// The text that was held against the schema last, and what came of it.
    checked: Option<(String, Checked)>,
    /// The place in its chain of the model that was asked last, as the journal knows it.
    place: u32,
    /// What is told once the next commit is made.
    untold: Vec<LineEvent>,
}

/// How much there was before something was said to the agent.
#[derive(Debug, Clone, Copy)]
struct Mark {
    messages: usize,
    untold: usize,
}

/// What comes next.
enum Ahead {
    /// The model is asked.
    Ask,
    /// Earlier messages are summarised.
    Compact,
    /// Nothing: the last reply is the answer.
    Answered,
    /// Nothing: the run ends without one.
    End(Way),
}

impl Turn<'_> {
    async fn until_answered(&mut self, start: Start) -> Result<(), Way> {
        match start {
            Start::Fresh => {
                let opening = self.context.messages().to_vec();
                self.begin(&opening).await?;
            }
            Start::Turn => self.begin(&[]).await?,
            Start::Resumed(recorded) => self.resume(recorded).await?,
        }
        loop {
            match std::mem::replace(&mut self.ahead, Ahead::Answered) {
                Ahead::Ask => match self.ask().await? {
                    Ok(reply) => self.take(reply).await?,
                    Err(error) => self.overflowed(error).await?,
                },
                Ahead::Compact => self.compact().await?,
                Ahead::Answered => return Ok(()),
                Ahead::End(way) => return Err(way),
            }
        }
    }

    /// A stop that came while a store in trouble was waited for is why the run ended.
    fn outdone(&mut self, way: Way) -> Way {
        match (way, self.stop.now()) {
            (Way::Store(error), Some(notice)) if error.may_pass() => Way::Stopped(notice),
            (way, Some(_) | None) => way,
        }
    }

    async fn begin(&mut self, opening: &[Arc<Message>]) -> Result<(), Way> {
        let next = self.onward();
        self.journal.begin(opening, &next).await?;
        self.settled();
        Ok(())
    }

    /// Decides what comes after the commit that is about to be made.
    fn onward(&mut self) -> Next {
        if let Some(notice) = self.stop.now() {
            return self.end(Way::Stopped(notice));
        }
        if let Some(limit) = self.exhausted() {
            return self.end(Way::Exhausted(limit));
        }
        let mark = self.mark();
        let said = self.hear();
        self.fitting(said, mark)
    }

    /// Where context and news stand before something is said to the agent.
    fn mark(&self) -> Mark {
        Mark { messages: self.context.messages().len(), untold: self.untold.len() }
    }

    /// Takes back what came after the mark: it is not stored, and nobody is told of it.
    fn take_back(&mut self, mark: Mark) {
        self.context.truncate(mark.messages);
        self.untold.truncate(mark.untold);
    }

    /// After an answer nothing comes, unless something was said to the agent while it answered, or its answer does not meet
    /// its schema: then it is asked again, if it may. Where the process ends it is asked by whoever goes on.
    async fn after_answer(&mut self, reply: &Reply) -> Next {
        self.ahead = Ahead::Answered;
        let stop = self.stop.now();
        if stop.is_some_and(|notice| !lets_finish(notice)) || self.exhausted().is_some() {
            return Next::End(None);
        }
        let (before, mark) = (self.corrected.clone(), self.mark());
        let said = self.hear();
        if !tally::is_blank(&reply.message.plain_text()) {
            self.answered = said.is_some().then(|| Earlier::of(reply));
        }
        let said = match said {
            Some(said) => Some(said),
            None => self.correction(reply).await,
        };
        let Some(said) = said else { return Next::End(None) };
        if let Some(notice) = stop {
            self.take_back(mark);
            self.corrected = before;
            self.ahead = Ahead::End(Way::Stopped(notice));
            return Next::End(None);
        }
        match self.fitting(Some(said), mark) {
            // There is no room to ask again, and there is an answer.
            Next::End(_) => {
                self.take_back(mark);
                self.corrected = before;
                self.ahead = Ahead::Answered;
                Next::End(None)
            }
            next @ (Next::Model(_) | Next::Compact(_) | Next::Tools(_)) => next,
        }
    }

    /// The run ends here; a session's conversation says why.
    fn end(&mut self, way: Way) -> Next {
        let remark = self.remark(&way);
        if let Some(remark) = &remark {
            self.context.push(remark.clone());
        }
        self.ahead = Ahead::End(way);
        Next::End(remark)
    }

    /// The last words of a conversation whose turn ended without an answer and is not tried again by itself, so that
    /// whoever reads it later does not take the question for an open one.
    fn remark(&self, way: &Way) -> Option<Message> {
        let text = way.remark(self.agent)?;
        match self.agent.site.actor {
            Actor::Session(_) => Some(Message::text(Author::Assistant, text)),
            Actor::Child(_) => None,
        }
    }

    /// A commit was made: what it stored is stored, and may be told.
    fn settled(&mut self) {
        self.stored = self.context.messages().len();
        for event in self.untold.drain(..) {
            self.agent.site.line.tell(event);
        }
    }

    /// One model call.
    async fn ask(&mut self) -> Result<Result<Reply, ModelError>, Way> {
        let agent = self.agent;
        self.tally.model_calls += 1;
        let call = Call { request: self.request(), number: self.tally.model_calls };
        let load = self.load();
        self.tally.unfinished.clear();
        let mut answered = self.heard(Asking::aloud(agent, call)).await?;
        if let Ok(reply) = &mut answered {
            self.counted(load, reply);
            self.tally.charge(reply);
        }
        Ok(answered)
    }

    /// Listens until the reply is whole. Which model is asked is stored before it is, so that a run which goes on later
    /// does not begin with one that has failed.
    async fn heard(&mut self, mut asking: Asking<'_>) -> Result<Result<Reply, ModelError>, Way> {
        loop {
            self.note_link().await?;
            let heard = tokio::select! {
                biased;
                notice = self.stop.heard() => match lets_finish(notice) {
                    // A reply that comes within the grace need not be paid for again.
                    true => Ok(asking.go_on().await),
                    false => Err(notice),
                },
                heard = asking.go_on() => Ok(heard),
            };
            self.tally.in_vain += asking.take_spent();
            if let Some(text) = asking.unfinished() {
                text.clone_into(&mut self.tally.unfinished);
            }
            match heard {
                Ok(Ok(Answer::Whole(reply))) => return Ok(Ok(*reply)),
                Ok(Ok(Answer::FromAnother)) => {
                    if let Some(notice) = self.stop.now() {
                        return Err(self.broken_off(notice).await);
                    }
                }
                Ok(Err(error)) => return Ok(Err(error)),
                Err(notice) => return Err(self.broken_off(notice).await),
            }
        }
    }

    /// Stores which model of a chain is asked now, if it is not the one that was asked last.
    async fn note_link(&mut self) -> Result<(), Way> {
        let Some(link) = self.agent.model.link().filter(|link| link.place != self.place) else {
            return Ok(());
        };
        self.place = link.place;
        Ok(self.journal.switched(link).await?)
    }

    /// The model failed. That came first, so it is what the report says even if it cannot be stored.
    async fn unanswered(&mut self, error: ModelError) -> Way {
        match self.journal.failed(&error.message, &Next::End(None)).await {
            Ok(()) => self.settled(),
            Err(refused) => tracing::warn!(%refused, "the failure of a model call could not be stored"),
        }
        Way::Model(error)
    }

    /// A stop came while the model answered. What it had said is kept, with a remark.
    async fn broken_off(&mut self, notice: StopNotice) -> Way {
        let way = Way::Stopped(notice);
        let stored = match self.kept(notice) {
            Some(message) => {
                self.context.push(message.clone());
                self.journal.replied(unfinished(message), &Next::End(None)).await
            }
            None => {
                let next = self.end(Way::Stopped(notice));
                self.journal.failed(words::why(notice.reason), &next).await
            }
        };
        match stored {
            Ok(()) => self.settled(),
            Err(refused) => tracing::warn!(%refused, "the end of a stopped model call could not be stored"),
        }
        way
    }

    /// The text of a reply that a stop broke off. A process that ends drops it: whoever goes on asks again.
    fn kept(&self, notice: StopNotice) -> Option<Message> {
        let text = self.tally.unfinished.trim_end();
        if notice.reason == StopReason::Shutdown || tally::is_blank(text) {
            return None;
        }
        Some(Message::text(Author::Assistant, format!("{text}\n\n{}", words::broken_off(notice.reason))))
    }

    /// A whole reply: an answer, or calls to carry out.
    async fn take(&mut self, reply: Reply) -> Result<(), Way> {
        if reply.message.calls().next().is_some() {
            return self.carry_out(reply).await;
        }
        if says_something(&reply.message) {
            self.context.push(reply.message.clone());
        }
        let next = self.after_answer(&reply).await;
        self.accept(reply, &next).await
    }

    /// Stores a reply, and only then tells of it.
    async fn accept(&mut self, reply: Reply, next: &Next) -> Result<(), Way> {
        let Reply { usage, cost, finish, .. } = reply;
        self.tally.replied(&reply);
        self.journal.replied(reply, next).await?;
        self.agent.site.line.tell(LineEvent::Replied { usage, cost });
        if finish == Finish::Length {
            self.agent.site.line.tell(LineEvent::Note(CUT_NOTE.to_owned()));
        }
        self.settled();
        Ok(())
    }

    fn exhausted(&self) -> Option<Limit> {
        self.agent.site.setting.allowance.exhausted_by(self.tally.model_calls)
    }

    async fn report(mut self, end: Result<(), Way>) -> Report {
        self.context.truncate(self.stored);
        let (end, unanswered) = self.after_being_told(end);
        let (end, remark) = self.after_correction(end);
        let is_held_to_it = match &end {
            Ok(()) | Err(Way::Exhausted(_)) => true,
            Err(
                Way::Stopped(_)
                | Way::Model(_)
                | Way::Store(_)
                | Way::SameFailure(_)
                | Way::NoProgress(_)
                | Way::NoRoom(_),
            ) => false,
        };
        let conformance = if is_held_to_it { self.conformance(remark).await } else { None };
        let answer = match &end {
            Ok(()) => marked(self.tally.answer(), unanswered),
            Err(_) => self.tally.last_text(),
        };
        let (ending, error) = match &end {
            Ok(()) => self.tally.with_answer(),
            Err(way) => (way.ending(), way.error(self.agent)),
        };
        let failure_reason = end.err().and_then(|way| way.failure_reason());
        Report { answer, error, failure_reason, conformance, ..self.tally.into_report(ending) }
    }
}

/// What was said of a reply that is not whole, as a reply. Its tokens are not known.
fn unfinished(message: Message) -> Reply {
    let (usage, cost) = (Usage::default(), Cost::Unknown);
    Reply { message, usage, cost, model: None, finish: Finish::Stop }
}
