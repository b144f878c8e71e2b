//! One engine over a gated store in memory, with the troupe as its worker. Time is paused in every test: it moves when
//! nobody has anything to do.

use crate::desk::Desk;
use crate::troupe::Troupe;
use crate::wall;
use legwork_core::batch::{
    Completions, Isolation, Lineage, NewBatch, OnCrash, Reach, Rights, Route, Setting, Task, Ticket,
};
use legwork_core::budget::Allowance;
use legwork_core::ids::{CallKey, ChildId, DelegationId, OwnerId, SessionId};
use legwork_core::outcome::{Force, Outcome, StopReason};
use legwork_core::ports::{
    Assignment, Delegator, Facts, GroupEnd, Liveness, NewSession, Pending, Processes, SessionKind, Stopped,
    Store, StoreError, Takeover, Transcripts,
};
use legwork_core::record::{DelegationRecord, OwnerRecord, Process, ProcessGroup};
use legwork_core::steering::Scope;
use legwork_core::time::Timestamp;
use legwork_engine::recovery::{Orphans, Recovered};
use legwork_engine::{AtCapacity, Clock, Engine, Handle, Options, Patience, Wiring};
use legwork_testkit::gated::GatedStore;
use legwork_testkit::memory::MemoryStore;
use legwork_testkit::unwritten::Unwritten;
use std::collections::VecDeque;
use std::future::ready;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::advance;

pub const STOP_GRACE: Duration = Duration::from_millis(1500);
pub const IDLE_PATIENCE: Duration = Duration::from_secs(450);
pub const TOOL_PATIENCE: Duration = Duration::from_secs(1200);
pub const STALL_GRACE: Duration = Duration::from_secs(120);

/// Longer than anything takes here; time is paused, so that it is over when nobody has anything to do.
pub const FOR_EVER: Duration = Duration::from_secs(5 * 3600);

pub struct Scene {
    pub store: Arc<GatedStore>,
    pub troupe: Troupe,
    pub engine: Engine,
    pub handle: Handle,
    pub wiring: Wiring,
    pub neighbours: Arc<Neighbours>,
}

pub fn options(children_max: usize) -> Options {
    Options {
        children_max,
        queue_max: 1000,
        depth_max: 4,
        at_capacity: AtCapacity::Queue,
        completions: Completions::Together,
        patience: Patience { idle: IDLE_PATIENCE, tool: TOOL_PATIENCE, grace: STALL_GRACE, inactivity: None },
        stop_grace: STOP_GRACE,
        lease: Duration::from_secs(10),
    }
}

/// The `n`-th process.
pub fn owner(n: u32) -> OwnerRecord {
    let process = Process { boot_id: "this boot".to_owned(), pid: n, start_ticks: u64::from(n) };
    OwnerRecord::new(OwnerId::from_bits(u64::from(n)), process)
}

/// The first of the processes that are dead in every scene; those before it live.
pub const DEAD: u32 = 99;

/// The first of those that nobody can see.
pub const UNSEEN: u32 = 199;

/// Processes of which some are dead.
#[derive(Default)]
pub struct Neighbours {
    /// Groups of which it cannot be told whether something of them runs.
    pub doubtful: Mutex<Vec<u32>>,
    /// How many marked processes each look finds; none when there is nothing more here.
    pub marked: Mutex<VecDeque<usize>>,
    /// Until when each look had looked.
    pub cuts: Mutex<Vec<u64>>,
    last_deed: Mutex<Option<LastDeed>>,
}

/// What the process of this number still does before somebody sees that it is dead.
type LastDeed = (u32, Box<dyn FnOnce() + Send>);

/// What the clock of processes says.
pub const TICKS: u64 = 40;

fn locked<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Neighbours {
    /// The process of this number does it once somebody looks for it, and is dead then.
    pub fn before_its_death(&self, n: u32, deed: impl FnOnce() + Send + 'static) {
        *locked(&self.last_deed) = Some((n, Box::new(deed)));
    }
}

impl Processes for Neighbours {
    fn myself(&self) -> Process {
        owner(1).process
    }

    fn liveness(&self, process: &Process) -> Liveness {
        if let Some((_, deed)) = locked(&self.last_deed).take_if(|(pid, _)| *pid == process.pid) {
            deed();
        }
        match process.pid {
            UNSEEN.. => Liveness::Unclear,
            DEAD.. => Liveness::Dead,
            _ => Liveness::Alive,
        }
    }

