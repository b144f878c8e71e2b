//! The SQLite store keeps the promises of the port.

#[path = "file/place.rs"]
mod place;

use legwork_testkit::store_suite::compare;
use place::FilePlace;

legwork_testkit::store_suite!(FilePlace::new());

/// Each seed is one sequence of calls.
const SEEDS: u64 = 12;

/// Calls in a sequence.
const CALLS: usize = 400;

#[tokio::test]
async fn random_calls_are_answered_as_in_memory() {
    for seed in 0..SEEDS {
        compare(&FilePlace::new(), seed, CALLS).await;
    }
}
