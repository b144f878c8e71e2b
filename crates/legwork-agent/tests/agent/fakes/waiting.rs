//! Waits for what no event tells of: everything else goes on until it is so.

use std::time::{Duration, Instant};

/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(240);

/// Lets everything else go on until `is_so`.
pub async fn until(mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    // Deadline: what never comes fails its test, also where time is paused.
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "waited {PATIENCE:?} in vain");
        tokio::task::yield_now().await;
    }
}
