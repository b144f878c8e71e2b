//! The life of a live world: people act, processes die; then it calms down, and the laws are checked.

use super::LiveFigures;
use super::process::{Process, owner};
use super::terms::{LiveTerms, Owners};
use super::weather::Weather;
use super::{verdict, wall};
use crate::shaky::Bend;
use crate::worlds::law::Broken;
use legwork_core::ids::{ChildId, DelegationId, SessionId};
use legwork_core::ports::{Conversations, Facts, NewSession, SessionKind};
use legwork_core::time::Timestamp;
use std::fmt;
use std::time::Duration;
use tokio::runtime::Builder;
use tokio::task::JoinSet;
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

/// Lets the usual live world of `seed` live, over a store that may have a bug.
///
/// # Errors
/// The [`LiveWreck`] of a world that broke a law.
///
/// # Panics
/// When no runtime can be built.
pub fn run_live(seed: u64, bend: Option<Bend>) -> Result<LiveFigures, Box<LiveWreck>> {
    run_on(seed, &LiveTerms { bend, ..LiveTerms::usual() })
}

/// Lets a live world of `seed` live on these terms.
///
/// # Errors
/// The [`LiveWreck`] of a world that broke a law.
///
/// # Panics
/// When no runtime can be built.
pub fn run_on(seed: u64, terms: &LiveTerms) -> Result<LiveFigures, Box<LiveWreck>> {
    let runtime = Builder::new_current_thread().enable_time().start_paused(true).build();
    let runtime = runtime.expect("a runtime of one thread can be built");
    let lived = runtime.block_on(async {
        wall::begin();
        World::live(Weather::new(seed, terms), terms.owners).await
    });
    lived.map_err(|broken| Box::new(LiveWreck { seed, broken }))
}

pub(super) struct World {
    pub(super) weather: Weather,
    pub(super) sessions: Vec<SessionId>,
    /// How many processes there are to be.
    pub(super) wanted: usize,
    /// Fewer only while one follows another.
    pub(super) processes: Vec<Process>,
    /// Those that were declared gone, and may not know yet.
    pub(super) ghosts: Vec<Process>,
    /// Those that end in good order.
    pub(super) leaving: JoinSet<()>,
    /// The number of the newest process.
    pub(super) number: u32,
    pub(super) delegations: Vec<DelegationId>,
    pub(super) children: Vec<ChildId>,
}

impl World {
    async fn live(weather: Weather, owners: Owners) -> Result<LiveFigures, Broken> {
        let mut world = World::begin(weather, owners).await?;
        for _ in 0..world.weather.acts() {
            let (weather, death) = (world.weather.clone(), world.death());
            let act = async {
                world.act().await?;
                weather.dawdle(300).await;
                Ok(())
            };
            let acted = tokio::select! {
                biased;
                () = death => Ok(()),
                acted = act => acted,
            };
            acted?;
            world.look_after().await?;
        }
        world.weather.calm_down();
        world.rest().await?;
        verdict::judge(&world.weather, &world.sessions).await?;
        verdict::nothing_is_stolen(&world.weather, world.number).await?;
        for process in world.processes.drain(..).chain(world.ghosts.drain(..)) {
            process.die().await;
        }
        let figures = world.weather.shared().figures;
        Ok(figures)
    }

    async fn begin(weather: Weather, owners: Owners) -> Result<World, Broken> {
        // Whoever made the sessions is dead already.
        let first = owner(0);
        weather.shared().dead.insert(0);
        let store = weather.store.clone();
        store.enter(first.clone(), Timestamp(0)).await.expect("an onlooker's store takes it");
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
            store.create_session(session, &first.id).await.expect("an onlooker's store takes it");
        }
        let wanted = match owners {
            Owners::One => 1,
            Owners::Two => 2,
        };
        let mut world = World {
            weather,
            sessions,
            wanted,
            processes: Vec::new(),
            ghosts: Vec::new(),
            leaving: JoinSet::new(),
            number: 0,
            delegations: Vec::new(),
            children: Vec::new(),
        };
        world.repopulate().await?;
        Ok(world)
    }

    /// Waits until everything has settled and arrived. A process that still dies of a write has a successor.
    async fn rest(&mut self) -> Result<(), Broken> {
        self.processes.iter_mut().chain(&mut self.ghosts).for_each(Process::go_on);
        loop {
            let death = self.death();
            let rested = tokio::select! {
                biased;
                () = death => None,
                rested = self.undisturbed() => Some(rested),
            };
            if let Some(rested) = rested {
                return rested;
            }
            self.repopulate().await?;
        }
    }

    async fn undisturbed(&self) -> Result<(), Broken> {
        self.processes[0].handle.resume().await.expect("nothing goes wrong any more");
        let begun = Instant::now();
        while !verdict::is_over(&self.weather).await {
            if begun.elapsed() >= REST_MAX {
                return Err(verdict::never_over(&self.weather).await);
            }
            // Deadline: the people of the world go on meanwhile.
            sleep(Duration::from_millis(500)).await;
        }
        // Deadline: whoever delivers twice has time to do it.
        sleep(Duration::from_secs(20)).await;
        Ok(())
    }
}
