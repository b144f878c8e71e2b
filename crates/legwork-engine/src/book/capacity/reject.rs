//! A queue of length 0: slots count live children, and a call starts whole or is refused.

use super::{Capacity, Load, Placement};
use legwork_core::ports::Refusal;

#[derive(Debug)]
pub(super) struct Reject {
    pub(super) children_max: usize,
}

impl Capacity for Reject {
    fn objection(&self, asked: usize, load: &Load) -> Option<Refusal> {
        let free = self.children_max.saturating_sub(load.running + load.waiting);
        (asked > free).then_some(Refusal::NoSlots { asked, free, children_max: self.children_max })
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
