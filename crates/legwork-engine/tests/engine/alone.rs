//! A child that its process may have died of runs alone, so that nobody is given up for what another one does.

use crate::deaths::store_step;
use crate::scene::{DEAD, Scene, batch, options};
use legwork_core::batch::Ticket;
use legwork_core::completion::BatchResult;
use legwork_core::outcome::{Outcome, StopReason};
use legwork_core::ports::{Delegator, DispatchError, Facts, Refusal};
use legwork_core::record::DelegationRecord;
use legwork_engine::recovery::{DEATHS_IN_ALL_MAX, DEATHS_MAX, Orphans, Recovered};
use legwork_engine::{AtCapacity, Options};
use legwork_testkit::memory::MemoryStore;
use std::time::Duration;

/// Its process dies whenever it is at work.
const KILLER: &str = "until stopped";

/// Deaths from which on a child runs alone.
const ALONE_FROM: u32 = DEATHS_MAX / 2;

/// What takes its time.
const LONG: Duration = Duration::from_secs(1);

/// The `n`-th process goes on with what there is, and all that can be at work is.
async fn process(memory: &MemoryStore, n: u32, options: Options) -> (Scene, Recovered) {
    let scene = Scene::over(memory.clone(), DEAD + n, options).await;
    let recovered = scene.recover(&Orphans::All).await;
    scene.pass(LONG).await;
    (scene, recovered)
}

/// A call whose children all run when their process dies.
async fn begun(memory: &MemoryStore, goals: &[&str]) -> Ticket {
    let scene = Scene::over(memory.clone(), DEAD, options(goals.len())).await;
    let ticket = scene.dispatch(goals).await;
    scene.troupe.until(|counts| counts.here.len() == goals.len()).await;
    ticket
}

/// A call whose only child has seen so many deaths that it runs alone from now on.
async fn suspected(memory: &MemoryStore, goal: &str) -> Ticket {
    let ticket = begun(memory, &[goal]).await;
    for n in 1..ALONE_FROM {
        let (_, recovered) = process(memory, n, options(3)).await;
        assert_eq!((recovered.resumed, recovered.condemned), (1, 0), "death {n}");
    }
    ticket
}

async fn stored(memory: &MemoryStore, ticket: &Ticket) -> DelegationRecord {
    memory.delegation(&ticket.delegation).await.expect("it reads").expect("it is stored")
}

fn given_up() -> Option<Outcome> {
    Some(Outcome::Stopped(StopReason::OwnerLost))
}

/// One of them that are at work stores a step, as its `seq`-th from 0.
async fn get_further(scene: &Scene, goal: &str, seq: u32) {
    let mut assignments = scene.troupe.assignments().into_iter();
    let assignment = assignments.find(|assignment| assignment.task.goal == goal).expect("it is at work");
    store_step(scene, assignment, seq).await;
}

/// Proves RECOV-2, K10: the innocent stand still at one step, as in a long call of their models, or get further each time, as with
/// calls that are in doubt; the one that their process dies of gets further each time.
#[tokio::test(start_paused = true)]
async fn k08_inv_10_nobody_is_given_up_for_what_another_one_does_that_gets_further_each_time() {
    for all_get_further in [false, true] {
        let memory = MemoryStore::new();
        let innocent: Vec<String> = (1..=7).map(|n| format!("until told {n}")).collect();
        let mut goals: Vec<&str> = innocent.iter().map(String::as_str).collect();
        goals.insert(3, KILLER);
        let ticket = begun(&memory, &goals).await;
        let mut died_together = 1;
        for n in 1..=DEATHS_IN_ALL_MAX {
            let (scene, recovered) = process(&memory, n, options(goals.len())).await;
            if recovered.condemned > 0 {
                assert_eq!((n, recovered.resumed), (DEATHS_IN_ALL_MAX, 0));
                break;
            }
            let mut here = scene.troupe.counts().here;
            if here.len() == 1 {
                // Whoever is alone gets to its end, and after it the next one begins, unless it is the killer.
                scene.troupe.say("told");
                scene.troupe.until_here(KILLER).await;
                here = scene.troupe.counts().here;
                assert_eq!(here, [KILLER], "all others have ended");
            } else {
                died_together += 1;
            }
            for goal in here.iter().filter(|goal| all_get_further || *goal == KILLER) {
                get_further(&scene, goal, n - 1).await;
            }
        }
        let together = if all_get_further { DEATHS_IN_ALL_MAX / 2 } else { ALONE_FROM };
        assert_eq!(died_together, together);
        let record = stored(&memory, &ticket).await;
        for (child, goal) in record.children.iter().zip(&goals) {
            let expected = if *goal == KILLER { given_up() } else { Some(Outcome::Succeeded) };
            assert_eq!(child.outcome(), expected, "{goal}");
        }
        let error = BatchResult::of(&record).results.remove(3).error.expect("a reason");
        assert!(error.contains("died 64 times in all"), "{error}");
    }
}

/// The one that may be the death of it was accepted before.
#[tokio::test(start_paused = true)]
async fn k08_inv_10_work_that_is_to_run_alone_is_taken_up_before_other_work() {
    let memory = MemoryStore::new();
    let scene = Scene::over(memory.clone(), DEAD, options(3)).await;
    let killer = scene.dispatch(&[KILLER]).await;
    let innocent = scene.dispatch(&["until told"]).await;
    scene.troupe.until(|counts| counts.here.len() == 2).await;
    drop(scene);
    // The last of them counts the death from which on the innocent one runs alone, and has begun with the other one.
    for n in 1..=ALONE_FROM {
        let (scene, _) = process(&memory, n, options(3)).await;
        get_further(&scene, KILLER, n - 1).await;
    }
    let (scene, recovered) = process(&memory, ALONE_FROM + 1, options(3)).await;
    assert_eq!((recovered.resumed, scene.troupe.counts().here), (2, vec!["until told".to_owned()]));
    scene.troupe.say("told");
    scene.troupe.until_here(KILLER).await;
    assert_eq!(scene.outcomes(&innocent).await, [Some(Outcome::Succeeded)]);
    assert_eq!(scene.outcomes(&killer).await, [None]);
}

