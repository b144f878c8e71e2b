//! Stuck is told from slow by progress (invariant 8).

use crate::scene::{IDLE_PATIENCE, STALL_GRACE, Scene, TOOL_PATIENCE, stopped};
use legwork_core::outcome::{Outcome, StopReason};
use legwork_core::ports::Delegator;
use legwork_core::pulse::LineEvent;
use std::time::Duration;
use tokio::time::{Instant, advance};

#[tokio::test(start_paused = true)]
async fn k08_a_silent_child_is_stopped_as_stalled() {
    let scene = Scene::new(1).await;
    let begun = Instant::now();
    let ticket = scene.dispatch(&["until told"]).await;
    scene.joined(&ticket).await;
    assert_eq!(scene.outcomes(&ticket).await, [stopped(StopReason::Stalled)]);
    assert!(begun.elapsed() >= IDLE_PATIENCE && begun.elapsed() < IDLE_PATIENCE * 2, "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn k08_a_stalled_child_that_does_not_come_back_frees_its_slot_all_the_same() {
    let scene = Scene::new(1).await;
    let begun = Instant::now();
    let ticket = scene.dispatch(&["deaf", "answer"]).await;
    scene.joined(&ticket).await;
    let (stalled, succeeded) = (stopped(StopReason::Stalled), Some(Outcome::Succeeded));
    assert_eq!(scene.outcomes(&ticket).await, [stalled, succeeded]);
    let least = IDLE_PATIENCE + STALL_GRACE;
    assert!(begun.elapsed() >= least && begun.elapsed() < least * 2, "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn k09_a_child_that_moves_is_never_stalled() {
    let scene = Scene::new(1).await;
    let ticket = scene.dispatch(&["until told"]).await;
    scene.troupe.until_here("until told").await;
    let line = scene.troupe.line("until told");
    for _ in 0..40 {
        advance(IDLE_PATIENCE - Duration::from_secs(1)).await;
        line.tell(LineEvent::Text("still here".to_owned()));
        // The engine must see the beat before time goes on.
        scene.handle.view(None).await;
    }
    scene.troupe.say("told");
    scene.joined(&ticket).await;
    assert_eq!(scene.outcomes(&ticket).await, [Some(Outcome::Succeeded)]);
}

#[tokio::test(start_paused = true)]
async fn k09_inside_a_tool_the_longer_patience_counts() {
    let scene = Scene::new(1).await;
    let begun = Instant::now();
    let ticket = scene.dispatch(&["until told"]).await;
    scene.troupe.until_here("until told").await;
    let call = LineEvent::ToolStarted { tool: "terminal".to_owned(), arguments: "make".to_owned() };
    scene.troupe.line("until told").tell(call);
    scene.joined(&ticket).await;
    assert_eq!(scene.outcomes(&ticket).await, [stopped(StopReason::Stalled)]);
    assert!(begun.elapsed() >= TOOL_PATIENCE, "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn k09_a_parked_parent_is_as_alive_as_its_children() {
    let scene = Scene::new(1).await;
    let ticket = scene.dispatch(&["tree 1 1 word"]).await;
    scene.troupe.until_here("tree 1 0 word").await;
    let leaf = scene.troupe.line("tree 1 0 word");
    for _ in 0..5 {
        scene.pass(IDLE_PATIENCE / 2).await;
        leaf.tell(LineEvent::ToolMoved);
    }
    scene.troupe.say("word");
    let record = scene.joined(&ticket).await;
    assert_eq!(record.children[0].outcome(), Some(Outcome::Succeeded));
}

/// Proves REG-13.
#[tokio::test(start_paused = true)]
async fn k10_a_view_shows_how_long_a_child_runs_and_is_quiet() {
    let scene = Scene::new(1).await;
    scene.dispatch(&["until told"]).await;
    scene.troupe.until_here("until told").await;
    advance(Duration::from_secs(30)).await;
    let [view] = scene.handle.view(None).await.try_into().expect("one child");
    assert!(view.elapsed >= Duration::from_secs(30) && view.quiet >= Duration::from_secs(29), "{view:?}");
    scene.troupe.line("until told").tell(LineEvent::ToolMoved);
    let [view] = scene.handle.view(None).await.try_into().expect("one child");
    assert_eq!(view.quiet, Duration::ZERO);
}
