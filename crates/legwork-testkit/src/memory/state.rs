//! What the store holds, and who may write to it.

use legwork_core::fact::Fact;
use legwork_core::ids::{ChildId, DelegationId, OwnerId, RequestId, SessionId, UnitId};
use legwork_core::message::Message;
use legwork_core::ports::{Pause, SessionRecord, StoreError};
use legwork_core::record::{DelegationRecord, Lease, OwnerRecord, ProcessGroup};
use legwork_core::steering::RequestRecord;
use legwork_core::step::{Actor, Fence, StepRecord};
use legwork_core::time::Timestamp;
use std::collections::{BTreeMap, BTreeSet};

/// Everything.
#[derive(Default)]
pub(super) struct State {
    pub(super) owners: BTreeMap<OwnerId, OwnerRecord>,
    pub(super) leases: BTreeMap<OwnerId, Lease>,
    /// In the order they were accepted.
    pub(super) delegations: Vec<Delegation>,
    /// By number.
    pub(super) requests: BTreeMap<u64, RequestRecord>,
    pub(super) last_request: u64,
    /// Whether new children may start.
    pub(super) pause: Pause,
    /// Units by their places in the order in which they became ready.
    pub(super) ready: BTreeMap<u64, UnitId>,
    pub(super) groups: Vec<(OwnerId, Actor, ProcessGroup)>,
    /// In the order they were created.
    pub(super) sessions: Vec<Session>,
    pub(super) journals: BTreeMap<Actor, Vec<StepRecord>>,
    /// What cannot be read.
    pub(super) damaged: BTreeSet<Damage>,
    /// Whether what nobody has read stays where it is when what is above it has arrived: a bug.
    pub(super) leaves_behind: bool,
}

/// Something stored that cannot be read any more.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Damage {
    /// What a delegation was accepted with.
    Delegation(DelegationId),
    /// The ledger of a unit, and with it the whole delegation.
    Unit(UnitId),
    /// The text of a request.
    Request(RequestId),
    /// A step of somebody's journal.
    Journal(Actor),
}

/// One delegation with its facts.
pub(super) struct Delegation {
    pub(super) record: DelegationRecord,
    pub(super) facts: Vec<Fact>,
    pub(super) settled_at: Option<Timestamp>,
}

/// One session with its history.
pub(super) struct Session {
    pub(super) record: SessionRecord,
    pub(super) history: Vec<Message>,
}

impl State {
    pub(super) fn delegation(&self, id: &DelegationId) -> Option<&Delegation> {
        self.delegations.iter().find(|delegation| delegation.record.accepted.delegation == *id)
    }

    /// Whether all that is stored of a delegation can be read.
    pub(super) fn is_readable(&self, record: &DelegationRecord) -> bool {
        let mut units = record.accepted.units.iter();
        !self.damaged.contains(&Damage::Delegation(record.accepted.delegation.clone()))
            && !units.any(|unit| self.damaged.contains(&Damage::Unit(unit.id.clone())))
    }

    pub(super) fn is_damaged_request(&self, id: &RequestId) -> bool {
        self.damaged.contains(&Damage::Request(id.clone()))
    }

    pub(super) fn session(&self, id: &SessionId) -> Option<&Session> {
        self.sessions.iter().find(|session| session.record.session.id == *id)
    }

    /// The delegation of a child, and the child's place in it.
    pub(super) fn place_of(&self, child: &ChildId) -> Option<(usize, usize)> {
        self.delegations.iter().enumerate().find_map(|(at, delegation)| {
            let place = delegation.record.children.iter().position(|record| record.id == *child)?;
            Some((at, place))
        })
    }

    /// Refuses a writer that is not the current owner of what it writes (invariant 30).
    pub(super) fn pass(&self, actor: &Actor, fence: &Fence) -> Result<(), StoreError> {
        match actor {
            Actor::Child(child) => self.pass_child(child, fence).map(drop),
            Actor::Session(session) => self.pass_session(session, &fence.owner),
        }
    }

    /// The place of a child that `fence` may write for.
    pub(super) fn pass_child(&self, child: &ChildId, fence: &Fence) -> Result<(usize, usize), StoreError> {
        let place = self.place_of(child);
        let place = place.ok_or_else(|| StoreError::Conflict(format!("there is no child {child}")))?;
        let record = &self.delegations[place.0].record;
        if record.owner.id == fence.owner && record.epoch == fence.epoch {
            return self.living_owner(&fence.owner).map(|_| place);
        }
        let text = format!("{child} belongs to {} in generation {}", record.owner.id, record.epoch.0);
        Err(StoreError::Fenced(text))
    }
}
