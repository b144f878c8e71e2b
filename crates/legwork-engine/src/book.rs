//! The policy of the engine, pure: [`Book::step`] turns one event into effects and touches nothing else. It reads no
//! clock, draws no random number and does no IO, so that thousands of random schedules can be run over it.
//!
//! It does not know how a child works, how facts are stored or who watches.

mod adoption;
mod capacity;
mod entry;
mod queue;
mod stopping;
mod supervision;
mod suspects;
mod vocabulary;
mod withholding;

pub use capacity::{Capacity, Load, Placement, policy};
pub use entry::{Delegated, Tracked};
pub use queue::FairQueue;
pub use supervision::Warning;
pub use vocabulary::{Adopted, Effect, Event, Loss, NewIds, ReplyTo};

use crate::options::Options;
use legwork_core::batch::{Completions, Fallback, Lineage, NewBatch, Reach, Unit};
use legwork_core::child::{ChildEvent, ChildState};
use legwork_core::fact::{Accepted, Fact};
use legwork_core::ids::{ChildId, DelegationId, Epoch, OwnerId};
use legwork_core::outcome::{Ending, FailureKind};
use legwork_core::ports::Refusal;
use legwork_core::pulse::Pulse;
use legwork_core::report::Report;
use legwork_core::time::{Moment, Now};
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use suspects::Suspects;

/// The whole policy of one process.
#[derive(Debug)]
pub struct Book {
    options: Options,
    capacity: Box<dyn Capacity>,
    owner: OwnerId,
    delegations: BTreeMap<DelegationId, Delegated>,
    /// Where each child is found.
    whereabouts: HashMap<ChildId, (DelegationId, usize)>,
    /// The delegations that each child made.
    offspring: HashMap<ChildId, Vec<DelegationId>>,
    /// Children that wait for their first slot.
    queue: FairQueue,
    /// Those of work that was taken over, where new ones never wait.
    heirs: FairQueue,
    /// Those of it of which the process may have died.
    suspects: Suspects,
    /// Children that want their slot again; they go before new ones.
    returning: VecDeque<ChildId>,
    slots_used: usize,
    /// Children that are queued and do not begin in this process, because it lacks what they need.
    withheld: HashSet<ChildId>,
    /// The uppermost delegations of trees that are about to be left to another process.
    parting: HashSet<DelegationId>,
    /// Children that were withdrawn while their runner held a slot; each keeps it until its runner is gone.
    leaving: HashMap<ChildId, DelegationId>,
    gate: Gate,
}

/// Whether new children may start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Gate {
    Open,
    Paused,
    /// The process is ending.
    Released,
}

impl Book {
    /// An empty book of one owner.
    pub fn new(options: Options, owner: OwnerId) -> Self {
        Book {
            capacity: policy(&options),
            options,
            owner,
            delegations: BTreeMap::new(),
            whereabouts: HashMap::new(),
            offspring: HashMap::new(),
            queue: FairQueue::default(),
            heirs: FairQueue::default(),
            suspects: Suspects::default(),
            returning: VecDeque::new(),
            slots_used: 0,
            withheld: HashSet::new(),
            parting: HashSet::new(),
            leaving: HashMap::new(),
            gate: Gate::Open,
        }
    }

    /// Turns one event into effects. A fact stands in a [`Effect::Record`] before every effect that waits for it.
    pub fn step(&mut self, event: Event, now: Now) -> Vec<Effect> {
        let mut effects = match event {
            Event::Dispatch { batch, ids, reply } => self.dispatch(*batch, ids, reply, now),
            Event::Parked(child) => self.parked(&child, now),
            Event::Unparked(child) => self.unparked(&child, now),
            Event::Heard(child, pulse) => self.heard(&child, pulse, now),
            Event::Returned(child, report) => self.returned(&child, report, now),
            Event::Stop { scope, notice, reply } => self.stop(&scope, notice, reply, now),
            Event::Paused => self.set_gate(Gate::Paused),
            Event::Resumed => self.set_gate(Gate::Open),
            Event::Released => self.release(now),
            Event::Tick => self.tick(now),
            Event::Withdrawn(delegation) => self.withdraw(&delegation, now),
            Event::Adopted(adopted) => self.adopt(adopted, now),
        };
        self.fill_slots(now, &mut effects);
        if !self.withheld.is_empty() && self.gate != Gate::Released {
            self.leave_trees(&mut effects);
        }
        effects
    }

    /// Why `batch` cannot be accepted now, if it cannot.
    pub fn objection(&self, batch: &NewBatch) -> Option<Refusal> {
        let asked = batch.tasks.len();
        let to_tasks = || match asked {
            0 => Some(Refusal::Empty),
            _some => self.capacity.objection(asked, &self.load_before(batch.lineage.parent.as_ref())),
        };
        self.objection_to(&batch.lineage).or_else(to_tasks)
    }

