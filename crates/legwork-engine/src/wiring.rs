//! What the engine is wired to: the ports it asks, and the two sources it has no right to make up itself, time and
//! randomness.

use legwork_core::ports::{Processes, Store, Transcripts, Worker};
use legwork_core::record::OwnerRecord;
use legwork_core::time::{Moment, Now, Timestamp};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};
use tokio::time::Instant;

/// Everything the engine reaches outside itself.
#[derive(Clone)]
pub struct Wiring {
    /// Where facts and journals go.
    pub store: Arc<dyn Store>,
    /// Who runs children.
    pub worker: Arc<dyn Worker>,
    /// Where live transcripts go.
    pub transcripts: Arc<dyn Transcripts>,
    /// Tells who lives.
    pub processes: Arc<dyn Processes>,
    /// Both clocks.
    pub clock: Clock,
    /// 64 random bits a call, for ids.
    pub bits: Arc<dyn Fn() -> u64 + Send + Sync>,
    /// This process as an owner of work.
    pub owner: OwnerRecord,
}

/// Reads both clocks. The monotonic one is the runtime's, so that paused time stops it too.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    start: Instant,
    wall: fn() -> Timestamp,
}

impl Clock {
    /// A clock whose monotonic zero is now.
    pub fn start() -> Self {
        Clock::start_beside(wall)
    }

    /// The same, beside another wall clock than the system's.
    pub fn start_beside(wall: fn() -> Timestamp) -> Self {
        Clock { start: Instant::now(), wall }
    }

    /// Both clocks.
    pub fn now(&self) -> Now {
        Now { wall: (self.wall)(), mono: Moment(millis(self.start.elapsed())) }
    }

    pub(crate) fn instant(&self, moment: Moment) -> Instant {
        self.start + std::time::Duration::from_millis(moment.0)
    }
}

fn wall() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

fn millis(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

impl Wiring {
    /// Ids drawn from the system's random source.
    ///
    /// # Panics
    /// When the system has no random source, which no supported platform lacks.
    pub fn system_bits() -> Arc<dyn Fn() -> u64 + Send + Sync> {
        Arc::new(|| getrandom::u64().expect("the system has a random source"))
    }
}
