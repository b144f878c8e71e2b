//! One process of a live world: an engine and the sessions that it holds. It dies where it stands.

use super::session::Session;
use super::terms::Lapse;
use super::wall;
use super::weather::Weather;
use super::worker::{Front, Workers};
use crate::shaky::ShakyStore;
use crate::unwritten::Unwritten;
use legwork_core::batch::Completions;
use legwork_core::ids::{ChildId, OwnerId, SessionId};
use legwork_core::ports::{Conversations, GroupEnd, Held, Liveness, Pending, Processes, StoreError};
use legwork_core::record::{OwnerRecord, Process as Identity, ProcessGroup};
use legwork_engine::recovery::{Orphans, RecoveryError};
use legwork_engine::{AtCapacity, Clock, Engine, Handle, Options, Patience, Wiring, lease};
use std::future::ready;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

/// How often the tasks of the dead are looked at before they must be gone.
const YIELDS_MAX: u32 = 1_000_000;
/// For how long a process owns its work without renewing that.
pub(super) const LEASE: Duration = Duration::from_secs(10);
/// What its children have when it ends.
const STOP_GRACE: Duration = Duration::from_millis(1500);
/// What it takes at most on top of that, as others suppose.
const ENDING_SLACK: Duration = Duration::from_secs(1);
/// Between two looks whether another one has ended.
const LOOK_EVERY: Duration = Duration::from_millis(50);

pub(super) struct Process {
    pub(super) number: u32,
    pub(super) owner: OwnerRecord,
    pub(super) handle: Handle,
    /// Where its workers find the engine.
    front: Front,
    /// With the store as this process has it open.
    pub(super) weather: Weather,
    /// The sessions that it took over.
    pub(super) held: Vec<SessionId>,
    /// Until when it stands still, if it does.
    pub(super) still_until: Option<Instant>,
    clock: Clock,
    /// None once it has ended.
    engine: Option<Engine>,
    sessions: JoinSet<()>,
    /// Whether a session is to be closed, one for each of them: they hear of it in the order in which they were opened. Written
    /// here, read by them.
    closing: Vec<watch::Sender<bool>>,
}

impl Process {
    /// The `n`-th process of a world: its engine, without any work.
    pub(super) async fn start(weather: Weather, n: u32) -> Process {
        let owner = owner(n);
        let clock = wall::clock();
        let bits = weather.clone();
        let front = Front::default();
        let wiring = Wiring {
            store: weather.store.clone(),
            worker: Arc::new(Workers { weather: weather.clone(), engine: front.clone() }),
            transcripts: Arc::new(Unwritten),
            processes: Arc::new(Neighbours(weather.clone())),
            clock,
            bits: Arc::new(move || bits.chance(|chance| chance.bits())),
            owner: owner.clone(),
        };
        let engine = Engine::start(options(&weather), wiring).await.expect("the weather is good at a start");
        let (handle, sessions) = (engine.handle(), JoinSet::new());
        front.open(handle.clone());
        let (held, still_until, closing) = (Vec::new(), None, Vec::new());
        let engine = Some(engine);
        Process {
            number: n,
            owner,
            handle,
            front,
            weather,
            held,
            still_until,
            clock,
            engine,
            sessions,
            closing,
        }
    }

    /// It goes on with whatever work has no living owner; `false` when it was declared gone before it could.
    pub(super) async fn recover(&self) -> bool {
        match self.handle.recover(&Orphans::All).await {
            Ok(_) => true,
            Err(RecoveryError::Store(StoreError::Fenced(_))) => false,
            Err(error) => panic!("the weather is good at a start: {error:?}"),
        }
    }

    /// Takes over a session whose holder is dead, and opens it. One that may be about to end is waited for, but not for long.
    /// Nothing happens when this process was declared gone meanwhile.
    pub(super) async fn open(&mut self, id: SessionId) {
        let store = self.weather.store.clone();
        let until = Instant::now() + STOP_GRACE + ENDING_SLACK;
        let mut has_waited = false;
        let before = loop {
            let known = store.session(&id).await.expect("the weather is good").expect("it was created");
            let neighbours = Neighbours(self.weather.clone());
            match known.holder {
                Some(holder) if holder.liveness(&neighbours) != Liveness::Dead => {
                    if Instant::now() >= until {
                        self.weather.shared().figures.turned_away += 1;
                        return;
                    }
                    has_waited = true;
                    // Deadline: the end of the other process is a row, or its death.
                    sleep(LOOK_EVERY).await;
                }
                holder => break holder.map(|holder| holder.id),
            }
        };
        let held = store.hold_session(&id, &self.owner.id, before.as_ref()).await;
        if matches!(held, Err(StoreError::Fenced(_))) {
            return;
        }
        assert_eq!(held, Ok(Held::Here), "its holder is dead");
        self.weather.shared().figures.waited += u64::from(has_waited);
        self.held.push(id.clone());
        let session = Session::new(self.weather.clone(), id, self.owner.id.clone(), self.handle.clone());
        let (closing, told) = watch::channel(false);
        self.closing.push(closing);
        self.sessions.spawn(session.live(told));
    }

