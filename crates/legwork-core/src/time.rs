//! Two kinds of time that must not be mixed: [`Timestamp`] is for people, [`Moment`] is for decisions.
//!
//! Nothing here reads a clock; both come in as arguments (invariant 9).

use serde::{Deserialize, Serialize};
use std::time::Duration;

/// A wall-clock instant in milliseconds since the Unix epoch. It is stored and shown; no decision depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// The milliseconds from `earlier` to this instant; zero when the wall clock was set back in between.
    pub fn since(self, earlier: Timestamp) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0).max(0).unsigned_abs())
    }
}

/// A monotonic instant in milliseconds since about the start of this machine, so that processes of one start can compare
/// theirs. It is stored with what says of which start it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Moment(pub u64);

impl Moment {
    /// The time from `earlier` to this instant; zero when `earlier` lies ahead.
    pub fn since(self, earlier: Moment) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }

    /// This instant moved ahead by `duration`.
    pub fn after(self, duration: Duration) -> Moment {
        Moment(self.0.saturating_add(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)))
    }
}

/// Both clocks read together, once for each event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// What the wall clock said.
    pub wall: Timestamp,
    /// What the monotonic clock said.
    pub mono: Moment,
}
