//! Runs worlds, and tells what became of one that broke a law.

use super::figures::Figures;
use super::law::Broken;
use super::sabotage::Sabotage;
use super::terms::Scenario;
use super::world::World;
use std::fmt;

/// Lines of the trail that are shown.
const TRAIL_SHOWN: usize = 40;

/// A world that broke a law. The same scenario and seed break it again.
#[derive(Debug, Clone)]
pub struct Wreck {
    /// What kind of world it was.
    pub scenario: Scenario,
    /// Its seed.
    pub seed: u64,
    /// The law and how it broke.
    pub broken: Broken,
    /// The last events and their effects.
    pub trail: Vec<String>,
}

impl fmt::Display for Wreck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Wreck { scenario, seed, broken, trail } = self;
        writeln!(f, "{broken}\nin the world {scenario:?} with seed {seed}; what happened last:")?;
        trail.iter().try_for_each(|line| writeln!(f, "{line}"))
    }
}

/// Lets the world of `seed` live.
///
/// # Errors
/// The [`Wreck`] of a world that broke a law.
pub fn run(scenario: Scenario, seed: u64) -> Result<Figures, Box<Wreck>> {
    live(scenario, seed, None)
}

/// Lets the world of `seed` live with a bug in its book, in the kind of world that must show it.
///
/// # Errors
/// The [`Wreck`] of a world that broke a law, as it should.
pub fn run_sabotaged(bug: Sabotage, seed: u64) -> Result<Figures, Box<Wreck>> {
    live(bug.shows_in(), seed, Some(bug))
}

/// How many worlds to run: `usual`, or what the variable `LEGWORK_WORLDS` says.
pub fn worlds_wanted(usual: u64) -> u64 {
    let wanted = std::env::var("LEGWORK_WORLDS").ok();
    wanted.map_or(usual, |text| text.parse().expect("LEGWORK_WORLDS is a number of worlds"))
}

fn live(scenario: Scenario, seed: u64, bug: Option<Sabotage>) -> Result<Figures, Box<Wreck>> {
    let mut world = World::new(scenario, seed, bug);
    match world.live() {
        Ok(()) => Ok(world.figures),
        Err(broken) => Err(Box::new(wreck(scenario, seed, bug, broken))),
    }
}

/// Lives the life again with a trail: keeping one in every world would cost more than the worlds themselves.
fn wreck(scenario: Scenario, seed: u64, bug: Option<Sabotage>, broken: Broken) -> Wreck {
    let mut world = World::new(scenario, seed, bug);
    world.trail = Some(Vec::new());
    let again = world.live();
    let mut trail = world.trail.unwrap_or_default();
    trail.drain(..trail.len().saturating_sub(TRAIL_SHOWN));
    if again.as_ref().err() != Some(&broken) {
        trail.push(format!("BUG: the second life of this world ended otherwise: {again:?}"));
    }
    Wreck { scenario, seed, broken, trail }
}
