//! How long work took, by clocks that only go forward, and in which of a process had it (K10).
//!
//! A process adds up what its own monotonic clock says. What another process or a later one needs of it is stored with the
//! pulse, and at the end with the report; no difference of two stored wall-clock times is a duration.

use crate::ports::Liveness;
use crate::record::{ChildRecord, DelegationRecord, Process};
use crate::time::{Moment, Timestamp};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// How long something took so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spans {
    /// Milliseconds that the attempts of a child took together, from the start of each to its end.
    pub worked_ms: u64,
    /// Milliseconds since its call was accepted in which a process had the call.
    pub held_ms: u64,
}

/// What the clock said when a pulse was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reading {
    /// How long everything had taken by then.
    pub spans: Spans,
    /// When that was.
    pub at: Moment,
    /// When the pulse had last moved.
    pub moved: Moment,
}

/// How somebody who is not its process sees the clock of a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sight {
    /// Its process runs on this machine, and it is this moment.
    Running(Moment),
    /// Its process has died since this machine was started.
    Left(Moment),
    /// Its process belongs to an earlier start of the machine, or to another one; since this one it is this moment.
    Before(Moment),
}

impl Sight {
    /// How `myself` sees what `record` holds.
    pub fn of(record: &DelegationRecord, liveness: Liveness, myself: &Process, now: Moment) -> Sight {
        match liveness {
            _any if record.owner.process.boot_id != myself.boot_id => Sight::Before(now),
            Liveness::Alive | Liveness::Unclear => Sight::Running(now),
            Liveness::Dead => Sight::Left(now),
        }
    }
}

impl ChildRecord {
    /// How long its attempts took together: so far, as far as that is stored, or until it settled.
    pub fn worked(&self, sight: Sight) -> Duration {
        if let Some(spans) = self.final_spans() {
            return Duration::from_millis(spans.worked_ms);
        }
        if self.outcome().is_some() {
            return between(self.started_at, self.ended_at);
        }
        let Some(reading) = self.reading() else { return Duration::ZERO };
        let since = match sight {
            Sight::Running(now) if self.state.has_runner() => now.since(reading.at),
            Sight::Running(_) | Sight::Left(_) | Sight::Before(_) => Duration::ZERO,
        };
        Duration::from_millis(reading.spans.worked_ms) + since
    }

    /// How long it took until it settled; nothing before.
    pub fn took(&self) -> Duration {
        match self.outcome() {
            Some(_) => self.worked(Sight::Before(Moment(0))),
            None => Duration::ZERO,
        }
    }

    /// How long nothing of it has moved: at least, when the machine was started again since; nothing once it has settled.
    pub fn quiet(&self, sight: Sight) -> Duration {
        if self.outcome().is_some() {
            return Duration::ZERO;
        }
        match (self.reading(), sight) {
            (Some(reading), Sight::Running(now) | Sight::Left(now)) => now.since(reading.moved),
            (Some(_), Sight::Before(now)) => now.since(Moment(0)),
            (None, _) => Duration::ZERO,
        }
    }

    /// The last reading of its clock that was stored.
    pub fn reading(&self) -> Option<Reading> {
        self.pulse.as_ref().and_then(|(pulse, _)| pulse.reading)
    }

    /// What is known of its time: at its end, or when its pulse was stored last.
    pub fn spans(&self) -> Option<Spans> {
        self.final_spans().or_else(|| self.reading().map(|reading| reading.spans))
    }

    fn final_spans(&self) -> Option<Spans> {
        self.report.as_ref().and_then(|report| report.spans)
    }
}

impl DelegationRecord {
    /// How long these tasks took together, from the acceptance of the call to the end of the last that has settled. A
    /// child that never began has no clock of its own, so its end counts only where no other's does.
    pub fn took(&self, tasks: impl Iterator<Item = usize> + Clone) -> Duration {
        let settled = || {
            let children = tasks.clone().filter_map(|index| self.children.get(index));
            children.filter(|child| child.outcome().is_some())
        };
        match settled().filter_map(ChildRecord::spans).map(|spans| spans.held_ms).max() {
            Some(held_ms) => Duration::from_millis(held_ms),
            None => between(Some(self.accepted_at), settled().filter_map(|child| child.ended_at).max()),
        }
    }
}

/// What stored times say of work whose process stored no spans: a version from before they were, or work that never began.
fn between(start: Option<Timestamp>, end: Option<Timestamp>) -> Duration {
    start.zip(end).map_or(Duration::ZERO, |(start, end)| end.since(start))
}
