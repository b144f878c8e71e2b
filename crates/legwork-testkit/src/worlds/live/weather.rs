//! What everybody in a world shares: its chance, its store and the bad days of that, and what is counted.

use super::LiveFigures;
use crate::memory::MemoryStore;
use crate::shaky::{Bend, Luck, ShakyStore};
use crate::worlds::Chance;
use legwork_core::ids::RequestId;
use legwork_core::ports::Receipt;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::sleep;

/// Shared by all people of a world.
#[derive(Clone)]
pub(super) struct Weather {
    pub(super) memory: MemoryStore,
    pub(super) store: Arc<ShakyStore>,
    shared: Arc<Mutex<Shared>>,
    /// Whether nothing goes wrong any more and nobody begins anything; written by the world, read by its people.
    calm: Arc<watch::Sender<bool>>,
    /// How many processes a write has killed; written by the store, read by the world.
    cut: Arc<watch::Sender<u32>>,
}

/// A write that kills the process which makes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cut {
    /// Its number among all writes of the world, from 0.
    pub write: u64,
    /// Whether it was carried out before.
    pub late: bool,
}

pub(super) struct Shared {
    pub(super) chance: Chance,
    pub(super) figures: LiveFigures,
    /// How often each text was taken in each attempt of its child.
    pub(super) taken: BTreeMap<(RequestId, u32), u32>,
    /// One call in so many fails; 0 for never.
    fails_in: usize,
    stormy: bool,
    /// The writes that kill, in order.
    cuts: Vec<Cut>,
}

/// The methods of the store that change something.
const WRITES: [&str; 18] = [
    "enter",
    "append",
    "claim",
    "acknowledge",
    "release",
    "park",
    "unpark",
    "dismiss",
    "ask",
    "set_paused",
    "settle_request",
    "take_over",
    "note_group",
    "drop_group",
    "prune",
    "write_steps",
    "append_turn",
    "hold_session",
];

impl Weather {
    pub(super) fn new(seed: u64, bend: Option<Bend>) -> Self {
        let mut chance = Chance::new(seed);
        let fails_in = *chance.pick(&[0, 20, 8, 5]);
        let memory = MemoryStore::new();
        let figures = LiveFigures { worlds: 1, ..LiveFigures::default() };
        let (taken, cuts) = (BTreeMap::new(), Vec::new());
        let shared = Shared { chance, figures, taken, fails_in, stormy: false, cuts };
        let weather = Weather {
            store: Arc::new(ShakyStore::bent(Arc::new(memory.clone()), bend)),
            memory,
            shared: Arc::new(Mutex::new(shared)),
            calm: Arc::new(watch::Sender::new(false)),
            cut: Arc::new(watch::Sender::new(0)),
        };
        let (shared, cut) = (weather.shared.clone(), weather.cut.clone());
        weather.store.let_decide(move |name| {
            let luck = locked(&shared).luck(name);
            if matches!(luck, Luck::Dies | Luck::DiesLate) {
                cut.send_modify(|deaths| *deaths += 1);
            }
            luck
        });
        weather
    }

    /// The weather of a world in which nothing goes wrong but that these writes kill.
    pub(super) fn of_cuts(seed: u64, cuts: Vec<Cut>) -> Self {
        let weather = Weather::new(seed, None);
        let mut shared = weather.shared();
        shared.fails_in = 0;
        shared.cuts = cuts;
        drop(shared);
        weather
    }

    /// Resolves once a write has killed more processes than `known`, and says how many.
    pub(super) async fn killed(&self, known: u32) -> u32 {
        let mut cut = self.cut.subscribe();
        let killed = cut.wait_for(|deaths| *deaths > known).await.map(|deaths| *deaths);
        killed.expect("the weather lasts as long as the world")
    }

    pub(super) fn shared(&self) -> MutexGuard<'_, Shared> {
        locked(&self.shared)
    }

    /// From now on the store fails now and then, or does not.
    pub(super) fn storm(&self, stormy: bool) {
        self.shared().stormy = stormy;
    }

    /// Nothing goes wrong any more and nobody begins anything.
    pub(super) fn calm_down(&self) {
        self.storm(false);
        self.calm.send_replace(true);
    }

    pub(super) fn is_calm(&self) -> bool {
        *self.calm.borrow()
    }

    pub(super) fn chance<T>(&self, draw: impl FnOnce(&mut Chance) -> T) -> T {
        draw(&mut self.shared().chance)
    }

    /// Counts the answer to an offer.
    pub(super) fn count(&self, receipt: Receipt) {
        let figures = &mut self.shared().figures;
        match receipt {
            Receipt::Accepted => figures.accepted += 1,
            Receipt::Busy => figures.busy += 1,
            Receipt::Gone => figures.gone += 1,
        }
    }

    /// Takes up to so many milliseconds.
    pub(super) async fn dawdle(&self, most: usize) {
        let time = self.chance(|chance| chance.between(0, most)) as u64;
        // Deadline: people take their time.
        sleep(Duration::from_millis(time)).await;
    }
}

impl Shared {
    fn luck(&mut self, name: &str) -> Luck {
        if WRITES.contains(&name) {
            let write = self.figures.writes;
            self.figures.writes += 1;
            if let Some(cut) = self.cuts.iter().find(|cut| cut.write == write) {
                return if cut.late { Luck::DiesLate } else { Luck::Dies };
            }
        }
        if !self.stormy {
            return Luck::Good;
        }
        if self.chance.once_in(self.fails_in) {
            self.figures.failures += 1;
            let late = matches!(name, "claim" | "release" | "park" | "unpark" | "append_turn" | "ask");
            return if late && self.chance.once_in(2) { Luck::FailsLate } else { Luck::Fails };
        }
        match self.chance.below(4) {
            0 => Luck::Slow(Duration::from_millis(self.chance.between(0, 40) as u64)),
            _ => Luck::Good,
        }
    }
}

fn locked(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
