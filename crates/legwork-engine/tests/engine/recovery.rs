//! What a second process concludes of the work of a first one that is not to be gone on with.

use crate::scene::{Scene, options, owner, reported, stopped};
use crate::wall;
use legwork_core::delivery::DeliveryState;
use legwork_core::ids::{ChildId, DelegationId};
use legwork_core::outcome::{Force, Outcome, StopReason};
use legwork_core::ports::{Delegator, Facts, GroupEnd, Liveness, Pending, Processes, StoreError};
use legwork_core::pulse::LineEvent;
use legwork_core::record::{OwnerRecord, Process, ProcessGroup};
use legwork_core::report::{Cost, Usage};
use legwork_core::steering::Scope;
use legwork_core::step::{Actor, Fence};
use legwork_core::time::Timestamp;
use legwork_engine::Clock;
use legwork_engine::recovery::{Conclusion, Orphans, Recovered, RecoveryError, Rescuer};
use legwork_testkit::gated::GatedStore;
use legwork_testkit::memory::MemoryStore;
use std::future::ready;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::advance;

/// Processes that are what the test says.
struct Says {
    liveness: Liveness,
    killed: Mutex<Vec<u32>>,
    marked: Mutex<Vec<ChildId>>,
    /// Groups of which something is left after they were killed.
    undying: Vec<u32>,
    /// Now; it goes on with every look at an owner.
    ticks: Mutex<u64>,
    /// What is younger is spared.
    before: Mutex<u64>,
}

/// When the tests begin, in ticks.
const NOW: u64 = 77;

impl Says {
    fn new(liveness: Liveness) -> Self {
        Says {
            liveness,
            killed: Mutex::default(),
            marked: Mutex::default(),
            undying: Vec::new(),
            ticks: Mutex::new(NOW),
            before: Mutex::default(),
        }
    }
}

impl Processes for Says {
    fn myself(&self) -> Process {
        owner(2).process
    }

    fn liveness(&self, _: &Process) -> Liveness {
        *self.ticks.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.liveness
    }

    fn kill_groups(&self, groups: Vec<ProcessGroup>) -> Pending<'_, Vec<GroupEnd>> {
        let killed = groups.iter().map(|group| group.pgid);
        self.killed.lock().unwrap_or_else(PoisonError::into_inner).extend(killed);
        let end = |group: &ProcessGroup| match self.undying.contains(&group.pgid) {
            true => GroupEnd::Dying,
            false => GroupEnd::Gone,
        };
        Box::pin(ready(groups.iter().map(end).collect()))
    }

    fn ticks(&self) -> u64 {
        *self.ticks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn kill_marked(&self, children: Vec<ChildId>, before: u64) -> Pending<'_, usize> {
        *self.before.lock().unwrap_or_else(PoisonError::into_inner) = before;
        self.marked.lock().unwrap_or_else(PoisonError::into_inner).extend(children);
        Box::pin(ready(0))
    }
}

/// Settles the work of the dead as the second process.
async fn settle(store: &GatedStore, processes: &Says) -> Result<Recovered, RecoveryError> {
    let second = owner(2);
    store.enter(second.clone(), Timestamp(0)).await.expect("it enters");
    let rescuer = Rescuer { store, clock: Clock::start_beside(wall::read), owner: &second, processes };
    legwork_engine::recovery::settle(rescuer, &Orphans::All, Conclusion::Reported).await
}

/// A first process with one child finished, one running, one stopping, one that waits; then it is gone. Returns its
/// delegation.
async fn first_process_dies(memory: &MemoryStore) -> DelegationId {
    let scene = Scene::over(memory.clone(), 1, options(3)).await;
    let goals = ["answer", "until told", "deaf", "deaf too", "answer late"];
    let ticket = scene.handle.dispatch(reported(&goals)).await.expect("it is accepted");
    scene.troupe.until(|counts| counts.here == ["until told", "deaf", "deaf too"]).await;
    scene.handle.stop(Scope::Child(ticket.children[3].clone()), StopReason::Cancelled, Force::Ask).await;
    let line = scene.troupe.line("until told");
    line.tell(LineEvent::ModelCalled);
    let usage = Usage { input: 10, output: 5, ..Usage::default() };
    line.tell(LineEvent::Replied { usage, cost: Cost::MicroUsd(7) });
    let group = ProcessGroup { pgid: 4242, start_ticks: 9, boot_id: "this boot".to_owned() };
    let assignment = scene.troupe.assignments().into_iter().find(|one| one.child == ticket.children[1]);
    let Fence { owner, epoch } = assignment.expect("it was played").fence;
    let actor = Actor::Child(ticket.children[1].clone());
    memory.note_group(Fence { owner, epoch }, actor, group).await.expect("it is the owner");
    // Pulses are stored every second; the stop's grace is longer.
    for _ in 0..6 {
        advance(Duration::from_millis(200)).await;
        scene.handle.view(None).await;
    }
    ticket.delegation
}

