//! Slots count calls in the background, whatever number of children they have; where there is none left, the caller
//! waits (CAP-1 to CAP-9). Nothing queues: what is accepted starts at once. Only work that is taken over waits, while
//! as many children run as there are slots, and all else while a child of that has the process to itself.

use super::{Capacity, Load, Placement};
use legwork_core::ports::Refusal;

#[derive(Debug)]
pub(super) struct Sync {
    /// Tasks of one call, and calls in the background.
    pub(super) children_max: usize,
}

impl Capacity for Sync {
    fn objection(&self, asked: usize, _: &Load) -> Option<Refusal> {
        let tasks_max = self.children_max;
        (asked > tasks_max).then_some(Refusal::TooManyTasks { asked, tasks_max })
    }

    fn place(&self, load: &Load) -> Placement {
        if load.is_admitted || load.calls < self.children_max {
            Placement::Background
        } else {
            Placement::Inline
        }
    }

    fn may_run(&self, _: usize) -> bool {
        true
    }

    fn heirs_max(&self) -> Option<usize> {
        Some(self.children_max)
    }
}
