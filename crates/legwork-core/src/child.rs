//! The state machine of one child. This is the only place that decides which move is legal; the book makes moves
//! with it, and every store applies the recorded events with it again.

use crate::outcome::{Ending, Force, Outcome, StopReason};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Where a child stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChildState {
    /// It waits for a slot; `attempts` runs were begun before.
    Queued {
        /// Runs begun so far.
        attempts: u32,
    },
    /// A runner works on it and it holds a slot.
    Running {
        /// Which run this is, from 1.
        attempt: u32,
    },
    /// It waits for its own children and holds no slot (invariant 15).
    Parked {
        /// Which run this is, from 1.
        attempt: u32,
    },
    /// Its wait is over and it wants a slot again, before new children.
    Waiting {
        /// Which run this is, from 1.
        attempt: u32,
    },
    /// It was told to stop and its runner has not ended yet.
    Stopping {
        /// Which run this is, from 1.
        attempt: u32,
        /// The first cause; later ones do not replace it.
        cause: StopReason,
        /// How hard the stop is pressed by now.
        force: Force,
        /// Whether its runner still holds a slot.
        slot: Slot,
    },
    /// It has ended, for good.
    Settled(Outcome),
}

/// Whether a stopping child still occupies a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Slot {
    /// It was running when the stop came.
    Held,
    /// It was parked or waiting when the stop came.
    Free,
}

/// What can happen to a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChildEvent {
    /// A slot was granted to a queued child and its run begins.
    Started,
    /// It waits for its own children and gives its slot back.
    Parked,
    /// What it waited for is there.
    Unparked,
    /// It has a slot again.
    SlotGranted,
    /// Somebody wants it ended.
    StopAsked {
        /// Why.
        reason: StopReason,
        /// How hard.
        force: Force,
    },
    /// Its runner is gone and said this.
    Returned(Ending),
    /// The process that ran it is proved dead.
    OwnerLost(AfterLoss),
}

/// What becomes of a child whose owner died.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AfterLoss {
    /// Its journal can be resumed: it waits for a new owner.
    Requeue,
    /// Nobody goes on with it.
    GiveUp,
}

/// A move that the machine does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("a child that is {state:?} cannot take {event:?}")]
pub struct IllegalTransition {
    /// The state it was in.
    pub state: ChildState,
    /// The event that does not fit.
    pub event: ChildEvent,
}

impl ChildState {
    /// A child that was just accepted.
    pub const NEW: ChildState = ChildState::Queued { attempts: 0 };

    /// The state after `event`.
    ///
    /// # Errors
    /// [`IllegalTransition`] when the machine has no such move; nothing changes then.
    pub fn apply(self, event: ChildEvent) -> Result<ChildState, IllegalTransition> {
        match event {
            ChildEvent::Started => self.started(),
            ChildEvent::Parked => self.parked(),
            ChildEvent::Unparked => self.unparked(),
            ChildEvent::SlotGranted => self.slot_granted(),
            ChildEvent::StopAsked { reason, force } => self.stop_asked(reason, force),
            ChildEvent::Returned(ending) => self.returned(ending),
            ChildEvent::OwnerLost(after) => self.owner_lost(after),
        }
        .ok_or(IllegalTransition { state: self, event })
    }

    /// Whether the child has ended.
    pub fn outcome(self) -> Option<Outcome> {
        match self {
            ChildState::Settled(outcome) => Some(outcome),
            ChildState::Queued { .. }
            | ChildState::Running { .. }
            | ChildState::Parked { .. }
            | ChildState::Waiting { .. }
            | ChildState::Stopping { .. } => None,
        }
    }

    /// Whether it may still be told something: one that is ending reads nothing more (RUN-13).
    pub fn takes_steers(self) -> bool {
        match self {
            ChildState::Queued { .. }
            | ChildState::Running { .. }
            | ChildState::Parked { .. }
            | ChildState::Waiting { .. } => true,
            ChildState::Stopping { .. } | ChildState::Settled(_) => false,
        }
    }

    /// Whether a live runner occupies a slot for it (invariant 15).
    pub fn holds_slot(self) -> bool {
        matches!(self, ChildState::Running { .. } | ChildState::Stopping { slot: Slot::Held, .. })
    }

    /// Whether a runner exists for it in its owner's process.
    pub fn has_runner(self) -> bool {
        !matches!(self, ChildState::Queued { .. } | ChildState::Settled(_))
    }

    /// The number of the run that is under way, unless the child was told to stop.
    pub fn attempt_under_way(self) -> Option<u32> {
        match self {
            ChildState::Running { attempt }
            | ChildState::Parked { attempt }
            | ChildState::Waiting { attempt } => Some(attempt),
            ChildState::Queued { .. } | ChildState::Stopping { .. } | ChildState::Settled(_) => None,
        }
    }

