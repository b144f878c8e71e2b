//! The one loop of the engine: select, step, perform. It owns the book, the runners and every waiting caller; all
//! others send messages.
//!
//! Facts go to the store in commits that overlap with the stepping of later events: while one commit is under way, stop
//! requests and aborts are performed at once, and everything that must wait for its record waits in the next one.

mod adopt;
mod announce;
mod commit;
mod ending;
mod given_up;
mod housekeeping;
mod leaving;
mod owed;
mod perform;
mod renewal;
mod requests;
mod view;
mod waiting;

use crate::book::{Adopted, Book, Effect, Event};
use crate::courier::Routes;
use crate::detached;
use crate::handle::{Handle, Hold};
use crate::options::Options;
use crate::runner::{Returned, Run};
use crate::steering::Said;
use crate::wiring::Wiring;
use announce::End;
use commit::{Commits, Done};
use given_up::GivenUp;
pub(crate) use housekeeping::is_for_one_process;
use housekeeping::{Chores, Known};
use legwork_core::batch::{Lineage, NewBatch, Ticket};
use legwork_core::child::ChildState;
use legwork_core::ids::{ChildId, ClaimId, DelegationId, SessionId, UnitId};
use legwork_core::outcome::{Ending, FailureKind};
use legwork_core::ports::{
    ChildView, DispatchError, Inbox, LiveEvent, Pause, Refusal, Steer, StopNotice, Stopped, TROUBLE_MAX,
};
use legwork_core::pulse::Pulse;
use legwork_core::report::Report;
use legwork_core::steering::Scope;
use renewal::{Gone, Renewal};
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{broadcast, mpsc, oneshot};
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::Instant;
use waiting::{Caller, Stopper, Waiting};

/// What the dispatcher can be told.
pub(crate) enum Message {
    Dispatch(Box<NewBatch>, oneshot::Sender<Result<Ticket, DispatchError>>),
    /// Whether a caller may delegate at all.
    Objection(Lineage, oneshot::Sender<Option<Refusal>>),
    /// Answered when all children have settled, or with the reason why that will not be stored here.
    Join(DelegationId, oneshot::Sender<Result<(), String>>),
    /// As `Join`, for the children of one unit.
    JoinUnit(DelegationId, UnitId, oneshot::Sender<Result<(), String>>),
    Stop {
        scope: Scope,
        notice: StopNotice,
        reply: oneshot::Sender<Stopped>,
    },
    View(Option<DelegationId>, oneshot::Sender<Vec<ChildView>>),
    /// Which delegations this process has in hand: those it knows, and those of which something here has not ended.
    InHand(oneshot::Sender<HashSet<DelegationId>>),
    /// Which delegations were given up here so often that they are left alone for now.
    Resting(oneshot::Sender<HashSet<DelegationId>>),
    /// How one of them stands here.
    Hold(DelegationId, oneshot::Sender<Hold>),
    /// Where a child of this process stands, which the store may not know yet.
    Standing(ChildId, oneshot::Sender<Option<ChildState>>),
    Parked(ChildId),
    Unparked(ChildId, oneshot::Sender<Result<(), StopNotice>>),
    /// Completions of the session go to the inbox.
    Attach(SessionId, Arc<dyn Inbox>),
    /// Something that concerns this process was stored.
    Look,
    /// A caller found this claim in the hands of this process. Answered when it is not about to be given back any more, or was.
    Keep(ClaimId, oneshot::Sender<()>),
    /// Whether new children may start; it is stored already.
    Turned(Pause),
    /// Work of a dead process is this one's now. Answered when it is in the book.
    Adopt(Box<Heirloom>, oneshot::Sender<()>),
    Release,
}

/// What a dead process left, for this one to go on with.
#[derive(Default)]
pub(crate) struct Heirloom {
    pub(crate) adopted: Vec<Adopted>,
    /// What was said to its children and not read.
    pub(crate) steers: Vec<(ChildId, Vec<Steer>)>,
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
    /// Claims that were made for callers which did not get them.
    pub(crate) returns: mpsc::Receiver<Vec<ClaimId>>,
    pub(crate) live: broadcast::Sender<LiveEvent>,
    /// The newest request that was stored before this process had any work.
    pub(crate) asked_before: u64,
    /// Whether new children may start.
    pub(crate) pause: Pause,
}

