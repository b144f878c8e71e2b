//! Requests that any process may put to a running child or delegation: they are rows of the store, so that any
//! terminal reaches any child.

use crate::ids::{ChildId, DelegationId, RequestId, SessionId, UnitId};
use crate::outcome::{Force, StopReason};
use crate::time::Timestamp;
use serde::{Deserialize, Serialize};

/// Texts that may wait for one child. Whoever stores one counts them in the same commit.
pub const STEERS_WAITING_MAX: usize = 256;

/// What a request is aimed at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// All children of a delegation, and everything below them.
    Delegation(DelegationId),
    /// All children of a unit, and everything below them.
    Unit(UnitId),
    /// One child and everything below it.
    Child(ChildId),
    /// All delegations of a conversation.
    Session(SessionId),
    /// Everything.
    All,
}

/// What is asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wish {
    /// End it.
    Stop {
        /// Why.
        reason: StopReason,
        /// How hard.
        force: Force,
    },
    /// Say something to one running child; it reads it at its next step.
    Steer {
        /// What it is told.
        text: String,
    },
}

/// What became of a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fate {
    /// Nobody has taken it yet.
    Open,
    /// A stop that its owner carried out.
    CarriedOut,
    /// A steer that the child read.
    Seen {
        /// The step of the child's journal that takes it in.
        step: u32,
    },
    /// A steer whose child ended first; the text was not read by anybody.
    Missed,
}

/// One request and what became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestRecord {
    /// The request.
    pub request: Request,
    /// What became of it.
    pub fate: Fate,
    /// When that was decided.
    pub decided_at: Option<Timestamp>,
}

impl RequestRecord {
    /// The text, if it was said to a child that did not read it any more.
    pub fn missed(self) -> Option<String> {
        match (self.fate, self.request.wish) {
            (Fate::Missed, Wish::Steer { text }) => Some(text),
            (Fate::Missed, Wish::Stop { .. })
            | (Fate::Open | Fate::CarriedOut | Fate::Seen { .. }, Wish::Steer { .. } | Wish::Stop { .. }) => {
                None
            }
        }
    }
}

/// Whether a request was taken in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    /// It is stored.
    Stored,
    /// Whom it is for has settled; nothing was stored.
    Ended,
    /// There is no such child; nothing was stored.
    Unknown,
    /// [`STEERS_WAITING_MAX`] texts wait for it already; nothing was stored.
    Full,
}

/// One stored request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// Its id, which is also its receipt.
    pub id: RequestId,
    /// When it was made.
    pub at: Timestamp,
    /// What it is aimed at.
    pub scope: Scope,
    /// What it asks for.
    pub wish: Wish,
}
