//! Results that are taken for a caller which does not get them: nobody else would free them as long as this process lives.

use crate::scene::{Scene, batch, options, pushed, stopped};
use legwork_core::batch::{Completions, NewBatch, Task};
use legwork_core::delivery::DeliveryState;
use legwork_core::ids::DelegationId;
use legwork_core::outcome::{Force, StopReason};
use legwork_core::ports::{Delegator, Facts, JoinError, TROUBLE_MAX};
use legwork_core::steering::Scope;
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
            // Deadline: the caller goes away before it is tried again.
            let joined = timeout(Duration::from_millis(50), scene.handle.join(&ticket.delegation)).await;
            assert!(joined.is_err(), "{luck:?} {unlucky}: {joined:?}");
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
    // Deadline: as above.
    let joined = timeout(Duration::from_millis(50), scene.handle.join(&ticket.delegation)).await;
    assert!(joined.is_err(), "{joined:?}");
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
                // Deadline: the caller goes away before it is tried again.
                let first = timeout(Duration::from_millis(50), first).await;
                assert!(first.is_err(), "{seen}: {first:?}");
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

/// What a join asks the store for.
const ASKED: [&str; 3] = ["delegation", "delegations", "claim"];

/// A settled call, over a store that counts what is asked for from then on and lets the `unlucky`-th of it go like this.
async fn settled(unlucky: usize, luck: Luck) -> (Scene, DelegationId, Arc<AtomicUsize>) {
    let shaky = Arc::new(ShakyStore::new(Arc::new(MemoryStore::new())));
    let options = Options { completions: Completions::ByUnit, ..options(2) };
    let scene = Scene::over_store(shaky.clone(), 1, options).await;
    let ticket = scene.handle.dispatch(call()).await.expect("it is accepted");
    scene.handle.settled(&ticket.delegation).await;
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    shaky.let_decide(move |name| {
        let is_hit = ASKED.contains(&name) && counted.fetch_add(1, Ordering::SeqCst) == unlucky;
        if is_hit { luck } else { Luck::Good }
    });
    (scene, ticket.delegation, asked)
}

/// Proves INV-3: whichever look or claim of a join fails once, whoever waited gets the results, and they are its own until it has
/// stored them.
#[tokio::test(start_paused = true)]
async fn k35_no_single_failure_of_the_store_takes_results_from_whoever_waits_for_them() {
    let (scene, delegation, asked) = settled(usize::MAX, Luck::Good).await;
    scene.handle.join(&delegation).await.expect("nothing fails");
    let asked = asked.load(Ordering::SeqCst);
    assert!(asked >= 5, "{asked}");
    for unlucky in 0..asked {
        for luck in [Luck::Fails, Luck::FailsLate] {
            let (scene, delegation, _asked) = settled(unlucky, luck).await;
            let joined = scene.handle.join(&delegation).await;
            let joined = joined.unwrap_or_else(|error| panic!("{unlucky} {luck:?}: {error}"));
            assert_eq!(joined.claims.len(), 2, "{unlucky} {luck:?}");
            scene.pass(Duration::from_secs(10)).await;
            let stored = scene.wiring.store.acknowledge(joined.claims, Timestamp(0)).await;
            assert_eq!(stored, Ok(()), "{unlucky} {luck:?}: they are still its own");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn k35_results_that_cannot_be_had_for_too_long_are_kept_and_that_is_said() {
    for unlucky in ASKED {
        let shaky = Arc::new(ShakyStore::new(Arc::new(MemoryStore::new())));
        let scene = Scene::over_store(shaky.clone(), 1, options(2)).await;
        let ticket = scene.dispatch(&["answer"]).await;
        scene.handle.settled(&ticket.delegation).await;
        shaky.let_decide(move |name| if name == unlucky { Luck::Fails } else { Luck::Good });
        let began = tokio::time::Instant::now();
        let joined = scene.handle.join(&ticket.delegation).await;
        let Err(JoinError::Store(error)) = &joined else { panic!("{unlucky}: {joined:?}") };
        assert!(error.to_string().contains("for 60 s"), "{unlucky}: {error}");
        assert!(began.elapsed() >= TROUBLE_MAX, "{unlucky}");
        shaky.recover();
        let joined = scene.handle.join(&ticket.delegation).await.expect("they can be had");
        assert_eq!(joined.claims.len(), 1, "{unlucky}");
    }
}

/// A stop of the child that waits ends its patience: it ends by itself, and is not cut off after its grace.
#[tokio::test(start_paused = true)]
async fn k35_a_child_that_is_stopped_does_not_wait_for_a_store_in_trouble() {
    let shaky = Arc::new(ShakyStore::new(Arc::new(MemoryStore::new())));
    let options = Options { stop_grace: Duration::from_secs(30), ..options(1) };
    let scene = Scene::over_store(shaky.clone(), 1, options).await;
    let ticket = scene.handle.dispatch(batch(&["tree 1 1 word"])).await.expect("it is accepted");
    scene.troupe.until_here("tree 1 0 word").await;
    shaky.fail(&["claim"]);
    scene.troupe.say("word");
    while !shaky.take_calls().contains(&"claim") {
        scene.pass(Duration::from_millis(100)).await;
    }
    let began = tokio::time::Instant::now();
    scene.handle.stop(Scope::Delegation(ticket.delegation.clone()), StopReason::Cancelled, Force::Ask).await;
    scene.handle.settled(&ticket.delegation).await;
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    assert_eq!(scene.outcomes(&ticket).await, [stopped(StopReason::Cancelled)]);
}
