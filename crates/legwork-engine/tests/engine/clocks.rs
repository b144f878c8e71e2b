//! A wall clock that is turned: no duration and no order changes, nothing stalls, and nothing that waits is removed (K10).

use crate::desk::Desk;
use crate::scene::{DEAD, Scene, batch, options, pushed, reported};
use crate::wall;
use legwork_core::completion::BatchResult;
use legwork_core::ids::{DelegationId, SessionId};
use legwork_core::outcome::Outcome;
use legwork_core::ports::{ChildView, Delegator, Facts, Filter, Runner};
use legwork_core::pulse::LineEvent;
use legwork_core::time::Timestamp;
use legwork_engine::recovery::{Conclusion, Orphans, Rescuer, settle};
use legwork_testkit::memory::MemoryStore;
use std::time::Duration;

const DAY: i64 = 24 * 3600 * 1000;
const JUMPS: [i64; 4] = [-DAY, DAY, 3650 * DAY, -3650 * DAY];

/// When the clock is turned in the life of two calls.
const MOMENTS: [&str; 5] =
    ["before", "in a tool", "between acceptance and start", "after the end", "while a result waits"];

/// Whether a duration is what it has to be, with some seconds for what happens on the way, and one for news of what moved.
#[track_caller]
fn about(seconds: u64, measured: Duration, what: &str) {
    let range = Duration::from_secs(seconds.saturating_sub(2))..Duration::from_secs(seconds + 5);
    assert!(range.contains(&measured), "{what}: {measured:?}, not some {seconds} s");
}

fn seconds(of: f64) -> Duration {
    Duration::try_from_secs_f64(of).expect("a duration is not negative")
}

async fn seen(scene: &Scene) -> Vec<ChildView> {
    scene.handle.view_session(&SessionId::from_bits(7)).await.children
}

/// Lives of two calls for one session in one slot, the clock turned by `jump` at one moment, or at each.
async fn live(jump: i64, moments: &[&str]) {
    let place = format!("{jump} {moments:?}");
    let turn_at = |moment: &str| {
        if moments.contains(&moment) {
            wall::turn(jump);
        }
    };
    let desk = Desk::busy(7);
    let scene = Scene::served(1, &desk).await;
    turn_at(MOMENTS[0]);
    let first = scene.handle.dispatch(pushed(7, &["until told", "answer"])).await.expect("it is accepted");
    scene.troupe.until_here("until told").await;
    let (tool, arguments) = ("terminal".to_owned(), "make".to_owned());
    let call = LineEvent::ToolStarted { call: "c1".to_owned(), tool, arguments };
    scene.troupe.line("until told").tell(call);
    scene.pass(Duration::from_secs(30)).await;
    turn_at(MOMENTS[1]);
    let second = scene.handle.dispatch(pushed(7, &["answer"])).await.expect("it is accepted");
    turn_at(MOMENTS[2]);
    scene.pass(Duration::from_secs(30)).await;

    let views = seen(&scene).await;
    let view = views.iter().find(|view| view.child == first.children[0]).expect("it runs");
    about(60, view.elapsed, &place);
    about(60, view.quiet, &place);
    let pending: Vec<Duration> =
        views.iter().filter(|view| view.child != first.children[0]).map(|view| view.elapsed).collect();
    assert_eq!(pending, [Duration::ZERO; 2], "{place}");

    scene.troupe.say("told");
    for ticket in [&first, &second] {
        scene.handle.settled(&ticket.delegation).await;
    }
    turn_at(MOMENTS[3]);
    scene.pass(Duration::from_secs(10)).await;
    turn_at(MOMENTS[4]);
    scene.pass(Duration::from_secs(10)).await;
    for (ticket, took, calls) in [(&first, 60, vec![60, 0]), (&second, 30, vec![0])] {
        let record = scene.stored(&ticket.delegation).await;
        assert!(record.children.iter().all(|child| child.outcome() == Some(Outcome::Succeeded)), "{place}");
        let result = BatchResult::of(&record);
        about(took, seconds(result.total_duration_seconds), &place);
        for (entry, took) in result.results.iter().zip(calls) {
            about(took, seconds(entry.duration_seconds), &place);
        }
    }
    in_order(&scene, &desk, (&first.delegation, &second.delegation)).await;
}

/// Lists and deliveries are in the order of what happened, and nothing that waits is removed.
async fn in_order(scene: &Scene, desk: &Desk, (first, second): (&DelegationId, &DelegationId)) {
    let month = 30 * DAY;
    assert_eq!(scene.store.prune(Timestamp(wall::read().0 - month)).await, Ok(0), "it waits for its session");
    let recent = scene.store.delegations(Filter::Recent(9)).await.expect("readable").rows;
    let recent: Vec<DelegationId> = recent.into_iter().map(|record| record.accepted.delegation).collect();
    assert_eq!(recent, [second.clone(), first.clone()]);
    let due = scene.store.undelivered(&desk.session).await.expect("readable").rows;
    let due: Vec<DelegationId> = due.into_iter().map(|due| due.delegation).collect();
    assert_eq!(due, [first.clone(), second.clone()]);
    desk.turn_ends();
    for offers in 1..=2 {
        desk.until_offered(offers).await;
        desk.stores(scene.store.as_ref()).await;
    }
    let offered: Vec<String> = desk.offered().iter().map(ToString::to_string).collect();
    assert!(offered[0].contains(first.as_str()) && offered[1].contains(second.as_str()), "{offered:?}");
}

