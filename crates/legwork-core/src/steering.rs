//! Requests that any process may put to a running child or delegation: they are rows of the store, so that any
//! terminal reaches any child.

use crate::ids::{ChildId, DelegationId, RequestId, SessionId, UnitId};
use crate::outcome::{Force, StopReason};
use crate::time::Timestamp;
use serde::{Deserialize, Serialize};

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
