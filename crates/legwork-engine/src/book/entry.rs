//! One delegation as the book holds it, and the facts that its changes leave behind.

use legwork_core::aftermath::Inactivity;
use legwork_core::batch::{Reach, Unit};
use legwork_core::child::{ChildEvent, ChildState};
use legwork_core::fact::{Accepted, Append, Fact};
use legwork_core::ids::{ChildId, Epoch, OwnerId};
use legwork_core::outcome::{Force, Outcome};
use legwork_core::pulse::Pulse;
use legwork_core::record::{ChildRecord, DelegationRecord};
use legwork_core::report::Report;
use legwork_core::spans::{Reading, Spans};
use legwork_core::time::{Moment, Now};
use std::time::Duration;

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
    /// Since when this process has it.
    held_from: Moment,
    /// How long others had it, as far as that was stored.
    held_before: Duration,
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
    /// When its run in this process began.
    pub started: Option<Moment>,
    /// How long its attempts in other processes took, as far as that was stored.
    worked_before: Duration,
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
    /// How long its attempts took together until now, or until it settled.
    pub fn worked(&self, now: Moment) -> Duration {
        let end = self.ended.unwrap_or(now);
        self.worked_before + self.started.map_or(Duration::ZERO, |start| end.since(start))
    }

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
            worked_before: Duration::ZERO,
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
            held_from: now.mono,
            held_before: Duration::ZERO,
        }
    }

    /// The same delegation as it was taken over from another process.
    pub(super) fn adopted(record: &DelegationRecord, now: Now) -> Self {
        let mut delegated = Delegated::new(record.accepted.clone(), record.epoch, now);
        delegated.seq = record.seq;
        let held = record.children.iter().filter_map(ChildRecord::spans).map(|spans| spans.held_ms).max();
        delegated.held_before = Duration::from_millis(held.unwrap_or_default());
        for (index, child) in record.children.iter().enumerate() {
            let tracked = &mut delegated.children[index];
            tracked.state = child.state;
            let worked_ms = child.spans().map(|spans| spans.worked_ms);
            tracked.worked_before = Duration::from_millis(worked_ms.unwrap_or_default());
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
        let settles = child.state.outcome().is_some();
        if settles {
            child.ended = Some(now.mono);
            child.abort_at = None;
        }
        let child = child.id.clone();
        let spans = settles.then(|| self.spans(index, now.mono));
        let report = report.map(|report| Box::new(Report { spans, ..*report }));
        let mut facts = vec![Fact::Moved { child, event, report }];
        if settles {
            self.open -= 1;
            facts.extend(self.settled_unit(index).or_else(|| self.notice(index)));
        }
        Some(facts)
    }

    /// How long a child took until now, or until it settled.
    pub fn spans(&self, index: usize, now: Moment) -> Spans {
        let child = &self.children[index];
        let held = self.held_before + child.ended.unwrap_or(now).since(self.held_from);
        Spans { worked_ms: millis(child.worked(now)), held_ms: millis(held) }
    }

    /// The pulse of a child as it is stored: with what the clock says.
    pub fn noted(&self, index: usize, pulse: Pulse, now: Moment) -> Pulse {
        let reading = Reading { spans: self.spans(index, now), at: now, moved: self.children[index].moved };
        Pulse { reading: Some(reading), ..pulse }
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

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
