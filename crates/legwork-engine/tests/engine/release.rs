//! The end of a process: nothing new, a grace, a cut, and everything in the store for the next owner.

use crate::scene::{STOP_GRACE, Scene, batch};
use legwork_core::child::ChildState;
use legwork_core::outcome::{Outcome, StopReason};
use legwork_core::ports::{Delegator, JoinError, StoreError};
use std::time::Duration;
use tokio::pin;
use tokio::time::Instant;

/// Proves KILL-4.
#[tokio::test(start_paused = true)]
async fn k33_a_release_concludes_nothing_of_what_it_cuts() {
    let Scene { store, troupe, engine, handle, .. } = Scene::new(3).await;
    let goals = ["answer", "until told", "deaf", "answer"];
    let ticket = handle.dispatch(batch(&goals)).await.expect("it is accepted");
    troupe.until(|counts| counts.came == 4 && counts.here.len() == 2).await;
    let begun = Instant::now();
    engine.close().await;
    assert!(begun.elapsed() < STOP_GRACE + Duration::from_secs(1), "{:?}", begun.elapsed());
    assert_eq!(troupe.counts().here, [""; 0]);
    let record = legwork_core::ports::Facts::delegation(store.as_ref(), &ticket.delegation).await;
    let record = record.expect("it reads").expect("it is stored");
    let outcomes: Vec<_> = record.children.iter().map(|child| child.outcome()).collect();
    assert_eq!(outcomes, [Some(Outcome::Succeeded), None, None, Some(Outcome::Succeeded)]);
    assert!(matches!(record.children[1].state, ChildState::Running { .. }));
    let heard: Vec<_> = troupe.counts().heard.iter().map(|(_, notice)| notice.reason).collect();
    assert_eq!(heard, [StopReason::Shutdown]);
}

#[tokio::test(start_paused = true)]
async fn k33_an_answer_that_comes_in_the_grace_of_a_release_is_kept() {
    let Scene { store, troupe, engine, handle, .. } = Scene::new(1).await;
    let ticket = handle.dispatch(batch(&["finish word"])).await.expect("it is accepted");
    troupe.until_here("finish word").await;
    let answers = async {
        troupe.until(|counts| !counts.heard.is_empty()).await;
        troupe.say("word");
    };
    tokio::join!(engine.close(), answers);
    let record = legwork_core::ports::Facts::delegation(store.as_ref(), &ticket.delegation).await;
    let record = record.expect("it reads").expect("it is stored");
    assert_eq!(record.children[0].outcome(), Some(Outcome::Succeeded));
}

#[tokio::test(start_paused = true)]
async fn k33_a_join_that_outlives_its_engine_says_so() {
    let Scene { engine, handle, troupe, .. } = Scene::new(1).await;
    let ticket = handle.dispatch(batch(&["deaf"])).await.expect("it is accepted");
    troupe.until_here("deaf").await;
    let (joined, ()) = tokio::join!(handle.join(&ticket.delegation), engine.close());
    assert_eq!(joined, Err(JoinError::Closed));
}

#[tokio::test(start_paused = true)]
async fn k33_a_start_that_is_being_committed_does_not_happen_after_the_release() {
    let Scene { store, troupe, engine, handle, .. } = Scene::new(1).await;
    store.close();
    let dispatch = handle.dispatch(batch(&["deaf"]));
    pin!(dispatch);
    tokio::select! {
        biased;
        _ = &mut dispatch => panic!("a ticket without a commit"),
        () = store.until_arrived(1) => {}
    }
    let close = engine.close();
    let open = async {
        // The grace of the release is over before the store answers.
        tokio::time::advance(STOP_GRACE * 2).await;
        store.open();
    };
    let (ticket, (), ()) = tokio::join!(dispatch, close, open);
    assert!(ticket.is_ok(), "what was recorded is promised: {ticket:?}");
    assert_eq!(troupe.counts().came, 0);
}

#[tokio::test(start_paused = true)]
async fn k33_a_store_that_fails_does_not_keep_the_process_alive() {
    let Scene { store, troupe, engine, handle, .. } = Scene::new(1).await;
    handle.dispatch(batch(&["until told"])).await.expect("it is accepted");
    troupe.until_here("until told").await;
    store.fail(StoreError::Full("no space left on device".to_owned()));
    troupe.say("told");
    troupe.until(|counts| counts.here.is_empty()).await;
    store.until_arrived(store.arrived() + 1).await;
    let begun = Instant::now();
    engine.close().await;
    assert!(begun.elapsed() < Duration::from_secs(6), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn k33_a_store_that_is_back_gets_the_facts_before_the_process_ends() {
    let Scene { store, troupe, engine, handle, .. } = Scene::new(1).await;
    let ticket = handle.dispatch(batch(&["until told"])).await.expect("it is accepted");
    troupe.until_here("until told").await;
    store.fail(StoreError::Locked("by a backup".to_owned()));
    troupe.say("told");
    troupe.until(|counts| counts.here.is_empty()).await;
    let arrived = store.arrived();
    store.until_arrived(arrived + 3).await;
    store.open();
    engine.close().await;
    let record = legwork_core::ports::Facts::delegation(store.as_ref(), &ticket.delegation).await;
    let record = record.expect("it reads").expect("it is stored");
    assert_eq!(record.children[0].outcome(), Some(Outcome::Succeeded));
}