    /// The word that lists show for it.
    pub fn as_str(self) -> &'static str {
        match self {
            ChildState::Queued { .. } => "queued",
            ChildState::Running { .. } => "running",
            ChildState::Parked { .. } => "parked",
            ChildState::Waiting { .. } => "waiting",
            ChildState::Stopping { .. } => "stopping",
            ChildState::Settled(_) => "settled",
        }
    }

    fn started(self) -> Option<ChildState> {
        match self {
            ChildState::Queued { attempts } => Some(ChildState::Running { attempt: attempts + 1 }),
            ChildState::Running { .. }
            | ChildState::Parked { .. }
            | ChildState::Waiting { .. }
            | ChildState::Stopping { .. }
            | ChildState::Settled(_) => None,
        }
    }

    fn parked(self) -> Option<ChildState> {
        match self {
            ChildState::Running { attempt } => Some(ChildState::Parked { attempt }),
            ChildState::Queued { .. }
            | ChildState::Parked { .. }
            | ChildState::Waiting { .. }
            | ChildState::Stopping { .. }
            | ChildState::Settled(_) => None,
        }
    }

    fn unparked(self) -> Option<ChildState> {
        match self {
            ChildState::Parked { attempt } => Some(ChildState::Waiting { attempt }),
            ChildState::Queued { .. }
            | ChildState::Running { .. }
            | ChildState::Waiting { .. }
            | ChildState::Stopping { .. }
            | ChildState::Settled(_) => None,
        }
    }

    fn slot_granted(self) -> Option<ChildState> {
        match self {
            ChildState::Waiting { attempt } => Some(ChildState::Running { attempt }),
            ChildState::Queued { .. }
            | ChildState::Running { .. }
            | ChildState::Parked { .. }
            | ChildState::Stopping { .. }
            | ChildState::Settled(_) => None,
        }
    }

    fn stop_asked(self, reason: StopReason, force: Force) -> Option<ChildState> {
        let stopping = |attempt, slot| ChildState::Stopping { attempt, cause: reason, force, slot };
        match self {
            ChildState::Queued { .. } => Some(ChildState::Settled(Outcome::Stopped(reason))),
            ChildState::Running { attempt } => Some(stopping(attempt, Slot::Held)),
            ChildState::Parked { attempt } | ChildState::Waiting { attempt } => {
                Some(stopping(attempt, Slot::Free))
            }
            // The first cause is kept; only the force may rise.
            ChildState::Stopping { attempt, cause, force: before, slot } => {
                Some(ChildState::Stopping { attempt, cause, force: before.max(force), slot })
            }
            ChildState::Settled(_) => None,
        }
    }

    fn returned(self, ending: Ending) -> Option<ChildState> {
        let outcome = match (self, ending) {
            (ChildState::Queued { .. } | ChildState::Settled(_), _) => return None,
            // What was already produced is kept, even while stopping.
            (_, Ending::Answered) => Outcome::Succeeded,
            (_, Ending::CutShort(limit)) => Outcome::Partial(limit),
            (ChildState::Stopping { cause, .. }, Ending::Failed(_) | Ending::Interrupted) => {
                Outcome::Stopped(cause)
            }
            (
                ChildState::Running { .. } | ChildState::Parked { .. } | ChildState::Waiting { .. },
                Ending::Failed(kind),
            ) => Outcome::Failed(kind),
            (
                ChildState::Running { .. } | ChildState::Parked { .. } | ChildState::Waiting { .. },
                Ending::Interrupted,
            ) => return None,
        };
        Some(ChildState::Settled(outcome))
    }

    fn owner_lost(self, after: AfterLoss) -> Option<ChildState> {
        match (self, after) {
            (ChildState::Settled(_), _) => None,
            (ChildState::Stopping { cause, .. }, _) => Some(ChildState::Settled(Outcome::Stopped(cause))),
            (ChildState::Queued { attempts }, AfterLoss::Requeue) => Some(ChildState::Queued { attempts }),
            (ChildState::Queued { .. }, AfterLoss::GiveUp) => {
                Some(ChildState::Settled(Outcome::Stopped(StopReason::OwnerLost)))
            }
            (
                ChildState::Running { attempt }
                | ChildState::Parked { attempt }
                | ChildState::Waiting { attempt },
                AfterLoss::Requeue,
            ) => Some(ChildState::Queued { attempts: attempt }),
            (
                ChildState::Running { .. } | ChildState::Parked { .. } | ChildState::Waiting { .. },
                AfterLoss::GiveUp,
            ) => Some(ChildState::Settled(Outcome::Lost)),
        }
    }
}
