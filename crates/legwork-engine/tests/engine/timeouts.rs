//! The inactivity limit of a child: it is about progress and never about length, the child hears of it before, and the limit
//! that fired first is the one that is told.

use crate::scene::{Scene, TOOL_PATIENCE, options, stopped};
use legwork_core::batch::Ticket;
use legwork_core::child::ChildState;
use legwork_core::completion::{BatchResult, Entry};
use legwork_core::outcome::{Outcome, StopReason, WireStatus};
use legwork_core::ports::{Delegator, Facts, SteerError};
use legwork_core::pulse::LineEvent;
use legwork_core::steering::Fate;
use legwork_engine::{Options, Patience};
use legwork_testkit::memory::MemoryStore;
use std::time::Duration;
use tokio::time::Instant;

const LIMIT: Duration = Duration::from_secs(60);

/// A child that waits for a word, and a limit for its inactivity.
async fn working(limit: Duration) -> (Scene, Ticket) {
    let options = options(1);
    let patience = Patience { inactivity: Some(limit), ..options.patience };
    let scene = Scene::over(MemoryStore::new(), 1, Options { patience, ..options }).await;
    let ticket = scene.dispatch(&["until told"]).await;
    scene.troupe.until_here("until told").await;
    (scene, ticket)
}

fn tool() -> LineEvent {
    LineEvent::ToolStarted {
        call: "c1".to_owned(),
        tool: "terminal".to_owned(),
        arguments: "make".to_owned(),
    }
}

fn tell(scene: &Scene, event: LineEvent) {
    scene.troupe.line("until told").tell(event);
}

async fn ended(scene: &Scene, ticket: &Ticket) -> Entry {
    BatchResult::of(&scene.joined(ticket).await).results.remove(0)
}

/// What the child would read now.
fn read(scene: &Scene) -> Vec<String> {
    scene.troupe.line("until told").steered().into_iter().map(|steer| steer.text).collect()
}

/// Proves RUN-9, RUN-14, RUN-15, RUN-16.
#[tokio::test(start_paused = true)]
async fn run_09_a_child_that_stands_still_in_a_tool_times_out() {
    let (scene, ticket) = working(LIMIT).await;
    tell(&scene, LineEvent::ModelCalled);
    tell(&scene, tool());
    let begun = Instant::now();
    let entry = ended(&scene, &ticket).await;
    assert!(begun.elapsed() >= LIMIT && begun.elapsed() < LIMIT * 2, "{:?}", begun.elapsed());
    assert_eq!((entry.status, entry.exit_reason.as_str()), (WireStatus::Timeout, "timeout"));
    let keys = entry.aside.timeout.expect("the keys of a timeout");
    assert_eq!((keys.timeout_seconds, keys.timeout_phase.as_deref()), (Some(60.0), Some("after_llm_calls")));
    assert!(keys.last_event_age.is_some_and(|age| (60.0..70.0).contains(&age)), "{keys:?}");
    assert!(keys.timed_out_after_seconds.is_some_and(|after| after >= 60.0), "{keys:?}");
    let error = entry.error.expect("an error");
    assert!(error.starts_with("timed out after 1 model call"), "{error}");
}

/// Proves RUN-9, RUN-14: what the child had said until then is the summary.
#[tokio::test(start_paused = true)]
async fn run_09_what_a_child_had_said_when_its_time_was_out_comes_back() {
    const GOAL: &str = "tree 1 0 told";
    let options = options(1);
    let patience = Patience { inactivity: Some(LIMIT), ..options.patience };
    let scene = Scene::over(MemoryStore::new(), 1, Options { patience, ..options }).await;
    let ticket = scene.dispatch(&[GOAL]).await;
    scene.troupe.until_here(GOAL).await;
    scene.troupe.line(GOAL).tell(tool());
    let entry = ended(&scene, &ticket).await;
    assert_eq!((entry.status, entry.summary.as_deref()), (WireStatus::Timeout, Some("1")), "{entry:?}");
}

#[tokio::test(start_paused = true)]
async fn run_16_a_child_that_is_still_being_set_up_times_out_before_its_first_call() {
    let (scene, ticket) = working(LIMIT).await;
    let entry = ended(&scene, &ticket).await;
    let keys = entry.aside.timeout.expect("the keys of a timeout");
    assert_eq!(keys.timeout_phase.as_deref(), Some("before_first_llm_call"));
    assert!(entry.error.is_some_and(|error| error.starts_with("timed out before its first model call")));
}

