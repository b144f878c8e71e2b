//! A child whose process dies at the same step of it again and again is gone on with so often and no more.

use crate::scene::{DEAD, FOR_EVER, Scene, UNSEEN, batch, options, owner};
use futures::FutureExt;
use legwork_core::batch::{NewBatch, Ticket};
use legwork_core::child::ChildState;
use legwork_core::completion::BatchResult;
use legwork_core::ids::Epoch;
use legwork_core::outcome::{Outcome, StopReason, WireStatus};
use legwork_core::ports::{Assignment, Delegator, Facts, Steps, WriteSteps};
use legwork_core::pulse::{Deaths, LineEvent, Pulse};
use legwork_core::record::ChildRecord;
use legwork_core::step::{Action, Actor, Fence, Product, StepChange};
use legwork_core::time::Timestamp;
use legwork_engine::recovery::{Conclusion, DEATHS_MAX, Orphans, Recovered, Rescuer, settle};
use legwork_testkit::memory::{Damage, MemoryStore};
use legwork_testkit::shaky::{Luck, ShakyStore};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::time::timeout;

/// How a process ends.
#[derive(Clone, Copy)]
enum End {
    Dies,
    LetsGo,
    /// It is declared gone: it stood still, or has died where nobody sees it.
    IsGone,
}

/// The `n`-th process goes on with what there is, until the child at work is there, and ends after `then`.
async fn live(memory: &MemoryStore, n: u32, end: End, then: impl AsyncFnOnce(&Scene, u32)) -> Recovered {
    let scene = Scene::over(memory.clone(), n, options(3)).await;
    let recovered = scene.recover(&Orphans::All).await;
    if recovered.resumed > 0 {
        scene.troupe.until(|counts| !counts.here.is_empty()).await;
        then(&scene, n).await;
    }
    match end {
        End::Dies => {}
        End::LetsGo => scene.engine.close().await,
        End::IsGone => declare_gone(memory, n).await,
    }
    recovered
}

async fn nothing(_: &Scene, _: u32) {}

async fn declare_gone(memory: &MemoryStore, n: u32) {
    let lease = memory.lease(&owner(n).id).await.expect("it reads").expect("it has one");
    memory.declare_gone(&owner(n).id, lease.beats, Timestamp(0)).await.expect("it is taken");
}

/// A process accepts the call and dies when the children are at work.
async fn accepted(memory: &MemoryStore, call: NewBatch, here: &[&str]) -> Ticket {
    accepted_by(memory, DEAD, (call, here)).await
}

/// The process of this number does.
async fn accepted_by(memory: &MemoryStore, n: u32, (call, here): (NewBatch, &[&str])) -> Ticket {
    let scene = Scene::over(memory.clone(), n, options(3)).await;
    let ticket = scene.handle.dispatch(call).await.expect("it is accepted");
    scene.troupe.until(|counts| counts.here == here).await;
    ticket
}

async fn child(memory: &MemoryStore, ticket: &Ticket, index: usize) -> ChildRecord {
    let record = memory.delegation(&ticket.delegation).await.expect("it reads").expect("it is stored");
    record.children[index].clone()
}

/// The child that is at work stores a step, as its `n`-th.
async fn step(scene: &Scene, n: u32) {
    store_step(scene, scene.troupe.assignments().remove(0), n - DEAD - 1).await;
}

/// The child of this assignment stores a whole step.
pub async fn store_step(scene: &Scene, assignment: Assignment, seq: u32) {
    let write = WriteSteps {
        actor: Actor::Child(assignment.child),
        fence: assignment.fence,
        at: Timestamp(0),
        changes: vec![
            StepChange::Intend { seq, action: Action::Open },
            StepChange::Finish { seq, product: Product::Opened(Vec::new()) },
        ],
        acknowledge: Vec::new(),
        turn: None,
        seen: Vec::new(),
    };
    scene.store.write_steps(write).await.expect("it is the owner");
}

