//! One delegation as the book holds it, and the facts that its changes leave behind.

use legwork_core::aftermath::Inactivity;
use legwork_core::batch::{Reach, Unit};
use legwork_core::child::{ChildEvent, ChildState};
use legwork_core::fact::{Accepted, Append, Fact};
use legwork_core::ids::{ChildId, Epoch, OwnerId};
use legwork_core::outcome::{Force, Outcome};
use legwork_core::pulse::Pulse;
use legwork_core::record::DelegationRecord;
use legwork_core::report::Report;
use legwork_core::time::{Moment, Now};

/// One delegation of this process.
#[derive(Debug)]
pub struct Delegated {
    /// What was fixed when it was accepted.
    pub accepted: Accepted,
    /// Its children by task index.
    pub children: Vec<Tracked>,
    /// The generation under which this process owns it.
    pub epoch: Epoch,
    /// How many facts were handed to the store.
    pub(super) seq: u64,
    /// The position of each task's unit.
    unit_of: Vec<usize>,
    /// Children that have not settled, by unit.
    open_of_unit: Vec<usize>,
    /// Children that have not settled.
    open: usize,
}

/// One child of this process.
#[derive(Debug)]
pub struct Tracked {
    /// Its id.
    pub id: ChildId,
    /// Where it stands.
    pub state: ChildState,
    /// Its counted facts, as last read.
    pub pulse: Pulse,
    /// When its pulse last moved.
    pub moved: Moment,
    /// When its run began.
    pub started: Option<Moment>,
    /// When it settled.
    pub ended: Option<Moment>,
    /// When its patience for a stop ends and it is aborted.
    pub(super) abort_at: Option<Moment>,
    /// Whether it was told that it has to move, since it last did.
    pub(super) warned: bool,
    /// Why the supervisor ended it, if it did.
    pub(super) inactivity: Option<Inactivity>,
}

impl Tracked {
    /// Sets the end of its patience. An earlier end stays; a child that was aborted has none.
    pub(super) fn abort_by(&mut self, due: Moment) {
        let aborted = matches!(self.state, ChildState::Stopping { force: Force::Abort, .. });
        self.abort_at = (!aborted).then(|| self.abort_at.map_or(due, |earlier| earlier.min(due)));
    }
}

impl Delegated {
    pub(super) fn new(accepted: Accepted, epoch: Epoch, now: Now) -> Self {
        let tracked = |id: &ChildId| Tracked {
            id: id.clone(),
            state: ChildState::NEW,
            pulse: Pulse::default(),
            moved: now.mono,
            started: None,
            ended: None,
            abort_at: None,
            warned: false,
            inactivity: None,
        };
        let mut unit_of = vec![0; accepted.tasks.len()];
        for (place, unit) in accepted.units.iter().enumerate() {
            unit.task_indexes.iter().for_each(|index| unit_of[*index] = place);
        }
        Delegated {
            unit_of,
            children: accepted.children.iter().map(tracked).collect(),
            open_of_unit: accepted.units.iter().map(|unit| unit.task_indexes.len()).collect(),
            open: accepted.children.len(),
            accepted,
            epoch,
            seq: 0,
        }
    }

    /// The same delegation as it was taken over from another process.
    pub(super) fn adopted(record: &DelegationRecord, now: Now) -> Self {
        let mut delegated = Delegated::new(record.accepted.clone(), record.epoch, now);
        delegated.seq = record.seq;
        for (index, child) in record.children.iter().enumerate() {
            let tracked = &mut delegated.children[index];
            tracked.state = child.state;
            if let Some((pulse, _)) = &child.pulse {
                tracked.pulse = pulse.begun_again();
            }
            if child.outcome().is_some() {
                tracked.ended = Some(now.mono);
                delegated.open -= 1;
                let unit =
                    delegated.accepted.units.iter().position(|unit| unit.task_indexes.contains(&index));
                if let Some(unit) = unit {
                    delegated.open_of_unit[unit] -= 1;
                }
            }
        }
        delegated
    }

    /// Moves one child and returns the facts of it: the move, and the settling of its unit when it was the last.
    /// `None` when the machine has no such move; nothing changes then.
    pub(super) fn move_child(
        &mut self,
        index: usize,
        event: ChildEvent,
        report: Option<Box<Report>>,
        now: Now,
    ) -> Option<Vec<Fact>> {
        let child = &mut self.children[index];
        child.state = child.state.apply(event).ok()?;
        if matches!(event, ChildEvent::Started) {
            child.started = Some(now.mono);
        }
        if matches!(event, ChildEvent::Started | ChildEvent::SlotGranted) {
            child.moved = now.mono;
            child.warned = false;
        }
        let mut facts = vec![Fact::Moved { child: child.id.clone(), event, report }];
        if child.state.outcome().is_some() {
            child.ended = Some(now.mono);
            child.abort_at = None;
            self.open -= 1;
            facts.extend(self.settled_unit(index).or_else(|| self.notice(index)));
        }
        Some(facts)
    }

    /// Whether every child has settled.
    pub fn is_settled(&self) -> bool {
        self.open == 0
    }

    /// The unit that the task at `index` belongs to.
    pub fn unit(&self, index: usize) -> &Unit {
        &self.accepted.units[self.unit_of[index]]
    }

    /// Whether every child of the unit that the task at `index` belongs to has settled.
    pub fn is_unit_settled(&self, index: usize) -> bool {
        self.open_of_unit[self.unit_of[index]] == 0
    }

    /// Whether something of it that has not settled comes back later: such a call takes a slot where slots count calls.
    pub fn is_in_background(&self) -> bool {
        let units = self.accepted.units.iter().zip(&self.open_of_unit);
        self.accepted.reach != Reach::Joined
            && units.into_iter().any(|(unit, open)| !unit.inline && *open > 0)
    }

    /// Wraps facts into an append that follows everything handed to the store before.
    pub(super) fn append(&mut self, facts: Vec<Fact>, owner: &OwnerId, now: Now) -> Append {
        let expected_seq = self.seq;
        self.seq += facts.len() as u64;
        Append {
            delegation: self.accepted.delegation.clone(),
            expected_seq,
            owner: owner.clone(),
            epoch: self.epoch,
            at: now.wall,
            facts,
        }
    }

    /// What is told at once of a child that has failed while others of its unit go on (NOTE-1).
    fn notice(&self, index: usize) -> Option<Fact> {
        let failed = self.children[index].state.outcome().is_some_and(Outcome::is_failure);
        let comes_later = self.accepted.reach != Reach::Joined && !self.unit(index).inline;
        (failed && comes_later).then(|| Fact::Noticed { child: self.children[index].id.clone() })
    }

    fn settled_unit(&mut self, index: usize) -> Option<Fact> {
        let position = self.unit_of[index];
        self.open_of_unit[position] -= 1;
        let settled = self.open_of_unit[position] == 0;
        settled.then(|| Fact::UnitSettled { unit: self.accepted.units[position].id.clone() })
    }
}
