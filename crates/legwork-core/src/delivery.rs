//! The state machine of one unit's results on their way to the session that asked. Only `Delivered` and `Dismissed`
//! may ever be pruned (invariant 5).

use crate::ids::{ClaimId, UnitId};
use crate::time::Timestamp;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// What the ledger says of the notice of an early failure that nobody had taken when its unit settled.
pub const NOTICE_LATE: &str = "the results of the whole unit are there, with this one";

/// Where a unit's results are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeliveryState {
    /// Some child of the unit has not settled.
    Held,
    /// All settled; somebody may take them.
    Ready {
        /// How often a taker gave them back.
        tries: u32,
    },
    /// Taken, not yet part of the conversation.
    Claimed {
        /// The taker's hold.
        claim: ClaimId,
        /// How often a taker gave them back before.
        tries: u32,
    },
    /// There is no way to the session now; kept, and offered again when it returns.
    Parked(ParkReason),
    /// In the conversation; committed together with the turn.
    Delivered,
    /// Given up by name.
    Dismissed,
}

/// Why a delivery waits outside the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ParkReason {
    /// The session is not open anywhere.
    SessionGone,
    /// The delegation was made without a conversation.
    NoConversation,
    /// The taker could not write them out.
    WriteFailed,
}

/// What can happen to a delivery.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeliveryEvent {
    /// The last child of the unit settled.
    UnitSettled,
    /// A taker holds it now.
    Claimed(ClaimId),
    /// The taker's turn is stored.
    Acked(ClaimId),
    /// The taker gave it back.
    Released(ClaimId),
    /// The taker found no way to the session.
    Parked(ClaimId, ParkReason),
    /// The session is back.
    Unparked,
    /// A person gave it up.
    Dismissed,
    /// The child that had asked for it ended before it had read it, and the results of that child have come to their end.
    Followed(Lead),
}

/// How the results of a child came to their end that had not read those of its own children.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Lead {
    /// They were told, and what the child had not read with them.
    Told,
    /// They were given up by name, with everything below.
    GivenUp,
}

/// How the ledger begins to say with which unit's results others were told.
const TOLD_WITH: &str = "told with the results of ";

impl Lead {
    /// What the ledger says of what followed `unit`.
    pub fn reason(self, unit: &UnitId) -> String {
        match self {
            Lead::Told => format!("{TOLD_WITH}{unit}"),
            Lead::GivenUp => format!("given up with the results of {unit}"),
        }
    }

    /// The unit that a reason of the ledger tells of, if it is that of what was told with another one.
    pub fn told_with(reason: &str) -> Option<UnitId> {
        reason.strip_prefix(TOLD_WITH).map(UnitId::from_stored)
    }
}

/// A move that the machine does not have, or a hold that is no longer the current one.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("a delivery that is {state:?} cannot take {event:?}")]
pub struct IllegalDelivery {
    /// The state it was in.
    pub state: DeliveryState,
    /// The event that does not fit.
    pub event: DeliveryEvent,
}

/// One line of the answer to "where is my result?".
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LedgerLine {
    /// When the move was recorded.
    pub at: Timestamp,
    /// The state it moved to, as its word.
    pub state: String,
    /// Who took it, for a claim or what followed from one.
    pub claimant: Option<String>,
    /// Why, in plain words.
    pub reason: Option<String>,
}

impl DeliveryState {
    /// The state after `event`. A claim other than the current one can neither ack, release nor park.
    ///
    /// # Errors
    /// [`IllegalDelivery`] when there is no such move; nothing changes then.
    pub fn apply(&self, event: DeliveryEvent) -> Result<DeliveryState, IllegalDelivery> {
        use DeliveryEvent as E;
        use DeliveryState as S;
        let next = match (self, &event) {
            (S::Held, E::UnitSettled) => Some(S::Ready { tries: 0 }),
            (S::Ready { tries }, E::Claimed(claim)) => {
                Some(S::Claimed { claim: claim.clone(), tries: *tries })
            }
            (S::Claimed { claim, .. }, E::Acked(by)) if claim == by => Some(S::Delivered),
            (S::Claimed { claim, tries }, E::Released(by)) if claim == by => {
                Some(S::Ready { tries: tries + 1 })
            }
            (S::Claimed { claim, .. }, E::Parked(by, reason)) if claim == by => Some(S::Parked(*reason)),
            (S::Parked(_), E::Unparked) => Some(S::Ready { tries: 0 }),
            (S::Ready { .. } | S::Parked(_), E::Dismissed) => Some(S::Dismissed),
            // Whoever held it for the child that ended has nobody to bring it to.
            (S::Ready { .. } | S::Claimed { .. } | S::Parked(_), E::Followed(Lead::Told)) => {
                Some(S::Delivered)
            }
            (S::Ready { .. } | S::Claimed { .. } | S::Parked(_), E::Followed(Lead::GivenUp)) => {
                Some(S::Dismissed)
            }
            (
                S::Held | S::Ready { .. } | S::Claimed { .. } | S::Parked(_) | S::Delivered | S::Dismissed,
                E::UnitSettled
                | E::Claimed(_)
                | E::Acked(_)
                | E::Released(_)
                | E::Parked(..)
                | E::Unparked
                | E::Dismissed
                | E::Followed(_),
            ) => None,
        };
        next.ok_or_else(|| IllegalDelivery { state: self.clone(), event })
    }

    /// Whether the delivery has reached its end; only then may it be pruned.
    pub fn is_final(&self) -> bool {
        match self {
            DeliveryState::Delivered | DeliveryState::Dismissed => true,
            DeliveryState::Held
            | DeliveryState::Ready { .. }
            | DeliveryState::Claimed { .. }
            | DeliveryState::Parked(_) => false,
        }
    }

    /// The word that lists and the ledger show.
    pub fn as_str(&self) -> &'static str {
        match self {
            DeliveryState::Held => "held",
            DeliveryState::Ready { .. } => "ready",
            DeliveryState::Claimed { .. } => "claimed",
            DeliveryState::Parked(_) => "parked",
            DeliveryState::Delivered => "delivered",
            DeliveryState::Dismissed => "dismissed",
        }
    }
}

impl ParkReason {
    /// The reason in plain words.
    pub fn as_str(self) -> &'static str {
        match self {
            ParkReason::SessionGone => "its session is not open anywhere",
            ParkReason::NoConversation => "no conversation",
            ParkReason::WriteFailed => "the result could not be written out",
        }
    }
}
