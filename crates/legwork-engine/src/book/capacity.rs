//! What happens to a call when the slots are taken (`delegation.at_capacity`): three small policies behind one interface.
//! They are pure: what they must know of the process comes in as a [`Load`].
//!
//! They do not start anything and do not keep count; the book does.

mod queue;
mod reject;
mod sync;
#[cfg(test)]
mod tests;

use crate::options::{AtCapacity, Options};
use legwork_core::ports::Refusal;
use std::fmt;

/// How much a process has to do when a call comes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Load {
    /// Children that hold a slot, or want theirs again; no fewer than there are slots where one is to run alone.
    pub running: usize,
    /// Children that wait for their first slot.
    pub waiting: usize,
    /// Calls in the background of which some child has not settled (CAP-2, CAP-11).
    pub calls: usize,
    /// Whether the call that is placed is one of those already, by an earlier unit (CAP-4).
    pub is_admitted: bool,
}

/// Where a unit of an accepted call belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placement {
    /// It comes back later, as the session's reach says.
    Background,
    /// Its caller waits for it.
    Inline,
}

/// A policy.
pub trait Capacity: fmt::Debug + Send + Sync {
    /// Why a call of `asked` tasks is refused, if it is. Nothing exists then.
    fn objection(&self, asked: usize, load: &Load) -> Option<Refusal>;

    /// Places one unit of a call that would like to come back later. The units of a call are placed in their order.
    fn place(&self, load: &Load) -> Placement;

    /// Whether one more child may run beside those that hold a slot.
    fn may_run(&self, holding: usize) -> bool;

    /// Where what is accepted never waits: children of work that was taken over from another process wait all the same while
    /// so many hold a slot, because nobody counted them here when they were accepted. `None` where they wait with all others.
    fn heirs_max(&self) -> Option<usize>;
}

/// The policy that the options name.
pub fn policy(options: &Options) -> Box<dyn Capacity> {
    let children_max = options.children_max;
    match options.at_capacity {
        AtCapacity::Queue => Box::new(queue::Queue { children_max, queue_max: options.queue_max }),
        AtCapacity::Sync => Box::new(sync::Sync { children_max }),
        AtCapacity::Reject => Box::new(reject::Reject { children_max }),
    }
}
