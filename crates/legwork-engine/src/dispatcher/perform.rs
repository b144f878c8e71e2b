//! Performs what the book wants done.

use super::announce::Ended;
use super::commit::Refused;
use super::{Dispatcher, SETTLED_KEPT};
use crate::book::{Book, Effect, Event, Warning};
use crate::line::EngineLine;
use crate::runner::{Run, Runner};
use crate::steering;
use legwork_core::batch::Reach;
use legwork_core::child::ChildState;
use legwork_core::ids::{ChildId, DelegationId, RequestId, UnitId};
use legwork_core::outcome::{Ending, Force, Outcome, StopReason};
use legwork_core::ports::{
    AppendError, Assignment, DispatchError, LiveEvent, Refusal, StopNotice, StoreError, Unrecorded,
};
use legwork_core::report::Report;
use legwork_core::steering::{Request, Scope, Wish};
use legwork_core::step::Fence;
use std::collections::{BTreeSet, HashSet};
use std::fmt;
use std::sync::Arc;
use tokio::sync::{oneshot, watch};

/// An abort from the book; the child has its cause already.
const ABORT: StopNotice = StopNotice { reason: StopReason::Cancelled, force: Force::Abort };
/// A run that goes on in another process, as one does whose own process ends.
const GOES_ON: StopNotice = StopNotice { reason: StopReason::Shutdown, force: Force::Abort };

impl Dispatcher {
    /// A caller that went away while it waited needs no answer, so failed sends are nothing to report.
    pub(super) fn perform(&mut self, effect: Effect) {
        match effect {
            Effect::Record(append) => self.commits.record(append),
            Effect::Accept(reply, ticket) => {
                self.announce_queued(&ticket);
                self.waiting.decide(reply, &Ok(ticket));
            }
            Effect::Refuse(reply, refusal) => {
                self.waiting.decide(reply, &Err(DispatchError::Refused(refusal)));
            }
            Effect::Start(child) => self.start(&child),
            Effect::GrantSlot(child) => {
                if let Some(caller) = self.waiting.slots.remove(&child) {
                    caller.send(Ok(())).ok();
                }
            }
            Effect::Settled(child, outcome) => self.child_settled(&child, outcome),
            Effect::AllSettled(delegation) => self.all_settled(delegation),
            Effect::LetGo(delegations) => self.let_go(delegations),
            Effect::Ask(child, notice) => self.press(&child, notice),
            Effect::Warn(child, warning) => self.warn(&child, warning),
            Effect::Abort(child) => self.press(&child, ABORT),
            Effect::Stopped(reply, children) => self.stopped(reply, children, None),
        }
    }

    fn start(&mut self, child: &ChildId) {
        if self.book.is_released() {
            // A process that is ending begins nothing any more.
            self.never_ran(child);
            return;
        }
        // It may have been taken away while its start was being recorded.
        let Some(((assignment, pressed), identity)) = self.assignment(child).zip(self.identity(child)) else {
            return self.never_ran(child);
        };
        let (stop, stopped) = watch::channel(pressed);
        // A later attempt counts on from what was counted before.
        let counted =
            self.book.child(child).map(|(delegated, index)| delegated.children[index].pulse.clone());
        let (pulse, heard) = watch::channel(counted.unwrap_or_default());
        let line = EngineLine {
            child: child.clone(),
            identity: identity.clone(),
            clock: self.wiring.clock,
            transcripts: self.wiring.transcripts.clone(),
            live: self.live.clone(),
            pulse,
            stop: stopped.clone(),
            said: self.said.entry(child.clone()).or_default().clone(),
            mailbox: self.mailbox.clone(),
        };
        let runner = Runner {
            worker: self.wiring.worker.clone(),
            store: self.wiring.store.clone(),
            patience: self.book.options().patience.clone(),
            assignment,
            line: Arc::new(line),
            stop: stopped,
            pulse: heard.clone(),
        };
        let (delegation, attempt) = (runner.assignment.delegation.clone(), runner.assignment.attempt);
        let task = self.runners.spawn(runner.run());
        self.tasks.insert(task.id(), child.clone());
        self.runs.insert(child.clone(), Run { delegation, stop, pulse: heard });
        self.announce(LiveEvent::Started { child: identity, attempt });
    }

