//! Processes that stand still: their leases run out, another one takes their work over, and they are kept out when they come
//! back.

use crate::scene::{DEAD, Scene, batch, options, owner, reported};
use crate::troupe::LACKING;
use legwork_core::batch::{NewBatch, Ticket};
use legwork_core::ids::Epoch;
use legwork_core::outcome::Outcome;
use legwork_core::ports::{Delegator, DispatchError, Facts};
use legwork_core::pulse::LineEvent;
use legwork_core::time::Timestamp;
use legwork_engine::Options;
use legwork_engine::recovery::{Conclusion, Orphans, Recovered, Rescuer, settle};
use legwork_testkit::memory::MemoryStore;
use legwork_testkit::shaky::{Luck, ShakyStore};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

const LEASE: Duration = Duration::from_secs(10);

/// Makes the lease of the first process look old; a process that is at work renews it soon.
async fn look_stale(memory: &MemoryStore) {
    memory.renew(&owner(1).id, LEASE, Timestamp(0)).await.expect("it entered");
}

/// A process that stands still with work under way.
struct Still {
    scene: Scene,
    shaky: Arc<ShakyStore>,
    tickets: Vec<Ticket>,
}

impl Still {
    /// The `n`-th process accepts the calls, each of which waits for a word, and stands still.
    async fn with(memory: &MemoryStore, n: u32, calls: Vec<NewBatch>) -> Still {
        let shaky = Arc::new(ShakyStore::new(Arc::new(memory.clone())));
        let scene = Scene::over_store(shaky.clone(), n, options(9)).await;
        let mut tickets = Vec::new();
        for call in calls {
            tickets.push(scene.handle.dispatch(call).await.expect("it is accepted"));
        }
        scene.troupe.until(|counts| counts.here.len() == tickets.len()).await;
        memory.renew(&owner(n).id, LEASE, Timestamp(0)).await.expect("it entered");
        shaky.fail(&["renew", "append", "note_pulses"]);
        Still { scene, shaky, tickets }
    }

    /// It goes on, and nothing was taken from it.
    async fn goes_on(self, memory: &MemoryStore) {
        self.shaky.recover();
        self.scene.pass(LEASE).await;
        self.scene.troupe.say("told");
        for ticket in &self.tickets {
            let record = self.scene.joined(ticket).await;
            assert_eq!(record.children[0].outcome(), Some(Outcome::Succeeded));
            assert_eq!(record.epoch, Epoch(1));
        }
        let owner = memory.owner(&self.scene.wiring.owner.id).await.expect("it reads");
        assert!(owner.is_some_and(|owner| !owner.gone));
    }
}

/// Concludes as the second process, without an engine.
async fn conclude(memory: &MemoryStore, beside: &Scene, conclusion: Conclusion) -> Recovered {
    let second = owner(2);
    memory.enter(second.clone(), Timestamp(0)).await.expect("it enters");
    let processes = beside.wiring.processes.as_ref();
    let rescuer = Rescuer { store: memory, clock: beside.wiring.clock, owner: &second, processes };
    settle(rescuer, &Orphans::All, conclusion).await.expect("the store works")
}

/// Proves RECOV-1, RECOV-7.
#[tokio::test(start_paused = true)]
async fn k34_a_process_that_stands_still_for_three_periods_has_lost_its_work_and_is_kept_out() {
    let memory = MemoryStore::new();
    let shaky = Arc::new(ShakyStore::new(Arc::new(memory.clone())));
    let late = Scene::over_store(shaky.clone(), 1, options(2)).await;
    let ticket = late.dispatch(&["until told"]).await;
    late.troupe.until_here("until told").await;
    look_stale(&memory).await;
    // It stands still: nothing that it asks of the store comes through.
    shaky.fail(&["renew", "append", "note_pulses"]);
    let heir = Scene::over(memory.clone(), 2, options(2)).await;
    let begun = Instant::now();
    let recovered = heir.recover(&Orphans::All).await;
    assert!(begun.elapsed() >= LEASE * 3, "{:?}", begun.elapsed());
    assert_eq!((recovered.taken.len(), recovered.resumed), (1, 1));
    heir.troupe.until_here("until told").await;
    // It is back, with an answer.
    late.troupe.say("told");
    shaky.recover();
    late.troupe.until(|counts| counts.here.is_empty()).await;
    late.pass(LEASE).await;
    assert!(matches!(
        late.handle.dispatch(batch(&["answer"])).await,
        Err(DispatchError::Closed | DispatchError::Store(_) | DispatchError::Refused(_))
    ));
    let record = heir.stored(&ticket.delegation).await;
    assert_eq!((record.children[0].outcome(), record.epoch), (None, Epoch(2)), "the late answer is refused");
    heir.troupe.say("told");
    assert_eq!(heir.joined(&ticket).await.children[0].outcome(), Some(Outcome::Succeeded));
}

