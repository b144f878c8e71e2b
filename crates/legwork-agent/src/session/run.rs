//! One prompt, one answer: a session whose agent takes one turn, with everything it delegates joined. A stored session
//! first finishes the turn in which it was cut off, takes in the results that came back while it was closed, and waits
//! for those of the work that this process has taken up of it.
//!
//! It stores the conversation as it grows. It does not wait for children that a stop cut off, and renders nothing.

use super::arrivals::{self, Taken, Waiting};
use super::completion::Completion;
use super::conversation::SessionListener;
use super::event::{Cause, SessionEvent};
use super::line::{SessionLine, SessionStop};
use super::open::{Left, OpenSession, Stored, unstored};
use super::setup::{OpenError, SessionSetup, Which};
use crate::tools::DELEGATE_TASK;
use crate::turn::Start;
use futures::future::select_all;
use legwork_core::ids::{CallKey, ClaimId, DelegationId, SessionId};
use legwork_core::message::{Author, Message};
use legwork_core::outcome::{Ending, FailureKind, StopReason};
use legwork_core::ports::{Delegator, Filter, Line, Store, StoreError};
use legwork_core::pulse::LineEvent;
use legwork_core::report::Report;
use legwork_core::steering::Scope;
use legwork_core::step::{Action, Actor, StepRecord};
use std::ops::ControlFlow;
use std::slice;
use std::sync::Arc;

/// Said of a prompt before which the program was told to end.
pub const NOT_ASKED: &str = "it was stopped before the prompt was asked";

/// What a one-shot prompt needs.
pub struct RunSetup {
    /// What the session's agent needs.
    pub session: SessionSetup,
    /// The engine, which is told when the agent is stopped.
    pub delegator: Arc<dyn Delegator>,
    /// The session: a new one, or one that goes on.
    pub which: Which,
    /// What the person asks.
    pub prompt: String,
    /// Hears which turns begin and end. What happens within them goes over the line.
    pub listener: SessionListener,
}

/// What became of the prompt.
#[derive(Debug, Clone, PartialEq)]
pub struct RunOutcome {
    /// How the turn ended, with the answer and all counted facts.
    pub report: Report,
    /// What was taken up of earlier turns, and what was delegated in this one and in the turn that was finished before
    /// it, in order, or why that cannot be read. After a stop some of it may not have settled yet.
    pub delegations: Result<Vec<DelegationId>, StoreError>,
    /// Whether everything that came in before the prompt was answered whole.
    pub arrivals_answered: bool,
}

/// Opens the session, asks the prompt and joins what is delegated. The user's message is stored before anything is
/// asked, and everything after it as soon as it is whole. A turn that was cut off before is finished first; then
/// results that wait for the session come in, each as a turn of its own that is stored together with the end of its
/// delivery, and so do those of what this process has in hand of the session, as soon as it has ended; a message that
/// has no answer is answered together with the prompt. What comes into this process's hand later is waited for after
/// the prompt.
///
/// A stop comes through `stop` and reaches what was delegated too; it is not awaited there. A shutdown ends only the
/// turn: what becomes of the children is the engine's business then. Dropping the future ends the turn where it is, and
/// leaves the session legal. In any case it stays held until this process ends, or says that nothing of it goes on any more.
///
/// # Errors
/// [`OpenError`]; nothing was asked then. A store that fails after something was asked is the end of the report.
pub async fn run_prompt(
    setup: RunSetup,
    line: SessionLine,
    stop: &SessionStop,
) -> Result<RunOutcome, OpenError> {
    let RunSetup { session, delegator, which, prompt, listener } = setup;
    let (mut session, left) = OpenSession::open(session, which).await?;
    let from = first_step(&session, &left);
    let line: Arc<dyn Line> = Arc::new(line);
    let mut turns = Turns {
        session: &mut session,
        delegator: delegator.as_ref(),
        line,
        listener,
        from,
        asked: false,
        arrivals_answered: true,
        taken_up: Vec::new(),
        left_out: Vec::new(),
        untold: Vec::new(),
        reconciled: None,
    };
    let asked = turns.ask(left, prompt).await;
    let Turns { asked: has_asked, arrivals_answered, taken_up, .. } = turns;
    let report = match asked {
        Ok(report) => report,
        Err(error) if has_asked => unstored(&error),
        Err(error) => {
            session.close().await;
            return Err(error.into());
        }
    };
    // What a turn left running that could not be stored is stopped as well. After an answer there is nothing, unless
    // something was waited for.
    if let Some(notice) = stop.notice().filter(|notice| notice.reason != StopReason::Shutdown)
        && (is_last(&report) || !arrivals_answered)
    {
        delegator.stop(Scope::Session(session.id().clone()), notice.reason, notice.force).await;
    }
    let delegations = delegations(&*session.setup().store, session.id(), from).await;
    let delegations = delegations.map(|called| {
        let own = called.into_iter().filter(|id| !taken_up.contains(id)).collect::<Vec<_>>();
        taken_up.iter().cloned().chain(own).collect()
    });
    session.close().await;
    Ok(RunOutcome { report, delegations, arrivals_answered })
}