    /// A run that never came to be has no end of its own to free its slot.
    fn never_ran(&mut self, child: &ChildId) {
        self.step(Event::Returned(child.clone(), Box::new(Report::bare(Ending::Interrupted))));
    }

    /// What the child's runner needs, and the stop that came while its start was being recorded.
    fn assignment(&self, child: &ChildId) -> Option<(Assignment, Option<StopNotice>)> {
        let (delegated, task_index) = self.book.child(child)?;
        let accepted = &delegated.accepted;
        let (attempt, pressed) = match delegated.children[task_index].state {
            ChildState::Running { attempt } => (attempt, None),
            ChildState::Stopping { attempt, cause: reason, force, .. } => {
                (attempt, Some(StopNotice { reason, force }))
            }
            ChildState::Queued { .. }
            | ChildState::Parked { .. }
            | ChildState::Waiting { .. }
            | ChildState::Settled(_) => return None,
        };
        let assignment = Assignment {
            child: child.clone(),
            delegation: accepted.delegation.clone(),
            session: accepted.lineage.session.clone(),
            parent: accepted.lineage.parent.clone(),
            task_index,
            task: accepted.tasks[task_index].clone(),
            depth: accepted.lineage.depth + 1,
            attempt,
            fence: Fence { owner: self.wiring.owner.id.clone(), epoch: delegated.epoch },
            setting: accepted.setting_of(task_index),
        };
        Some((assignment, pressed))
    }

    /// The warning is a message as any other: it is stored, and the child reads it at its next step.
    fn warn(&mut self, child: &ChildId, warning: Warning) {
        let id = RequestId::from_bits((self.wiring.bits)());
        let wish = Wish::Steer { text: steering::warning(warning) };
        let at = self.wiring.clock.now().wall;
        self.chores.ask(Request { id, at, scope: Scope::Child(child.clone()), wish });
    }

    /// Presses a stop on a running child. The force may only rise, and the first reason stays.
    fn press(&mut self, child: &ChildId, notice: StopNotice) {
        // A child whose start still waits for its record has no run; it finds the stop when it begins.
        if let Some(run) = self.runs.get(child) {
            run.stop.send_modify(|pressed| {
                *pressed = Some(match *pressed {
                    Some(before) => {
                        StopNotice { reason: before.reason, force: before.force.max(notice.force) }
                    }
                    None => notice,
                });
            });
        }
        // Only now: whoever waits for a slot looks for the reason when the wait ends.
        self.waiting.slots.remove(child);
    }

    fn child_settled(&mut self, child: &ChildId, outcome: Outcome) {
        self.said.remove(child);
        let Some((delegated, task_index)) = self.book.child(child) else { return };
        let is_news = delegated.is_unit_settled(task_index) || outcome.is_failure();
        // What an ended child had sent out keeps its results back until it has ended too.
        let lineage = &delegated.accepted.lineage;
        let was_awaited = lineage.parent.as_ref().is_some_and(|caller| {
            let caller = self.book.child(caller).map(|(above, place)| above.children[place].state);
            caller.is_none_or(|state| state.outcome().is_some())
        });
        if was_awaited || delegated.accepted.reach != Reach::Joined && is_news {
            self.routes.ring(&delegated.accepted.lineage.session);
        }
        let unit = delegated.unit(task_index);
        let told = self.told.entry(unit.id.clone()).or_default();
        *told += 1;
        let ends_unit = *told == unit.task_indexes.len();
        if ends_unit {
            answer(self.waiting.unit_joins.remove(&unit.id), &Ok(()));
        }
        let tracked = &delegated.children[task_index];
        let elapsed = tracked.worked(self.wiring.clock.now().mono);
        self.announce_end(child, Ended { outcome, elapsed, ends_unit });
    }

    fn all_settled(&mut self, delegation: DelegationId) {
        self.given_up.settled(&delegation);
        self.answer_joins(&delegation, &Ok(()));
        self.settled.push_back(delegation);
        if self.settled.len() > SETTLED_KEPT
            && let Some(oldest) = self.settled.pop_front()
        {
            self.untell(&oldest);
            self.book.forget(&oldest);
        }
    }