    /// Whether another one has let its lease run out. Takes at least three periods of the lease when it has.
    pub(super) async fn sees_gone(&self, other: &OwnerRecord) -> Result<bool, StoreError> {
        lease::has_run_out(self.weather.store.as_ref(), self.clock, other).await
    }

    /// It stands still from now on: nothing that it asks of the store is answered, or taken, before it goes on.
    pub(super) fn stand_still(&mut self, time: Duration) {
        self.weather.store.stand_still();
        self.still_until = Some(Instant::now() + time);
        let mut shared = self.weather.shared();
        shared.figures.stood_still += 1;
        shared.stood_still.insert(self.number);
    }

    /// It goes on if it stood still for long enough.
    pub(super) fn go_on_in_time(&mut self) {
        if self.still_until.is_some_and(|until| until <= Instant::now()) {
            self.go_on();
        }
    }

    pub(super) fn go_on(&mut self) {
        self.still_until = None;
        self.weather.store.go_on();
    }

    /// It ends in good order, as `chat` and `run` do that are told to end, unless it dies of a write before it has.
    pub(super) async fn leave(mut self) {
        let death = self.weather.store.death();
        tokio::select! {
            biased;
            () = death => self.weather.shared().figures.deaths += 1,
            () = self.end() => self.weather.shared().figures.ended += 1,
        }
        self.die().await;
    }

    /// Its sessions are closed, its children have their grace, and when nothing of it goes on any more it says so.
    async fn end(&mut self) {
        match self.weather.lapse {
            Some(Lapse::FreesSessionsEarly) => {
                for id in &self.held {
                    // Where that fails the end of the process says the same.
                    self.weather.store.release_session(id, &self.owner.id).await.ok();
                }
            }
            None => {}
        }
        for closing in &self.closing {
            closing.send_replace(true);
        }
        while let Some(closed) = self.sessions.join_next().await {
            closed.expect("BUG: a session panicked");
        }
        if let Some(engine) = self.engine.take() {
            engine.close().await;
        }
        // Where that fails the end of the process says the same.
        lease::resign(self.weather.store.as_ref(), self.clock, &self.owner).await.ok();
        // Its last words.
        self.weather.dawdle(500).await;
    }

    /// It ends where it stands. What it had handed to its store is written.
    pub(super) async fn die(self) {
        let Process { number, engine, mut sessions, handle, front, weather, .. } = self;
        front.close();
        weather.shared().dead.insert(number);
        weather.store.die();
        drop((engine, handle));
        sessions.shutdown().await;
        let store = Arc::downgrade(&weather.store);
        drop(weather);
        is_gone(store).await;
    }
}

/// Waits until nobody has this opening of the store any more.
pub(super) async fn is_gone(store: Weak<ShakyStore>) {
    // Deadline: its tasks are dropped as soon as they are looked at.
    for _ in 0..YIELDS_MAX {
        if store.strong_count() == 0 {
            return;
        }
        tokio::task::yield_now().await;
    }
    panic!("BUG: something of a dead process still has its store");
}

pub(super) fn owner_id(n: u32) -> OwnerId {
    OwnerId::from_bits(u64::from(n))
}

pub(super) fn owner(n: u32) -> OwnerRecord {
    let process = Identity { boot_id: "this boot".to_owned(), pid: n, start_ticks: u64::from(n) };
    OwnerRecord::new(owner_id(n), process)
}

/// Tells which processes of the world have died.
pub(super) struct Neighbours(pub(super) Weather);

impl Processes for Neighbours {
    fn myself(&self) -> Identity {
        owner(0).process
    }

    fn liveness(&self, process: &Identity) -> Liveness {
        if self.0.shared().dead.contains(&process.pid) { Liveness::Dead } else { Liveness::Alive }
    }

    fn kill_groups(&self, groups: Vec<ProcessGroup>) -> Pending<'_, Vec<GroupEnd>> {
        Box::pin(ready(vec![GroupEnd::Gone; groups.len()]))
    }

    fn ticks(&self) -> u64 {
        0
    }

    fn kill_marked(&self, _: Vec<ChildId>, _: u64) -> Pending<'_, usize> {
        Box::pin(ready(0))
    }
}

fn options(weather: &Weather) -> Options {
    let policies = [AtCapacity::Queue, AtCapacity::Queue, AtCapacity::Sync, AtCapacity::Reject];
    let minutes = Duration::from_secs(600);
    Options {
        children_max: weather.chance(|chance| chance.between(1, 5)),
        queue_max: 1000,
        depth_max: 3,
        at_capacity: weather.chance(|chance| *chance.pick(&policies)),
        completions: Completions::ByUnit,
        patience: Patience { idle: minutes, tool: minutes, grace: minutes, inactivity: None },
        stop_grace: STOP_GRACE,
        lease: LEASE,
    }
}