/// Proves RECOV-2.
#[tokio::test(start_paused = true)]
async fn k08_a_child_that_its_process_dies_of_again_and_again_is_given_up_and_its_sibling_is_not() {
    let memory = MemoryStore::new();
    let ticket = accepted(&memory, batch(&["deaf", "answer late"]), &["deaf"]).await;
    for n in 1..DEATHS_MAX {
        let recovered = live(&memory, DEAD + n, End::Dies, nothing).await;
        assert_eq!((recovered.resumed > 0, recovered.condemned), (true, 0), "death {n}");
    }
    let scene = Scene::over(memory.clone(), 2, options(1)).await;
    let recovered = scene.recover(&Orphans::All).await;
    assert_eq!((recovered.resumed, recovered.condemned, recovered.lost), (0, 1, 0));
    let record = scene.joined(&ticket).await;
    assert_eq!(record.children[0].outcome(), Some(Outcome::Stopped(StopReason::OwnerLost)));
    assert_eq!(record.children[1].outcome(), Some(Outcome::Succeeded), "it ran to its end before");
    let entry = BatchResult::of(&record).results.remove(0);
    assert_eq!(entry.status, WireStatus::Interrupted);
    let error = entry.error.expect("a reason");
    for part in ["died 8 times in a row", "before its first step", "delegate the task again", "on_crash"] {
        assert!(error.contains(part), "{part:?}: {error}");
    }
}

#[tokio::test(start_paused = true)]
async fn k08_what_is_given_up_needs_no_engine_to_settle_and_an_own_stop_keeps_its_reason() {
    for conclusion in [Conclusion::Reported, Conclusion::Stopped(StopReason::Cancelled)] {
        let memory = MemoryStore::new();
        let ticket = accepted(&memory, batch(&["deaf"]), &["deaf"]).await;
        for n in 1..DEATHS_MAX {
            live(&memory, DEAD + n, End::Dies, nothing).await;
            if n == DEATHS_MAX - 2 {
                assert_eq!(
                    conclude(&memory, Conclusion::Reported).await,
                    Recovered::default(),
                    "it may go on"
                );
            }
        }
        let recovered = conclude(&memory, conclusion).await;
        let row = child(&memory, &ticket, 0).await;
        match conclusion {
            Conclusion::Reported => {
                assert_eq!((recovered.condemned, recovered.lost), (1, 0));
                assert_eq!(row.outcome(), Some(Outcome::Stopped(StopReason::OwnerLost)));
                assert!(
                    row.report.and_then(|report| report.error).is_some_and(|error| error.contains("8 times"))
                );
            }
            Conclusion::Stopped(reason) => {
                assert_eq!((recovered.condemned, recovered.lost), (0, 1));
                assert_eq!(row.outcome(), Some(Outcome::Stopped(reason)));
                assert_eq!(row.report.and_then(|report| report.error), None);
            }
        }
    }
}

/// Concludes as the second process, without an engine.
async fn conclude(memory: &MemoryStore, conclusion: Conclusion) -> Recovered {
    let scene = Scene::over(memory.clone(), 2, options(1)).await;
    let processes = scene.wiring.processes.as_ref();
    let rescuer = Rescuer { store: memory, clock: scene.wiring.clock, owner: &owner(2), processes };
    settle(rescuer, &Orphans::All, conclusion).await.expect("the store works")
}

/// Proves RECOV-2.
#[tokio::test(start_paused = true)]
async fn k08_a_child_that_gets_a_step_further_each_time_is_not_given_up_after_eight_deaths() {
    let memory = MemoryStore::new();
    let ticket = accepted(&memory, batch(&["until told"]), &["until told"]).await;
    for n in 1..=40 {
        let recovered = live(&memory, DEAD + n, End::Dies, step).await;
        assert_eq!((recovered.resumed, recovered.condemned), (1, 0), "death {n}");
    }
    // The steps of those that die before they have one are counted from the last one on.
    for n in 41..40 + DEATHS_MAX {
        let recovered = live(&memory, DEAD + n, End::Dies, nothing).await;
        assert_eq!((recovered.resumed, recovered.condemned), (1, 0), "death {n}");
    }
    let recovered = live(&memory, DEAD + 40 + DEATHS_MAX, End::Dies, nothing).await;
    assert_eq!((recovered.resumed, recovered.condemned), (0, 1));
    let error = child(&memory, &ticket, 0).await.report.and_then(|report| report.error);
    assert!(error.is_some_and(|error| error.contains("after 40 step(s)")));
}

#[tokio::test(start_paused = true)]
async fn k33_k34_whoever_lets_go_in_good_order_or_stood_still_has_not_died_of_its_work() {
    // The latter are seen to live when their work is taken.
    for (first, end) in [(DEAD, End::LetsGo), (2, End::IsGone)] {
        let memory = MemoryStore::new();
        let ticket = accepted(&memory, batch(&["deaf"]), &["deaf"]).await;
        for n in 1..=3 * DEATHS_MAX {
            let recovered = live(&memory, first + n, end, nothing).await;
            assert_eq!((recovered.resumed, recovered.condemned), (1, 0), "end {n}");
        }
        assert_eq!(child(&memory, &ticket, 0).await.deaths().in_a_row, 1, "the first one died");
    }
}

