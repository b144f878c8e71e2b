//! Work whose facts the store did not take in time is given up here, and goes on here when it is asked for.

use crate::scene::{DEAD, Scene, batch, batch_from, left, options, owner};
use legwork_core::child::ChildState;
use legwork_core::ids::Epoch;
use legwork_core::outcome::{Force, Outcome, StopReason};
use legwork_core::ports::{Delegator, StoreError};
use legwork_core::steering::Scope;
use legwork_engine::Hold;
use legwork_engine::recovery::{DEATHS_MAX, Orphans};
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

/// What a process gave up, and then takes from itself, has ended nobody.
#[tokio::test(start_paused = true)]
async fn k08_what_a_process_gives_up_again_and_again_is_no_death_of_it() {
    let scene = Scene::new(1).await;
    let ticket = scene.dispatch(&["until told"]).await;
    scene.troupe.until_here("until told").await;
    for attempt in 2..=DEATHS_MAX + 2 {
        given_up(&scene).await;
        let recovered = scene.handle.recover_again(&ticket.delegation).await.expect("the store is back");
        assert_eq!((recovered.resumed, recovered.condemned), (1, 0), "attempt {attempt}");
        scene.troupe.until(|counts| counts.came == attempt as usize).await;
    }
    assert_eq!(scene.stored(&ticket.delegation).await.children[0].deaths().in_a_row, 0);
}

/// Nor is it when the process has died by the time at which somebody goes on with what it left.
#[tokio::test(start_paused = true)]
async fn k08_what_was_given_up_and_left_is_no_death_of_a_process_that_dies_later() {
    let memory = MemoryStore::new();
    let scene = Scene::over(memory.clone(), DEAD, options(1)).await;
    let ticket = scene.dispatch(&["unrecorded told"]).await;
    scene.troupe.until_here("unrecorded told").await;
    scene.troupe.say("told");
    scene.pass(Duration::from_secs(2)).await;
    let left = scene.stored(&ticket.delegation).await;
    assert!(left.owner.gone && left.owner.id != owner(DEAD).id, "nobody has it: {left:?}");
    assert_eq!(left.children[0].state, ChildState::Running { attempt: 1 });
    drop(scene);
    let heir = Scene::over(memory, 2, options(1)).await;
    assert_eq!(heir.recover(&Orphans::All).await.resumed, 1);
    heir.troupe.until_here("unrecorded told").await;
    let deaths = heir.stored(&ticket.delegation).await.children[0].deaths();
    assert_eq!((deaths.in_a_row, deaths.attempt), (0, 1), "it is known, and none");
}

/// What this process gave up and another one works on since is none of its business.
#[tokio::test(start_paused = true)]
async fn k35_what_was_given_up_here_and_is_worked_on_elsewhere_is_not_held_here() {
    let memory = MemoryStore::new();
    let scene = Scene::over(memory.clone(), 1, options(1)).await;
    let ticket = scene.dispatch(&["unrecorded told"]).await;
    scene.troupe.until_here("unrecorded told").await;
    scene.troupe.say("told");
    scene.pass(Duration::from_secs(2)).await;
    let record = scene.stored(&ticket.delegation).await;
    let hold = scene.handle.hold_of(&record).await.expect("the engine runs");
    assert!(matches!(hold, Hold::GivenUp(_)), "{hold:?}");
    let heir = Scene::over(memory, 2, options(1)).await;
    heir.recover(&Orphans::All).await;
    heir.troupe.until_here("unrecorded told").await;
    let record = scene.stored(&ticket.delegation).await;
    assert_eq!(scene.handle.hold_of(&record).await.expect("the engine runs"), Hold::NotHere);
    heir.troupe.say("told");
    let joined = scene.handle.join(&ticket.delegation).await.expect("somebody works on it");
    assert_eq!(joined.record.children[0].outcome(), Some(Outcome::Succeeded));
}

/// The store refuses a fact of work that was given up a moment before: that is one giving up, and the first reason says why.
#[tokio::test(start_paused = true)]
async fn k35_work_that_is_given_up_for_two_reasons_at_once_is_given_up_once() {
    let scene = Scene::new(2).await;
    let ticket = scene.dispatch(&["unrecorded told", "until another is told"]).await;
    scene.troupe.until(|counts| counts.here.len() == 2).await;
    scene.store.close();
    let arrived = scene.store.arrived();
    scene.troupe.say("another");
    scene.store.until_arrived(arrived + 1).await;
    scene.troupe.say("told");
    scene.troupe.until(|counts| counts.here.is_empty()).await;
    scene.store.refuse(ticket.delegation.clone());
    scene.store.open();
    scene.pass(Duration::from_secs(2)).await;
    let hold = scene.handle.hold(&ticket.delegation).await.expect("the engine runs");
    assert!(matches!(&hold, Hold::GivenUp(why) if why.contains("no space left")), "{hold:?}");
    let recovered = scene.recover(&Orphans::All).await;
    assert_eq!(recovered.taken, [ticket.delegation], "the first time it may be tried again at once");
}

/// A part of a tree that has ended here is not begun anew while the rest has not: it would be taken away again with the rest.
#[tokio::test(start_paused = true)]
async fn inv_14_no_part_of_a_tree_that_is_given_up_is_taken_up_before_all_of_it_has_ended_here() {
    let scene = Scene::new(2).await;
    let slow = "until gone slow to leave";
    let ticket = scene.dispatch(&[slow]).await;
    scene.troupe.until_here(slow).await;
    let below = batch_from(&scene.troupe.assignments()[0], &["unrecorded told".to_owned()]);
    let below = scene.handle.dispatch(below).await.expect("the call is accepted");
    scene.troupe.until(|counts| counts.here.len() == 2).await;
    scene.troupe.say("told");
    scene.troupe.until(|counts| counts.here.is_empty()).await;
    scene.pass(Duration::from_secs(1)).await;
    for orphans in [Orphans::All, Orphans::Of(below.delegation.clone())] {
        assert_eq!(scene.recover(&orphans).await.taken, [], "{orphans:?}");
    }
    let hold = scene.handle.hold(&below.delegation).await.expect("the engine runs");
    assert_eq!(hold, Hold::InHand, "the tree is left as a whole");
    scene.troupe.say("left");
    scene.pass(Duration::from_secs(1)).await;
    let recovered = scene.recover(&Orphans::All).await;
    assert_eq!(recovered.taken, [ticket.delegation, below.delegation]);
}