    fn kill_groups(&self, groups: Vec<ProcessGroup>) -> Pending<'_, Vec<GroupEnd>> {
        let doubtful = locked(&self.doubtful);
        let end = |group: &ProcessGroup| match doubtful.contains(&group.pgid) {
            true => GroupEnd::Doubtful,
            false => GroupEnd::Gone,
        };
        Box::pin(ready(groups.iter().map(end).collect()))
    }

    fn ticks(&self) -> u64 {
        TICKS + locked(&self.cuts).len() as u64
    }

    fn kill_marked(&self, _: Vec<ChildId>, before: u64) -> Pending<'_, usize> {
        let found = locked(&self.marked).pop_front().unwrap_or_default();
        locked(&self.cuts).push(before);
        Box::pin(ready(found))
    }
}

impl Scene {
    pub async fn new(children_max: usize) -> Scene {
        Scene::over(MemoryStore::new(), 1, options(children_max)).await
    }

    /// The same, whose results come to this session.
    pub async fn served(children_max: usize, desk: &Desk) -> Scene {
        let scene = Scene::new(children_max).await;
        scene.serve(desk).await;
        scene
    }

    /// Brings the session its results from now on.
    pub async fn serve(&self, desk: &Desk) {
        self.handle.attach(&desk.session, desk.inbox()).await;
    }

    /// The engine of the `n`-th process over a store that may have content.
    pub async fn over(memory: MemoryStore, n: u32, options: Options) -> Scene {
        Scene::over_store(Arc::new(memory), n, options).await
    }

    /// The same over any store.
    pub async fn over_store(store: Arc<dyn Store>, n: u32, options: Options) -> Scene {
        Scene::writing(store, Arc::new(Unwritten), (n, options)).await
    }

    /// The same over a store in memory, with this clock.
    pub async fn at(memory: MemoryStore, clock: Clock, process: (u32, Options)) -> Scene {
        Scene::wired(Arc::new(memory), Arc::new(Unwritten), clock, process).await
    }

    /// The same with these transcripts.
    pub async fn writing(
        store: Arc<dyn Store>,
        transcripts: Arc<dyn Transcripts>,
        process: (u32, Options),
    ) -> Scene {
        Scene::wired(store, transcripts, Clock::start_beside(wall::read), process).await
    }

    async fn wired(
        store: Arc<dyn Store>,
        transcripts: Arc<dyn Transcripts>,
        clock: Clock,
        (n, options): (u32, Options),
    ) -> Scene {
        let store = Arc::new(GatedStore::new(store));
        let troupe = Troupe::default();
        let neighbours = Arc::new(Neighbours::default());
        let wiring = Wiring {
            store: store.clone(),
            worker: Arc::new(troupe.clone()),
            transcripts,
            processes: neighbours.clone(),
            clock,
            bits: bits(u64::from(n) << 24),
            owner: owner(n),
        };
        let engine = Engine::start(options, wiring.clone()).await.expect("the engine starts");
        prepare_sessions(wiring.store.as_ref(), &wiring.owner).await;
        let handle = engine.handle();
        troupe.joins(handle.clone());
        Scene { store, troupe, engine, handle, wiring, neighbours }
    }

    pub async fn dispatch(&self, goals: &[&str]) -> Ticket {
        self.handle.dispatch(batch(goals)).await.expect("the call is accepted")
    }

    /// A stop that the engine has heard of; its answer may wait for the store.
    pub async fn begin_stop(&self, scope: Scope, force: Force) -> Pending<'_, Stopped> {
        let mut stop = self.handle.stop(scope, StopReason::Cancelled, force);
        assert!(futures::poll!(&mut stop).is_pending(), "the engine answers");
        self.handle.view(None).await;
        stop
    }

    /// The delegation as it is stored now.
    pub async fn stored(&self, delegation: &DelegationId) -> DelegationRecord {
        let record = self.store.delegation(delegation).await.expect("the store can be read");
        record.expect("the delegation is stored")
    }

    pub async fn outcomes(&self, ticket: &Ticket) -> Vec<Option<Outcome>> {
        self.stored(&ticket.delegation).await.children.iter().map(|child| child.outcome()).collect()
    }

    /// Waits until the child has settled in the store, and says how.
    pub async fn outcome(&self, ticket: &Ticket, child: &ChildId) -> Outcome {
        let mut watch = self.handle.watch();
        loop {
            let record = self.stored(&ticket.delegation).await;
            let row =
                record.children.iter().find(|row| row.id == *child).expect("it is a child of the ticket");
            if let Some(outcome) = row.outcome() {
                return outcome;
            }
            watch.next().await.expect("the engine runs");
        }
    }

    /// Goes on with what dead processes left here.
    pub async fn recover(&self, orphans: &Orphans) -> Recovered {
        self.handle.recover(orphans).await.expect("the store works")
    }

    /// Lets time go by in the steps of the engine's rounds, and lets the engine see each.
    pub async fn pass(&self, time: Duration) {
        for _ in 0..time.as_millis() / 100 {
            advance(Duration::from_millis(100)).await;
            self.handle.view(None).await;
        }
    }

    /// Waits until everything of the delegation has settled.
    pub async fn joined(&self, ticket: &Ticket) -> DelegationRecord {
        self.handle.join(&ticket.delegation).await.expect("it settles").record
    }
}

