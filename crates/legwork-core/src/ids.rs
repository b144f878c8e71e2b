//! The ids of legwork. They are ours, unique, and derived from random bits only: never from a clock, a name or
//! anything a provider said (invariant 36). The bits are arguments; whoever calls draws them.

use serde::{Deserialize, Serialize};
use std::fmt;

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(String);

        impl $name {
            /// Takes a text that is known to be such an id, as read from a store row.
            pub fn from_stored(text: impl Into<String>) -> Self {
                Self(text.into())
            }

            /// The id as it is written everywhere.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

text_id! {
    /// One conversation, for life: `ses_` and 16 hex digits.
    SessionId
}
text_id! {
    /// One accepted `delegate_task` call: `deleg_` and 8 hex digits (REG-1).
    DelegationId
}
text_id! {
    /// What comes back as one message: the tasks of a delegation, `deleg_…` or `deleg_…-k` from 1 (DISP-18), or the notice
    /// of an early failure, `note-` and the child's id.
    UnitId
}
text_id! {
    /// The agent run for one task: `sa-<index>-<8 hex>` (BUILD-1).
    ChildId
}
text_id! {
    /// One process that owns work, for as long as it lives: `own_` and 16 hex digits.
    OwnerId
}
text_id! {
    /// One taker's hold on a ready delivery: `clm_` and 16 hex digits.
    ClaimId
}
text_id! {
    /// One stop or steer that somebody asked for: `req_` and 16 hex digits.
    RequestId
}

impl SessionId {
    /// Makes the id from 64 random bits.
    pub fn from_bits(bits: u64) -> Self {
        Self(format!("ses_{bits:016x}"))
    }
}

impl DelegationId {
    /// Makes the id from 32 random bits. The store refuses an id that is taken.
    pub fn from_bits(bits: u32) -> Self {
        Self(format!("deleg_{bits:08x}"))
    }
}

impl UnitId {
    /// The id of the only unit of a delegation.
    pub fn whole(delegation: &DelegationId) -> Self {
        Self(delegation.as_str().to_owned())
    }

    /// The id of the `k`-th of several units, counted from 1.
    pub fn part(delegation: &DelegationId, k: usize) -> Self {
        Self(format!("{delegation}-{k}"))
    }

    /// The id under which the early failure of a child is told: it travels like a unit, and is none (NOTE-4).
    pub fn notice(child: &ChildId) -> Self {
        Self(format!("note-{child}"))
    }
}

impl ChildId {
    /// Makes the id from the task's position in its call and 32 random bits.
    pub fn from_bits(task_index: usize, bits: u32) -> Self {
        Self(format!("sa-{task_index}-{bits:08x}"))
    }
}

impl OwnerId {
    /// Makes the id from 64 random bits.
    pub fn from_bits(bits: u64) -> Self {
        Self(format!("own_{bits:016x}"))
    }
}

impl ClaimId {
    /// Makes the id from 64 random bits.
    pub fn from_bits(bits: u64) -> Self {
        Self(format!("clm_{bits:016x}"))
    }
}

impl RequestId {
    /// Makes the id from 64 random bits.
    pub fn from_bits(bits: u64) -> Self {
        Self(format!("req_{bits:016x}"))
    }
}

/// The fencing generation of an owner. Taking work over raises it, and writes under an older one are refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Epoch(pub u64);

impl Epoch {
    /// That of an owner whom nobody has replaced.
    pub const FIRST: Epoch = Epoch(1);
}

/// What makes a dispatch idempotent: the session and the id of the tool call that asked (invariant 6).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CallKey {
    /// The conversation, or the child, whose model made the call.
    pub caller: String,
    /// The id of the tool call within that conversation.
    pub call: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Proves REG-1.
    #[test]
    fn build_01_ids_have_their_documented_shape() {
        assert_eq!(ChildId::from_bits(3, 0xab).as_str(), "sa-3-000000ab");
        let delegation = DelegationId::from_bits(0xfe);
        assert_eq!(delegation.as_str(), "deleg_000000fe");
        assert_eq!(UnitId::whole(&delegation).as_str(), "deleg_000000fe");
        assert_eq!(UnitId::part(&delegation, 2).as_str(), "deleg_000000fe-2");
        assert_eq!(SessionId::from_bits(1).as_str(), "ses_0000000000000001");
    }
}
