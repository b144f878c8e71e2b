//! What the engine is wired to: the ports it asks, and the two sources it has no right to make up itself, time and
//! randomness.

use legwork_core::ports::{Processes, Store, Transcripts, Worker};
use legwork_core::record::OwnerRecord;
use legwork_core::time::{Moment, Now, Timestamp};
use nix::time::{ClockId, clock_gettime};
use std::sync::{Arc, OnceLock};
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

/// Reads both clocks. The monotonic one goes with the runtime's, so that paused time stops it too, and counts from the start of the
/// machine, so that processes can compare what it says.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    origin: Origin,
    wall: fn() -> Timestamp,
}

/// A moment by both the runtime's clock and the machine's.
#[derive(Debug, Clone, Copy)]
struct Origin {
    instant: std::time::Instant,
    moment: Moment,
}

/// The moment at which a world of its own begins.
const BEGINNING: Moment = Moment(1_000_000);

impl Clock {
    /// The clock of this process.
    pub fn start() -> Self {
        Clock::start_beside(wall)
    }

    /// The same, beside another wall clock than the system's.
    pub fn start_beside(wall: fn() -> Timestamp) -> Self {
        /// One for all clocks of the process, so that they agree to the millisecond.
        static ORIGIN: OnceLock<Origin> = OnceLock::new();
        Clock { origin: *ORIGIN.get_or_init(Origin::now), wall }
    }

    /// The same for a world whose time begins at `instant`, whatever the machine's clock says then.
    pub fn counting_from(instant: Instant, wall: fn() -> Timestamp) -> Self {
        Clock { origin: Origin { instant: instant.into_std(), moment: BEGINNING }, wall }
    }

    /// Both clocks.
    pub fn now(&self) -> Now {
        Now { wall: (self.wall)(), mono: self.origin.moment(Instant::now().into_std()) }
    }

    pub(crate) fn instant(&self, moment: Moment) -> Instant {
        let Origin { instant, moment: origin } = self.origin;
        // A runtime whose time stands still may have begun before.
        let before = instant.checked_sub(origin.since(moment)).unwrap_or(instant);
        Instant::from_std(before + moment.since(origin))
    }
}

impl Origin {
    fn now() -> Origin {
        let up = clock_gettime(ClockId::CLOCK_MONOTONIC).map(std::time::Duration::from);
        // No supported system lacks that clock; without it moments count from the start of the process.
        Origin { instant: std::time::Instant::now(), moment: Moment(up.map(millis).unwrap_or_default()) }
    }

    fn moment(self, instant: std::time::Instant) -> Moment {
        let ahead = self.moment.after(instant.saturating_duration_since(self.instant));
        Moment(ahead.0.saturating_sub(millis(self.instant.saturating_duration_since(instant))))
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
