//! The two stores side by side.

use super::calls;
use super::dice::Dice;
use super::view;
use crate::memory::MemoryStore;
use crate::store_suite::Place;
use legwork_core::ports::{AppendError, Pending, Store, StoreError};
use legwork_core::time::Timestamp;
use std::fmt::Debug;
use std::sync::Arc;

/// Calls between two looks at everything that is stored.
const CALLS_BETWEEN_VIEWS: usize = 25;

/// Makes `count` random calls to the store in `place` and to the one in memory, and panics where they differ.
pub async fn compare(place: &dyn Place, seed: u64, count: usize) {
    let mut pair = Pair::new(place, seed);
    for call in 1..=count {
        pair.call = call;
        calls::make_one(&mut pair).await;
        if call % CALLS_BETWEEN_VIEWS == 0 || call == count {
            if pair.dice.chance(20) {
                pair.reopen(place);
            }
            view::compare_everything(&pair).await;
        }
    }
}

/// Both stores and what the next call is made of.
pub(super) struct Pair {
    pub(super) reference: Arc<dyn Store>,
    subject: Option<Arc<dyn Store>>,
    pub(super) dice: Dice,
    seed: u64,
    call: usize,
}

impl Pair {
    fn new(place: &dyn Place, seed: u64) -> Self {
        let subject = Some(place.open());
        Pair { reference: Arc::new(MemoryStore::new()), subject, dice: Dice::new(seed), seed, call: 0 }
    }

    /// The time of the present call; it grows.
    pub(super) fn at(&self) -> Timestamp {
        Timestamp(self.call as i64)
    }

    fn reopen(&mut self, place: &dyn Place) {
        self.subject = None;
        self.subject = Some(place.open());
    }

    /// Asks both stores the same and compares the answers; errors count as equal when they are of one kind.
    pub(super) async fn both<T, F>(&self, what: &dyn Debug, ask: F)
    where
        T: PartialEq + Debug,
        F: for<'a> Fn(&'a dyn Store) -> Pending<'a, Result<T, StoreError>>,
    {
        let subject = self.subject.as_deref().expect("a store is open between calls");
        let expected = ask(self.reference.as_ref()).await.map_err(|error| kind(&error));
        let answer = ask(subject).await.map_err(|error| kind(&error));
        assert_eq!(answer, expected, "seed {}, call {}: {what:?}", self.seed, self.call);
    }
}

fn kind(error: &StoreError) -> &'static str {
    match error {
        StoreError::Locked(_) => "locked",
        StoreError::Full(_) => "full",
        StoreError::ReadOnly(_) => "read-only",
        StoreError::Corrupt(_) => "corrupt",
        StoreError::Gone(_) => "gone",
        StoreError::Newer { .. } => "newer",
        StoreError::Fenced(_) => "fenced",
        StoreError::Conflict(_) => "conflict",
        StoreError::Io(_) => "io",
        StoreError::Closed => "closed",
    }
}

/// A refusal without its wording.
pub(super) fn bare(refusal: AppendError) -> AppendError {
    match refusal {
        AppendError::Illegal(_) => AppendError::Illegal(String::new()),
        AppendError::Unreadable(_) => AppendError::Unreadable(String::new()),
        AppendError::IdTaken(_)
        | AppendError::Repeated(_)
        | AppendError::Stale(_)
        | AppendError::NoSession(_) => refusal,
    }
}
