//! Who waits for a first slot, as the world sees it, and the law of fairness over it. It knows no queue: it states only
//! what nobody who waits may have to see.

use super::law::{Broken, Law};
use legwork_core::ids::{ChildId, SessionId};
use std::collections::{BTreeMap, VecDeque};

/// The waiting children of every session.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    lanes: BTreeMap<SessionId, Lane>,
    /// How many children were served so far.
    served: u64,
}

#[derive(Debug, Default)]
struct Lane {
    waiting: VecDeque<ChildId>,
    /// How many had been served, over all sessions, when somebody began to wait here without a break.
    since: u64,
    /// The number of the last one that was served here.
    last: Option<u64>,
}

impl Lanes {
    pub(super) fn len(&self) -> usize {
        self.lanes.values().map(|lane| lane.waiting.len()).sum()
    }

    pub(super) fn join(&mut self, session: &SessionId, child: ChildId) {
        let served = self.served;
        let lane = self.lanes.entry(session.clone()).or_default();
        if lane.waiting.is_empty() {
            lane.since = served;
        }
        lane.waiting.push_back(child);
    }

    /// Somebody does not wait any more and was not served.
    pub(super) fn leave(&mut self, session: &SessionId, child: &ChildId) {
        if let Some(lane) = self.lanes.get_mut(session) {
            lane.waiting.retain(|waiting| waiting != child);
        }
    }

    /// Somebody is served. Refused when another of its session waits longer, or when another session was waiting since
    /// before this session's last turn and had none since.
    pub(super) fn serve(&mut self, session: &SessionId, child: &ChildId) -> Result<(), Broken> {
        let lane = self.lanes.entry(session.clone()).or_default();
        let first = lane.waiting.front().cloned();
        Broken::unless(first.as_ref() == Some(child), Law::Fair, || {
            format!("{child} is served and {first:?} is the first of {session}")
        })?;
        lane.waiting.pop_front();
        if let Some(turn) = lane.last {
            self.nobody_passed_over(session, turn)?;
        }
        self.served += 1;
        let served = self.served;
        self.lanes.entry(session.clone()).or_default().last = Some(served);
        Ok(())
    }

    fn nobody_passed_over(&self, session: &SessionId, turn: u64) -> Result<(), Broken> {
        for (other, lane) in self.lanes.iter().filter(|(other, _)| *other != session) {
            let waited = !lane.waiting.is_empty() && lane.since < turn;
            let served = lane.last.is_some_and(|last| last > turn);
            Broken::unless(!waited || served, Law::Fair, || {
                format!("{session} has another turn before {other}, which waited already at its last one")
            })?;
        }
        Ok(())
    }
}