#[tokio::test(start_paused = true)]
async fn run_10_any_progress_begins_a_new_window_however_long_it_all_takes() {
    let (scene, ticket) = working(LIMIT).await;
    tell(&scene, tool());
    for _ in 0..30 {
        scene.pass(LIMIT - Duration::from_secs(20)).await;
        tell(&scene, LineEvent::ToolMoved);
        scene.handle.view(None).await;
    }
    scene.troupe.say("told");
    assert_eq!(ended(&scene, &ticket).await.status, WireStatus::Completed);
}

#[tokio::test(start_paused = true)]
async fn run_11_it_is_warned_once_in_a_window_and_again_in_a_new_one() {
    let (scene, ticket) = working(LIMIT).await;
    tell(&scene, tool());
    scene.pass(LIMIT * 4 / 5 - Duration::from_secs(1)).await;
    assert_eq!(read(&scene), Vec::<String>::new());
    scene.pass(Duration::from_secs(5)).await;
    let [warning] = read(&scene).try_into().expect("one warning");
    assert!(warning.contains("for 48 s") && warning.contains("after 60 s"), "{warning}");
    assert!(warning.contains("finish, and answer with"), "{warning}");
    scene.pass(Duration::from_secs(5)).await;
    assert_eq!(read(&scene), Vec::<String>::new(), "once is enough");
    tell(&scene, LineEvent::ToolMoved);
    scene.pass(LIMIT * 4 / 5 + Duration::from_secs(1)).await;
    assert_eq!(read(&scene).len(), 1, "a new window");
    let stored = scene.store.steers(&ticket.children[0]).await.expect("it is readable").rows;
    assert_eq!(stored.len(), 2, "a warning is a message as any other");
}

#[tokio::test(start_paused = true)]
async fn run_12_a_model_that_takes_its_time_is_alive() {
    let (scene, ticket) = working(LIMIT).await;
    tell(&scene, LineEvent::ModelCalled);
    scene.pass(LIMIT * 5).await;
    assert_eq!(scene.outcomes(&ticket).await, [None]);
    assert_eq!(read(&scene), Vec::<String>::new());
    tell(&scene, tool());
    scene.joined(&ticket).await;
    assert_eq!(scene.outcomes(&ticket).await, [stopped(StopReason::TimedOut)]);
}

/// Proves RUN-15: the earlier limit fires, and that one is told.
#[tokio::test(start_paused = true)]
async fn run_15_a_stall_that_comes_first_is_called_a_stall() {
    let (scene, ticket) = working(TOOL_PATIENCE * 2).await;
    tell(&scene, tool());
    let entry = ended(&scene, &ticket).await;
    assert_eq!(entry.status, WireStatus::Stalled);
    assert!(entry.aside.timeout.is_none() && entry.aside.stall.is_some(), "{entry:?}");
}

/// Proves RUN-13: what was said before its end begins and it has not read comes back; after that nothing is taken.
#[tokio::test(start_paused = true)]
async fn run_13_a_text_that_comes_after_the_limit_comes_back_as_missed() {
    let (scene, _) = working(LIMIT).await;
    scene.troupe.say("told");
    let ticket = scene.dispatch(&["deaf"]).await;
    scene.troupe.until_here("deaf").await;
    scene.troupe.line("deaf").tell(tool());
    let child = &ticket.children[0];
    scene.handle.steer(child, "look there".to_owned(), None).await.expect("it is taken");
    let begun = Instant::now();
    // Deadline: twice the limit, of paused time.
    while !scene.handle.view(None).await.iter().any(|view| matches!(view.state, ChildState::Stopping { .. }))
    {
        assert!(begun.elapsed() < LIMIT * 2, "its limit ends it");
        scene.pass(Duration::from_millis(100)).await;
    }
    let said = scene.handle.steer(&ticket.children[0], "hurry".to_owned(), None).await;
    scene.joined(&ticket).await;
    assert_eq!(scene.outcomes(&ticket).await, [stopped(StopReason::TimedOut)]);
    let stored = scene.store.steers(&ticket.children[0]).await.expect("it is readable").rows;
    let fates: Vec<&Fate> = stored.iter().map(|record| &record.fate).collect();
    // The second is the warning of its limit.
    assert_eq!(fates, [&Fate::Missed, &Fate::Missed], "{stored:?}");
    assert_eq!(said, Err(SteerError::Ending(child.clone())));
}

#[tokio::test(start_paused = true)]
async fn run_09_without_a_limit_only_patience_counts() {
    let scene = Scene::new(1).await;
    let ticket = scene.dispatch(&["until told"]).await;
    scene.troupe.until_here("until told").await;
    tell(&scene, tool());
    scene.pass(LIMIT * 5).await;
    scene.troupe.say("told");
    scene.joined(&ticket).await;
    assert_eq!(scene.outcomes(&ticket).await, [Some(Outcome::Succeeded)]);
}