#[tokio::test(start_paused = true)]
async fn k34_the_work_of_a_dead_owner_is_settled_and_what_was_finished_stays() {
    let memory = MemoryStore::new();
    let delegation = first_process_dies(&memory).await;
    let before = memory.delegation(&delegation).await.expect("it reads").expect("it is stored");
    let store = GatedStore::new(Arc::new(memory.clone()));
    let says = Says::new(Liveness::Dead);
    let recovered = settle(&store, &says).await.expect("it settles");
    assert_eq!(recovered.taken, std::slice::from_ref(&delegation));
    assert_eq!((recovered.lost, recovered.stopping, recovered.unstarted), (2, 1, 1));
    let record = memory.delegation(&delegation).await.expect("it reads").expect("it is stored");
    let outcomes: Vec<_> = record.children.iter().map(|child| child.outcome()).collect();
    let (lost, unstarted) = (Some(Outcome::Lost), stopped(StopReason::OwnerLost));
    let cancelled = stopped(StopReason::Cancelled);
    assert_eq!(outcomes, [Some(Outcome::Succeeded), lost, lost, cancelled, unstarted]);
    assert_eq!(record.children[0], before.children[0], "what was finished is untouched");
    assert_eq!(record.deliveries[0].state, DeliveryState::Ready { tries: 0 });
    assert_eq!(record.owner.id, owner(2).id);
    assert_eq!(*says.killed.lock().expect("nobody panicked"), [4242]);
    let marked = says.marked.lock().expect("nobody panicked").clone();
    assert_eq!(marked, record.accepted.children[1..4], "whatever ran may have left processes");
    assert_eq!(store.groups_of(&owner(1).id).await, Ok(Vec::new()));
}

#[tokio::test(start_paused = true)]
async fn k34_what_a_released_process_left_open_is_settled_once_it_is_gone() {
    let memory = MemoryStore::new();
    let scene = Scene::over(memory.clone(), 1, options(2)).await;
    let goals = ["answer", "until told", "deaf", "answer late"];
    let ticket = scene.handle.dispatch(reported(&goals)).await.expect("it is accepted");
    scene.troupe.until(|counts| counts.here == ["until told", "deaf"]).await;
    scene.engine.close().await;
    let store = GatedStore::new(Arc::new(memory.clone()));
    let recovered = settle(&store, &Says::new(Liveness::Dead)).await.expect("it settles");
    assert_eq!((recovered.lost, recovered.stopping, recovered.unstarted), (2, 0, 1));
    let record = memory.delegation(&ticket.delegation).await.expect("it reads").expect("it is stored");
    let outcomes: Vec<_> = record.children.iter().map(|child| child.outcome()).collect();
    let (lost, unstarted) = (Some(Outcome::Lost), stopped(StopReason::OwnerLost));
    assert_eq!(outcomes, [Some(Outcome::Succeeded), lost, lost, unstarted]);
    assert_eq!(record.deliveries[0].state, DeliveryState::Ready { tries: 0 });
}

#[tokio::test(start_paused = true)]
async fn k34_what_is_known_of_a_lost_run_is_kept() {
    let memory = MemoryStore::new();
    let delegation = first_process_dies(&memory).await;
    let store = GatedStore::new(Arc::new(memory.clone()));
    settle(&store, &Says::new(Liveness::Dead)).await.expect("it settles");
    let record = memory.delegation(&delegation).await.expect("it reads").expect("it is stored");
    let results = legwork_core::completion::BatchResult::of(&record).results;
    let lost = &results[1];
    assert_eq!(lost.status.as_str(), "unknown");
    assert_eq!((lost.api_calls, lost.tokens.input, lost.tokens.output), (1, 10, 5), "{lost:?}");
    assert!(lost.error.as_ref().is_some_and(|error| error.contains("died")), "{lost:?}");
}

#[tokio::test(start_paused = true)]
async fn k34_no_work_is_taken_from_an_owner_that_lives_or_may_live() {
    let memory = MemoryStore::new();
    let delegation = first_process_dies(&memory).await;
    let before = memory.delegation(&delegation).await.expect("it reads");
    let store = GatedStore::new(Arc::new(memory.clone()));
    let alive = settle(&store, &Says::new(Liveness::Alive)).await.expect("it looks");
    assert_eq!(alive, Recovered::default());
    let unclear = settle(&store, &Says::new(Liveness::Unclear)).await.expect("it looks");
    let named: Vec<OwnerRecord> = vec![owner(1)];
    assert_eq!(unclear, Recovered { unclear: named, ..Recovered::default() });
    assert_eq!(memory.delegation(&delegation).await.expect("it reads"), before);
}

