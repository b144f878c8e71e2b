//! How a connection waits for another process's transaction. It decides how long; what a refusal means is told elsewhere.

use rusqlite::Connection;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::thread;
use std::time::{Duration, Instant};

/// The shortest pause between two looks, in microseconds.
const PAUSE_MIN_US: u64 = 200;

/// The span over which pauses are spread, in microseconds.
const PAUSE_SPREAD_US: u64 = 1_000;

/// Makes `connection` wait for a lock, at most for `longest`.
///
/// SQLite's own back-off grows to 100 ms, so that a process that writes without a break gives a second one a
/// hundredth of its turns. Pauses that stay short hit the gap between two groups within milliseconds, and that they
/// are random keeps two processes from missing each other in step.
pub(crate) fn install(connection: &mut Connection, longest: Duration) -> rusqlite::Result<()> {
    let mut patience = Patience::new(longest);
    connection.busy_handler(Some(move |looks| patience.wait(looks)))
}

/// The waits of one connection.
pub(crate) struct Patience {
    since: Instant,
    longest: Duration,
    dice: u64,
}

impl Patience {
    pub(crate) fn new(longest: Duration) -> Self {
        Patience { since: Instant::now(), longest, dice: RandomState::new().hash_one(0_u8) | 1 }
    }

    /// Waits a little; `false` once the whole wait for this lock is over. `looks` counts the earlier pauses.
    pub(crate) fn wait(&mut self, looks: i32) -> bool {
        if looks == 0 {
            self.since = Instant::now();
        }
        if self.since.elapsed() >= self.longest {
            return false;
        }
        // Deadline: SQLite has no event for a freed lock, so that looking again is the only way; `longest` ends it.
        thread::park_timeout(Duration::from_micros(PAUSE_MIN_US + self.roll() % PAUSE_SPREAD_US));
        true
    }

    /// The next number of a xorshift sequence: good enough to spread pauses.
    fn roll(&mut self) -> u64 {
        self.dice ^= self.dice << 13;
        self.dice ^= self.dice >> 7;
        self.dice ^= self.dice << 17;
        self.dice
    }
}