/// Proves K10: each has as many deaths of its own as a single one.
#[tokio::test(start_paused = true)]
async fn k08_two_that_their_process_dies_of_are_given_up_one_after_the_other() {
    let memory = MemoryStore::new();
    let ticket = begun(&memory, &["until stopped", "until stopped too", "until told"]).await;
    let mut deaths = 1;
    loop {
        let (scene, recovered) = process(&memory, deaths, options(3)).await;
        if recovered.resumed == 0 {
            break;
        }
        if deaths >= ALONE_FROM {
            scene.troupe.say("told");
            scene.pass(LONG).await;
            let counts = scene.troupe.counts();
            assert_eq!(counts.peak, 1, "{counts:?}");
            if counts.here.is_empty() {
                break;
            }
        }
        deaths += 1;
        assert!(deaths < 3 * DEATHS_MAX, "it ends");
    }
    assert_eq!(deaths, DEATHS_MAX + ALONE_FROM, "four together, and four of each");
    let record = stored(&memory, &ticket).await;
    let outcomes: Vec<_> = record.children.iter().map(|child| child.outcome()).collect();
    assert_eq!(outcomes, [given_up(), given_up(), Some(Outcome::Succeeded)]);
}

/// What is at work comes to its end, what comes later waits, however many slots there are.
#[tokio::test(start_paused = true)]
async fn k08_a_suspect_begins_when_nothing_else_is_at_work_and_nothing_begins_beside_it() {
    let memory = MemoryStore::new();
    let ticket = suspected(&memory, "until told").await;
    let scene = Scene::over(memory.clone(), DEAD + ALONE_FROM, options(9)).await;
    let busy = scene.dispatch(&["until done"]).await;
    scene.troupe.until_here("until done").await;
    assert_eq!(scene.recover(&Orphans::All).await.resumed, 1);
    let later = scene.dispatch(&["answer later"]).await;
    scene.pass(LONG).await;
    assert_eq!(scene.troupe.counts().here, ["until done"]);
    scene.troupe.say("done");
    scene.joined(&busy).await;
    scene.troupe.until_here("until told").await;
    scene.pass(LONG).await;
    assert_eq!((scene.troupe.counts().came, scene.outcomes(&later).await), (2, vec![None]));
    scene.troupe.say("told");
    assert!(scene.joined(&ticket).await.is_settled());
    assert!(scene.joined(&later).await.is_settled());
    assert_eq!(scene.troupe.counts().peak, 1);
}

/// Where a call starts whole or is refused, it is refused.
#[tokio::test(start_paused = true)]
async fn k08_a_call_that_would_wait_for_a_suspect_is_refused_where_calls_do_not_wait() {
    let memory = MemoryStore::new();
    let ticket = suspected(&memory, "until told").await;
    let options = Options { at_capacity: AtCapacity::Reject, ..options(3) };
    let (scene, _) = process(&memory, ALONE_FROM, options).await;
    let refused = scene.handle.dispatch(batch(&["answer"])).await;
    assert_eq!(
        refused.err(),
        Some(DispatchError::Refused(Refusal::NoSlots { asked: 1, free: 0, children_max: 3 }))
    );
    scene.troupe.say("told");
    scene.joined(&ticket).await;
    let accepted = scene.dispatch(&["answer"]).await;
    scene.joined(&accepted).await;
}

/// One that waits for its own children stands in nobody's way, and comes back when it is alone again. It may send them out
/// also where calls do not wait.
#[tokio::test(start_paused = true)]
async fn k08_inv_15_a_suspect_that_waits_for_its_children_comes_back_when_nothing_else_is_at_work() {
    for at_capacity in [AtCapacity::Queue, AtCapacity::Reject] {
        let memory = MemoryStore::new();
        let scene = Scene::over(memory.clone(), DEAD, options(3)).await;
        scene.store.close();
        let call = batch(&["tree 1 1 told"]);
        let accepted = tokio::join!(scene.handle.dispatch(call), async {
            scene.store.until_arrived(1).await;
            scene.store.let_one_pass();
        });
        let ticket = accepted.0.expect("it is accepted");
        scene.troupe.until(|counts| counts.came == 1).await;
        drop(scene);
        for n in 1..ALONE_FROM {
            // It dies before anything is stored of what it delegates.
            let scene = Scene::over(memory.clone(), DEAD + n, options(3)).await;
            scene.store.close();
            scene.store.let_one_pass();
            assert_eq!(scene.recover(&Orphans::All).await.resumed, 1);
            scene.troupe.until(|counts| counts.came == 1).await;
        }
        let (scene, _) = process(&memory, ALONE_FROM, Options { at_capacity, ..options(3) }).await;
        scene.troupe.until(|counts| counts.parked == 1 && counts.here.len() == 2).await;
        let beside = scene.dispatch(&["until done"]).await;
        scene.troupe.until_here("until done").await;
        scene.troupe.say("told");
        scene.troupe.until(|counts| counts.here.len() == 2).await;
        scene.pass(LONG).await;
        assert_eq!(scene.outcomes(&ticket).await, [None], "another one is at work still");
        scene.troupe.say("done");
        scene.joined(&beside).await;
        assert_eq!(scene.joined(&ticket).await.children[0].outcome(), Some(Outcome::Succeeded));
    }
}
