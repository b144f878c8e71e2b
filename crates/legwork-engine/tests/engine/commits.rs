//! Nothing is told or begun before it is durable, and an outcome is durable the moment it exists.

use crate::scene::{Scene, batch, stopped};
use legwork_core::outcome::{Force, Outcome, StopReason};
use legwork_core::ports::{Delegator, Facts};
use legwork_core::steering::Scope;
use tokio::pin;

/// Proves DUR-4.
#[tokio::test(start_paused = true)]
async fn k02_a_ticket_and_a_start_wait_for_their_commit() {
    let scene = Scene::new(1).await;
    scene.store.close();
    let dispatch = scene.handle.dispatch(batch(&["answer"]));
    pin!(dispatch);
    tokio::select! {
        biased;
        _ = &mut dispatch => panic!("a ticket without a commit"),
        () = scene.store.until_arrived(1) => {}
    }
    assert_eq!(scene.troupe.counts().came, 0);
    scene.store.open();
    let ticket = dispatch.await.expect("the commit went through");
    assert!(scene.store.delegation(&ticket.delegation).await.expect("it reads").is_some());
    scene.joined(&ticket).await;
}

/// Proves REG-7, DISP-12, DISP-13.
#[tokio::test(start_paused = true)]
async fn k02_an_outcome_is_stored_while_siblings_run() {
    let scene = Scene::new(3).await;
    let ticket = scene.dispatch(&["until told", "answer", "fail"]).await;
    assert_eq!(scene.outcome(&ticket, &ticket.children[1]).await, Outcome::Succeeded);
    assert!(matches!(scene.outcome(&ticket, &ticket.children[2]).await, Outcome::Failed(_)));
    assert_eq!(scene.outcomes(&ticket).await[0], None);
    let stored = scene.stored(&ticket.delegation).await;
    let answer = stored.children[1].report.as_ref().and_then(|report| report.answer.as_deref());
    assert_eq!(answer, Some("answer"));
    scene.troupe.say("told");
    scene.joined(&ticket).await;
}

#[tokio::test(start_paused = true)]
async fn k12_a_stop_reaches_a_child_whose_start_is_being_committed() {
    let scene = Scene::new(1).await;
    scene.store.close();
    let dispatch = scene.handle.dispatch(batch(&["until told"]));
    pin!(dispatch);
    tokio::select! {
        biased;
        _ = &mut dispatch => panic!("a ticket without a commit"),
        () = scene.store.until_arrived(1) => {}
    }
    let told = scene.handle.stop(Scope::All, StopReason::Cancelled, Force::Ask).await;
    assert_eq!(told.children.len(), 1, "the child that is being born is listed");
    scene.store.open();
    let ticket = dispatch.await.expect("the commit went through");
    scene.joined(&ticket).await;
    assert_eq!(scene.outcomes(&ticket).await, [stopped(StopReason::Cancelled)]);
    let heard = scene.troupe.counts().heard;
    assert_eq!(heard.len(), scene.troupe.counts().came, "who came heard of the stop at once: {heard:?}");
}

#[tokio::test(start_paused = true)]
async fn k12_an_aborted_child_whose_start_is_being_committed_never_works() {
    let scene = Scene::new(1).await;
    scene.store.close();
    let dispatch = scene.handle.dispatch(batch(&["deaf"]));
    pin!(dispatch);
    tokio::select! {
        biased;
        _ = &mut dispatch => panic!("a ticket without a commit"),
        () = scene.store.until_arrived(1) => {}
    }
    scene.handle.stop(Scope::All, StopReason::Cancelled, Force::Abort).await;
    scene.store.open();
    let ticket = dispatch.await.expect("the commit went through");
    scene.joined(&ticket).await;
    assert_eq!(scene.outcomes(&ticket).await, [stopped(StopReason::Cancelled)]);
    assert_eq!(scene.troupe.counts().here, [""; 0]);
}
