//! The life of a live world: people delegate, steer, stop and pause, processes die; then it calms down, and the laws are
//! checked.

use super::LiveFigures;
use super::process::{Process, owner};
use super::session::reach_of;
use super::verdict;
use super::weather::{Cut, Weather};
use crate::shaky::Bend;
use crate::worlds::law::{Broken, Law};
use legwork_core::batch::{Isolation, Lineage, NewBatch, Reach, Rights, Route, Setting, Task};
use legwork_core::budget::Allowance;
use legwork_core::ids::{ChildId, DelegationId, RequestId, SessionId};
use legwork_core::outcome::{Force, StopReason};
use legwork_core::ports::{Conversations, Delegator, Facts, NewSession, SessionKind, SteerError};
use legwork_core::steering::{Request, Scope, Wish};
use legwork_core::time::Timestamp;
use legwork_engine::Handle;
use std::fmt;
use std::time::Duration;
use tokio::runtime::Builder;
use tokio::time::{Instant, sleep};

/// How long a world may take to come to rest once nothing goes wrong any more.
const REST_MAX: Duration = Duration::from_secs(600);

/// A world that broke a law.
#[derive(Debug, Clone)]
pub struct LiveWreck {
    /// Its seed.
    pub seed: u64,
    /// The law and how it broke.
    pub broken: Broken,
}

impl fmt::Display for LiveWreck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\nin the live world with seed {}", self.broken, self.seed)
    }
}

/// Lets the live world of `seed` live, over a store that may have a bug.
///
/// # Errors
/// The [`LiveWreck`] of a world that broke a law.
///
/// # Panics
/// When no runtime can be built.
pub fn run_live(seed: u64, bend: Option<Bend>) -> Result<LiveFigures, Box<LiveWreck>> {
    run(seed, Weather::new(seed, bend))
}

/// Lets the live world of `seed` live with a good store, but that the process which makes one of these writes dies of it.
///
/// # Errors
/// The [`LiveWreck`] of a world that broke a law.
///
/// # Panics
/// When no runtime can be built.
pub fn run_cut(seed: u64, cuts: Vec<Cut>) -> Result<LiveFigures, Box<LiveWreck>> {
    run(seed, Weather::of_cuts(seed, cuts))
}

fn run(seed: u64, weather: Weather) -> Result<LiveFigures, Box<LiveWreck>> {
    let runtime = Builder::new_current_thread().enable_time().start_paused(true).build();
    let runtime = runtime.expect("a runtime of one thread can be built");
    let lived = runtime.block_on(World::live(weather));
    lived.map_err(|broken| Box::new(LiveWreck { seed, broken }))
}

struct World {
    weather: Weather,
    sessions: Vec<SessionId>,
    /// Nobody only while one process follows the other.
    process: Option<Process>,
    /// The number of the process.
    number: u32,
    delegations: Vec<DelegationId>,
    children: Vec<ChildId>,
    /// How many processes died of a write, as far as the world has noticed.
    killed: u32,
}

impl World {
    async fn live(weather: Weather) -> Result<LiveFigures, Broken> {
        let mut world = World::begin(weather).await;
        for _ in 0..world.weather.chance(|chance| chance.between(20, 80)) {
            let (weather, known) = (world.weather.clone(), world.killed);
            let act = async {
                world.act().await;
                weather.dawdle(300).await;
            };
            world.killed = tokio::select! {
                biased;
                killed = weather.killed(known) => killed,
                () = act => continue,
            };
            world.die().await;
        }
        world.weather.calm_down();
        world.rest().await?;
        verdict::judge(&world.weather, &world.sessions).await?;
        let figures = world.weather.shared().figures;
        if let Some(process) = world.process.take() {
            process.die().await;
        }
        Ok(figures)
    }

    async fn begin(weather: Weather) -> World {
        // Whoever made the sessions is dead already.
        let first = owner(0);
        let memory = weather.memory.clone();
        memory.enter(first.clone(), Timestamp(0)).await.expect("memory takes it");
        let count = weather.chance(|chance| chance.between(2, 4)) as u64;
        let sessions: Vec<SessionId> = (1..=count).map(SessionId::from_bits).collect();
        for id in &sessions {
            let session = NewSession {
                id: id.clone(),
                name: None,
                kind: SessionKind::Chat,
                folder: "/".to_owned(),
                at: Timestamp(0),
            };
            memory.create_session(session, &first.id).await.expect("memory takes it");
        }
        let (delegations, children) = (Vec::new(), Vec::new());
        let mut world =
            World { weather, sessions, process: None, number: 0, delegations, children, killed: 0 };
        world.follow().await;
        world
    }

    /// Somebody does something.
    async fn act(&mut self) {
        let roll = self.weather.chance(|chance| chance.below(100));
        match roll {
            0..45 => self.delegate().await,
            45..75 => self.steer().await,
            75..83 => self.steer_from_elsewhere().await,
            83..91 => self.stop().await,
            91..96 => {
                let pauses = self.weather.chance(|chance| chance.once_in(3));
                let handle = self.handle();
                // A switch that cannot be stored stays where it is.
                if pauses { handle.pause().await } else { handle.resume().await }.ok();
            }
            _ => self.die().await,
        }
    }

