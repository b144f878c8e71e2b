//! The SQLite store answers random calls as the one in memory does.

mod place;

use legwork_testkit::store_suite::compare;
use place::FilePlace;

const SEEDS: u64 = 24;
const CALLS: usize = 400;

#[tokio::test]
async fn random_calls_are_answered_as_in_memory() {
    for seed in 0..SEEDS {
        compare(&FilePlace::new(), seed, CALLS).await;
    }
}