    /// Why no call of this caller can be accepted now, whatever its tasks are (TOOL-13).
    pub fn objection_to(&self, caller: &Lineage) -> Option<Refusal> {
        let depth = caller.depth;
        if self.gate == Gate::Paused {
            Some(Refusal::Paused)
        } else if self.gate == Gate::Released {
            Some(Refusal::Ending)
        } else if self.is_ending(caller.parent.as_ref()) {
            Some(Refusal::Stopping)
        } else if depth >= self.options.depth_max {
            Some(Refusal::TooDeep { depth, depth_max: self.options.depth_max })
        } else {
            None
        }
    }

    /// What there is already, for a call of this caller.
    fn load_before(&self, caller: Option<&ChildId>) -> Load {
        let running = self.slots_used + self.returning.len();
        Load {
            // Where one is to run alone no slot is free.
            running: if self.waits_for_suspects(caller) {
                running.max(self.options.children_max)
            } else {
                running
            },
            waiting: self.queue.len(),
            calls: self.delegations.values().filter(|delegated| delegated.is_in_background()).count(),
            is_admitted: false,
        }
    }

    /// The delegations of this process, in the order of their ids.
    pub fn delegations(&self) -> impl Iterator<Item = &Delegated> {
        self.delegations.values()
    }

    /// One delegation.
    pub fn delegation(&self, id: &DelegationId) -> Option<&Delegated> {
        self.delegations.get(id)
    }

    /// A child with its delegation and its position in it.
    pub fn child(&self, id: &ChildId) -> Option<(&Delegated, usize)> {
        let (delegation, index) = self.whereabouts.get(id)?;
        Some((self.delegations.get(delegation)?, *index))
    }

    /// Whether work that is in hand here has one of these ids already.
    pub fn knows_one_of(&self, ids: &NewIds) -> bool {
        let is_known =
            |child: &ChildId| self.whereabouts.contains_key(child) || self.leaving.contains_key(child);
        let is_leaving = self.leaving.values().any(|leaving| *leaving == ids.delegation);
        is_leaving || self.delegations.contains_key(&ids.delegation) || ids.children.iter().any(is_known)
    }

    /// The delegations of children that were withdrawn and whose runner is not gone yet.
    pub fn leaving(&self) -> impl Iterator<Item = &DelegationId> {
        self.leaving.values()
    }

    /// The limits.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// How many slots are taken; always the number of live runners that hold one (invariant 15).
    pub fn slots_used(&self) -> usize {
        self.slots_used
    }

    /// How many children wait for their first slot.
    pub fn waiting(&self) -> usize {
        self.queue.len() + self.heirs.len() + self.suspects.waiting()
    }

    /// When the book must hear a [`Event::Tick`] next, if nothing else happens.
    pub fn next_deadline(&self) -> Option<Moment> {
        let children = self.delegations.values().flat_map(|delegated| &delegated.children);
        children.filter_map(|child| self.schedule(child).next()).min()
    }

    /// Whether no child of this process is unsettled.
    pub fn is_idle(&self) -> bool {
        self.delegations.values().all(Delegated::is_settled)
    }

    /// Whether the process is ending: nothing starts any more.
    pub fn is_released(&self) -> bool {
        self.gate == Gate::Released
    }

    /// Forgets a settled delegation; the store keeps it.
    pub fn forget(&mut self, id: &DelegationId) {
        if self.delegations.get(id).is_some_and(Delegated::is_settled) {
            self.remove(id);
        }
    }

    fn dispatch(&mut self, batch: NewBatch, ids: NewIds, reply: ReplyTo, now: Now) -> Vec<Effect> {
        if let Some(refusal) = self.objection(&batch) {
            return vec![Effect::Refuse(reply, refusal)];
        }
        if self.knows_one_of(&ids) {
            return vec![Effect::Refuse(reply, Refusal::IdsInUse)];
        }
        let mut accepted = accepted(batch, ids, self.options.completions);
        if let Some((above, _)) = accepted.lineage.parent.as_ref().and_then(|parent| self.child(parent)) {
            accepted.lineage.tenant = above.accepted.lineage.tenant.clone();
        }
        self.place(&mut accepted);
        let ticket = accepted.ticket();
        for (index, child) in accepted.children.iter().enumerate() {
            self.whereabouts.insert(child.clone(), (accepted.delegation.clone(), index));
            self.queue.push(&accepted.lineage.session, child.clone());
        }
        if let Some(parent) = &accepted.lineage.parent {
            self.offspring.entry(parent.clone()).or_default().push(accepted.delegation.clone());
        }
        let mut delegated = Delegated::new(accepted.clone(), Epoch(1), now);
        let record = delegated.append(vec![Fact::Accepted(Box::new(accepted))], &self.owner, now);
        self.delegations.insert(ticket.delegation.clone(), delegated);
        vec![Effect::Record(record), Effect::Accept(reply, ticket)]
    }

