//! The default: slots count live children, and those that get none wait in a bounded queue.

use super::{Capacity, Load, Placement};
use legwork_core::ports::Refusal;

#[derive(Debug)]
pub(super) struct Queue {
    pub(super) children_max: usize,
    pub(super) queue_max: usize,
}

impl Capacity for Queue {
    /// Slots that are free now do not count against the queue: their children start at once.
    fn objection(&self, asked: usize, load: &Load) -> Option<Refusal> {
        let free = self.children_max.saturating_sub(load.running);
        let fits = load.waiting + asked <= self.queue_max.saturating_add(free);
        (!fits).then_some(Refusal::QueueFull { asked, waiting: load.waiting, queue_max: self.queue_max })
    }

    fn place(&self, _: &Load) -> Placement {
        Placement::Background
    }

    fn may_run(&self, holding: usize) -> bool {
        holding < self.children_max
    }

    fn heirs_max(&self) -> Option<usize> {
        None
    }
}
