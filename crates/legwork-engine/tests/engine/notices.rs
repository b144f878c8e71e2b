//! The early notice of a failure: at once, once, durable, and never instead of the results.

use crate::desk::Desk;
use crate::scene::{Scene, options, pushed};
use legwork_core::batch::{NewBatch, Reach, Ticket};
use legwork_core::delivery::DeliveryState;
use legwork_core::ids::UnitId;
use legwork_core::outcome::{FailureKind, Force, Outcome, StopReason};
use legwork_core::ports::{Delegator, Facts};
use legwork_core::pulse::LineEvent;
use legwork_core::steering::Scope;
use legwork_engine::{Options, Patience};
use legwork_testkit::memory::MemoryStore;
use std::time::Duration;

const LONG: Duration = Duration::from_secs(90);

async fn call(scene: &Scene, goals: &[&str]) -> Ticket {
    scene.handle.dispatch(pushed(7, goals)).await.expect("it is accepted")
}

fn notice(ticket: &Ticket, task: usize) -> UnitId {
    UnitId::notice(&ticket.children[task])
}

async fn notices(scene: &Scene, ticket: &Ticket) -> Vec<(usize, DeliveryState)> {
    let record = scene.stored(&ticket.delegation).await;
    record.notices.into_iter().map(|notice| (notice.task_index, notice.delivery.state)).collect()
}

/// Proves NOTE-1, NOTE-3, NOTE-4, DISP-14.
#[tokio::test(start_paused = true)]
async fn note_01_a_failure_is_told_while_siblings_run_and_the_whole_result_still_comes_once() {
    let desk = Desk::new(7);
    let scene = Scene::served(3, &desk).await;
    let ticket = call(&scene, &["until told", "fail", "until told too"]).await;
    desk.until_offered(1).await;
    let offer = desk.last_offer();
    assert_eq!((offer.notice, offer.unit), (Some(1), 0));
    assert_eq!(offer.record.children[1].outcome(), Some(Outcome::Failed(FailureKind::Model)));
    assert_eq!(offer.record.deliveries[0].state, DeliveryState::Held, "the unit is not finished by it");
    desk.stores(scene.store.as_ref()).await;
    scene.pass(LONG).await;
    assert_eq!(desk.last_offer().claim, offer.claim, "it is told once");
    scene.troupe.say("told");
    desk.until_offered(2).await;
    assert_eq!((desk.last_offer().notice, desk.last_offer().record.is_settled()), (None, true));
    desk.stores(scene.store.as_ref()).await;
    scene.pass(LONG).await;
    assert_eq!(desk.last_offer().notice, None);
    let record = scene.stored(&ticket.delegation).await;
    assert_eq!(record.deliveries[0].state, DeliveryState::Delivered);
    assert_eq!(notices(&scene, &ticket).await, [(1, DeliveryState::Delivered)]);
}

/// Proves DISP-14: a run that falls over and one that stands still are failures like any other.
#[tokio::test(start_paused = true)]
async fn note_01_a_panic_and_a_timeout_are_told_early_too() {
    let options = options(3);
    let patience = Patience { inactivity: Some(LONG), ..options.patience };
    let scene = Scene::over(MemoryStore::new(), 1, Options { patience, ..options }).await;
    let desk = Desk::new(7);
    scene.serve(&desk).await;
    let ticket = call(&scene, &["until told", "panic", "until never"]).await;
    desk.until_offered(1).await;
    let offer = desk.last_offer();
    let panicked = Some(Outcome::Failed(FailureKind::Panicked));
    assert_eq!((offer.notice, offer.record.children[1].outcome()), (Some(1), panicked));
    desk.stores(scene.store.as_ref()).await;
    // One of the two that are left stands still.
    let moving = scene.troupe.line("until told");
    for _ in 0..4 {
        scene.pass(LONG / 2).await;
        moving.tell(LineEvent::ModelCalled);
        scene.handle.view(None).await;
    }
    desk.until_offered(2).await;
    let offer = desk.last_offer();
    let timed_out = Some(Outcome::Stopped(StopReason::TimedOut));
    assert_eq!((offer.notice, offer.record.children[2].outcome()), (Some(2), timed_out));
    desk.stores(scene.store.as_ref()).await;
    scene.troupe.say("told");
    desk.until_offered(3).await;
    assert_eq!((desk.last_offer().notice, desk.last_offer().record.is_settled()), (None, true));
    assert_eq!(notices(&scene, &ticket).await.len(), 2);
}

