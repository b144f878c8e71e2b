//! What everybody in a world shares: its chance, its store and the bad days of that, and what is counted.

use super::LiveFigures;
use super::terms::{Cut, Lapse, LiveTerms, Opener, Trouble, Wall};
use super::wall;
use crate::shaky::{Bend, Call, Luck, Settled, ShakyStore};
use crate::worlds::Chance;
use legwork_core::ids::{ChildId, RequestId};
use legwork_core::ports::Receipt;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::sleep;

/// Between how many calls of the store the wall clock is turned once.
const CALLS_A_TURN: usize = 60;

/// Shared by all people of a world.
#[derive(Clone)]
pub(super) struct Weather {
    /// The store as whoever lives, or looks on, has it open.
    pub(super) store: Arc<ShakyStore>,
    opener: Opener,
    bend: Option<Bend>,
    pub(super) lapse: Option<Lapse>,
    /// The units whose settling was recorded, by whichever process.
    pub(super) settled: Settled,
    shared: Arc<Mutex<Shared>>,
    /// Whether nothing goes wrong any more and nobody begins anything; written by the world, read by its people.
    calm: Arc<watch::Sender<bool>>,
}

pub(super) struct Shared {
    pub(super) chance: Chance,
    pub(super) figures: LiveFigures,
    /// How often each text was taken in each attempt of its child.
    pub(super) taken: BTreeMap<(RequestId, u32), u32>,
    /// How often each step was told to be finished.
    pub(super) finished: BTreeMap<(ChildId, u32), u32>,
    /// Writes that were taken from a process that had lost its work before.
    pub(super) late: Vec<String>,
    /// The numbers of the processes that have died.
    pub(super) dead: BTreeSet<u32>,
    /// The numbers of those that stood still at some time.
    pub(super) stood_still: BTreeSet<u32>,
    /// The numbers of those that began to end in good order.
    pub(super) leaving: BTreeSet<u32>,
    /// One call in so many fails; 0 for never.
    fails_in: usize,
    stormy: bool,
    wall: Wall,
    /// Whether nothing goes wrong with the store but that it kills.
    is_cut: bool,
    /// The writes that kill, in order.
    cuts: Vec<Cut>,
}

impl Weather {
    /// The weather of a world. It is an onlooker's: his store never fails.
    pub(super) fn new(seed: u64, terms: &LiveTerms) -> Self {
        let mut chance = Chance::new(seed);
        let drawn = *chance.pick(&[0, 20, 8, 5]);
        let (fails_in, cuts) = match &terms.trouble {
            Trouble::Storms => (drawn, Vec::new()),
            Trouble::Cuts(cuts) => (0, cuts.clone()),
        };
        let shared = Shared {
            chance,
            figures: LiveFigures { worlds: 1, ..LiveFigures::default() },
            taken: BTreeMap::new(),
            finished: BTreeMap::new(),
            late: Vec::new(),
            dead: BTreeSet::new(),
            stood_still: BTreeSet::new(),
            leaving: BTreeSet::new(),
            fails_in,
            stormy: false,
            wall: terms.wall,
            is_cut: terms.trouble != Trouble::Storms,
            cuts,
        };
        let opener = Opener::new(terms);
        Weather {
            store: Arc::new(opener.open(None)),
            opener,
            bend: terms.bend,
            lapse: terms.lapse,
            settled: Settled::default(),
            shared: Arc::new(Mutex::new(shared)),
            calm: Arc::new(watch::Sender::new(false)),
        }
    }

    /// The same for the people of one more process, which opens the store for itself.
    pub(super) fn of_a_process(&self) -> Weather {
        let store = self.opener.open(self.bend).noting(self.settled.clone());
        let shared = self.shared.clone();
        store.let_judge(move |call| locked(&shared).luck(call));
        Weather { store: Arc::new(store), ..self.clone() }
    }

    /// How much people do in this world. One that is lived once for each of its writes is a short one.
    pub(super) fn acts(&self) -> usize {
        let mut shared = self.shared();
        let (least, most) = if shared.is_cut { (10, 16) } else { (20, 80) };
        shared.chance.between(least, most)
    }

    pub(super) fn shared(&self) -> MutexGuard<'_, Shared> {
        locked(&self.shared)
    }

    /// From now on the store fails now and then, or does not.
    pub(super) fn storm(&self, stormy: bool) {
        self.shared().stormy = stormy && !self.is_calm();
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
            Receipt::Busy | Receipt::Unfit => figures.busy += 1,
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
    /// Whether the process with this number stood still at some time, or has died: others may declare it gone. One that ends says
    /// so itself.
    pub(super) fn may_be_gone(&self, number: u32) -> bool {
        [&self.stood_still, &self.dead, &self.leaving].iter().any(|numbers| numbers.contains(&number))
    }

    fn luck(&mut self, call: Call<'_>) -> Luck {
        if self.wall == Wall::Jumps && self.chance.once_in(CALLS_A_TURN) {
            wall::turn(*self.chance.pick(&[-1, 1]));
            self.figures.turned += 1;
        }
        if call.writes() {
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
            let late = matches!(
                call.name,
                "append" | "claim" | "release" | "park" | "unpark" | "append_turn" | "ask" | "write_steps"
            );
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