pub(crate) struct Dispatcher {
    book: Book,
    wiring: Wiring,
    /// Filled by handles and lines, read here.
    inbox: mpsc::Receiver<Message>,
    /// Filled by joins that come to nothing, read here; each has its place before it claims.
    returns: mpsc::Receiver<Vec<ClaimId>>,
    mailbox: mpsc::Sender<Message>,
    live: broadcast::Sender<LiveEvent>,
    runners: JoinSet<Returned>,
    runs: BTreeMap<ChildId, Run>,
    /// Which child a runner's task belongs to, should its own code fail.
    tasks: HashMap<Id, ChildId>,
    commits: Commits,
    chores: Chores,
    renewal: Renewal,
    routes: Routes,
    /// What was said to children that have not settled.
    said: BTreeMap<ChildId, Said>,
    waiting: Waiting,
    settled: VecDeque<DelegationId>,
    /// How many children of each unit have settled, and that is stored.
    told: BTreeMap<UnitId, usize>,
    given_up: GivenUp,
    /// Trees that were given up and are left to other processes once nothing of them runs here any more.
    parting: Vec<Vec<DelegationId>>,
    /// What is told of settled children once their settling is durable.
    ends: BTreeMap<ChildId, End>,
}

impl Dispatcher {
    pub(crate) fn new(start: Start, handle: &Handle) -> Self {
        let Start { options, inbox, returns, live, asked_before, pause } = start;
        let wiring = handle.wiring().clone();
        let chores = Chores::new(&wiring, Known { asked_before, pause });
        let renewal = Renewal::new(&wiring, options.lease);
        let mut dispatcher = Dispatcher {
            book: Book::new(options, wiring.owner.id.clone()),
            commits: Commits::new(wiring.store.clone()),
            chores,
            renewal,
            routes: Routes::new(wiring.clone()),
            said: BTreeMap::new(),
            wiring,
            inbox,
            returns,
            mailbox: handle.mailbox(),
            live,
            runners: JoinSet::new(),
            runs: BTreeMap::new(),
            tasks: HashMap::new(),
            waiting: Waiting::default(),
            settled: VecDeque::new(),
            told: BTreeMap::new(),
            given_up: GivenUp::default(),
            parting: Vec::new(),
            ends: BTreeMap::new(),
        };
        if pause == Pause::On {
            dispatcher.step(Event::Paused);
        }
        dispatcher
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
                Gone = self.renewal.lost() => self.be_gone(),
                done = self.commits.finished() => self.committed(done),
                // Deadline: the end of some child's patience or grace.
                () = tokio::time::sleep_until(deadline) => self.tick(),
                // Deadline: news of other processes is looked for so often.
                () = tokio::time::sleep_until(round) => self.do_chores(),
                found = self.chores.finished() => self.carry_out(found),
                Some(claims) = self.returns.recv() => self.chores.give_back(claims),
                Some(message) = self.inbox.recv() => self.take_in(message),
                Some(ended) = self.runners.join_next_with_id() => self.ended(ended),
                Some(ended) = self.routes.next_ended() => self.routes.ended(ended),
            }
            self.drain();
            self.leave_given_up();
        }
        ending::account(&self.wiring, ending::let_go(&self.book, self.wiring.clock.now().mono)).await;
    }

    fn is_done(&self) -> bool {
        self.is_quiet() && self.commits.is_done() && self.routes.is_empty()
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
            Message::Objection(caller, reply) => {
                // Whoever went away needs no answer.
                reply.send(self.book.objection_to(&caller)).ok();
            }
            Message::Join(delegation, reply) => self.join(delegation, reply),
            Message::JoinUnit(delegation, unit, reply) => self.join_unit(&delegation, unit, reply),
            Message::Stop { scope, notice, reply } => {
                let reply = Some(self.waiting.stop(Stopper::Caller(reply)));
                self.step(Event::Stop { scope, notice, reply });
                self.answer_stops_in_trouble();
            }
            Message::View(delegation, reply) => {
                // A caller that went away needs no view.
                reply.send(self.view(delegation.as_ref())).ok();
            }
            Message::InHand(reply) => {
                // As above.
                reply.send(self.in_hand()).ok();
            }
            Message::Resting(reply) => {
                // As above.
                reply.send(self.given_up.resting()).ok();
            }
            Message::Hold(delegation, reply) => {
                // As above.
                reply.send(self.hold(&delegation)).ok();
            }
            Message::Standing(child, reply) => {
                let known = self.book.child(&child);
                reply.send(known.map(|(delegated, index)| delegated.children[index].state)).ok();
            }
            Message::Parked(child) => self.step(Event::Parked(child)),
            Message::Unparked(child, reply) => {
                self.waiting.slots.insert(child.clone(), reply);
                self.step(Event::Unparked(child));
            }
            Message::Attach(session, inbox) => self.routes.attach(session, inbox),
            Message::Look => self.chores.look_now(),
            Message::Keep(claim, reply) => {
                // Whoever owes it said so before, on a way of its own.
                while let Ok(claims) = self.returns.try_recv() {
                    self.chores.give_back(claims);
                }
                self.chores.keep(&claim, reply);
            }
            Message::Turned(pause) => self.turned(pause),
            Message::Adopt(heirloom, reply) => {
                self.adopt(*heirloom);
                // Whoever went away needs no answer.
                reply.send(()).ok();
            }
            Message::Release => {
                self.routes.close();
                let is_news = !self.book.is_released();
                self.step(Event::Released);
                if is_news {
                    let runs = self.runs.len();
                    tracing::info!(
                        runs,
                        "this process ends: what runs has its stop grace, and nothing new begins"
                    );
                }
            }
        }
    }

    fn in_hand(&self) -> HashSet<DelegationId> {
        let known = self.book.delegations().map(|delegated| &delegated.accepted.delegation);
        let parting = self.parting.iter().flatten();
        known.chain(self.ending_here()).chain(parting).chain(self.chores.leaving()).cloned().collect()
    }

    /// The delegations of runs that have not ended.
    fn ending_here(&self) -> impl Iterator<Item = &DelegationId> {
        self.runs.values().map(|run| &run.delegation).chain(self.book.leaving())
    }

    fn hold(&self, delegation: &DelegationId) -> Hold {
        let given_up = self.given_up.why(delegation);
        let Some((why, time)) = given_up else {
            return if self.in_hand().contains(delegation) { Hold::InHand } else { Hold::NotHere };
        };
        // A store that does not even take that it is left may never take it.
        let is_stuck = time >= TROUBLE_MAX && self.chores.leaving().any(|leaving| leaving == delegation);
        match self.in_hand().contains(delegation) && !is_stuck {
            true => Hold::InHand,
            false => Hold::GivenUp(why.to_owned()),
        }
    }

    fn dispatch(&mut self, batch: Box<NewBatch>, caller: Caller) {
        let Some(reply) = self.waiting.call(&batch, caller) else { return };
        let refusal = match (self.commits.trouble(), self.book.objection(&batch)) {
            (Some(trouble), _) => Some(DispatchError::Store(trouble)),
            (None, objection) => objection.map(DispatchError::Refused),
        };
        if let Some(refusal) = refusal {
            self.waiting.decide(reply, &Err(refusal));
            return;
        }
        let ids = detached::drawn(&self.wiring, &batch);
        if self.book.knows_one_of(&ids) {
            // Before anything is written for them: what is there is the older one's.
            return self.waiting.decide(reply, &Err(DispatchError::Refused(Refusal::IdsInUse)));
        }
        let ids = ids.with_transcripts(&self.wiring, &batch);
        self.step(Event::Dispatch { batch, ids, reply });
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

    fn join_unit(
        &mut self,
        delegation: &DelegationId,
        unit: UnitId,
        reply: oneshot::Sender<Result<(), String>>,
    ) {
        let known = self.book.delegation(delegation);
        let known =
            known.and_then(|delegated| delegated.accepted.units.iter().find(|known| known.id == unit));
        if known
            .is_some_and(|known| self.told.get(&unit).copied().unwrap_or_default() < known.task_indexes.len())
        {
            self.waiting.unit_joins.entry(unit).or_default().push(reply);
        } else {
            // As for a whole delegation.
            reply.send(Ok(())).ok();
        }
    }

    fn ended(&mut self, ended: Result<(Id, Returned), JoinError>) {
        let (child, returned) = match ended {
            Ok((task, (child, returned))) => {
                self.tasks.remove(&task);
                (child, returned)
            }
            Err(error) => {
                let Some(child) = self.tasks.remove(&error.id()) else { return };
                tracing::error!(%child, %error, "BUG: a runner failed outside its worker");
                let failed = Report::bare(Ending::Failed(FailureKind::Panicked));
                (child, Ok(Report { error: Some(error.to_string()), ..failed }))
            }
        };
        if let Some(run) = self.runs.remove(&child) {
            let pulse = run.pulse.borrow().clone();
            self.step(Event::Heard(child.clone(), pulse));
        }
        // Whoever still waits for a slot was told of the end by other means.
        self.waiting.slots.remove(&child);
        let report = returned.unwrap_or_else(|why| {
            self.unrecorded(&child, why);
            Report::bare(Ending::Interrupted)
        });
        let end = End::of(&report);
        self.step(Event::Returned(child.clone(), Box::new(report)));
        if self.has_settled(&child) {
            self.ends.insert(child, end);
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
                // Without a fact to wait for there is no commit that could bring it.
                Effect::LetGo(delegations) if self.commits.is_idle() => {
                    self.perform(Effect::LetGo(delegations));
                }
                // A stop is told of when no crash can take it back, and children are told to end before that.
                Effect::Stopped(reply, children) if !self.commits.is_idle() => {
                    self.commits.then(Effect::Stopped(reply, children));
                }
                effect if effect.waits_for_record() => self.commits.then(effect),
                effect => self.perform(effect),
            }
        }
    }

    fn committed(&mut self, mut done: Done) {
        for (delegation, why) in std::mem::take(&mut done.refused) {
            self.give_up(&delegation, &why, &mut done.effects);
        }
        let book = &self.book;
        done.effects.extend(self.commits.take_free(|effect| perform::delegations_of(effect, book)));
        // Trees are let go of last: what the same commit settled is told of while they are still known.
        let (partings, others): (Vec<Effect>, Vec<Effect>) =
            done.effects.into_iter().partition(|effect| matches!(effect, Effect::LetGo(_)));
        for effect in others.into_iter().chain(partings) {
            self.perform(effect);
        }
        self.answer_stops_in_trouble();
    }

    fn tick(&mut self) {
        self.hear_all();
        self.step(Event::Tick);
    }

    fn do_chores(&mut self) {
        let pulses = if self.chores.want_pulses() { self.hear_all() } else { BTreeMap::new() };
        self.chores.begin(&pulses, &self.book);
    }

    /// Reads every pulse into the book, so that no verdict is passed on an old one.
    fn hear_all(&mut self) -> BTreeMap<ChildId, Pulse> {
        let read = |(child, run): (&ChildId, &Run)| (child.clone(), run.pulse.borrow().clone());
        let pulses: BTreeMap<ChildId, Pulse> = self.runs.iter().map(read).collect();
        for (child, pulse) in &pulses {
            let tracked = self.book.child(child).map(|(delegated, index)| &delegated.children[index]);
            if tracked.is_some_and(|tracked| tracked.pulse != *pulse) {
                self.step(Event::Heard(child.clone(), pulse.clone()));
            }
        }
        pulses
    }
}
