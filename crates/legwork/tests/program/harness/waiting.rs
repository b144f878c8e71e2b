//! The one way in which tests wait for something that no event tells of: look, rest, look again, up to a deadline.

use std::time::{Duration, Instant};

/// Longer than anything here takes on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// What is granted on top of a time that the program has to keep. A machine that is busy with other tests gives it its turns
/// late; what such a bound tells apart from an end in time is none at all, or one after the store's wait for a lock of 5 s.
pub const SLACK: Duration = Duration::from_secs(2);
const REST: Duration = Duration::from_millis(5);

/// Waits until `check` gives a value, and returns it.
///
/// # Panics
/// When the patience ends, with `what` was waited for.
#[track_caller]
pub fn until<T>(what: &str, check: impl FnMut() -> Option<T>) -> T {
    within(PATIENCE, check).unwrap_or_else(|| panic!("waited {PATIENCE:?} in vain for {what}"))
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
