//! The wall clock of a live world. It goes with paused time and is turned a day forward or back now and then; each world
//! lives on a thread of its own, and so does its clock.

use legwork_core::time::Timestamp;
use legwork_engine::Clock;
use std::cell::Cell;
use tokio::time::Instant;

/// What it shows when a world begins.
const BEGINNING: i64 = 1_700_000_000_000;
/// How far it is turned at once.
const DAY: i64 = 86_400_000;

thread_local! {
    static BEGAN: Cell<Option<Instant>> = const { Cell::new(None) };
    static TURNED: Cell<i64> = const { Cell::new(0) };
}

/// A world begins on this thread.
pub(super) fn begin() {
    BEGAN.set(Some(Instant::now()));
    TURNED.set(0);
}

/// Both clocks of the processes of this world. They count from its beginning, so that the machine's clock has no say in when within
/// a millisecond something is due.
pub(super) fn clock() -> Clock {
    Clock::counting_from(BEGAN.get().unwrap_or_else(Instant::now), read)
}

/// What it shows.
pub(super) fn read() -> Timestamp {
    let passed = BEGAN.get().map(|began| began.elapsed().as_millis()).unwrap_or_default();
    Timestamp(BEGINNING + i64::try_from(passed).unwrap_or(i64::MAX / 2) + TURNED.get())
}

/// Somebody turns it by so many days.
pub(super) fn turn(days: i64) {
    TURNED.set(TURNED.get() + days * DAY);
}
