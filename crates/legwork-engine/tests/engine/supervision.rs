//! Stuck is told from slow by progress (invariant 8).

use crate::scene::{IDLE_PATIENCE, STALL_GRACE, Scene, TOOL_PATIENCE, stopped};
use legwork_core::completion::BatchResult;
use legwork_core::outcome::{Outcome, StopReason, WireStatus};
use legwork_core::ports::Delegator;
use legwork_core::pulse::LineEvent;
use std::time::Duration;
use tokio::time::{Instant, advance};

/// Proves STALL-1, STALL-4, RUN-7.
#[tokio::test(start_paused = true)]
async fn k08_a_silent_child_is_stopped_as_stalled() {
    let scene = Scene::new(1).await;
    let begun = Instant::now();
    let ticket = scene.dispatch(&["until told"]).await;
    scene.joined(&ticket).await;
    assert_eq!(scene.outcomes(&ticket).await, [stopped(StopReason::Stalled)]);
    assert!(begun.elapsed() >= IDLE_PATIENCE && begun.elapsed() < IDLE_PATIENCE * 2, "{:?}", begun.elapsed());
}

/// Proves STALL-2, STALL-5, STALL-8, RUN-19, RUN-20: what waits is not stuck, who is deaf is dropped, and what others
/// did stays.
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

/// Proves STALL-3, STALL-9, RUN-4.
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

/// Proves DISP-25, STALL-4, RUN-5.
#[tokio::test(start_paused = true)]
async fn k09_inside_a_tool_the_longer_patience_counts() {
    let scene = Scene::new(1).await;
    let begun = Instant::now();
    let ticket = scene.dispatch(&["until told"]).await;
    scene.troupe.until_here("until told").await;
    let (tool, arguments) = ("terminal".to_owned(), "make".to_owned());
    let call = LineEvent::ToolStarted { call: "c1".to_owned(), tool, arguments };
    scene.troupe.line("until told").tell(call);
    scene.joined(&ticket).await;
    assert_eq!(scene.outcomes(&ticket).await, [stopped(StopReason::Stalled)]);
    assert!(begun.elapsed() >= TOOL_PATIENCE, "{:?}", begun.elapsed());
}

/// Proves RUN-3.
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

/// Proves REG-13, DISP-25.
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

/// Proves STALL-6, RUN-6: the facts of the moment at which it was given up are stored with its end.
#[tokio::test(start_paused = true)]
async fn stall_06_a_stalled_child_says_how_long_nothing_moved_and_where() {
    let scene = Scene::new(1).await;
    let ticket = scene.dispatch(&["until told"]).await;
    let record = scene.joined(&ticket).await;
    let entry = BatchResult::of(&record).results.remove(0);
    assert_eq!(entry.status, WireStatus::Stalled);
    let stall = entry.aside.stall.expect("it is stalled");
    assert_eq!((stall.stall_threshold_seconds, stall.stall_grace_seconds), (450.0, 120.0));
    assert_eq!(stall.stall_phase, "idle");
    assert!((450.0..600.0).contains(&stall.stalled_after_quiet_seconds), "{stall:?}");
    assert!(entry.error.is_some_and(|error| error.contains("nothing else was stopped")));
}

#[tokio::test(start_paused = true)]
async fn stall_07_a_child_that_answers_within_its_grace_has_answered() {
    let scene = Scene::new(1).await;
    let ticket = scene.dispatch(&["finish told"]).await;
    scene.troupe.until(|counts| !counts.heard.is_empty()).await;
    advance(STALL_GRACE / 2).await;
    scene.troupe.say("told");
    let record = scene.joined(&ticket).await;
    let entry = BatchResult::of(&record).results.remove(0);
    assert_eq!(entry.status, WireStatus::Completed);
    assert!(entry.aside.stall.is_none() && entry.error.is_none(), "{entry:?}");
}
