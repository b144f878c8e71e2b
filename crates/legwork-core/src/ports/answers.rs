//! What a store answers when many rows are asked for, or all of it: the rows of the port [`Store`](super::Store) are in
//! `record`; here is how they are listed, and what is told of those that cannot be read.

use crate::batch::Reach;
use crate::delivery::DeliveryState;
use crate::ids::{ChildId, DelegationId, RequestId, SessionId, UnitId};
use crate::steering::Request;
use serde::{Deserialize, Serialize};

/// What was looked for: the rows that can be read, and the ids of those that cannot, in the same order. A row is damaged for
/// itself (K35): what depends on it is told so by name, everything else goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed<R, I> {
    /// Those that can be read.
    pub rows: Vec<R>,
    /// Those that cannot.
    pub unreadable: Vec<I>,
}

impl<R, I> Default for Listed<R, I> {
    fn default() -> Self {
        Listed { rows: Vec::new(), unreadable: Vec::new() }
    }
}

impl<R, I> Listed<R, I> {
    /// Nothing that was looked for is there.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.unreadable.is_empty()
    }
}

/// A portion of what is due to a session; what of it cannot be read with its places.
pub type Portion = Listed<Due, (u64, UnitId)>;

impl Portion {
    /// The place of the last of it: what comes next is behind. Nothing when there is nothing more.
    pub fn last_place(&self) -> Option<u64> {
        let unreadable = self.unreadable.iter().map(|(place, _)| *place);
        self.rows.iter().map(|due| due.place).chain(unreadable).max()
    }
}

/// What a process that may own work must know from time to time.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct News {
    /// Requests that nobody has taken, with their numbers, oldest first.
    pub requests: Vec<(u64, Request)>,
    /// Those of them that cannot be read, so that nobody can carry them out, with their numbers.
    pub unreadable: Vec<(u64, RequestId)>,
    /// Whether new children may start.
    pub pause: Pause,
}

/// Whether new children may start in the processes of a store (KILL-1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Pause {
    /// None starts.
    On,
    /// They may.
    #[default]
    Off,
}

/// A settled unit whose results have not arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Undelivered {
    /// Its delegation.
    pub delegation: DelegationId,
    /// The unit.
    pub unit: UnitId,
    /// The position of the task that failed, when this is the notice of an early failure and no unit.
    pub notice: Option<usize>,
    /// How the delegation's results reach their session.
    pub reach: Reach,
    /// Where the results are.
    pub state: DeliveryState,
    /// Who holds them, while claimed: see [`OwnerRecord::id_of_claimant`](crate::record::OwnerRecord::id_of_claimant).
    pub claimant: Option<String>,
}

/// A settled unit whose results have not arrived, with where it stands among them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Due {
    /// Its place. A later one became ready later.
    pub place: u64,
    /// The unit.
    pub due: Undelivered,
}

/// What `doctor` reports of the store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreHealth {
    /// Where it is.
    pub location: String,
    /// Its schema version.
    pub version: u32,
    /// What an integrity check said; empty when nothing is wrong.
    pub problems: Vec<String>,
    /// Delegations whose rows cannot be read or do not belong together, the first of them. Nobody can go on with them.
    pub broken: Vec<DelegationId>,
    /// Children that have not settled and whose journals cannot be read, the first of them. They fail when somebody goes on
    /// with them.
    pub journals: Vec<ChildId>,
    /// Requests that cannot be read, the first of them. Nobody carries them out.
    pub requests: Vec<RequestId>,
    /// Sessions whose history or journal cannot be read, the first of them. They cannot be opened.
    pub sessions: Vec<SessionId>,
    /// Rows that belong to a delegation or a session that is not there. A new one would take them over by their number.
    pub strays: u64,
    /// Delegations with a child that has not settled.
    pub open: u64,
    /// Units whose results nobody has taken.
    pub undelivered: u64,
    /// Bytes of all its files.
    pub bytes: u64,
}