    /// Nothing of the tree can go on in this process. Facts of it that wait for the store go first: they are this owner's.
    fn let_go(&mut self, delegations: Vec<DelegationId>) {
        if self.commits.holds_any_of(&delegations) {
            return self.commits.then(Effect::LetGo(delegations));
        }
        let units: Vec<(DelegationId, Vec<UnitId>)> =
            delegations.iter().map(|id| (id.clone(), self.units_of(id))).collect();
        let left = self.book.part(&delegations);
        for (_, units) in units.iter().filter(|(id, _)| left.contains(id)) {
            for unit in units {
                self.told.remove(unit);
                // Nobody here brings its end any more; what the store knows of it is what there is.
                answer(self.waiting.unit_joins.remove(unit), &Ok(()));
            }
        }
        self.chores.leave(left);
    }

    /// A tree is left to whoever has what it needs, and that is stored; nobody waits for it here any more.
    pub(super) fn left(&mut self, delegations: &[DelegationId]) {
        for delegation in delegations {
            // The store says that nobody has it.
            self.answer_joins(delegation, &Ok(()));
        }
    }

    fn untell(&mut self, delegation: &DelegationId) {
        for unit in self.units_of(delegation) {
            self.told.remove(&unit);
        }
    }

    fn units_of(&self, delegation: &DelegationId) -> Vec<UnitId> {
        let units = self.book.delegation(delegation).map(|delegated| delegated.accepted.units.as_slice());
        units.unwrap_or_default().iter().map(|unit| unit.id.clone()).collect()
    }

    /// The store would not record facts of this delegation: it is given up here, and whoever waits is told.
    pub(super) fn give_up(&mut self, delegation: &DelegationId, why: &Refused, durable: &mut Vec<Effect>) {
        let children: BTreeSet<ChildId> = match self.book.delegation(delegation) {
            Some(delegated) => delegated.children.iter().map(|child| child.id.clone()).collect(),
            None => BTreeSet::new(),
        };
        self.said.retain(|child, _| !children.contains(child));
        self.ends.retain(|child, _| !children.contains(child));
        for child in &children {
            self.press(child, GOES_ON);
        }
        let mine = |effect: &Effect| concerns(effect, delegation, &children);
        let mut given_up: Vec<Effect> = durable.extract_if(.., |effect| mine(effect)).collect();
        given_up.extend(self.commits.forget(delegation, mine));
        let was_new = given_up.iter().any(|effect| matches!(effect, Effect::Accept(..)));
        if !was_new {
            self.given_up.note(delegation, why.to_string());
        }
        self.untell(delegation);
        let units = self.units_of(delegation);
        self.step(Event::Withdrawn(delegation.clone()));
        for effect in given_up {
            if let Effect::Accept(reply, _) = effect {
                let refusal = why.to_dispatch_error(delegation);
                // What lies under ids that are in use belongs to the older work.
                let is_its_own =
                    !matches!(refusal, DispatchError::Unclear { .. } | DispatchError::Refused(_));
                if is_its_own {
                    self.wiring.transcripts.discard(delegation);
                }
                self.waiting.decide(reply, &Err(refusal));
            } else if let Effect::Start(child) = effect {
                self.never_ran(&child);
            } else if let Effect::Stopped(reply, children) = effect {
                self.stopped(reply, children, Some(why.to_string()));
            }
        }
        let told = match why {
            // Those who join find in the store whose it is now, and what has become of it.
            Refused::Append(_) | Refused::Store(StoreError::Fenced(_)) => Ok(()),
            Refused::Store(error) | Refused::Unclear(error) => Err(error.to_string()),
        };
        for unit in units {
            answer(self.waiting.unit_joins.remove(&unit), &told);
        }
        self.answer_joins(delegation, &told);
    }

