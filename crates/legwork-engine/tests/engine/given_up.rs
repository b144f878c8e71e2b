//! Work whose facts the store did not take in time is given up here, and goes on here when it is asked for.

use crate::scene::{Scene, batch, left, options};
use legwork_core::ids::Epoch;
use legwork_core::outcome::{Force, Outcome, StopReason};
use legwork_core::ports::{Delegator, StoreError};
use legwork_core::steering::Scope;
use legwork_engine::recovery::Orphans;
use legwork_testkit::memory::MemoryStore;
use std::time::Duration;
/// The store takes nothing until the work whose facts wait for it is given up.
async fn given_up(scene: &Scene) {
    scene.store.fail(StoreError::Full("no space left on device".to_owned()));
    scene.handle.stop(Scope::All, StopReason::Cancelled, Force::Ask).await;
    scene.pass(Duration::from_secs(70)).await;
    assert_eq!(scene.handle.view(None).await, []);
    scene.store.open();
}

#[tokio::test(start_paused = true)]
async fn k08_work_that_was_given_up_here_goes_on_here_when_it_is_asked_for() {
    let scene = Scene::new(1).await;
    let ticket = scene.dispatch(&["until told"]).await;
    scene.troupe.until_here("until told").await;
    given_up(&scene).await;
    for attempt in [2, 3] {
        let recovered = scene.recover(&Orphans::All).await;
        assert_eq!(recovered.taken, std::slice::from_ref(&ticket.delegation));
        assert_eq!(scene.recover(&Orphans::All).await.taken, [], "it is at work here");
        scene.troupe.until(|counts| counts.came == attempt).await;
        let again = scene.troupe.assignments().pop().expect("it was played");
        assert_eq!((again.attempt as usize, again.fence.epoch), (attempt, Epoch(attempt as u64)));
        if attempt == 2 {
            given_up(&scene).await;
            assert_eq!(scene.recover(&Orphans::All).await.taken, [], "it is left alone for a while");
            scene.pass(Duration::from_secs(60)).await;
        }
    }
    scene.troupe.say("told");
    assert_eq!(scene.joined(&ticket).await.children[0].outcome(), Some(Outcome::Succeeded));
}

#[tokio::test(start_paused = true)]
async fn k08_work_that_was_given_up_here_is_not_begun_again_before_its_old_run_has_ended() {
    let memory = MemoryStore::new();
    let goal = "until told slow to leave";
    let ticket = left(&memory, batch(&[goal]), &[goal]).await;
    let scene = Scene::over(memory, 2, options(1)).await;
    scene.recover(&Orphans::All).await;
    scene.troupe.until_here(goal).await;
    given_up(&scene).await;
    assert_eq!(scene.recover(&Orphans::All).await.taken, [], "its run is still tidying up");
    assert_eq!(scene.troupe.counts().came, 1);
    scene.troupe.say("left");
    scene.pass(Duration::from_secs(1)).await;
    assert_eq!(scene.recover(&Orphans::All).await.taken, std::slice::from_ref(&ticket.delegation));
    scene.troupe.until(|counts| counts.came == 2).await;
    scene.troupe.say("told");
    let record = scene.joined(&ticket).await;
    assert_eq!((record.children[0].outcome(), record.epoch), (Some(Outcome::Succeeded), Epoch(3)));
    // And its slot is free again, once.
    let next = scene.dispatch(&["until another is told", "until another is told too"]).await;
    scene.troupe.until_here("until another is told").await;
    scene.pass(Duration::from_secs(1)).await;
    assert_eq!(scene.troupe.counts().here.len(), 1);
    scene.troupe.say("another");
    scene.joined(&next).await;
}
