//! Where a store lives.

use crate::memory::{Damage, MemoryStore};
use legwork_core::ports::Store;
use std::sync::Arc;

/// A place that holds one store and begins empty.
pub trait Place: Send + Sync {
    /// Opens the store. What was stored before is there, also when an earlier opening is gone.
    fn open(&self) -> Arc<dyn Store>;

    /// Lets something that is stored be unreadable from now on, as a hand or a disk may do; openings see it at once.
    fn damage(&self, damage: Damage);
}

impl Place for MemoryStore {
    fn open(&self) -> Arc<dyn Store> {
        Arc::new(self.clone())
    }

    fn damage(&self, damage: Damage) {
        MemoryStore::damage(self, damage);
    }
}
