//! The one loop of the engine: select, step, perform. It owns the book, the runners and every waiting caller; all
//! others send messages.
//!
//! Facts go to the store in commits that overlap with the stepping of later events: while one commit is under way, stop
//! requests and aborts are performed at once, and everything that must wait for its record waits in the next one.

mod commit;
mod housekeeping;
mod perform;

use crate::book::{Book, Effect, Event, NewIds, ReplyTo};
use crate::handle::Handle;
use crate::options::Options;
use crate::runner::Run;
use crate::wiring::Wiring;
use commit::{Commits, Done, Refused};
use housekeeping::{Chores, Found};
use legwork_core::batch::{NewBatch, Ticket};
use legwork_core::ids::{ChildId, DelegationId};
use legwork_core::outcome::{Ending, FailureKind};
use legwork_core::ports::{AppendError, ChildView, DispatchError, LiveEvent, StopNotice, Stopped};
use legwork_core::pulse::Pulse;
use legwork_core::report::Report;
use legwork_core::steering::Scope;
use std::collections::{HashMap, VecDeque};
use std::time::Duration;
use tokio::sync::{broadcast, mpsc, oneshot};
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::Instant;

/// What the dispatcher can be told.
pub(crate) enum Message {
    Dispatch(Box<NewBatch>, oneshot::Sender<Result<Ticket, DispatchError>>),
    /// Answered when all children have settled, or with the reason why that will not be stored here.
    Join(DelegationId, oneshot::Sender<Result<(), String>>),
    Stop {
        scope: Scope,
        notice: StopNotice,
        reply: oneshot::Sender<Stopped>,
    },
    View(Option<DelegationId>, oneshot::Sender<Vec<ChildView>>),
    Parked(ChildId),
    Unparked(ChildId, oneshot::Sender<Result<(), StopNotice>>),
    Pause,
    Resume,
    Release,
}

/// Settled delegations that stay in the book for those who watch; the store keeps all of them.
const SETTLED_KEPT: usize = 64;
/// Events that are stepped before the effects of them are committed together.
const EVENTS_A_COMMIT: usize = 256;

/// A moment to wake up at when there is no reason to.
fn far_off() -> Instant {
    Instant::now() + Duration::from_secs(3600)
}

/// What the dispatcher begins with, beside its handle.
pub(crate) struct Start {
    pub(crate) options: Options,
    pub(crate) inbox: mpsc::Receiver<Message>,
    pub(crate) live: broadcast::Sender<LiveEvent>,
    /// The newest request that was stored before this process had any work.
    pub(crate) asked_before: u64,
}

pub(crate) struct Dispatcher {
    book: Book,
    wiring: Wiring,
    /// Filled by handles and lines, read here.
    inbox: mpsc::Receiver<Message>,
    mailbox: mpsc::Sender<Message>,
    live: broadcast::Sender<LiveEvent>,
    runners: JoinSet<(ChildId, Report)>,
    runs: HashMap<ChildId, Run>,
    /// Which child a runner's task belongs to, should its own code fail.
    tasks: HashMap<Id, ChildId>,
    commits: Commits,
    chores: Chores,
    waiting: Waiting,
    settled: VecDeque<DelegationId>,
    /// What settled children said went wrong, until their settling is durable and announced.
    errors: HashMap<ChildId, String>,
}

/// Callers that wait for an answer.
#[derive(Default)]
struct Waiting {
    next_reply: u64,
    dispatches: HashMap<ReplyTo, oneshot::Sender<Result<Ticket, DispatchError>>>,
    stops: HashMap<ReplyTo, oneshot::Sender<Stopped>>,
    joins: HashMap<DelegationId, Vec<oneshot::Sender<Result<(), String>>>>,
    slots: HashMap<ChildId, oneshot::Sender<Result<(), StopNotice>>>,
}

impl Waiting {
    fn new_reply(&mut self) -> ReplyTo {
        self.next_reply += 1;
        ReplyTo(self.next_reply)
    }
}

impl Dispatcher {
    pub(crate) fn new(start: Start, handle: &Handle) -> Self {
        let Start { options, inbox, live, asked_before } = start;
        let wiring = handle.wiring().clone();
        Dispatcher {
            book: Book::new(options, wiring.owner.id.clone()),
            commits: Commits::new(wiring.store.clone()),
            chores: Chores::new(&wiring, asked_before),
            wiring,
            inbox,
            mailbox: handle.mailbox(),
            live,
            runners: JoinSet::new(),
            runs: HashMap::new(),
            tasks: HashMap::new(),
            waiting: Waiting::default(),
            settled: VecDeque::new(),
            errors: HashMap::new(),
        }
    }