    fn handle(&self) -> &Handle {
        &self.process.as_ref().expect("one process follows the other").handle
    }

    async fn delegate(&mut self) {
        let batch = self.weather.chance(|chance| {
            let session = chance.pick(&self.sessions).clone();
            let reach = reach_of(&session);
            let groups = *chance.pick(&[&[None][..], &[Some("a")], &[None, Some("a"), Some("b")]]);
            NewBatch {
                lineage: Lineage { session, parent: None, depth: 0 },
                call_key: None,
                reach: if chance.once_in(5) { Reach::Joined } else { reach },
                tasks: (0..chance.between(1, 3)).map(|_| task(*chance.pick(groups))).collect(),
                setting: setting(),
            }
        });
        // A call that is refused leaves nothing behind.
        if let Ok(ticket) = self.handle().dispatch(batch).await {
            self.delegations.push(ticket.delegation);
            self.children.extend(ticket.children);
        }
    }

    fn some_child(&self) -> Option<ChildId> {
        // The last ones still work, as a rule.
        let from = self.children.len().saturating_sub(8);
        let late = &self.children[from..];
        (!late.is_empty()).then(|| self.weather.chance(|chance| chance.pick(late).clone()))
    }

    async fn steer(&mut self) {
        let Some(child) = self.some_child() else { return };
        let asker = self.weather.chance(|chance| chance.pick(&self.sessions).clone());
        let asker = self.weather.chance(|chance| chance.once_in(2)).then_some(asker);
        let said = self.handle().steer(&child, "do it otherwise".to_owned(), asker.as_ref()).await;
        if let Err(SteerError::NotFound(_)) = said {
            self.weather.shared().figures.refused += 1;
        }
    }

    /// Somebody says something to a child by way of the store.
    async fn steer_from_elsewhere(&mut self) {
        let Some(child) = self.some_child() else { return };
        let id = RequestId::from_bits(self.weather.chance(|chance| chance.bits()));
        let wish = Wish::Steer { text: "hurry".to_owned() };
        let request = Request { id, at: Timestamp(0), scope: Scope::Child(child), wish };
        self.weather.memory.ask(request).await.expect("memory takes it");
    }

    async fn stop(&mut self) {
        let scope = match self.weather.chance(|chance| chance.below(10)) {
            0 => Scope::All,
            1 => Scope::Session(self.weather.chance(|chance| chance.pick(&self.sessions).clone())),
            2..5 if !self.delegations.is_empty() => {
                Scope::Delegation(self.weather.chance(|chance| chance.pick(&self.delegations).clone()))
            }
            _ => match self.some_child() {
                Some(child) => Scope::Child(child),
                None => return,
            },
        };
        let force = self.weather.chance(|chance| *chance.pick(&[Force::Ask, Force::Ask, Force::Abort]));
        self.handle().stop(scope, StopReason::Cancelled, force).await;
    }

    /// The process dies and the next one takes over.
    async fn die(&mut self) {
        self.weather.shared().figures.deaths += 1;
        self.weather.storm(false);
        if let Some(process) = self.process.take() {
            process.die().await;
        }
        self.follow().await;
    }

    /// The next process begins. It may die of a write as well, while it takes over; then one more follows.
    async fn follow(&mut self) {
        while self.process.is_none() {
            self.number += 1;
            let next = owner(self.number);
            self.weather.memory.enter(next, Timestamp(0)).await.expect("memory takes it");
            tokio::select! {
                biased;
                killed = self.weather.killed(self.killed) => self.killed = killed,
                process = Process::start(&self.weather, self.number, &self.sessions) => {
                    self.process = Some(process);
                }
            }
        }
        self.weather.storm(true);
    }

    /// Waits until everything has settled and arrived. A process that still dies of a write has a successor.
    async fn rest(&mut self) -> Result<(), Broken> {
        let weather = self.weather.clone();
        loop {
            let rested = tokio::select! {
                biased;
                killed = weather.killed(self.killed) => Err(killed),
                rested = self.undisturbed() => Ok(rested),
            };
            match rested {
                Ok(rested) => return rested,
                Err(killed) => self.killed = killed,
            }
            self.die().await;
            self.weather.storm(false);
        }
    }

    async fn undisturbed(&self) -> Result<(), Broken> {
        self.handle().resume().await.expect("nothing goes wrong any more");
        let begun = Instant::now();
        while !verdict::is_over(&self.weather).await {
            Broken::unless(begun.elapsed() < REST_MAX, Law::Drains, || {
                "something has not settled, or not arrived".to_owned()
            })?;
            // Deadline: the people of the world go on meanwhile.
            sleep(Duration::from_millis(500)).await;
        }
        // Deadline: whoever delivers twice has time to do it.
        sleep(Duration::from_secs(20)).await;
        Ok(())
    }
}

fn task(group: Option<&str>) -> Task {
    Task { group: group.map(str::to_owned), ..Task::of("work") }
}

fn setting() -> Setting {
    Setting {
        folder: "/".to_owned(),
        route: Route {
            model: "scripted/live".to_owned(),
            base_url: None,
            api_mode: "chat".to_owned(),
            key_source: None,
            table: None,
            fallbacks: Vec::new(),
        },
        rights: Rights::default(),
        allowance: Allowance { steps_max: 10 },
        isolation: Isolation::Shared,
    }
}