/// Proves RECOV-1.
#[tokio::test(start_paused = true)]
async fn k34_a_process_that_renews_its_lease_keeps_its_work_whatever_its_stored_times_say() {
    let memory = MemoryStore::new();
    let alive = Scene::over(memory.clone(), 1, options(2)).await;
    let ticket = alive.dispatch(&["until told"]).await;
    alive.troupe.until_here("until told").await;
    let heir = Scene::over(memory.clone(), 2, options(2)).await;
    for stored in [Timestamp(0), Timestamp(i64::MAX / 2)] {
        memory.renew(&owner(1).id, LEASE, stored).await.expect("it entered");
        let begun = Instant::now();
        let recovered = heir.recover(&Orphans::All).await;
        assert_eq!(recovered, Recovered::default());
        assert!(begun.elapsed() <= LEASE, "a sign of life is enough: {:?}", begun.elapsed());
    }
    assert_eq!(heir.stored(&ticket.delegation).await.owner, owner(1));
    alive.troupe.say("told");
    alive.joined(&ticket).await;
}

/// How often a process with a lease of a second and eight calls under way renews it in a minute of such luck.
async fn renewals_in_a_minute(luck: fn(&'static str) -> Luck) -> usize {
    let second = Duration::from_secs(1);
    let shaky = Arc::new(ShakyStore::new(Arc::new(MemoryStore::new())));
    let scene = Scene::over_store(shaky.clone(), 1, Options { lease: second, ..options(9) }).await;
    let goals: Vec<String> = (0..8).map(|n| format!("until told {n}")).collect();
    for goal in &goals {
        scene.dispatch(&[goal]).await;
        scene.troupe.until_here(goal).await;
    }
    shaky.let_decide(luck);
    shaky.take_calls();
    for _ in 0..60 {
        goals.iter().for_each(|goal| scene.troupe.line(goal).tell(LineEvent::ToolMoved));
        scene.pass(second).await;
    }
    shaky.take_calls().into_iter().filter(|call| *call == "renew").count()
}

/// Proves RECOV-1.
#[tokio::test(start_paused = true)]
async fn k35_a_lease_is_renewed_in_time_while_the_store_cannot_be_read() {
    let renewals = renewals_in_a_minute(|name| if name == "news" { Luck::Fails } else { Luck::Good }).await;
    assert!((140..190).contains(&renewals), "{renewals}");
}

/// Proves RECOV-1.
#[tokio::test(start_paused = true)]
async fn k35_a_lease_is_renewed_in_time_while_other_writes_wait_for_a_lock() {
    const LOCKED: Luck = Luck::Slow(Duration::from_secs(5));
    let renewals = renewals_in_a_minute(|name| if name == "note_pulses" { LOCKED } else { Luck::Good }).await;
    assert!((140..190).contains(&renewals), "{renewals}");
}

#[tokio::test(start_paused = true)]
async fn k34_whoever_only_reads_the_results_takes_nothing_from_a_process_that_stands_still() {
    let memory = MemoryStore::new();
    let still = Still::with(&memory, 1, vec![batch(&["until told"])]).await;
    let concluded = conclude(&memory, &still.scene, Conclusion::Reported).await;
    assert_eq!(concluded, Recovered::default(), "it is for whoever goes on with it");
    still.goes_on(&memory).await;
}

#[tokio::test(start_paused = true)]
async fn k29_a_process_that_lacks_the_key_takes_nothing_from_one_that_stands_still() {
    let memory = MemoryStore::new();
    let mut call = batch(&["until told"]);
    call.setting.route.model = LACKING.to_owned();
    let still = Still::with(&memory, 1, vec![call]).await;
    let heir = Scene::over(memory.clone(), 2, options(2)).await;
    assert_eq!(heir.recover(&Orphans::All).await, Recovered::default());
    still.goes_on(&memory).await;
}

/// Proves RECOV-1.
#[tokio::test(start_paused = true)]
async fn k34_work_that_is_only_to_be_reported_is_settled_once_the_lease_of_its_process_has_run_out() {
    let memory = MemoryStore::new();
    let still = Still::with(&memory, 1, vec![reported(&["until told"]), batch(&["until told"])]).await;
    let concluded = conclude(&memory, &still.scene, Conclusion::Reported).await;
    assert_eq!((concluded.taken, concluded.lost), (vec![still.tickets[0].delegation.clone()], 1));
    let left =
        memory.delegation(&still.tickets[1].delegation).await.expect("it reads").expect("it is stored");
    assert_eq!((left.owner.id, left.epoch), (owner(1).id, Epoch(1)), "that may go on");
}

#[tokio::test(start_paused = true)]
async fn k34_the_work_of_the_dead_goes_on_at_once_and_all_leases_are_watched_together() {
    let memory = MemoryStore::new();
    let calls = || vec![batch(&["until told"]), batch(&["until told"])];
    let _first = Still::with(&memory, 1, calls()).await;
    let _third = Still::with(&memory, 3, calls()).await;
    let dead = Scene::over(memory.clone(), DEAD, options(1)).await;
    dead.dispatch(&["until another is told"]).await;
    dead.troupe.until_here("until another is told").await;
    let heir = Scene::over(memory.clone(), 2, options(9)).await;
    let begun = Instant::now();
    let at_work = async {
        heir.troupe.until_here("until another is told").await;
        begun.elapsed()
    };
    let (recovered, at_work) = tokio::join!(heir.handle.recover(&Orphans::All), at_work);
    assert_eq!(recovered.expect("the store works").taken.len(), 5);
    assert!(at_work < LEASE, "{at_work:?}");
    assert!((LEASE * 3..LEASE * 4).contains(&begun.elapsed()), "{:?}", begun.elapsed());
    heir.troupe.until(|counts| counts.here.len() == 5).await;
}

/// A further process falls silent while the others are watched: each is watched in its turn, and the last is named.
#[tokio::test(start_paused = true)]
async fn k34_whoever_falls_silent_while_others_are_watched_is_watched_too_or_named() {
    let memory = MemoryStore::new();
    let call = || vec![batch(&["until told"])];
    let _first = Still::with(&memory, 1, call()).await;
    let heir = Scene::over(memory.clone(), 2, options(9)).await;
    let later = async {
        let mut still = Vec::new();
        for n in 3..=5 {
            // Each in the middle of a watch, which takes three periods.
            heir.pass(LEASE * 3 / 2).await;
            still.push(Still::with(&memory, n, call()).await);
            heir.pass(LEASE * 3 / 2 + Duration::from_secs(1)).await;
        }
        still
    };
    let (recovered, later) = tokio::join!(heir.handle.recover(&Orphans::All), later);
    let recovered = recovered.expect("the store works");
    assert_eq!((recovered.taken.len(), recovered.resumed), (3, 3), "three times it was watched");
    let unclear: Vec<_> = recovered.unclear.iter().map(|owner| owner.process.pid).collect();
    assert_eq!(unclear, [5]);
    let left = later.last().expect("there are three").tickets[0].delegation.clone();
    let left = memory.delegation(&left).await.expect("it reads").expect("it is stored");
    assert_eq!((left.owner.id, left.epoch), (owner(5).id, Epoch(1)), "nothing was taken from it");
}
