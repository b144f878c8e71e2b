//! The wall clock of a test: it goes with paused time and can be turned. Each test has a thread and a clock of its own.

use legwork_core::time::Timestamp;
use std::cell::Cell;
use tokio::time::Instant;

/// What it shows when it is first read.
const BEGINNING: i64 = 1_700_000_000_000;

thread_local! {
    static BEGAN: Cell<Option<Instant>> = const { Cell::new(None) };
    static TURNED: Cell<i64> = const { Cell::new(0) };
}

/// What it shows.
pub fn read() -> Timestamp {
    let began = BEGAN.get().unwrap_or_else(|| {
        let now = Instant::now();
        BEGAN.set(Some(now));
        now
    });
    let passed = i64::try_from(began.elapsed().as_millis()).unwrap_or(i64::MAX / 2);
    Timestamp(BEGINNING + passed + TURNED.get())
}

/// Somebody turns it by so many milliseconds.
pub fn turn(milliseconds: i64) {
    TURNED.set(TURNED.get() + milliseconds);
}