/// Numbers that are random enough to be ids, and differ.
fn bits(first: u64) -> Arc<dyn Fn() -> u64 + Send + Sync> {
    let next = AtomicU64::new(first);
    Arc::new(move || next.fetch_add(1, Ordering::Relaxed))
}

/// A process accepts the call, is left when `here` are at work, and is dead then.
pub async fn left(memory: &MemoryStore, call: NewBatch, here: &[&str]) -> Ticket {
    left_by(memory, DEAD, (call, here)).await
}

/// As [`left`], by the process of this number.
pub async fn left_by(memory: &MemoryStore, process: u32, (call, here): (NewBatch, &[&str])) -> Ticket {
    let scene = Scene::over(memory.clone(), process, options(3)).await;
    let ticket = scene.handle.dispatch(call).await.expect("it is accepted");
    scene.troupe.until(|counts| counts.here == here).await;
    // Starts are durable before they are performed; one more round stores the pulses.
    scene.pass(Duration::from_secs(2)).await;
    ticket
}

/// A delegation gets another owner.
pub fn takeover((from, to): (&OwnerRecord, &OwnerRecord), delegation: &DelegationId) -> Takeover {
    Takeover {
        from: from.id.clone(),
        to: to.id.clone(),
        delegations: vec![delegation.clone()],
        at: Timestamp(0),
        pulses: Vec::new(),
    }
}

/// The conversations that the calls of the tests are for. Those of an earlier process are there already.
async fn prepare_sessions(store: &dyn Store, owner: &OwnerRecord) {
    for id in (0..64).map(SessionId::from_bits) {
        let session = NewSession {
            id,
            name: None,
            kind: SessionKind::Chat,
            folder: "/project".to_owned(),
            at: Timestamp(0),
        };
        let created = store.create_session(session, &owner.id).await;
        assert!(matches!(created, Ok(()) | Err(StoreError::Conflict(_))), "{created:?}");
    }
}

pub fn batch(goals: &[&str]) -> NewBatch {
    let lineage = Lineage::of_session(SessionId::from_bits(7));
    NewBatch {
        lineage,
        call_key: None,
        context: None,
        reach: Reach::Joined,
        tasks: goals.iter().map(|goal| task(goal)).collect(),
        setting: setting(),
    }
}

/// The same call, whose children are reported as they stand when their process dies.
pub fn reported(goals: &[&str]) -> NewBatch {
    let mut batch = batch(goals);
    batch.tasks.iter_mut().for_each(|task| task.on_crash = OnCrash::Report);
    batch
}

/// A call whose results wake the session with this number.
pub fn pushed(session: u64, goals: &[&str]) -> NewBatch {
    let lineage = Lineage::of_session(SessionId::from_bits(session));
    NewBatch { lineage, reach: Reach::Push, ..batch(goals) }
}

/// The call of a child.
pub fn batch_from(caller: &Assignment, goals: &[String]) -> NewBatch {
    let goals: Vec<&str> = goals.iter().map(String::as_str).collect();
    let lineage = Lineage {
        parent: Some(caller.child.clone()),
        depth: caller.depth,
        ..Lineage::of_session(caller.session.clone())
    };
    NewBatch { lineage, ..batch(&goals) }
}

pub fn call_key(call: &str) -> CallKey {
    CallKey { caller: SessionId::from_bits(7).to_string(), call: call.to_owned() }
}

pub fn stopped(reason: StopReason) -> Option<Outcome> {
    Some(Outcome::Stopped(reason))
}

fn task(goal: &str) -> Task {
    Task::of(goal)
}

fn setting() -> Setting {
    Setting {
        folder: "/".to_owned(),
        route: Route {
            model: "scripted/troupe".to_owned(),
            base_url: None,
            api_mode: "chat".to_owned(),
            key_source: None,
            terms: None,
            table: None,
            fallbacks: Vec::new(),
        },
        rights: Rights::default(),
        allowance: Allowance { steps_max: 10 },
        isolation: Isolation::Shared,
    }
}
