//! The one way in which tests wait for something that no event tells of: look, rest, look again, up to a deadline.

use std::time::{Duration, Instant};

/// Longer than anything here takes on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(240);
/// What is granted on top of a time that the program has to keep. A machine that is busy with other tests gives it its turns
/// late; what such a bound tells apart from an end in time is none at all, or one after the store's wait for a lock of 5 s.
pub const SLACK: Duration = Duration::from_secs(2);
/// How long a program may live on that was told to end and was given the usual stop grace.
pub const RELEASE_MAX: Duration = release_max(1500);
/// How long a program may live on that was stopped by Ctrl-C, or was told to end once more.
pub const STOP_MAX: Duration = Duration::from_secs(2).saturating_add(SLACK);
const REST: Duration = Duration::from_millis(5);

/// How long a program may live on that was told to end and was given this stop grace: for that and a second (KILL-4).
pub const fn release_max(grace_ms: u64) -> Duration {
    Duration::from_millis(grace_ms + 1000).saturating_add(SLACK)
}

/// Waits until `check` gives a value, and returns it.
///
/// # Panics
/// When the patience ends, with `what` was waited for.
#[track_caller]
pub fn until<T>(what: &str, check: impl FnMut() -> Option<T>) -> T {
    within(PATIENCE, check).unwrap_or_else(|| panic!("waited {PATIENCE:?} in vain for {what}"))
}

/// Time as it passes for a program on a machine that gives it its turns late: a wait that comes back late by that much more than it
/// asked for counts as what it asked for. On a machine with nothing else to do it is the time itself.
pub struct Turns {
    took: Duration,
    last: Instant,
}

impl Turns {
    pub fn begin() -> Turns {
        Turns { took: Duration::ZERO, last: Instant::now() }
    }

    /// One more rest of [`within`] is over.
    pub fn count(&mut self) {
        let now = Instant::now();
        self.took += (now - self.last).min(REST * 3);
        self.last = now;
    }

    pub fn took(&self) -> Duration {
        self.took
    }
}

/// Returns at that moment: nobody tells of it, and what happens by then is what a test varies.
#[expect(clippy::disallowed_methods, reason = "a moment is nobody's event")]
pub fn at(moment: Instant) {
    // Deadline: the moment itself.
    std::thread::sleep(moment.saturating_duration_since(Instant::now()));
}

/// The first value that `check` gives before `limit` has passed.
#[expect(clippy::disallowed_methods, reason = "another process tells of its changes to nobody")]
pub fn within<T>(limit: Duration, mut check: impl FnMut() -> Option<T>) -> Option<T> {
    let begun = Instant::now();
    loop {
        let found = check();
        if found.is_some() || begun.elapsed() > limit {
            return found;
        }
        // Deadline: a rest between two looks of a bounded wait.
        std::thread::sleep(REST);
    }
}
