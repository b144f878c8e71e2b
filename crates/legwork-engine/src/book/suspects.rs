//! Children of work that was taken over of which the process may have died: it died while they ran, again and again. Whatever
//! ran beside them may have been what it died of, so each of them runs alone, and the rest of the deaths that it may have is its
//! own: nobody is given up for what another one does (docs/design/051-alone.md, invariant 10).

use super::Book;
use legwork_core::child::ChildState;
use legwork_core::ids::ChildId;
use std::collections::HashSet;

/// Those that wait, and those that have begun.
#[derive(Debug, Default)]
pub(super) struct Suspects {
    /// With the deaths that each has seen.
    waiting: Vec<(u32, ChildId)>,
    all: HashSet<ChildId>,
}

impl Suspects {
    /// One that has seen so many deaths.
    pub(super) fn push(&mut self, deaths: u32, child: ChildId) {
        self.all.insert(child.clone());
        self.waiting.push((deaths, child));
    }

    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// The one that has seen the fewest: each gets a turn before any gets another one.
    fn pop(&mut self) -> Option<ChildId> {
        let (place, _) = self.waiting.iter().enumerate().min_by_key(|(_, (deaths, _))| *deaths)?;
        Some(self.waiting.remove(place).1)
    }

    pub(super) fn remove_all(&mut self, gone: impl Fn(&ChildId) -> bool) {
        self.waiting.retain(|(_, child)| !gone(child));
        self.all.retain(|child| !gone(child));
    }
}

impl Book {
    /// Whether a suspect is at work: nothing begins beside it. One that waits for its own children stands in nobody's way.
    pub(super) fn is_one_alone(&self) -> bool {
        let holds_slot = |child: &ChildId| self.standing(child).is_some_and(ChildState::holds_slot);
        self.suspects.all.iter().any(holds_slot)
    }

    /// Whether what `caller` asks for now waits for a suspect, whatever slots there are. The one that runs alone gives its own
    /// slot to those that it sends out.
    pub(super) fn waits_for_suspects(&self, caller: Option<&ChildId>) -> bool {
        let is_suspect = caller.is_some_and(|caller| self.suspects.all.contains(caller));
        self.suspects.waiting() > 0 || self.is_one_alone() && !is_suspect
    }

    /// Whether this child, which wants its slot again, may have it.
    pub(super) fn may_return(&self, child: &ChildId) -> bool {
        self.slots_used == 0 || !self.suspects.all.contains(child)
    }

    /// The next of them, once nothing else is at work.
    pub(super) fn next_suspect(&mut self) -> Option<ChildId> {
        if self.slots_used == 0 { self.suspects.pop() } else { None }
    }
}
