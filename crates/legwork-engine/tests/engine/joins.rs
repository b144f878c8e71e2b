//! Results that are taken for a caller which does not get them: nobody else would free them as long as this process lives.

use crate::scene::{Scene, options, pushed};
use legwork_core::batch::{Completions, NewBatch, Task};
use legwork_core::delivery::DeliveryState;
use legwork_core::ports::{Delegator, Facts, JoinError};
use legwork_core::time::Timestamp;
use legwork_engine::Options;
use legwork_testkit::memory::MemoryStore;
use legwork_testkit::shaky::{Luck, ShakyStore};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::task::unconstrained;
use tokio::time::timeout;

/// A call of two units.
fn call() -> NewBatch {
    let task = |group: &str| Task { group: Some(group.to_owned()), ..Task::of("answer") };
    NewBatch { tasks: vec![task("a"), task("b")], ..pushed(7, &[]) }
}

async fn states(scene: &Scene) -> Vec<DeliveryState> {
    let records = Facts::delegations(scene.store.as_ref(), legwork_core::ports::Filter::Recent(10));
    let records = records.await.expect("the store can be read").rows;
    records.into_iter().flat_map(|record| record.deliveries).map(|delivery| delivery.state).collect()
}

fn are_ready(states: &[DeliveryState]) -> bool {
    states.len() == 2 && states.iter().all(|state| matches!(state, DeliveryState::Ready { .. }))
}

/// Proves INV-6 for joins: wherever the caller goes away, and whichever claim fails, before or after it was made.
#[tokio::test(start_paused = true)]
async fn inv_06_what_was_taken_for_a_caller_that_did_not_get_it_is_given_back() {
    for luck in [Luck::Slow(Duration::from_secs(60)), Luck::Fails, Luck::FailsLate] {
        for unlucky in 0..2 {
            let shaky = Arc::new(ShakyStore::new(Arc::new(MemoryStore::new())));
            let options = Options { completions: Completions::ByUnit, ..options(2) };
            let scene = Scene::over_store(shaky.clone(), 1, options).await;
            let ticket = scene.handle.dispatch(call()).await.expect("it is accepted");
            scene.handle.settled(&ticket.delegation).await;
            assert!(are_ready(&states(&scene).await));
            let claims = AtomicUsize::new(0);
            shaky.let_decide(move |name| {
                let is_hit = name == "claim" && claims.fetch_add(1, Ordering::SeqCst) == unlucky;
                if is_hit { luck } else { Luck::Good }
            });
            // Deadline: the caller does not wait for longer than that.
            let joined = timeout(Duration::from_secs(1), scene.handle.join(&ticket.delegation)).await;
            let did_not_get_it = matches!(joined, Err(_) | Ok(Err(JoinError::Store(_))));
            assert!(did_not_get_it, "{luck:?} {unlucky}: {joined:?}");
            scene.pass(Duration::from_secs(1)).await;
            let found = states(&scene).await;
            assert!(are_ready(&found), "{luck:?} {unlucky}: {found:?}");
            let joined = scene.handle.join(&ticket.delegation).await.expect("they can be had");
            assert_eq!(joined.claims.len(), 2, "{luck:?} {unlucky}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn inv_06_what_a_store_in_trouble_does_not_take_back_is_given_back_later() {
    let shaky = Arc::new(ShakyStore::new(Arc::new(MemoryStore::new())));
    let options = Options { completions: Completions::ByUnit, ..options(2) };
    let scene = Scene::over_store(shaky.clone(), 1, options).await;
    let ticket = scene.handle.dispatch(call()).await.expect("it is accepted");
    scene.handle.settled(&ticket.delegation).await;
    shaky.let_decide(|name| match name {
        "claim" => Luck::FailsLate,
        "release" => Luck::Fails,
        _ => Luck::Good,
    });
    let joined = scene.handle.join(&ticket.delegation).await;
    assert!(matches!(joined, Err(JoinError::Store(_))), "{joined:?}");
    scene.pass(Duration::from_secs(20)).await;
    assert!(!are_ready(&states(&scene).await));
    shaky.recover();
    scene.pass(Duration::from_secs(10)).await;
    assert!(are_ready(&states(&scene).await));
}

/// Proves INV-6 while the engine has more to hear than finds room.
#[tokio::test(start_paused = true)]
async fn inv_06_what_was_taken_is_given_back_also_while_the_engine_is_busy() {
    let shaky = Arc::new(ShakyStore::new(Arc::new(MemoryStore::new())));
    let options = Options { completions: Completions::ByUnit, ..options(2) };
    let scene = Scene::over_store(shaky.clone(), 1, options).await;
    let ticket = scene.handle.dispatch(call()).await.expect("it is accepted");
    scene.handle.settled(&ticket.delegation).await;
    shaky.let_decide(|name| match name {
        "claim" => Luck::Slow(Duration::from_secs(60)),
        _ => Luck::Good,
    });
    let mut join = scene.handle.join(&ticket.delegation);
    // Deadline: by then it has claimed something, and waits for the answer.
    assert!(timeout(Duration::from_secs(1), &mut join).await.is_err());
    // Nobody else comes to a turn before the caller is gone: more is said than there is room for.
    let mut said: Vec<_> = (0..2000).map(|_| Box::pin(unconstrained(scene.handle.view(None)))).collect();
    for view in &mut said {
        assert!(futures::poll!(view).is_pending());
    }
    drop(join);
    drop(said);
    scene.pass(Duration::from_secs(1)).await;
    let found = states(&scene).await;
    assert!(are_ready(&found), "{found:?}");
}

/// Proves INV-6 for a caller that joins again at once: a claim that is to be given back is either taken up and not given back,
/// or is given back and made anew, whatever becomes of the release meanwhile.
#[tokio::test(start_paused = true)]
async fn inv_06_what_a_second_join_takes_up_is_not_given_back_under_its_hands() {
    let slow = Luck::Slow(Duration::from_secs(3));
    for release in [Luck::Good, slow, Luck::Fails, Luck::FailsLate] {
        for claim in [Luck::FailsLate, Luck::Slow(Duration::from_secs(60))] {
            for is_under_way in [false, true] {
                let seen = format!("release {release:?}, claim {claim:?}, under way: {is_under_way}");
                let shaky = Arc::new(ShakyStore::new(Arc::new(MemoryStore::new())));
                let options = Options { completions: Completions::ByUnit, ..options(2) };
                let scene = Scene::over_store(shaky.clone(), 1, options).await;
                let ticket = scene.handle.dispatch(call()).await.expect("it is accepted");
                scene.handle.settled(&ticket.delegation).await;
                let claims = AtomicUsize::new(0);
                shaky.let_decide(move |name| match name {
                    "claim" if claims.fetch_add(1, Ordering::SeqCst) == 0 => claim,
                    "release" => release,
                    _ => Luck::Good,
                });
                let first = scene.handle.join_unit(&ticket.delegation, &ticket.units[0].id);
                // Deadline: the caller does not wait for longer than that.
                let first = timeout(Duration::from_secs(1), first).await;
                assert!(matches!(first, Err(_) | Ok(Err(JoinError::Store(_)))), "{seen}: {first:?}");
                if is_under_way {
                    scene.handle.view(None).await;
                }
                let joined = scene.handle.join(&ticket.delegation).await.expect("it settled");
                assert_eq!(joined.claims.len(), 2, "{seen}");
                shaky.recover();
                scene.pass(Duration::from_secs(10)).await;
                let arrived = scene.store.acknowledge(joined.claims, Timestamp(1)).await;
                assert_eq!(arrived, Ok(()), "{seen}");
            }
        }
    }
}
