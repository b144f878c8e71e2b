//! What kind of live world it is.

use crate::memory::MemoryStore;
use crate::shaky::{Bend, ShakyStore};
use crate::store_suite::Place;
use std::sync::Arc;

/// A write that kills the process which makes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cut {
    /// Its number among all writes of the world, from 0.
    pub write: u64,
    /// Whether it was carried out before.
    pub late: bool,
}

/// How many processes live at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owners {
    /// One after the other.
    One,
    /// Two, which have the sessions between them. Now and then one of them stands still.
    Two,
}

/// How the wall clock goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wall {
    /// As time does.
    Steady,
    /// It is turned a day forward or back between any two calls of the store.
    Jumps,
}

/// What goes wrong with the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trouble {
    /// It is slow and fails now and then; a seed decides how often.
    Storms,
    /// Nothing, but that these writes kill.
    Cuts(Vec<Cut>),
}

/// Where the store is.
#[derive(Clone)]
pub enum Ground {
    /// In memory.
    Memory,
    /// Where each process opens it for itself.
    Place(Arc<dyn Place>),
}

/// A bug that a process can be given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lapse {
    /// It gives its sessions free when it begins to end, and not when nothing of it goes on any more.
    FreesSessionsEarly,
}

/// What kind of live world it is.
#[derive(Clone)]
pub struct LiveTerms {
    /// Where the store is.
    pub ground: Ground,
    /// How many processes live at once.
    pub owners: Owners,
    /// How the wall clock goes.
    pub wall: Wall,
    /// What goes wrong with the store.
    pub trouble: Trouble,
    /// The bug that every store has.
    pub bend: Option<Bend>,
    /// The bug that every process has.
    pub lapse: Option<Lapse>,
}

impl LiveTerms {
    /// A world in memory with one process at a time, a steady clock, and storms.
    pub fn usual() -> Self {
        LiveTerms {
            ground: Ground::Memory,
            owners: Owners::One,
            wall: Wall::Steady,
            trouble: Trouble::Storms,
            bend: None,
            lapse: None,
        }
    }
}

/// The store of one world, as its processes open it.
#[derive(Clone)]
pub(super) enum Opener {
    Memory(MemoryStore),
    Place(Arc<dyn Place>),
}

impl Opener {
    pub(super) fn new(terms: &LiveTerms) -> Self {
        match &terms.ground {
            Ground::Memory if terms.bend == Some(Bend::LeavesBehind) => {
                Opener::Memory(MemoryStore::new().leaving_behind())
            }
            Ground::Memory => Opener::Memory(MemoryStore::new()),
            Ground::Place(place) => Opener::Place(place.clone()),
        }
    }

    /// An opening of its own.
    pub(super) fn open(&self, bend: Option<Bend>) -> ShakyStore {
        match self {
            Opener::Memory(memory) => ShakyStore::bent(Arc::new(memory.clone()), bend),
            Opener::Place(place) => ShakyStore::bent(place.open(), bend).in_its_own_time(),
        }
    }
}
