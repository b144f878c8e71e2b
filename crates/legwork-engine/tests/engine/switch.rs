//! The switch that lets no new children start, in any process of a store.

use crate::scene::{Scene, batch, options};
use legwork_core::outcome::Outcome;
use legwork_core::ports::{Delegator, DispatchError, Facts, Pause, Refusal, StoreError};
use legwork_core::time::Timestamp;
use legwork_testkit::memory::MemoryStore;
use legwork_testkit::shaky::{Luck, ShakyStore};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

async fn is_paused(scene: &Scene) -> bool {
    scene.handle.dispatch(batch(&["answer"])).await == Err(DispatchError::Refused(Refusal::Paused))
}

#[tokio::test(start_paused = true)]
async fn kill_01_a_pause_holds_in_every_process_within_half_a_second() {
    let memory = MemoryStore::new();
    let here = Scene::over(memory.clone(), 1, options(1)).await;
    let there = Scene::over(memory.clone(), 2, options(1)).await;
    let running = there.dispatch(&["until told", "answer"]).await;
    there.troupe.until_here("until told").await;
    assert_eq!(here.handle.pause().await, Ok(true));
    assert_eq!(here.handle.pause().await, Ok(false), "it was paused before");
    assert!(is_paused(&here).await, "here it holds at once");
    let asked = Instant::now();
    while !is_paused(&there).await {
        assert!(asked.elapsed() < Duration::from_millis(500));
        there.pass(Duration::from_millis(100)).await;
    }
    there.troupe.say("told");
    there.pass(Duration::from_secs(5)).await;
    assert_eq!(
        there.outcomes(&running).await,
        [Some(Outcome::Succeeded), None],
        "what runs goes on, what is queued stays queued"
    );
    assert_eq!(there.handle.resume().await, Ok(true));
    there.joined(&running).await;
    here.pass(Duration::from_millis(500)).await;
    assert!(!is_paused(&here).await);
}

#[tokio::test(start_paused = true)]
async fn kill_01_a_process_that_starts_while_all_are_paused_is_paused() {
    let memory = MemoryStore::new();
    memory.set_pause(Pause::On, Timestamp(0)).await.expect("the store takes it");
    let scene = Scene::over(memory.clone(), 1, options(1)).await;
    assert!(is_paused(&scene).await);
    memory.set_pause(Pause::Off, Timestamp(0)).await.expect("the store takes it");
    scene.pass(Duration::from_millis(500)).await;
    assert!(!is_paused(&scene).await);
}

#[tokio::test(start_paused = true)]
async fn kill_01_a_look_that_began_before_the_pause_does_not_undo_it() {
    let shaky = Arc::new(ShakyStore::new(Arc::new(MemoryStore::new())));
    let scene = Scene::over_store(shaky.clone(), 1, options(1)).await;
    shaky.let_decide(|name| match name {
        "news" => Luck::Slow(Duration::from_millis(150)),
        _ => Luck::Good,
    });
    scene.pass(Duration::from_secs(1)).await;
    // One of these moments is in the middle of a look.
    for _ in 0..20 {
        scene.handle.pause().await.expect("the store takes it");
        for _ in 0..4 {
            assert!(is_paused(&scene).await);
            scene.pass(Duration::from_millis(100)).await;
        }
        scene.handle.resume().await.expect("the store takes it");
        scene.pass(Duration::from_millis(500)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn kill_01_a_pause_that_cannot_be_stored_changes_nothing() {
    let shaky = Arc::new(ShakyStore::new(Arc::new(MemoryStore::new())));
    let scene = Scene::over_store(shaky.clone(), 1, options(1)).await;
    shaky.fail(&["set_pause"]);
    let answer = scene.handle.pause().await;
    assert!(matches!(answer, Err(StoreError::Io(_))), "{answer:?}");
    assert!(!is_paused(&scene).await);
}

#[tokio::test(start_paused = true)]
async fn kill_01_parked_children_come_back_while_new_ones_may_not_start() {
    let scene = Scene::new(1).await;
    let tree = scene.dispatch(&["tree 1 1 told"]).await;
    scene.troupe.until_here("tree 1 0 told").await;
    let queued = scene.dispatch(&["answer"]).await;
    scene.handle.pause().await.expect("the store takes it");
    scene.troupe.say("told");
    scene.joined(&tree).await;
    assert_eq!(scene.outcomes(&tree).await, [Some(Outcome::Succeeded)]);
    scene.pass(Duration::from_secs(5)).await;
    assert_eq!(scene.outcomes(&queued).await, [None]);
    scene.handle.resume().await.expect("the store takes it");
    scene.joined(&queued).await;
}
