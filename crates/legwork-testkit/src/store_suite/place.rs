//! Where a store lives.

use crate::memory::MemoryStore;
use legwork_core::ports::Store;
use std::sync::Arc;

/// A place that holds one store and begins empty.
pub trait Place: Send + Sync {
    /// Opens the store. What was stored before is there, also when an earlier opening is gone.
    fn open(&self) -> Arc<dyn Store>;
}

impl Place for MemoryStore {
    fn open(&self) -> Arc<dyn Store> {
        Arc::new(self.clone())
    }
}