/// It stores last that it let go of its work, and may do so after somebody has read that for whose process it looks next.
#[tokio::test(start_paused = true)]
async fn k33_a_process_that_ends_in_good_order_after_its_work_was_read_has_not_died_of_it() {
    let memory = MemoryStore::new();
    let ticket = accepted(&memory, batch(&["deaf"]), &["deaf"]).await;
    for n in 1..DEATHS_MAX {
        live(&memory, DEAD + n, End::Dies, nothing).await;
    }
    let last = DEAD + DEATHS_MAX - 1;
    let record = memory.delegation(&ticket.delegation).await.expect("it reads").expect("it is stored");
    let (fence, row) = (Fence { owner: owner(last).id, epoch: record.epoch }, &record.children[0]);
    assert_eq!((row.state, row.deaths().in_a_row), (ChildState::Running { attempt: 8 }, 7));
    let pulse = Pulse { deaths: row.deaths().but_not(8), ..Pulse::default() };
    let told = vec![(row.id.clone(), pulse)];

    let scene = Scene::over(memory.clone(), 2, options(3)).await;
    let store = memory.clone();
    scene.neighbours.before_its_death(last, move || {
        let told = store.note_pulses(fence, Timestamp(0), told).now_or_never();
        assert_eq!(told, Some(Ok(())), "it is the owner still");
    });
    let recovered = scene.recover(&Orphans::All).await;
    assert_eq!((recovered.resumed, recovered.condemned), (1, 0));
    let deaths = child(&memory, &ticket, 0).await.deaths();
    assert_eq!((deaths.in_a_row, deaths.attempt), (7, 8));
}