/// The first step of what is to be done. A turn that is finished first belongs to it.
fn first_step(session: &OpenSession, left: &Left) -> FirstStep {
    match left {
        Left::CutOff(_) => FirstStep::OfTurnBefore(session.next_step()),
        Left::Nothing | Left::Unanswered => FirstStep::At(session.next_step()),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FirstStep {
    At(u32),
    /// The beginning of the last turn before that step.
    OfTurnBefore(u32),
}

/// The turns of one run.
struct Turns<'a> {
    session: &'a mut OpenSession,
    delegator: &'a dyn Delegator,
    line: Arc<dyn Line>,
    listener: SessionListener,
    /// Where what is done here begins.
    from: FirstStep,
    /// Whether there was a turn.
    asked: bool,
    /// Whether everything that was waited for came in, and every turn that took something in has ended with an answer.
    arrivals_answered: bool,
    /// What was waited for although no turn here had asked for it.
    taken_up: Vec<DelegationId>,
    /// Those of it that are not waited for any more.
    left_out: Vec<DelegationId>,
    /// What was delegated here and whose results did not come to the turn that waited for them.
    untold: Vec<DelegationId>,
    /// The answer after they came in later.
    reconciled: Option<String>,
}

impl Turns<'_> {
    async fn ask(&mut self, left: Left, prompt: String) -> Result<Report, StoreError> {
        if let Left::CutOff(recorded) = left {
            let report = self.turn(Cause::Unanswered, Start::Resumed(*recorded)).await;
            if is_last(&report) {
                return Ok(report);
            }
        }
        if let Some(report) = self.finish_earlier().await? {
            return Ok(report);
        }
        self.session.say(&Message::text(Author::User, prompt.as_str()), &[]).await?;
        let report = self.turn(Cause::User(prompt), Start::Turn).await;
        if !is_last(&report) {
            self.finish_later().await;
        }
        // The answer without what was delegated for it is not the one that was asked for (K04).
        let answer = self.reconciled.take().or(report.answer);
        Ok(Report { answer, ..report })
    }

    /// Takes in what waits for the session, and what this process has in hand of it as that ends. Gives the report of a
    /// turn after which there is no other.
    async fn finish_earlier(&mut self) -> Result<Option<Report>, StoreError> {
        loop {
            let in_hand = self.in_hand().await?;
            if let Some(report) = self.take_in().await? {
                return Ok(Some(report));
            }
            if in_hand.is_empty() {
                return Ok(None);
            }
            if self.until_one_settled(&in_hand).await.is_break() {
                self.arrivals_answered = false;
                return Ok(Some(Report {
                    error: Some(NOT_ASKED.to_owned()),
                    ..Report::bare(Ending::Interrupted)
                }));
            }
        }
    }

    /// The same behind the prompt's own turn, whose answer stands: work of the session may have lost its process meanwhile. Only
    /// where that turn did not get the results that it waited for, the answer is the one after them.
    async fn finish_later(&mut self) {
        match self.is_anything_left().await {
            Ok(false) => return,
            Ok(true) => {}
            Err(error) => return self.not_waited_for(&error.to_string()),
        }
        match self.finish_earlier().await {
            Ok(None) => {}
            Ok(Some(_last)) => self.arrivals_answered = false,
            Err(error) => self.not_waited_for(&error.to_string()),
        }
    }

    /// Whether something of what was done here has not ended, or has and was not told. What others have sent out for the session
    /// comes in when it is opened the next time.
    async fn is_anything_left(&mut self) -> Result<bool, StoreError> {
        if !self.in_hand().await?.is_empty() {
            return Ok(true);
        }
        let (store, session) = (&self.session.setup().store, self.session.id());
        let untold = store.undelivered(session).await?.rows;
        if untold.is_empty() {
            return Ok(false);
        }
        let mut called = delegations(&**store, session, self.from).await?;
        called.retain(|id| untold.iter().any(|unit| unit.delegation == *id));
        self.untold = called;
        Ok(!self.untold.is_empty())
    }

    /// What this process works on for the session and no turn waits for.
    async fn in_hand(&mut self) -> Result<Vec<DelegationId>, StoreError> {
        let setup = self.session.setup();
        let open = setup.store.delegations(Filter::OpenOf(self.session.id().clone())).await?.rows;
        let mine = open.into_iter().filter(|record| {
            record.accepted.lineage.parent.is_none() && record.owner.id == setup.fence.owner
        });
        // They come newest first.
        let mut mine: Vec<DelegationId> = mine.map(|record| record.accepted.delegation).collect();
        mine.reverse();
        mine.retain(|id| !self.left_out.contains(id));
        let new: Vec<DelegationId> = mine.iter().filter(|id| !self.taken_up.contains(id)).cloned().collect();
        self.taken_up.extend(new);
        Ok(mine)
    }

    /// Waits for the first of them to end, unless a stop comes before.
    async fn until_one_settled(&mut self, in_hand: &[DelegationId]) -> ControlFlow<()> {
        let waits = in_hand.iter().map(|id| self.delegator.until_settled(id));
        let settled = tokio::select! {
            biased;
            _notice = self.line.stopped() => return ControlFlow::Break(()),
            (settled, index, _others) = select_all(waits) => settled.map_err(|error| (error, index)),
        };
        if let Err((error, index)) = settled {
            self.left_out.push(in_hand[index].clone());
            self.not_waited_for(&error.to_string());
        }
        ControlFlow::Continue(())
    }

    fn not_waited_for(&mut self, why: &str) {
        self.arrivals_answered = false;
        self.line.tell(LineEvent::Note(format!("results of earlier work are not waited for: {why}")));
    }

    /// Takes in what waits for the session. Gives the report of a turn after which there is no other.
    async fn take_in(&mut self) -> Result<Option<Report>, StoreError> {
        let id = self.session.id().clone();
        let mut waiting = Waiting::default();
        while let Some(Taken { claim, record, unit }) = waiting.next(self.session.setup(), &id).await? {
            let Some(Completion { title, text }) =
                arrivals::written(self.session.setup(), &record, unit).await
            else {
                self.give_back(&claim).await;
                continue;
            };
            let message = Message::text(Author::Completion, text.as_str());
            match self.session.say(&message, slice::from_ref(&claim)).await {
                Ok(Stored::Now) => {}
                Ok(Stored::Before(_)) => self.give_back(&claim).await,
                Err(error) => {
                    self.give_back(&claim).await;
                    return Err(error);
                }
            }
            let unit = record.accepted.units[unit].id.clone();
            let report = self.turn(Cause::Completion { unit, title, text }, Start::Turn).await;
            self.arrivals_answered &= report.ending == Ending::Answered;
            if self.untold.contains(&record.accepted.delegation) && report.ending == Ending::Answered {
                self.reconciled.clone_from(&report.answer);
            }
            if is_last(&report) {
                return Ok(Some(report));
            }
        }
        Ok(None)
    }

    async fn give_back(&self, claim: &ClaimId) {
        if !arrivals::give_back(self.session.setup(), claim).await {
            tracing::warn!("results that were not stored come free when this process ends");
        }
    }

    async fn turn(&mut self, cause: Cause, start: Start) -> Report {
        self.asked = true;
        (self.listener)(SessionEvent::TurnBegan(cause));
        let report = self.session.turn(start, Arc::clone(&self.line)).await;
        (self.listener)(SessionEvent::TurnEnded(Box::new(report.clone())));
        report
    }
}

