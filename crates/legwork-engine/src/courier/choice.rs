//! The choice of the next unit for one session: the first in the order in which they became ready that can be offered
//! now. Where results are is read from the store every time, in portions from the front, and no further than that one.
//!
//! Nothing is claimed here, and nothing offered.

use crate::gap::Gaps;
use crate::wiring::Wiring;
use legwork_core::batch::{Reach, Unit};
use legwork_core::below::Below;
use legwork_core::ids::{SessionId, UnitId};
use legwork_core::ports::{Due, StoreError, Undelivered};
use legwork_core::record::DelegationRecord;
use legwork_core::taking::Taker;
use std::collections::{HashMap, HashSet};
use std::time::Duration;
use tokio::time::Instant;

/// Between tries of an offer that came back, or of a store that fails.
const FIRST_GAP: Duration = Duration::from_millis(100);
const LONGEST_GAP: Duration = Duration::from_secs(30);
/// Units that are read at once.
const PORTION: usize = 32;

/// Gaps between tries of what came back or failed.
pub(super) const fn gaps() -> Gaps {
    Gaps::new(FIRST_GAP, LONGEST_GAP)
}

/// Which unit of one session is offered next.
pub(super) struct Choice {
    session: SessionId,
    wiring: Wiring,
    /// Units of its calls whose caller waits for them itself.
    inline: HashSet<UnitId>,
    /// Units that could not be handed over for reasons of their own.
    aside: HashMap<UnitId, SetAside>,
}

/// A unit that is tried again when its time has come, and keeps nothing back meanwhile (invariant 3).
struct SetAside {
    gaps: Gaps,
    again_at: Instant,
}

/// A unit that is ready, with where it stands among what is due, and its delegation.
pub(super) struct Next {
    pub(super) place: u64,
    pub(super) due: Undelivered,
    /// Which unit of the record it is, or tells of.
    pub(super) unit: usize,
    pub(super) record: DelegationRecord,
}

/// What there is to offer.
pub(super) enum Found {
    /// The next unit to offer.
    Next(Box<Next>),
    /// Nothing is ready.
    Nothing,
    /// Nothing is ready but what was set aside until then.
    Later(Instant),
}

/// What becomes of a unit in its turn.
enum Turn {
    /// It is offered.
    Next(Box<Next>),
    /// Those behind it go first.
    Passed,
    /// The same, until then.
    Later(Instant),
}

impl Choice {
    pub(super) fn new(session: SessionId, wiring: Wiring) -> Self {
        Choice { session, wiring, inline: HashSet::new(), aside: HashMap::new() }
    }

    /// Finds the next unit to offer to an inbox of this reach.
    pub(super) async fn next(&mut self, reach: Reach) -> Result<Found, StoreError> {
        let (mut later, mut after) = (None::<Instant>, 0);
        loop {
            let portion = self.wiring.store.due(&self.session, after, PORTION).await?;
            let Some(last) = portion.last_place() else {
                return Ok(later.map_or(Found::Nothing, Found::Later));
            };
            after = last;
            for (_, unit) in portion.unreadable {
                self.set_aside(unit, "where they are cannot be read; `legwork doctor` says what to do");
            }
            for due in portion.rows {
                match self.turn_of(due, reach).await? {
                    Turn::Next(next) => return Ok(Found::Next(next)),
                    Turn::Passed => {}
                    Turn::Later(then) => later = Some(later.map_or(then, |other| other.min(then))),
                }
            }
        }
    }

    /// The unit is not asked for again: its caller waits for it itself.
    pub(super) fn pass_over(&mut self, unit: UnitId) {
        self.inline.insert(unit);
    }

    /// The session took the unit, whatever stood in its way before.
    pub(super) fn taken(&mut self, unit: &UnitId) {
        self.aside.remove(unit);
    }

    /// The unit cannot be handed over, and that is no trouble of the store's or the session's: those after it go first,
    /// until the time that is given back.
    pub(super) fn set_aside(&mut self, unit: UnitId, why: &str) -> Instant {
        let now = Instant::now();
        if let Some(aside) = self.aside.get_mut(&unit) {
            aside.again_at = now + aside.gaps.widen();
            return aside.again_at;
        }
        tracing::error!(session = %self.session, %unit, why, "results cannot be brought to their session; they are kept and tried again, and others go before them");
        let mut gaps = gaps();
        let again_at = now + gaps.widen();
        self.aside.insert(unit, SetAside { gaps, again_at });
        again_at
    }

    /// Whether a unit can be offered now. One that is parked is made ready, for the session is here, and so is one that
    /// the dead had taken; one that cannot be read is set aside.
    async fn turn_of(&mut self, Due { place, due }: Due, reach: Reach) -> Result<Turn, StoreError> {
        let is_mine = due.reach == reach && reach != Reach::Joined && !self.inline.contains(&due.unit);
        if !is_mine {
            return Ok(Turn::Passed);
        }
        if let Some(aside) = self.aside.get(&due.unit)
            && aside.again_at > Instant::now()
        {
            return Ok(Turn::Later(aside.again_at));
        }
        if !self.taker().make_ready(&due.unit, &due.state, due.claimant.as_deref()).await? {
            return Ok(Turn::Passed);
        }
        let (record, unit) = match self.read(&due).await {
            Ok(found) => found,
            Err(error @ (StoreError::Corrupt(_) | StoreError::Conflict(_))) => {
                return Ok(Turn::Later(self.set_aside(due.unit, &error.to_string())));
            }
            Err(error) => return Err(error),
        };
        if due.notice.is_none() && self.is_held_back(&record, unit).await? {
            return Ok(Turn::Passed);
        }
        Ok(Turn::Next(Box::new(Next { place, due, unit, record })))
    }

    /// The delegation of a unit, and which of its units it is.
    async fn read(&self, due: &Undelivered) -> Result<(DelegationRecord, usize), StoreError> {
        let record = self.wiring.store.delegation(&due.delegation).await?;
        let gone = || StoreError::Conflict(format!("the unit {} is not stored any more", due.unit));
        let record = record.ok_or_else(gone)?;
        let is_it = |unit: &Unit| match due.notice {
            Some(task) => unit.task_indexes.contains(&task),
            None => unit.id == due.unit,
        };
        let unit = record.accepted.units.iter().position(is_it).ok_or_else(gone)?;
        Ok((record, unit))
    }

    /// Whether something that a child of the unit had sent out is still to end: it is told with the unit, and whatever settled
    /// between the offer and the turn would count as told.
    async fn is_held_back(&self, record: &DelegationRecord, unit: usize) -> Result<bool, StoreError> {
        let below = Below::of(self.wiring.store.as_ref(), record).await?;
        Ok(below.open_under(&record.accepted.units[unit].task_indexes).next().is_some())
    }

    fn taker(&self) -> Taker<'_> {
        Taker {
            facts: self.wiring.store.as_ref(),
            processes: self.wiring.processes.as_ref(),
            owner: &self.wiring.owner.id,
            at: self.wiring.clock.now().wall,
        }
    }
}
