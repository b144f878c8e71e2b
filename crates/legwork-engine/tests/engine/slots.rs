//! Who runs when: the cap, the queue, slots that come back, parents that wait without one.

use crate::scene::{Scene, batch};
use legwork_core::outcome::{Force, Outcome, StopReason};
use legwork_core::ports::{Delegator, DispatchError, LiveEvent, Refusal};
use legwork_core::record::DelegationRecord;
use legwork_core::relay::{News, Relay};
use legwork_core::steering::Scope;
use legwork_testkit::worlds::Chance;
use std::collections::BTreeSet;
use std::time::Duration;

/// Proves REG-10, DISP-5, BUILD-2.
#[tokio::test(start_paused = true)]
async fn k16_two_hundred_tasks_never_run_more_than_ten_at_once() {
    let scene = Scene::new(10).await;
    let goals: Vec<&str> = (0..200).map(|n| if n % 3 == 0 { "fail" } else { "until told" }).collect();
    let ticket = scene.dispatch(&goals).await;
    scene.troupe.until(|counts| counts.here.len() == 10).await;
    scene.pass(Duration::from_secs(1)).await;
    assert_eq!(scene.troupe.counts().here.len(), 10);
    scene.troupe.say("told");
    let record = scene.joined(&ticket).await;
    let counts = scene.troupe.counts();
    assert_eq!((counts.peak, counts.came, counts.here.len()), (10, 200, 0));
    for (index, child) in record.children.iter().enumerate() {
        let answered = child.outcome() == Some(Outcome::Succeeded);
        assert_eq!(answered, index % 3 != 0, "outcome {index} is that of task {index}");
    }
}

/// Proves REG-5, DISP-10, RUN-21.
#[tokio::test(start_paused = true)]
async fn k11_a_panic_fails_one_child_and_no_other() {
    let scene = Scene::new(2).await;
    let (mut watch, mut relay) = (scene.handle.watch(), Relay::default());
    let ticket = scene.dispatch(&["panic", "until told", "answer"]).await;
    let panicked = scene.outcome(&ticket, &ticket.children[0]).await;
    assert_eq!(panicked.status().as_str(), "error");
    assert_eq!(scene.outcome(&ticket, &ticket.children[2]).await, Outcome::Succeeded, "its slot came free");
    scene.troupe.say("told");
    let record = scene.joined(&ticket).await;
    assert_eq!(record.children[1].outcome(), Some(Outcome::Succeeded));
    let error = record.children[0].report.as_ref().and_then(|report| report.error.clone());
    assert_eq!(error.as_deref(), Some("the subagent's code panicked: panic fell over"));
    // A host hears of its end once, with the status of the entry.
    let mut ends = Vec::new();
    while ends.len() < 3 {
        for told in relay.take(&watch.next().await.expect("the engine runs")) {
            if let News::Complete(end) = &told.news {
                ends.push((told.who.subagent_id.clone(), end.status.as_str()));
            }
        }
    }
    let of_panic: Vec<&str> =
        ends.iter().filter(|(child, _)| *child == ticket.children[0]).map(|(_, status)| *status).collect();
    assert_eq!(of_panic, ["error"], "{ends:?}");
}

#[tokio::test(start_paused = true)]
async fn k16_a_tree_of_depth_three_completes_with_one_slot() {
    let scene = Scene::new(1).await;
    let ticket = scene.dispatch(&["tree 2 2"]).await;
    let record = scene.joined(&ticket).await;
    let answer = record.children[0].report.as_ref().and_then(|report| report.answer.as_deref());
    assert_eq!(answer, Some("7"), "the root, two below it, four below them");
    let counts = scene.troupe.counts();
    assert_eq!((counts.came, counts.peak, counts.here.len()), (7, 1, 0));
}

/// Proves TOOL-19.
#[tokio::test(start_paused = true)]
async fn k16_depth_is_hard() {
    let scene = Scene::new(4).await;
    let mut deep = batch(&["answer"]);
    deep.lineage.depth = 4;
    let objection = scene.handle.objection(&deep.lineage).await;
    assert_eq!(objection, Some(Refusal::TooDeep { depth: 4, depth_max: 4 }));
    let refused = scene.handle.dispatch(deep).await;
    assert_eq!(refused.clone(), Err(DispatchError::Refused(Refusal::TooDeep { depth: 4, depth_max: 4 })));
    let said = refused.expect_err("it is too deep").to_string();
    for words in ["at depth 4", "delegation.max_spawn_depth is 4"] {
        assert!(said.contains(words), "{words} is missing in {said}");
    }
}

/// A thousand children in waves; each ends in one of the ways there are.
#[tokio::test(start_paused = true)]
async fn k16_after_every_wave_of_random_endings_no_slot_is_in_use() {
    let scene = Scene::new(8).await;
    let mut chance = Chance::new(16);
    let (mut never_started, mut outcomes) = (0, BTreeSet::new());
    for wave in 0..25 {
        let goals: Vec<String> = (0..40).map(|n| format!("{} {wave}-{n}", chance.pick(&KINDS))).collect();
        let record = play(&scene, &goals, &mut chance).await;
        never_started += record.children.iter().filter(|child| child.started_at.is_none()).count();
        outcomes.extend(
            record.children.iter().filter_map(|child| child.outcome()).map(|outcome| format!("{outcome:?}")),
        );
        assert_eq!(scene.troupe.counts().here, [""; 0], "wave {wave}");
        let views = scene.handle.view(Some(&record.accepted.delegation)).await;
        assert!(views.iter().all(|view| !view.state.holds_slot()), "wave {wave}: {views:?}");
    }
    let counts = scene.troupe.counts();
    assert_eq!((counts.peak, counts.came + never_started), (8, 1000));
    assert_eq!(outcomes.len(), 5, "answered, failed, panicked, cancelled, stalled: {outcomes:?}");
}

const KINDS: [&str; 6] = ["answer", "fail", "panic", "until stopped", "finish", "deaf"];

/// Plays one wave. Those that would stay are stopped as soon as they begin; some are left to stall.
async fn play(scene: &Scene, goals: &[String], chance: &mut Chance) -> DelegationRecord {
    let mut watch = scene.handle.watch();
    let texts: Vec<&str> = goals.iter().map(String::as_str).collect();
    let ticket = scene.dispatch(&texts).await;
    let all = scene.handle.settled(&ticket.delegation);
    tokio::pin!(all);
    loop {
        let event = tokio::select! {
            () = &mut all => return scene.joined(&ticket).await,
            event = watch.next() => event.expect("the engine runs"),
        };
        let LiveEvent::Started { child: who, .. } = event else { continue };
        let (child, goal) = (who.child.clone(), &goals[who.task_index]);
        let ends = ["answer", "fail", "panic"].iter().any(|kind| goal.starts_with(kind));
        if !ends && !chance.once_in(5) {
            let force = *chance.pick(&[Force::Ask, Force::Abort]);
            scene.handle.stop(Scope::Child(child), StopReason::Cancelled, force).await;
            scene.troupe.say(goal.split(' ').next_back().expect("a goal has words"));
        }
        if chance.once_in(50) {
            // Now and then the stop is of a whole unit, and reaches those that wait.
            let scope = Scope::Unit(ticket.units[0].id.clone());
            scene.handle.stop(scope, StopReason::Cancelled, Force::Ask).await;
        }
    }
}