    /// Runs until it was released and nothing is left to do.
    pub(crate) async fn run(mut self) {
        while !self.is_done() {
            if self.is_quiet() {
                self.commits.hurry();
            }
            self.commits.begin();
            let (deadline, round) = (self.next_deadline(), self.chores.due());
            tokio::select! {
                biased;
                done = self.commits.finished() => self.committed(done),
                // Deadline: the end of some child's patience or grace.
                () = tokio::time::sleep_until(deadline) => self.tick(),
                // Deadline: other processes' requests are looked for so often.
                () = tokio::time::sleep_until(round) => self.do_chores(),
                found = self.chores.finished() => self.carry_out(found),
                Some(message) = self.inbox.recv() => self.take_in(message),
                Some(ended) = self.runners.join_next_with_id() => self.ended(ended),
            }
            self.drain();
        }
    }

    fn is_done(&self) -> bool {
        self.is_quiet() && self.commits.is_done()
    }

    /// Whether the process is ending and no run is left.
    fn is_quiet(&self) -> bool {
        self.book.is_released() && self.runners.is_empty()
    }

    /// Takes in what else is there already, so that one commit covers it.
    fn drain(&mut self) {
        for _ in 0..EVENTS_A_COMMIT {
            if let Some(ended) = self.runners.try_join_next_with_id() {
                self.ended(ended);
            } else if let Ok(message) = self.inbox.try_recv() {
                self.take_in(message);
            } else {
                return;
            }
        }
    }

    fn next_deadline(&self) -> Instant {
        self.book.next_deadline().map_or_else(far_off, |moment| self.wiring.clock.instant(moment))
    }

    fn take_in(&mut self, message: Message) {
        match message {
            Message::Dispatch(batch, reply) => self.dispatch(batch, reply),
            Message::Join(delegation, reply) => self.join(delegation, reply),
            Message::Stop { scope, notice, reply } => {
                let waiter = self.waiting.new_reply();
                self.waiting.stops.insert(waiter, reply);
                self.step(Event::Stop { scope, notice, reply: Some(waiter) });
            }
            Message::View(delegation, reply) => {
                // A caller that went away needs no view.
                reply.send(self.view(delegation.as_ref())).ok();
            }
            Message::Parked(child) => self.step(Event::Parked(child)),
            Message::Unparked(child, reply) => {
                self.waiting.slots.insert(child.clone(), reply);
                self.step(Event::Unparked(child));
            }
            Message::Pause => self.step(Event::Paused),
            Message::Resume => self.step(Event::Resumed),
            Message::Release => self.step(Event::Released),
        }
    }

    fn dispatch(&mut self, batch: Box<NewBatch>, reply: oneshot::Sender<Result<Ticket, DispatchError>>) {
        let refusal = match (self.commits.trouble(), self.book.objection(&batch)) {
            (Some(trouble), _) => Some(DispatchError::Store(trouble)),
            (None, objection) => objection.map(DispatchError::Refused),
        };
        if let Some(refusal) = refusal {
            reply.send(Err(refusal)).ok();
            return;
        }
        let ids = self.new_ids(&batch);
        let waiter = self.waiting.new_reply();
        self.waiting.dispatches.insert(waiter, reply);
        self.step(Event::Dispatch { batch, ids, reply: waiter });
    }

    fn new_ids(&self, batch: &NewBatch) -> NewIds {
        // 32 of the 64 bits are what an id has room for.
        let bits = || (self.wiring.bits)() as u32;
        let delegation = DelegationId::from_bits(bits());
        let children = (0..batch.tasks.len()).map(|index| ChildId::from_bits(index, bits())).collect();
        let mut ids = NewIds { delegation, children, transcripts: Vec::new() };
        ids.transcripts = self.create_transcripts(batch, &ids);
        ids
    }

