//! Port `Inbox`: a conversation that can take completions. Asked by the courier, answered by the sessions of every
//! front door.

use super::Pending;
use crate::batch::Reach;
use crate::ids::{ClaimId, SessionId};
use crate::record::DelegationRecord;

/// Takes completions for one open session.
pub trait Inbox: Send + Sync {
    /// How it takes completions, and those of which calls: [`Reach::Push`] wakes its session with a turn,
    /// [`Reach::History`] stores a row that the next turn of the session reads and wakes nobody (MODE-6). An inbox of
    /// [`Reach::Joined`] is offered nothing.
    fn reach(&self) -> Reach;

    /// Resolves when the session is idle: no turn runs and no message of a user waits. Nothing is promised for the
    /// moment after. `false` when the session is closed and will never be idle again.
    ///
    /// Dropping the future gives the wait up.
    fn idle(&self) -> Pending<'_, bool>;

    /// Offers one claimed unit. `Accepted` means that the session acknowledges the claim in the commit of the turn
    /// that carries it, or gives the claim back itself when that commit fails; after every other answer the courier
    /// gives it back.
    ///
    /// From `Accepted` on the session is not idle until that turn has ended and its claim is acknowledged or given back. A
    /// claim that is held on while the session is idle for about a minute, or when it is closed, is taken from it.
    ///
    /// Dropping the future counts as `Busy`.
    fn offer(&self, offer: Offer) -> Pending<'_, Receipt>;
}

/// One unit on its way.
#[derive(Debug, Clone, PartialEq)]
pub struct Offer {
    /// The conversation that asked.
    pub session: SessionId,
    /// The hold on the delivery.
    pub claim: ClaimId,
    /// Which unit of the record, as an index into its units.
    pub unit: usize,
    /// The position of the task that failed, when this is the notice of an early failure and not yet the unit's results.
    pub notice: Option<usize>,
    /// The delegation.
    pub record: DelegationRecord,
}

/// A session's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Receipt {
    /// It will become a turn, or part of one.
    Accepted,
    /// Not now; offer it again at the next idle edge.
    Busy,
    /// Not this one, for a reason of its own; others may be offered before it is tried again.
    Unfit,
    /// The session is not open here.
    Gone,
}