    /// Says which units come back later. A call without any is one that its caller waits for (CAP-6, CAP-9).
    fn place(&self, accepted: &mut Accepted) {
        match accepted.reach {
            Reach::Joined => return,
            Reach::Push | Reach::History => {}
        }
        let mut load = self.load_before(accepted.lineage.parent.as_ref());
        for unit in &mut accepted.units {
            unit.inline = self.capacity.place(&load) == Placement::Inline;
            if unit.inline && !load.is_admitted {
                break;
            }
            load.is_admitted = true;
        }
        if !load.is_admitted {
            (accepted.reach, accepted.fallback) = (Reach::Joined, Some(Fallback::AtCapacity));
            accepted.units.iter_mut().for_each(|unit| unit.inline = false);
        }
    }

    fn parked(&mut self, child: &ChildId, now: Now) -> Vec<Effect> {
        self.record(child, ChildEvent::Parked, None, now).unwrap_or_default()
    }

    fn unparked(&mut self, child: &ChildId, now: Now) -> Vec<Effect> {
        let Some(effects) = self.record(child, ChildEvent::Unparked, None, now) else {
            return Vec::new();
        };
        self.returning.push_back(child.clone());
        effects
    }

    fn heard(&mut self, child: &ChildId, pulse: Pulse, now: Now) -> Vec<Effect> {
        if let Some(tracked) = self.tracked_mut(child) {
            if pulse.beat != tracked.pulse.beat {
                tracked.moved = now.mono;
                tracked.warned = false;
            }
            tracked.pulse = pulse;
        }
        Vec::new()
    }

    fn returned(&mut self, child: &ChildId, mut report: Box<Report>, now: Now) -> Vec<Effect> {
        if self.leaving.remove(child).is_some() {
            self.slots_used -= 1;
            return Vec::new();
        }
        let Some(state) = self.standing(child) else { return Vec::new() };
        // A process that is ending cuts runs short on its own account: nothing is concluded from that, and the
        // next owner decides. What was finished all the same is kept.
        let cut_by_release = self.gate == Gate::Released && !matches!(state, ChildState::Stopping { .. });
        if cut_by_release && !matches!(report.ending, Ending::Answered | Ending::CutShort(_)) {
            self.let_go(child);
            return Vec::new();
        }
        report.inactivity = self.tracked(child).and_then(|tracked| tracked.inactivity.clone());
        let event = ChildEvent::Returned(honest_ending(state, report.ending));
        let mut effects = self.record(child, event, Some(report), now).unwrap_or_default();
        effects.extend(self.stop_beneath(child, now));
        effects
    }

    fn set_gate(&mut self, gate: Gate) -> Vec<Effect> {
        if self.gate != Gate::Released {
            self.gate = gate;
        }
        Vec::new()
    }

    /// The delegation is not ours: its runs are dropped, with everything below them, and it is forgotten without
    /// another fact.
    fn withdraw(&mut self, id: &DelegationId, now: Now) -> Vec<Effect> {
        let Some(delegated) = self.delegations.get(id) else { return Vec::new() };
        let running = delegated.children.iter().filter(|child| child.state.has_runner());
        let running: Vec<ChildId> = running.map(|child| child.id.clone()).collect();
        let mut effects: Vec<Effect> =
            running.iter().flat_map(|child| self.stop_beneath(child, now)).collect();
        self.remove(id);
        effects.extend(running.into_iter().map(Effect::Abort));
        effects
    }

    fn remove(&mut self, id: &DelegationId) {
        let Some(delegated) = self.delegations.remove(id) else { return };
        self.parting.remove(id);
        let gone: HashSet<&ChildId> = delegated.children.iter().map(|child| &child.id).collect();
        self.queue.remove_all(|child| gone.contains(child));
        self.heirs.remove_all(|child| gone.contains(child));
        self.suspects.remove_all(|child| gone.contains(child));
        self.returning.retain(|child| !gone.contains(child));
        if let Some(siblings) =
            delegated.accepted.lineage.parent.as_ref().and_then(|parent| self.offspring.get_mut(parent))
        {
            siblings.retain(|sibling| sibling != id);
        }
        for child in &delegated.children {
            self.offspring.remove(&child.id);
            self.withheld.remove(&child.id);
            self.whereabouts.remove(&child.id);
            if child.state.holds_slot() {
                self.leaving.insert(child.id.clone(), id.clone());
            }
        }
    }