#[tokio::test(start_paused = true)]
async fn k34_a_recovery_that_failed_goes_on_where_it_ended() {
    let memory = MemoryStore::new();
    let delegation = first_process_dies(&memory).await;
    let store = GatedStore::new(Arc::new(memory.clone()));
    store.fail(StoreError::Full("no space left on device".to_owned()));
    let failed = settle(&store, &Says::new(Liveness::Dead)).await;
    assert!(matches!(failed, Err(RecoveryError::Store(StoreError::Full(_)))), "{failed:?}");
    store.open();
    let recovered = settle(&store, &Says::new(Liveness::Dead)).await.expect("it settles");
    assert_eq!(recovered.taken, std::slice::from_ref(&delegation));
    let record = memory.delegation(&delegation).await.expect("it reads").expect("it is stored");
    assert!(record.is_settled());
}

#[tokio::test(start_paused = true)]
async fn k34_recovery_leaves_the_own_running_work_of_its_process_alone() {
    let memory = MemoryStore::new();
    let scene = Scene::over(memory.clone(), 2, options(1)).await;
    let ticket = scene.dispatch(&["until told"]).await;
    scene.troupe.until_here("until told").await;
    let recovered = settle(&scene.store, &Says::new(Liveness::Dead)).await.expect("it looks");
    assert_eq!(recovered, Recovered::default());
    scene.troupe.say("told");
    scene.joined(&ticket).await;
    assert_eq!(scene.outcomes(&ticket).await, [Some(Outcome::Succeeded)]);
}

#[tokio::test(start_paused = true)]
async fn k34_a_late_owner_is_fenced_and_drops_its_runs() {
    let memory = MemoryStore::new();
    let late = Scene::over(memory.clone(), 1, options(2)).await;
    let ticket = late.handle.dispatch(reported(&["until told", "deaf"])).await.expect("it is accepted");
    late.troupe.until(|counts| counts.here.len() == 2).await;
    let store = GatedStore::new(Arc::new(memory.clone()));
    settle(&store, &Says::new(Liveness::Dead)).await.expect("it settles");
    late.troupe.say("told");
    late.troupe.until(|counts| counts.here.is_empty()).await;
    let record = memory.delegation(&ticket.delegation).await.expect("it reads").expect("it is stored");
    let outcomes: Vec<_> = record.children.iter().map(|child| child.outcome()).collect();
    assert_eq!(outcomes, [Some(Outcome::Lost), Some(Outcome::Lost)], "the late answer is refused");
    assert_eq!(late.handle.view(None).await, []);
    let next = late.dispatch(&["answer"]).await;
    late.joined(&next).await;
}

#[tokio::test(start_paused = true)]
async fn k15_a_group_of_which_something_is_left_is_looked_after_once_more() {
    let memory = MemoryStore::new();
    first_process_dies(&memory).await;
    let (first, second) = (owner(1), owner(2));
    for (undying, left) in [(vec![4242], 1), (vec![], 0)] {
        let says = Says { undying, ..Says::new(Liveness::Dead) };
        let rescuer = Rescuer {
            store: &memory,
            clock: Clock::start_beside(wall::read),
            owner: &second,
            processes: &says,
        };
        legwork_engine::recovery::sweep(rescuer).await.expect("it looks");
        assert_eq!(*says.killed.lock().expect("nobody panicked"), [4242]);
        assert_eq!(memory.groups_of(&first.id).await.expect("it reads").len(), left);
    }
}

/// Somebody may take the work over while a sweep looks, and begin another attempt under the same marks.
#[tokio::test(start_paused = true)]
async fn k34_a_sweep_spares_what_began_after_it_had_looked_who_is_dead() {
    let memory = MemoryStore::new();
    let delegation = first_process_dies(&memory).await;
    let (second, says) = (owner(2), Says::new(Liveness::Dead));
    let rescuer =
        Rescuer { store: &memory, clock: Clock::start_beside(wall::read), owner: &second, processes: &says };
    legwork_engine::recovery::sweep(rescuer).await.expect("it looks");
    let children =
        memory.delegation(&delegation).await.expect("it reads").expect("it is stored").accepted.children;
    assert_eq!(*says.marked.lock().expect("nobody panicked"), children[1..4]);
    assert_eq!(*says.before.lock().expect("nobody panicked"), NOW, "before any owner was looked at");
}

#[tokio::test(start_paused = true)]
async fn k34_a_delegation_that_cannot_be_settled_does_not_keep_others_from_it() {
    let memory = MemoryStore::new();
    let (first, second) = (first_process_dies(&memory).await, first_process_dies_too(&memory).await);
    let store = GatedStore::new(Arc::new(memory.clone()));
    store.refuse(first.clone());
    let recovered = settle(&store, &Says::new(Liveness::Dead)).await.expect("the store works");
    assert_eq!(recovered.taken, [second]);
    assert_eq!(recovered.refused.iter().map(|(delegation, _)| delegation).collect::<Vec<_>>(), [&first]);
}

async fn first_process_dies_too(memory: &MemoryStore) -> DelegationId {
    let scene = Scene::over(memory.clone(), 3, options(1)).await;
    let ticket = scene.handle.dispatch(reported(&["deaf"])).await.expect("it is accepted");
    scene.troupe.until_here("deaf").await;
    ticket.delegation
}