/// Whether nothing more is asked after a turn that ended like this.
fn is_last(report: &Report) -> bool {
    match report.ending {
        Ending::Interrupted | Ending::Failed(FailureKind::Store) => true,
        Ending::Answered
        | Ending::CutShort(_)
        | Ending::Failed(
            FailureKind::Setup
            | FailureKind::Model
            | FailureKind::Tool
            | FailureKind::EmptyAnswer
            | FailureKind::Panicked,
        ) => false,
    }
}

/// The delegations of the calls from a step on, also of one whose results never came.
async fn delegations(
    store: &dyn Store,
    session: &SessionId,
    from: FirstStep,
) -> Result<Vec<DelegationId>, StoreError> {
    let actor = Actor::Session(session.clone());
    let steps = store.steps(&actor).await?;
    let from = match from {
        FirstStep::At(seq) => seq,
        FirstStep::OfTurnBefore(seq) => {
            let begins = |step: &&StepRecord| step.seq < seq && step.action == Action::Open;
            steps.iter().rev().find(begins).map_or(0, |step| step.seq)
        }
    };
    let mut delegations = Vec::new();
    for step in steps.into_iter().filter(|step| step.seq >= from) {
        let Action::Tool { call, .. } = step.action else { continue };
        if call.name != DELEGATE_TASK {
            continue;
        }
        let key = CallKey { caller: actor.as_str().to_owned(), call: call.id };
        delegations.extend(store.by_call_key(&key).await?);
    }
    Ok(delegations)
}