#[tokio::test(start_paused = true)]
async fn k10_a_wall_clock_that_is_turned_changes_no_duration_and_no_order() {
    for jump in JUMPS {
        for moment in MOMENTS {
            live(jump, &[moment]).await;
        }
        live(jump, &MOMENTS).await;
    }
}

/// Proves REG-13: what runs in another process is shown by clocks that only go forward, too.
#[tokio::test(start_paused = true)]
async fn k10_what_another_process_runs_is_shown_as_long_as_it_has_run() {
    let memory = MemoryStore::new();
    let alive = Scene::over(memory.clone(), 1, options(1)).await;
    let other = Scene::over(memory.clone(), 2, options(1)).await;
    alive.dispatch(&["until told", "answer"]).await;
    alive.troupe.until_here("until told").await;
    let mut ran = 0;
    for jump in JUMPS {
        alive.troupe.line("until told").tell(LineEvent::ToolMoved);
        alive.pass(Duration::from_secs(20)).await;
        wall::turn(jump);
        ran += 20;
        let views = seen(&other).await;
        assert!(views.iter().all(|view| matches!(view.runner, Runner::Elsewhere { .. })), "{views:?}");
        about(ran, views[0].elapsed, "running");
        about(20, views[0].quiet, "silent");
        assert_eq!((views[1].elapsed, views[1].quiet), (Duration::ZERO, Duration::ZERO), "it waits");
    }
}

/// The time in which no process had it is not time that it took.
#[tokio::test(start_paused = true)]
async fn k10_a_child_that_goes_on_after_weeks_took_as_long_as_it_worked() {
    for jump in [40 * DAY, -DAY, 3650 * DAY] {
        let memory = MemoryStore::new();
        let dead = Scene::over(memory.clone(), DEAD, options(1)).await;
        let ticket = dead.dispatch(&["until told", "answer"]).await;
        dead.troupe.until_here("until told").await;
        for _ in 0..30 {
            dead.troupe.line("until told").tell(LineEvent::ToolMoved);
            dead.pass(Duration::from_secs(1)).await;
        }
        drop(dead);
        wall::turn(jump);
        let heir = Scene::over(memory.clone(), 2, options(1)).await;
        heir.pass(Duration::from_secs(300)).await;
        let views = seen(&heir).await;
        assert!(views.iter().all(|view| view.runner == Runner::Nobody), "{views:?}");
        about(30, views[0].elapsed, "nobody works on it");
        about(300, views[0].quiet, "nobody works on it");

        heir.recover(&Orphans::All).await;
        heir.troupe.until_here("until told").await;
        heir.pass(Duration::from_secs(20)).await;
        let views = seen(&heir).await;
        about(50, views[0].elapsed, "it goes on");
        heir.troupe.say("told");
        let result = BatchResult::of(&heir.joined(&ticket).await);
        about(50, seconds(result.results[0].duration_seconds), "it has ended");
        about(0, seconds(result.results[1].duration_seconds), "it has ended");
        about(50, seconds(result.total_duration_seconds), "the call");
    }
}

/// What is only reported has the time until its process was last heard of.
#[tokio::test(start_paused = true)]
async fn k10_a_child_that_is_reported_as_lost_took_as_long_as_it_is_known_to_have_worked() {
    let memory = MemoryStore::new();
    let mut call = batch(&["until told"]);
    call.tasks[0].on_crash = legwork_core::batch::OnCrash::Report;
    let dead = Scene::over(memory.clone(), DEAD, options(1)).await;
    let ticket = dead.handle.dispatch(call).await.expect("it is accepted");
    dead.troupe.until_here("until told").await;
    dead.pass(Duration::from_secs(15)).await;
    dead.troupe.line("until told").tell(LineEvent::ToolMoved);
    dead.pass(Duration::from_secs(2)).await;
    drop(dead);
    wall::turn(40 * DAY);
    let heir = Scene::over(memory.clone(), 2, options(1)).await;
    heir.recover(&Orphans::All).await;
    let record = heir.stored(&ticket.delegation).await;
    assert_eq!(record.children[0].outcome(), Some(Outcome::Lost));
    let result = BatchResult::of(&record);
    about(15, seconds(result.results[0].duration_seconds), "as far as it is known");
    about(15, seconds(result.total_duration_seconds), "the call");
}

/// Of one whose process died at once nobody has measured anything.
#[tokio::test(start_paused = true)]
async fn k10_a_child_whose_process_died_before_it_was_heard_of_took_no_time() {
    let memory = MemoryStore::new();
    let dead = Scene::over(memory.clone(), DEAD, options(1)).await;
    let ticket = dead.handle.dispatch(reported(&["until told"])).await.expect("it is accepted");
    dead.troupe.until_here("until told").await;
    assert_eq!(dead.stored(&ticket.delegation).await.children[0].reading(), None, "nothing is stored of it");
    drop(dead);
    wall::turn(40 * DAY);
    let heir = Scene::over(memory.clone(), 2, options(1)).await;
    let wiring = &heir.wiring;
    let (clock, owner, processes) = (wiring.clock, &wiring.owner, wiring.processes.as_ref());
    let rescuer = Rescuer { store: heir.store.as_ref(), clock, owner, processes };
    settle(rescuer, &Orphans::All, Conclusion::Reported).await.expect("the store works");
    let record = heir.stored(&ticket.delegation).await;
    assert_eq!(record.children[0].outcome(), Some(Outcome::Lost));
    let result = BatchResult::of(&record);
    about(0, seconds(result.results[0].duration_seconds), "nobody knows");
    about(0, seconds(result.total_duration_seconds), "the call");
}
