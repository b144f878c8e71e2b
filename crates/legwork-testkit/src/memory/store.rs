//! The store as its users hold it.

use super::state::{Damage, State};
use legwork_core::ports::Pending;
use std::future;
use std::sync::{Arc, Mutex, PoisonError};

/// A store in memory. Clones share their content, so that a clone that outlives an engine is what the next engine opens.
#[derive(Clone, Default)]
pub struct MemoryStore {
    state: Arc<Mutex<State>>,
}

impl MemoryStore {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }

    /// The same store with a bug: what the ended children of a unit had not read does not come to its end with that unit.
    #[must_use]
    pub fn leaving_behind(self) -> Self {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).leaves_behind = true;
        self
    }

    /// From now on it cannot be read.
    pub fn damage(&self, damage: Damage) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).damaged.insert(damage);
    }

    /// Does `work` at once, alone, and hands its answer out as a future.
    pub(super) fn now<'a, T: Send + 'a>(&self, work: impl FnOnce(&mut State) -> T) -> Pending<'a, T> {
        let answer = work(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner));
        Box::pin(future::ready(answer))
    }
}