/// Proves RECOV-2: where processes cannot be seen, as those of another container.
#[tokio::test(start_paused = true)]
async fn k08_inv_30_a_process_that_was_declared_gone_and_is_not_seen_to_live_has_died_of_its_work() {
    let memory = MemoryStore::new();
    let ticket = accepted_by(&memory, UNSEEN, (batch(&["deaf"]), &["deaf"])).await;
    declare_gone(&memory, UNSEEN).await;
    for n in 1..DEATHS_MAX {
        let recovered = live(&memory, UNSEEN + n, End::IsGone, nothing).await;
        assert_eq!((recovered.resumed, recovered.condemned), (1, 0), "death {n}");
        assert_eq!(child(&memory, &ticket, 0).await.deaths().in_a_row, n);
    }
    let recovered = live(&memory, 2, End::Dies, nothing).await;
    assert_eq!((recovered.resumed, recovered.condemned), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn k16_a_parent_that_waits_for_its_children_is_not_given_up_for_their_deaths() {
    let memory = MemoryStore::new();
    let scene = Scene::over(memory.clone(), DEAD, options(3)).await;
    let ticket = scene.dispatch(&["tree 1 1 told"]).await;
    scene.troupe.until(|counts| counts.here.len() == 2 && counts.parked == 1).await;
    drop(scene);
    for n in 1..DEATHS_MAX {
        // It dies when both have begun, before it is stored that the parent waits.
        let scene = Scene::over(memory.clone(), DEAD + n, options(3)).await;
        scene.store.close();
        scene.store.let_one_pass();
        let recovered = scene.recover(&Orphans::All).await;
        assert_eq!((recovered.resumed, recovered.condemned), (2, 0), "death {n}");
        scene.troupe.until(|counts| counts.here.contains(&"tree 1 0 told".to_owned())).await;
        let parent = child(&memory, &ticket, 0).await;
        // From then on the one below runs alone first.
        let is_alone = n >= DEATHS_MAX / 2;
        assert_eq!(parent.state.attempt_under_way(), (!is_alone).then_some(n + 1), "death {n}");
    }
    let heir = Scene::over(memory.clone(), 2, options(3)).await;
    let recovered = heir.recover(&Orphans::All).await;
    assert_eq!((recovered.condemned, recovered.resumed), (1, 1), "the one below; the parent hears of it");
    let record = heir.joined(&ticket).await;
    assert_eq!(record.children[0].outcome(), Some(Outcome::Succeeded));
}

/// What was counted of a child travels with its pulse, also when it moves.
#[tokio::test(start_paused = true)]
async fn k08_a_pulse_that_moves_keeps_the_deaths() {
    let memory = MemoryStore::new();
    let ticket = accepted(&memory, batch(&["deaf"]), &["deaf"]).await;
    for n in 1..=3 {
        live(&memory, DEAD + n, End::Dies, async |scene: &Scene, _| {
            scene.troupe.line("deaf").tell(LineEvent::ModelCalled);
            scene.pass(Duration::from_secs(2)).await;
        })
        .await;
    }
    let row = child(&memory, &ticket, 0).await;
    assert_eq!((row.deaths().in_a_row, row.state), (3, ChildState::Running { attempt: 4 }));
    assert_eq!(row.pulse.map(|(pulse, _)| pulse.model_calls), Some(3));
}

/// Proves K10 for what runs side by side with the one that its process dies of.
#[tokio::test(start_paused = true)]
async fn k08_inv_10_what_runs_beside_a_deadly_child_is_not_given_up_with_it() {
    let memory = MemoryStore::new();
    let goals = ["until told", "deaf", "until told too"];
    let ticket = accepted(&memory, batch(&goals), &goals).await;
    let mut given_up = 0;
    for n in 1..=3 * DEATHS_MAX {
        let scene = Scene::over(memory.clone(), DEAD + n, options(3)).await;
        given_up += scene.recover(&Orphans::All).await.condemned;
        if given_up > 0 {
            scene.troupe.say("told");
            scene.joined(&ticket).await;
            break;
        }
        scene.pass(Duration::from_secs(1)).await;
        // The others take their time. Who is alone with it gets to the end.
        if !scene.troupe.counts().here.contains(&"deaf".to_owned()) {
            scene.troupe.say("told");
            scene.troupe.until_here("deaf").await;
        }
    }
    let outcomes: Vec<_> = vec![
        child(&memory, &ticket, 0).await.outcome(),
        child(&memory, &ticket, 1).await.outcome(),
        child(&memory, &ticket, 2).await.outcome(),
    ];
    let given_up = Some(Outcome::Stopped(StopReason::OwnerLost));
    assert_eq!(outcomes, [Some(Outcome::Succeeded), given_up, Some(Outcome::Succeeded)]);
}

/// Proves K35.
#[tokio::test(start_paused = true)]
async fn k08_a_damaged_journal_stops_no_recovery_and_the_deaths_of_its_child_are_counted_all_the_same() {
    let memory = MemoryStore::new();
    let scene = Scene::over(memory.clone(), DEAD, options(3)).await;
    let damaged = scene.dispatch(&["deaf"]).await;
    let whole = scene.dispatch(&["until told"]).await;
    scene.troupe.until(|counts| counts.here.len() == 2).await;
    drop(scene);
    memory.damage(Damage::Journal(Actor::Child(damaged.children[0].clone())));
    let recovered = live(&memory, DEAD + 1, End::Dies, async |scene: &Scene, _| {
        scene.troupe.until_here("until told").await;
        scene.troupe.say("told");
        assert!(scene.joined(&whole).await.is_settled());
    })
    .await;
    assert_eq!((recovered.resumed, recovered.condemned), (2, 0));
    for n in 2..DEATHS_MAX {
        let recovered = live(&memory, DEAD + n, End::Dies, nothing).await;
        assert_eq!((recovered.resumed, recovered.condemned), (1, 0), "death {n}");
    }
    assert_eq!(child(&memory, &damaged, 0).await.deaths().in_a_row, DEATHS_MAX - 1);
    let recovered = live(&memory, DEAD + DEATHS_MAX, End::Dies, nothing).await;
    assert_eq!((recovered.resumed, recovered.condemned), (0, 1));
    let error = child(&memory, &damaged, 0).await.report.and_then(|report| report.error);
    assert!(
        error.as_ref().is_some_and(|error| error.contains("at a place that cannot be read")),
        "{error:?}"
    );
}

/// Proves K35.
#[tokio::test(start_paused = true)]
async fn k08_work_whose_deaths_cannot_be_counted_now_is_not_taken_and_goes_on_later() {
    let memory = MemoryStore::new();
    let ticket = accepted(&memory, batch(&["deaf"]), &["deaf"]).await;
    let shaky = Arc::new(ShakyStore::new(Arc::new(memory.clone())));
    let scene = Scene::over_store(shaky.clone(), 2, options(3)).await;
    shaky.fail(&["steps"]);
    let failed = scene.handle.recover(&Orphans::All).await;
    assert!(failed.is_err(), "{failed:?}");
    let record = memory.delegation(&ticket.delegation).await.expect("it reads").expect("it is stored");
    assert_eq!((record.owner, record.epoch), (owner(DEAD), Epoch(1)), "nothing was touched");
    shaky.recover();
    assert_eq!(scene.recover(&Orphans::All).await.resumed, 1);
    scene.troupe.until_here("deaf").await;
    assert_eq!(child(&memory, &ticket, 0).await.deaths().in_a_row, 1);
}

/// How a call of the store breaks off: it fails, or its process dies of it, before it is carried out or after that.
const BREAKS: [Luck; 4] = [Luck::Fails, Luck::FailsLate, Luck::Dies, Luck::DiesLate];

/// The first process that recovers what is there, and of which one call of the store breaks off; where that has killed it, its
/// successor.
struct Broken {
    scene: Scene,
    /// How many calls came; none breaks off when that is not more than the number of the one that was to.
    calls: usize,
}

/// `at` is the number of the call, from 0. What is left behind it is recovered until the work has begun here, or has ended.
async fn broken(memory: &MemoryStore, ticket: &Ticket, (at, luck): (usize, Luck)) -> Broken {
    let shaky = Arc::new(ShakyStore::new(Arc::new(memory.clone())));
    let scene = Scene::over_store(shaky.clone(), DEAD + DEATHS_MAX, options(3)).await;
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    shaky.let_decide(move |_| if counted.fetch_add(1, Ordering::Relaxed) == at { luck } else { Luck::Good });
    let has_died = tokio::select! {
        () = shaky.death() => true,
        () = decided(&scene, ticket) => false,
    };
    let calls = calls.load(Ordering::Relaxed);
    if !has_died {
        return Broken { scene, calls };
    }
    drop(scene);
    let scene = Scene::over(memory.clone(), 2, options(3)).await;
    decided(&scene, ticket).await;
    Broken { scene, calls }
}

/// Goes on with what is there, again where the store fails, until the work has begun here or has ended.
async fn decided(scene: &Scene, ticket: &Ticket) {
    let mut tries = 0;
    while let Err(error) = scene.handle.recover(&Orphans::All).await {
        tries += 1;
        assert!(tries < 3, "one call has failed: {error}");
    }
    // Deadline: in paused time a wait for something that never comes would turn for ever.
    timeout(FOR_EVER, async {
        tokio::select! {
            () = scene.troupe.until_here("deaf") => {}
            () = ended(scene, ticket) => {}
        }
    })
    .await
    .expect("it begins or ends");
}

/// Waits for the end of the work, also behind a call that fails.
async fn ended(scene: &Scene, ticket: &Ticket) {
    if scene.handle.join(&ticket.delegation).await.is_err() {
        scene.joined(ticket).await;
    }
}

/// Proves RECOV-2, K35: of everything that may break off a recovery, at each call that it makes of the store.
#[tokio::test(start_paused = true)]
async fn k08_inv_30_each_death_is_counted_once_whoever_breaks_off_in_between() {
    for (first, luck) in [DEAD, UNSEEN].into_iter().flat_map(|first| BREAKS.map(|luck| (first, luck))) {
        let mut at = 0;
        loop {
            let memory = MemoryStore::new();
            let ticket = accepted_by(&memory, first, (batch(&["deaf"]), &["deaf"])).await;
            if first == UNSEEN {
                declare_gone(&memory, first).await;
            }
            let broken = broken(&memory, &ticket, (at, luck)).await;
            let row = child(&memory, &ticket, 0).await;
            let ChildState::Running { attempt } = row.state else { panic!("{at} {luck:?}: {row:?}") };
            // No step has ended; each attempt but the one that runs has died.
            let died = attempt - 1;
            let died = Deaths { in_a_row: died, attempt: died, steps: 0, in_all: died };
            assert_eq!(row.deaths(), died, "process {first}, call {at} {luck:?}");
            drop(broken.scene);
            if broken.calls <= at {
                break;
            }
            at += 1;
        }
        assert!(at > 6, "a recovery looks, reads, takes and begins: {at} calls");
    }
}

/// Proves RECOV-2, K35: the last death is among those that are counted when a recovery breaks off.
#[tokio::test(start_paused = true)]
async fn k08_a_child_that_is_to_be_given_up_is_so_whoever_breaks_off_in_between() {
    for luck in BREAKS {
        let mut at = 0;
        loop {
            let memory = MemoryStore::new();
            let ticket = accepted(&memory, batch(&["deaf"]), &["deaf"]).await;
            for n in 1..DEATHS_MAX {
                live(&memory, DEAD + n, End::Dies, nothing).await;
            }
            let broken = broken(&memory, &ticket, (at, luck)).await;
            let row = child(&memory, &ticket, 0).await;
            assert_eq!(row.outcome(), Some(Outcome::Stopped(StopReason::OwnerLost)), "call {at} {luck:?}");
            assert_eq!(broken.scene.troupe.counts().came, 0, "call {at} {luck:?}");
            drop(broken.scene);
            if broken.calls <= at {
                break;
            }
            at += 1;
        }
        assert!(at > 5, "a recovery looks, reads, takes and ends it: {at} calls");
    }
}
