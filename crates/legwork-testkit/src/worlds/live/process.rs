//! One process of a live world: an engine and the sessions that it holds. It dies where it stands.

use super::session::Session;
use super::weather::Weather;
use super::worker::Workers;
use crate::unwritten::Unwritten;
use legwork_core::ids::{ChildId, OwnerId, SessionId};
use legwork_core::ports::{Conversations, Held, Liveness, Processes};
use legwork_core::record::{OwnerRecord, Process as Identity, ProcessGroup};
use legwork_engine::recovery::Orphans;
use legwork_engine::{AtCapacity, Clock, Engine, Handle, Options, Patience, Wiring};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;

pub(super) struct Process {
    pub(super) owner: OwnerRecord,
    pub(super) handle: Handle,
    engine: Engine,
    sessions: JoinSet<()>,
}

impl Process {
    /// The `n`-th process: it settles the work of the one before it, takes its sessions over and opens them.
    pub(super) async fn start(weather: &Weather, n: u32, sessions: &[SessionId]) -> Process {
        let owner = owner(n);
        let clock = Clock::start();
        let bits = weather.clone();
        let wiring = Wiring {
            store: weather.store.clone(),
            worker: Arc::new(Workers(weather.clone())),
            transcripts: Arc::new(Unwritten),
            processes: Arc::new(Successor(n)),
            clock,
            bits: Arc::new(move || bits.chance(|chance| chance.bits())),
            owner: owner.clone(),
        };
        let engine = Engine::start(options(weather), wiring).await.expect("the weather is good at a start");
        engine.handle().recover(&Orphans::All).await.expect("the weather is good at a start");
        let mut process = Process { owner, handle: engine.handle(), engine, sessions: JoinSet::new() };
        for id in sessions {
            let known =
                weather.memory.session(id).await.expect("memory can be read").expect("it was created");
            let before = known.holder.map(|holder| holder.id);
            let held = weather.memory.hold_session(id, &process.owner.id, before.as_ref()).await;
            assert_eq!(held, Ok(Held::Here), "its holder is dead");
            let owner = process.owner.id.clone();
            let session = Session::new(weather.clone(), id.clone(), owner, process.handle.clone());
            process.sessions.spawn(session.live());
        }
        process
    }

    /// It ends where it stands.
    pub(super) async fn die(self) {
        let Process { engine, mut sessions, handle, owner: _ } = self;
        drop((engine, handle));
        sessions.shutdown().await;
    }
}

pub(super) fn owner_id(n: u32) -> OwnerId {
    OwnerId::from_bits(u64::from(n))
}

pub(super) fn owner(n: u32) -> OwnerRecord {
    let process = Identity { boot_id: "this boot".to_owned(), pid: n, start_ticks: u64::from(n) };
    OwnerRecord::new(owner_id(n), process)
}

/// Only the process with this number lives.
struct Successor(u32);

impl Processes for Successor {
    fn myself(&self) -> Identity {
        owner(self.0).process
    }

    fn liveness(&self, process: &Identity) -> Liveness {
        if process.pid == self.0 { Liveness::Alive } else { Liveness::Dead }
    }

    fn kill_group(&self, _: &ProcessGroup) {}

    fn ticks(&self) -> u64 {
        0
    }

    fn kill_marked(&self, _: &[ChildId], _: u64) -> usize {
        0
    }
}

fn options(weather: &Weather) -> Options {
    let policies = [AtCapacity::Queue, AtCapacity::Queue, AtCapacity::Sync, AtCapacity::Reject];
    let minutes = Duration::from_secs(600);
    Options {
        children_max: weather.chance(|chance| chance.between(1, 5)),
        queue_max: 1000,
        depth_max: 2,
        at_capacity: weather.chance(|chance| *chance.pick(&policies)),
        independent_completions: true,
        patience: Patience { idle: minutes, tool: minutes, grace: minutes, inactivity: None },
        stop_grace: Duration::from_millis(1500),
        lease: Duration::from_secs(10),
    }
}