    /// Gives free slots away: first to children that come back, then to new ones.
    fn fill_slots(&mut self, now: Now, effects: &mut Vec<Effect>) {
        if self.gate == Gate::Released {
            return;
        }
        while self.capacity.may_run(self.slots_used) && !self.is_one_alone() {
            // A child that was stopped meanwhile cannot take the slot, and the next one gets it.
            if let Some(child) = self.returning.front().cloned() {
                if !self.may_return(&child) {
                    return;
                }
                self.returning.pop_front();
                if let Some(recorded) = self.record(&child, ChildEvent::SlotGranted, None, now) {
                    effects.extend(recorded);
                    effects.push(Effect::GrantSlot(child));
                }
            } else if self.gate == Gate::Paused {
                return;
            } else if let Some(child) = self.next_to_begin() {
                if let Some(recorded) = self.record(&child, ChildEvent::Started, None, now) {
                    effects.extend(recorded);
                    effects.push(Effect::Start(child));
                }
            } else {
                return;
            }
        }
    }

    /// Suspects go first, and what is at work comes to its end before them, so that none waits for ever.
    fn next_to_begin(&mut self) -> Option<ChildId> {
        match self.suspects.waiting() {
            0 => self.queue.pop().or_else(|| self.next_heir()),
            _some => self.next_suspect(),
        }
    }

    fn next_heir(&mut self) -> Option<ChildId> {
        let is_free = self.capacity.heirs_max().is_some_and(|max| self.slots_used < max);
        if is_free { self.heirs.pop() } else { None }
    }

    /// Moves a child, keeps the count of slots, and says what follows. `None` when the machine has no such move.
    fn record(
        &mut self,
        child: &ChildId,
        event: ChildEvent,
        report: Option<Box<Report>>,
        now: Now,
    ) -> Option<Vec<Effect>> {
        let (delegation, index) = self.whereabouts.get(child)?.clone();
        let delegated = self.delegations.get_mut(&delegation)?;
        let before = delegated.children[index].state;
        let facts = delegated.move_child(index, event, report, now)?;
        let after = delegated.children[index].state;
        self.slots_used += usize::from(after.holds_slot());
        self.slots_used -= usize::from(before.holds_slot());
        let mut effects = vec![Effect::Record(delegated.append(facts, &self.owner, now))];
        if let Some(outcome) = after.outcome() {
            self.withheld.remove(child);
            self.suspects.remove_all(|suspect| suspect == child);
            effects.push(Effect::Settled(child.clone(), outcome));
            if delegated.is_settled() {
                effects.push(Effect::AllSettled(delegation));
            }
            if matches!(before, ChildState::Queued { .. }) {
                self.queue.remove_all(|waiting| waiting == child);
                self.heirs.remove_all(|waiting| waiting == child);
            }
        }
        Some(effects)
    }

    fn standing(&self, child: &ChildId) -> Option<ChildState> {
        let (delegated, index) = self.child(child)?;
        Some(delegated.children[index].state)
    }

    fn tracked(&self, child: &ChildId) -> Option<&Tracked> {
        let (delegated, index) = self.child(child)?;
        delegated.children.get(index)
    }

    fn tracked_mut(&mut self, child: &ChildId) -> Option<&mut Tracked> {
        let (delegation, index) = self.whereabouts.get(child)?;
        self.delegations.get_mut(delegation)?.children.get_mut(*index)
    }

    /// Whether the caller is a child that may make no more children: it is ending, or not of this process any more.
    fn is_ending(&self, parent: Option<&ChildId>) -> bool {
        let works = |state| {
            matches!(
                state,
                ChildState::Running { .. } | ChildState::Parked { .. } | ChildState::Waiting { .. }
            )
        };
        parent.is_some_and(|child| !self.standing(child).is_some_and(works))
    }
}

/// A runner that says *interrupted* without having been told to stop broke off by itself.
fn honest_ending(state: ChildState, ending: Ending) -> Ending {
    match (state, ending) {
        (
            ChildState::Running { .. } | ChildState::Parked { .. } | ChildState::Waiting { .. },
            Ending::Interrupted,
        ) => Ending::Failed(FailureKind::Panicked),
        (ChildState::Queued { .. } | ChildState::Stopping { .. } | ChildState::Settled(_), _)
        | (_, Ending::Answered | Ending::CutShort(_) | Ending::Failed(_)) => ending,
    }
}

/// A child waits for its own children, whatever its session could do (MODE-1).
pub(crate) fn accepted(batch: NewBatch, ids: NewIds, completions: Completions) -> Accepted {
    let reach = if batch.lineage.parent.is_some() { Reach::Joined } else { batch.reach };
    let units = Unit::of_call(&ids.delegation, &batch.tasks, completions);
    Accepted {
        delegation: ids.delegation,
        lineage: batch.lineage,
        call_key: batch.call_key,
        reach,
        tasks: batch.tasks,
        children: ids.children,
        units,
        setting: batch.setting,
        transcripts: ids.transcripts,
        fallback: None,
        context: batch.context,
    }
}