/// Proves NOTE-1: what fails alone, fails last, is stopped, is waited for, or ends well is not told early.
#[tokio::test(start_paused = true)]
async fn note_01_nothing_else_is_told_early() {
    let scene = Scene::new(3).await;
    let alone = call(&scene, &["fail"]).await;
    let joined = NewBatch { reach: Reach::Joined, ..pushed(7, &["fail", "until told"]) };
    let joined = scene.handle.dispatch(joined).await.expect("accepted");
    scene.troupe.until_here("until told").await;
    scene.troupe.say("told");
    let stopped = call(&scene, &["until never", "until word"]).await;
    scene.troupe.until_here("until never").await;
    let child = stopped.children[0].clone();
    scene.handle.stop(Scope::Child(child), StopReason::Cancelled, Force::Ask).await;
    scene.troupe.say("word");
    let whole = call(&scene, &["answer", "until last"]).await;
    scene.troupe.until_here("until last").await;
    scene.troupe.say("last");
    for ticket in [alone, joined, stopped, whole] {
        scene.joined(&ticket).await;
        assert_eq!(notices(&scene, &ticket).await, []);
    }
}

/// Proves NOTE-3, NOTE-4.
#[tokio::test(start_paused = true)]
async fn note_03_a_notice_that_the_results_overtake_is_given_up() {
    let desk = Desk::busy(7);
    let scene = Scene::served(2, &desk).await;
    let ticket = call(&scene, &["fail", "until told"]).await;
    scene.troupe.until_here("until told").await;
    scene.pass(Duration::from_secs(5)).await;
    assert_eq!(notices(&scene, &ticket).await, [(0, DeliveryState::Ready { tries: 0 })]);
    scene.troupe.say("told");
    scene.handle.settled(&ticket.delegation).await;
    assert_eq!(notices(&scene, &ticket).await, [(0, DeliveryState::Dismissed)]);
    desk.turn_ends();
    desk.until_offered(1).await;
    assert_eq!(desk.last_offer().notice, None);
    desk.stores(scene.store.as_ref()).await;
    scene.pass(LONG).await;
    assert_eq!(desk.offered(), [ticket.units[0].id.clone()]);
}

/// Proves NOTE-4, NOTE-6: a notice that could not be stored with its turn comes again; one whose unit has settled meanwhile
/// does not.
#[tokio::test(start_paused = true)]
async fn note_06_a_notice_that_came_back_is_told_again_unless_the_results_are_there() {
    let desk = Desk::new(7);
    let scene = Scene::served(2, &desk).await;
    let ticket = call(&scene, &["fail", "until told"]).await;
    desk.until_offered(1).await;
    desk.gives_back(scene.store.as_ref()).await;
    desk.until_offered(2).await;
    assert_eq!(desk.last_offer().notice, Some(0));
    scene.troupe.say("told");
    scene.handle.settled(&ticket.delegation).await;
    desk.gives_back(scene.store.as_ref()).await;
    desk.until_offered(3).await;
    assert_eq!(desk.last_offer().notice, None, "the results, and nothing that they say already");
    desk.stores(scene.store.as_ref()).await;
    scene.pass(LONG).await;
    assert_eq!(notices(&scene, &ticket).await, [(0, DeliveryState::Dismissed)]);
}

/// Proves NOTE-4: it survives its process, under an id of its own.
#[tokio::test(start_paused = true)]
async fn note_04_a_notice_waits_in_the_store_for_its_session() {
    let memory = MemoryStore::new();
    let first = Scene::over(memory.clone(), 1, options(2)).await;
    let ticket = call(&first, &["fail", "until told"]).await;
    first.troupe.until_here("until told").await;
    first.pass(Duration::from_secs(2)).await;
    let second = Scene::over(memory, 2, options(2)).await;
    let desk = Desk::new(7);
    let due = second.store.undelivered(&desk.session).await.expect("readable").rows;
    let due: Vec<_> = due.into_iter().map(|due| (due.unit, due.notice)).collect();
    assert_eq!(due, [(notice(&ticket, 0), Some(0))]);
    assert_eq!(notice(&ticket, 0).as_str(), format!("note-{}", ticket.children[0]));
    second.serve(&desk).await;
    desk.until_offered(1).await;
    desk.stores(second.store.as_ref()).await;
    assert_eq!(notices(&second, &ticket).await, [(0, DeliveryState::Delivered)]);
    first.troupe.say("told");
    first.handle.settled(&ticket.delegation).await;
    desk.until_offered(2).await;
    assert_eq!(desk.last_offer().notice, None);
}

/// Proves NOTE-4, DUR-16.
#[tokio::test(start_paused = true)]
async fn note_04_a_notice_is_no_unit() {
    let scene = Scene::new(2).await;
    let ticket = call(&scene, &["fail", "until told"]).await;
    scene.troupe.until_here("until told").await;
    scene.pass(Duration::from_secs(2)).await;
    let record = scene.stored(&ticket.delegation).await;
    assert_eq!((record.deliveries.len(), record.notices.len()), (1, 1));
    assert_eq!(scene.store.find("note-").await.expect("readable"), []);
    assert_eq!(scene.store.health().await.expect("readable").undelivered, 0);
}
