//! What one child may use up. A limit is a number here and a [`Limit`] in the outcome that names it.

use crate::outcome::Limit;
use serde::{Deserialize, Serialize};

/// The allowance of one child, fixed when its delegation is accepted. It spans all attempts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Allowance {
    /// Model calls (`delegation.max_iterations`, CFG-4).
    pub steps_max: u32,
}

impl Allowance {
    /// The limit that forbids one more model call after `steps` of them, if one does.
    pub fn exhausted_by(self, steps: u32) -> Option<Limit> {
        (steps >= self.steps_max).then_some(Limit::Steps)
    }
}
