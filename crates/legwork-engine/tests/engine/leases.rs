//! Processes that stand still: their leases run out, another one takes their work over, and they are kept out when they come
//! back.

use crate::scene::{Scene, options, owner};
use legwork_core::ids::Epoch;
use legwork_core::outcome::Outcome;
use legwork_core::ports::{Delegator, DispatchError, Facts};
use legwork_core::time::Timestamp;
use legwork_engine::recovery::{Orphans, Recovered};
use legwork_testkit::memory::MemoryStore;
use legwork_testkit::shaky::ShakyStore;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

const LEASE: Duration = Duration::from_secs(10);

/// Makes the lease of the first process look old; a process that is at work renews it soon.
async fn look_stale(memory: &MemoryStore) {
    memory.renew(&owner(1).id, LEASE, Timestamp(0)).await.expect("it entered");
}

/// Proves RECOV-1, RECOV-7.
#[tokio::test(start_paused = true)]
async fn k34_a_process_that_stands_still_for_three_periods_has_lost_its_work_and_is_kept_out() {
    let memory = MemoryStore::new();
    let shaky = Arc::new(ShakyStore::new(Arc::new(memory.clone())));
    let late = Scene::over_store(shaky.clone(), 1, options(2)).await;
    let ticket = late.dispatch(&["until told"]).await;
    late.troupe.until_here("until told").await;
    look_stale(&memory).await;
    // It stands still: nothing that it asks of the store comes through.
    shaky.fail(&["renew", "append", "note_pulses"]);
    let heir = Scene::over(memory.clone(), 2, options(2)).await;
    let begun = Instant::now();
    let recovered = heir.handle.recover(&Orphans::All).await.expect("the store works");
    assert!(begun.elapsed() >= LEASE * 3, "{:?}", begun.elapsed());
    assert_eq!((recovered.taken.len(), recovered.resumed), (1, 1));
    heir.troupe.until_here("until told").await;
    // It is back, with an answer.
    late.troupe.say("told");
    shaky.recover();
    late.troupe.until(|counts| counts.here.is_empty()).await;
    late.pass(LEASE).await;
    assert!(matches!(
        late.handle.dispatch(crate::scene::batch(&["answer"])).await,
        Err(DispatchError::Closed | DispatchError::Store(_) | DispatchError::Refused(_))
    ));
    let record = heir.stored(&ticket.delegation).await;
    assert_eq!((record.children[0].outcome(), record.epoch), (None, Epoch(2)), "the late answer is refused");
    heir.troupe.say("told");
    assert_eq!(heir.joined(&ticket).await.children[0].outcome(), Some(Outcome::Succeeded));
}

/// Proves RECOV-1.
#[tokio::test(start_paused = true)]
async fn k34_a_process_that_renews_its_lease_keeps_its_work_whatever_its_stored_times_say() {
    let memory = MemoryStore::new();
    let alive = Scene::over(memory.clone(), 1, options(2)).await;
    let ticket = alive.dispatch(&["until told"]).await;
    alive.troupe.until_here("until told").await;
    let heir = Scene::over(memory.clone(), 2, options(2)).await;
    for stored in [Timestamp(0), Timestamp(i64::MAX / 2)] {
        memory.renew(&owner(1).id, LEASE, stored).await.expect("it entered");
        let begun = Instant::now();
        let recovered = heir.handle.recover(&Orphans::All).await.expect("the store works");
        assert_eq!(recovered, Recovered::default());
        assert!(begun.elapsed() <= LEASE, "a sign of life is enough: {:?}", begun.elapsed());
    }
    assert_eq!(heir.stored(&ticket.delegation).await.owner, owner(1));
    alive.troupe.say("told");
    alive.joined(&ticket).await;
}