    /// A run could not be recorded: nothing is concluded of its child, which stays open with its whole tree; as soon as the
    /// store is back that is left to whoever looks for work. One that was told to end has ended all the same.
    pub(super) fn unrecorded(&mut self, child: &ChildId, Unrecorded(error): Unrecorded) {
        let works = self.book.child(child).is_some_and(|(delegated, index)| {
            let state = delegated.children[index].state;
            state.has_runner() && !matches!(state, ChildState::Stopping { .. })
        });
        if !works || self.book.is_released() {
            return;
        }
        tracing::error!(%child, %error, "what a subagent did could not be recorded for too long; its work is given up here and stays open for the next process");
        let (why, tree) = (Refused::Store(error), self.book.open_tree_of(child));
        for delegation in &tree {
            self.give_up(delegation, &why, &mut Vec::new());
        }
        // This process may live on for long: it must not look as if it still worked on it.
        self.parting.push(tree);
    }

    /// Leaves trees that were given up to other processes, once nothing of them runs here any more: nothing begins beside a
    /// command that may run (invariant 14).
    pub(super) fn leave_given_up(&mut self) {
        let running: HashSet<DelegationId> = match self.parting.is_empty() {
            true => return,
            false => self.ending_here().cloned().collect(),
        };
        let has_ended = |tree: &mut Vec<DelegationId>| tree.iter().all(|id| !running.contains(id));
        let ended: Vec<Vec<DelegationId>> = self.parting.extract_if(.., has_ended).collect();
        ended.into_iter().for_each(|tree| self.chores.leave(tree));
    }

    fn answer_joins(&mut self, delegation: &DelegationId, answer: &Result<(), String>) {
        self::answer(self.waiting.joins.remove(delegation), answer);
    }
}

/// Callers that went away need no answer.
fn answer(callers: Option<Vec<oneshot::Sender<Result<(), String>>>>, answer: &Result<(), String>) {
    for caller in callers.unwrap_or_default() {
        caller.send(answer.clone()).ok();
    }
}

/// The delegations whose facts an effect waits for; none where that is not known. A stop may rest on an earlier one, of others too.
pub(super) fn delegations_of(effect: &Effect, book: &Book) -> Vec<DelegationId> {
    let of_child = |child: &ChildId| book.child(child).map(|(known, _)| known.accepted.delegation.clone());
    match effect {
        Effect::Accept(_, ticket) => vec![ticket.delegation.clone()],
        Effect::AllSettled(id) => vec![id.clone()],
        Effect::LetGo(delegations) => delegations.clone(),
        Effect::Start(child)
        | Effect::GrantSlot(child)
        | Effect::Settled(child, _)
        | Effect::Ask(child, _)
        | Effect::Warn(child, _)
        | Effect::Abort(child) => of_child(child).into_iter().collect(),
        Effect::Record(append) => vec![append.delegation.clone()],
        Effect::Stopped(..) | Effect::Refuse(..) => Vec::new(),
    }
}

fn concerns(effect: &Effect, delegation: &DelegationId, children: &BTreeSet<ChildId>) -> bool {
    match effect {
        Effect::Accept(_, ticket) => ticket.delegation == *delegation,
        Effect::AllSettled(id) => id == delegation,
        // What is not ours any more is not taken from us then.
        Effect::LetGo(_) => false,
        Effect::Start(child)
        | Effect::GrantSlot(child)
        | Effect::Settled(child, _)
        | Effect::Ask(child, _)
        | Effect::Warn(child, _)
        | Effect::Abort(child) => children.contains(child),
        Effect::Record(append) => append.delegation == *delegation,
        Effect::Stopped(_, told) => told.iter().any(|child| children.contains(child)),
        Effect::Refuse(..) => false,
    }
}

impl Refused {
    fn to_dispatch_error(&self, delegation: &DelegationId) -> DispatchError {
        match self {
            Refused::Append(AppendError::NoSession(session)) => DispatchError::NoSession(session.clone()),
            Refused::Append(AppendError::IdTaken(_)) => DispatchError::Refused(Refusal::IdsInUse),
            Refused::Append(_) | Refused::Store(_) => DispatchError::Store(self.to_string()),
            Refused::Unclear(error) => {
                DispatchError::Unclear { why: error.to_string(), delegation: delegation.clone() }
            }
        }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::Append(error) => error.fmt(f),
            Refused::Store(error) | Refused::Unclear(error) => error.fmt(f),
        }
    }
}