    fn join(&mut self, delegation: DelegationId, reply: oneshot::Sender<Result<(), String>>) {
        let known = self.book.delegation(&delegation).is_some();
        if known && !self.settled.contains(&delegation) {
            self.waiting.joins.entry(delegation).or_default().push(reply);
        } else {
            // Settled, or not of this process: the store has the answer. A caller that went away needs none.
            reply.send(Ok(())).ok();
        }
    }

    fn ended(&mut self, ended: Result<(Id, (ChildId, Report)), JoinError>) {
        let (child, report) = match ended {
            Ok((task, (child, report))) => {
                self.tasks.remove(&task);
                (child, report)
            }
            Err(error) => {
                let Some(child) = self.tasks.remove(&error.id()) else { return };
                tracing::error!(%child, %error, "BUG: a runner failed outside its worker");
                let failed = Report::bare(Ending::Failed(FailureKind::Panicked));
                (child, Report { error: Some(error.to_string()), ..failed })
            }
        };
        if let Some(run) = self.runs.remove(&child) {
            let pulse = run.pulse.borrow().clone();
            self.step(Event::Heard(child.clone(), pulse));
        }
        // Whoever still waits for a slot was told of the end by other means.
        self.waiting.slots.remove(&child);
        let error = report.error.clone();
        self.step(Event::Returned(child.clone(), Box::new(report)));
        if let Some(error) = error
            && self.has_settled(&child)
        {
            self.errors.insert(child, error);
        }
    }

    fn has_settled(&self, child: &ChildId) -> bool {
        let found = self.book.child(child);
        found.is_some_and(|(delegated, index)| delegated.children[index].state.outcome().is_some())
    }

    /// Steps the book and performs at once what does not wait for a record.
    fn step(&mut self, event: Event) {
        let effects = self.book.step(event, self.wiring.clock.now());
        for effect in effects {
            match effect {
                Effect::Record(append) => self.commits.record(append),
                effect if effect.waits_for_record() => self.commits.then(effect),
                effect => self.perform(effect),
            }
        }
    }

    fn committed(&mut self, mut done: Done) {
        for (delegation, why) in std::mem::take(&mut done.refused) {
            self.give_up(&delegation, &why, &mut done.effects);
        }
        for effect in done.effects {
            self.perform(effect);
        }
    }

    fn tick(&mut self) {
        self.hear_all();
        self.step(Event::Tick);
    }

    fn do_chores(&mut self) {
        let pulses = self.hear_all();
        self.chores.begin(&pulses, &self.book);
    }

    fn carry_out(&mut self, found: Found) {
        for delegation in found.lost {
            let why = Refused::Append(AppendError::Stale(delegation.clone()));
            self.give_up(&delegation, &why, &mut Vec::new());
        }
        for stop in self.chores.stops_of_ours(found.requests, &self.book) {
            self.step(stop);
        }
    }

    /// Reads every pulse into the book, so that no verdict is passed on an old one.
    fn hear_all(&mut self) -> HashMap<ChildId, Pulse> {
        let read = |(child, run): (&ChildId, &Run)| (child.clone(), run.pulse.borrow().clone());
        let pulses: HashMap<ChildId, Pulse> = self.runs.iter().map(read).collect();
        for (child, pulse) in &pulses {
            self.step(Event::Heard(child.clone(), pulse.clone()));
        }
        pulses
    }

    /// The unsettled children, and the settled ones of `delegation`.
    fn view(&self, delegation: Option<&DelegationId>) -> Vec<ChildView> {
        let now = self.wiring.clock.now().mono;
        let mut views = Vec::new();
        for delegated in self.book.delegations() {
            let whole = Some(&delegated.accepted.delegation) == delegation;
            for (task_index, child) in delegated.children.iter().enumerate() {
                if !whole && child.state.outcome().is_some() {
                    continue;
                }
                let run = self.runs.get(&child.id);
                let pulse = run.map_or_else(|| child.pulse.clone(), |run| run.pulse.borrow().clone());
                let moved = if pulse.beat == child.pulse.beat { child.moved } else { now };
                let end = child.ended.unwrap_or(now);
                views.push(ChildView {
                    delegation: delegated.accepted.delegation.clone(),
                    child: child.id.clone(),
                    task_index,
                    goal: delegated.accepted.tasks[task_index].goal.clone(),
                    state: child.state,
                    pulse,
                    elapsed: child.started.map_or(Duration::ZERO, |start| end.since(start)),
                    quiet: end.since(moved),
                });
            }
        }
        views
    }
}
