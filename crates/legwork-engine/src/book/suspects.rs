//! Children of work that was taken over whose process died again and again at one step of them. Any of those that ran
//! side by side may be the one that it died of, so they begin one at a time: the next death shows which, and the others
//! are not given up with it (invariant 10).

use super::{Book, FairQueue};
use crate::recovery::DEATHS_MAX;
use legwork_core::child::ChildState;
use legwork_core::ids::{ChildId, SessionId};
use legwork_core::pulse::Deaths;
use std::collections::HashSet;

/// Deaths in a row from which on a child is one of them. The rest of [`DEATHS_MAX`] is left for finding out.
const SUSPECT_FROM: u32 = DEATHS_MAX / 2;

/// Those that wait, and those that have begun.
#[derive(Debug, Default)]
pub(super) struct Suspects {
    waiting: FairQueue,
    all: HashSet<ChildId>,
}

impl Suspects {
    pub(super) fn is_one(deaths: Deaths) -> bool {
        deaths.in_a_row >= SUSPECT_FROM
    }

    pub(super) fn push(&mut self, session: &SessionId, child: ChildId) {
        self.all.insert(child.clone());
        self.waiting.push(session, child);
    }

    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn remove_all(&mut self, gone: impl Fn(&ChildId) -> bool) {
        if !self.all.is_empty() {
            self.waiting.remove_all(&gone);
            self.all.retain(|child| !gone(child));
        }
    }
}

impl Book {
    /// The next of them, while none holds a slot: one that waits for its own children stands in nobody's way.
    pub(super) fn next_suspect(&mut self) -> Option<ChildId> {
        let holds_slot = |child: &ChildId| self.standing(child).is_some_and(ChildState::holds_slot);
        let is_free = self.capacity.heirs_max().is_none_or(|max| self.slots_used < max);
        if !is_free || self.suspects.all.iter().any(holds_slot) {
            return None;
        }
        self.suspects.waiting.pop()
    }
}
