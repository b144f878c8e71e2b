//! What kind of world a seed makes: its limits, its people, and how much goes wrong in it.

use super::chance::Chance;
use super::runner::ENDINGS;
use legwork_core::batch::Completions;
use legwork_core::outcome::Ending;
use legwork_engine::{AtCapacity, Options, Patience};
use std::time::Duration;

/// Which worlds to make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scenario {
    /// Anything may happen.
    Anything,
    /// Trees of delegations share one slot, nothing goes wrong, and no time passes.
    OneSlotTrees,
    /// Few calls of very many tasks.
    Crowds,
}

/// How a world ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// Everything answers or is aborted.
    Drain,
    /// The process lets go of its work.
    Release,
    /// The process dies where it stands.
    Death,
}

#[derive(Debug, Clone)]
pub(super) struct Terms {
    pub(super) options: Options,
    pub(super) sessions: usize,
    pub(super) tasks_max: usize,
    pub(super) actions: usize,
    /// How many of 100 runners hang.
    pub(super) hangs: usize,
    pub(super) endings: Vec<Ending>,
    pub(super) calls_max: usize,
    /// One in so many waits of a runner for its children breaks; 0 for never.
    pub(super) breaks_in: usize,
    /// One in so many occasions for stops, pauses, time and clocks is taken; 0 for none.
    pub(super) trouble_in: usize,
    /// One commit in so many is refused for one delegation; 0 for never.
    pub(super) refused_in: usize,
    /// One commit in so many fails; 0 for never.
    pub(super) failed_in: usize,
    pub(super) end: End,
}

impl Terms {
    pub(super) fn of(scenario: Scenario, chance: &mut Chance) -> Terms {
        match scenario {
            Scenario::Anything => anything(chance),
            Scenario::OneSlotTrees => one_slot_trees(chance),
            Scenario::Crowds => Terms {
                tasks_max: 120,
                actions: 500,
                calls_max: 0,
                options: Options { children_max: chance.between(5, 10), ..options(chance) },
                ..anything(chance)
            },
        }
    }
}

fn anything(chance: &mut Chance) -> Terms {
    Terms {
        options: options(chance),
        sessions: chance.between(1, 4),
        tasks_max: chance.between(1, 6),
        actions: chance.between(20, 240),
        hangs: *chance.pick(&[0, 10, 40]),
        endings: ENDINGS.to_vec(),
        calls_max: *chance.pick(&[0, 1, 2, 2]),
        breaks_in: *chance.pick(&[0, 40]),
        trouble_in: *chance.pick(&[1, 3, 10]),
        refused_in: *chance.pick(&[0, 0, 12]),
        failed_in: *chance.pick(&[0, 0, 6]),
        end: *chance.pick(&[End::Drain, End::Drain, End::Drain, End::Release, End::Death]),
    }
}

fn one_slot_trees(chance: &mut Chance) -> Terms {
    let queued = Options { at_capacity: AtCapacity::Queue, queue_max: 1000, ..options(chance) };
    Terms {
        options: Options {
            children_max: 1,
            depth_max: u32::try_from(chance.between(2, 4)).unwrap_or(2),
            ..queued
        },
        sessions: chance.between(1, 2),
        tasks_max: 2,
        actions: 60,
        hangs: 0,
        endings: vec![Ending::Answered],
        calls_max: 1,
        breaks_in: 0,
        trouble_in: 0,
        refused_in: 0,
        failed_in: 0,
        end: End::Drain,
    }
}

fn options(chance: &mut Chance) -> Options {
    let seconds = |chance: &mut Chance, high| Duration::from_secs(chance.between(1, high) as u64);
    Options {
        children_max: chance.between(1, 5),
        queue_max: *chance.pick(&[0, 4, 20, 1000, 1000]),
        depth_max: *chance.pick(&[1, 2, 3, 3]),
        at_capacity: match chance.below(8) {
            0 => AtCapacity::Reject,
            1 | 2 => AtCapacity::Sync,
            _ => AtCapacity::Queue,
        },
        completions: if chance.once_in(2) { Completions::ByUnit } else { Completions::Together },
        patience: Patience {
            idle: seconds(chance, 20),
            tool: seconds(chance, 60),
            grace: seconds(chance, 10),
            inactivity: if chance.once_in(3) { Some(seconds(chance, 30)) } else { None },
        },
        stop_grace: Duration::from_millis(chance.between(0, 3000) as u64),
        lease: Duration::from_secs(10),
    }
}
