//! Nothing is told or begun before it is durable, and an outcome is durable the moment it exists.

use crate::scene::{Scene, batch, stopped};
use legwork_core::child::ChildState;
use legwork_core::ids::UnitId;
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
    let told = scene.begin_stop(Scope::All, Force::Ask).await;
    scene.store.open();
    assert_eq!(told.await.children.len(), 1, "the child that is being born is listed");
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
    let told = scene.begin_stop(Scope::All, Force::Abort).await;
    scene.store.open();
    told.await;
    let ticket = dispatch.await.expect("the commit went through");
    scene.joined(&ticket).await;
    assert_eq!(scene.outcomes(&ticket).await, [stopped(StopReason::Cancelled)]);
    assert_eq!(scene.troupe.counts().here, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn k12_a_stop_is_told_of_once_no_crash_can_take_it_back() {
    let scene = Scene::new(2).await;
    let ticket = scene.dispatch(&["deaf"]).await;
    scene.troupe.until(|counts| counts.here == ["deaf"]).await;
    let scope = Scope::Child(ticket.children[0].clone());
    scene.store.close();
    let arrived = scene.store.arrived();
    let mut first = scene.begin_stop(scope.clone(), Force::Ask).await;
    scene.store.until_arrived(arrived + 1).await;
    // It reaches nobody and records nothing: the commit under way is all that it waits for.
    let mut second = scene.begin_stop(Scope::Unit(UnitId::from_stored("nobody's")), Force::Ask).await;
    assert!(futures::poll!(&mut first).is_pending() && futures::poll!(&mut second).is_pending());
    scene.store.let_one_pass();
    let (first, second) = (first.await, second.await);
    let state = scene.stored(&ticket.delegation).await.children[0].state;
    assert!(matches!(state, ChildState::Stopping { .. }), "{state:?}");
    assert_eq!((first.children, first.untold), (ticket.children.clone(), None));
    assert_eq!((second.children, second.untold), (Vec::new(), None));
    scene.store.open();
    scene.joined(&ticket).await;
    let nothing = scene.handle.stop(scope, StopReason::Cancelled, Force::Ask).await;
    assert_eq!((nothing.children, nothing.untold), (Vec::new(), None));
}
