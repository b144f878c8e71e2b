//! What the world itself keeps account of: from the events that it made and the facts that it saw recorded, never from
//! the book. The laws compare the two.

use super::lanes::Lanes;
use legwork_core::batch::Reach;
use legwork_core::child::ChildState;
use legwork_core::fact::Accepted;
use legwork_core::ids::{ChildId, DelegationId};
use legwork_core::outcome::{Force, StopReason};
use legwork_core::pulse::{Phase, Pulse};
use legwork_core::record::ChildRecord;
use legwork_core::steering::Scope;
use legwork_core::time::Moment;
use legwork_engine::{AtCapacity, Options};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

#[derive(Debug)]
pub(super) struct Account {
    pub(super) options: Options,
    pub(super) delegations: BTreeMap<DelegationId, Kept>,
    whereabouts: BTreeMap<ChildId, (DelegationId, usize)>,
    /// Children that want their slot again, the first one first.
    pub(super) returning: VecDeque<ChildId>,
    pub(super) lanes: Lanes,
    pub(super) gate: Gate,
}

/// What the world has told the book about new starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Gate {
    Open,
    Paused,
    Released,
}

/// One delegation.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) accepted: Accepted,
    pub(super) children: Vec<Kid>,
    /// How many facts were recorded.
    pub(super) facts: u64,
    /// Which units were recorded as settled.
    pub(super) settled_units: Vec<bool>,
    /// Whether it was told that all have settled.
    pub(super) told: bool,
    /// Whether the store refused it.
    pub(super) withdrawn: bool,
}

/// One child.
#[derive(Debug)]
pub(super) struct Kid {
    /// The recorded facts, folded.
    pub(super) row: ChildRecord,
    /// What the book said of it after the last step.
    pub(super) live: ChildState,
    pub(super) runner: Runs,
    /// Whether its runner holds a slot, or one is kept for the runner that is about to be.
    pub(super) slot: bool,
    pub(super) pulse: Pulse,
    pub(super) moved: Moment,
    /// Whether it was warned since then.
    pub(super) warned: bool,
    /// When its grace ends, if it was asked to end.
    pub(super) abort_at: Option<Moment>,
    /// The reason of the first stop.
    pub(super) cause: Option<StopReason>,
    /// Whether its settling was told.
    pub(super) told: bool,
}

/// Where the runner of a child is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Runs {
    /// There was none.
    NotYet,
    /// Its start is recorded or about to be.
    Born,
    /// It works.
    Live,
    /// It has ended.
    Gone,
}

impl Account {
    pub(super) fn new(options: Options) -> Self {
        Account {
            options,
            delegations: BTreeMap::new(),
            whereabouts: BTreeMap::new(),
            returning: VecDeque::new(),
            lanes: Lanes::default(),
            gate: Gate::Open,
        }
    }

    /// Everything that is not withdrawn.
    pub(super) fn present(&self) -> impl Iterator<Item = &Kept> {
        self.delegations.values().filter(|kept| !kept.withdrawn)
    }

    pub(super) fn kid(&self, child: &ChildId) -> Option<&Kid> {
        let (delegation, index) = self.whereabouts.get(child)?;
        self.delegations.get(delegation)?.children.get(*index)
    }

    pub(super) fn kid_mut(&mut self, child: &ChildId) -> Option<&mut Kid> {
        let (delegation, index) = self.whereabouts.get(child)?;
        self.delegations.get_mut(delegation)?.children.get_mut(*index)
    }

    pub(super) fn kept_of(&self, child: &ChildId) -> Option<(&Kept, usize)> {
        let (delegation, index) = self.whereabouts.get(child)?;
        Some((self.delegations.get(delegation)?, *index))
    }

    /// Whether the book may still be asked about the child: it is not withdrawn or forgotten, and has not settled.
    pub(super) fn is_open(&self, child: &ChildId) -> bool {
        self.kept_of(child).is_some_and(|(kept, index)| !kept.withdrawn && kept.children[index].is_open())
    }

    /// How many runners hold a slot; those of withdrawn delegations do until they are gone.
    pub(super) fn slots(&self) -> usize {
        self.delegations.values().flat_map(|kept| &kept.children).filter(|kid| kid.slot).count()
    }

    pub(super) fn enter(&mut self, accepted: &Accepted, now: Moment) {
        for (index, child) in accepted.children.iter().enumerate() {
            self.whereabouts.insert(child.clone(), (accepted.delegation.clone(), index));
            self.lanes.join(&accepted.lineage.session, child.clone());
        }
        let kept = Kept {
            children: accepted.children.iter().map(|child| Kid::new(child, now)).collect(),
            settled_units: vec![false; accepted.units.len()],
            accepted: accepted.clone(),
            facts: 0,
            told: false,
            withdrawn: false,
        };
        self.delegations.insert(accepted.delegation.clone(), kept);
    }

    pub(super) fn withdraw(&mut self, delegation: &DelegationId) {
        let Some(kept) = self.delegations.get_mut(delegation) else { return };
        kept.withdrawn = true;
        for kid in &kept.children {
            self.lanes.leave(&kept.accepted.lineage.session, &kid.row.id);
        }
        let gone: Vec<&ChildId> = kept.children.iter().map(|kid| &kid.row.id).collect();
        self.returning.retain(|child| !gone.contains(&child));
    }

    pub(super) fn forget(&mut self, delegation: &DelegationId) {
        for child in self.delegations.remove(delegation).into_iter().flat_map(|kept| kept.children) {
            self.whereabouts.remove(&child.row.id);
        }
    }

    /// The open children that `scope` names itself.
    pub(super) fn in_scope(&self, scope: &Scope) -> Vec<ChildId> {
        let mut found = Vec::new();
        for kept in self.present() {
            for (index, kid) in kept.children.iter().enumerate().filter(|(_, kid)| kid.is_open()) {
                let hit = match scope {
                    Scope::Delegation(id) => kept.accepted.delegation == *id,
                    Scope::Unit(id) => kept
                        .accepted
                        .units
                        .iter()
                        .any(|unit| unit.id == *id && unit.task_indexes.contains(&index)),
                    Scope::Child(id) => kid.row.id == *id,
                    Scope::Session(id) => kept.accepted.lineage.session == *id,
                    Scope::All => true,
                };
                if hit {
                    found.push(kid.row.id.clone());
                }
            }
        }
        found
    }

    /// The open children that `child` made, and those that they made.
    pub(super) fn beneath(&self, child: &ChildId) -> Vec<ChildId> {
        let made = self.present().filter(|kept| kept.accepted.lineage.parent.as_ref() == Some(child));
        let mut found = Vec::new();
        for kid in made.flat_map(|kept| &kept.children).filter(|kid| kid.is_open()) {
            found.push(kid.row.id.clone());
            found.extend(self.beneath(&kid.row.id));
        }
        found
    }

    pub(super) fn patience(&self, kid: &Kid) -> Duration {
        match kid.pulse.phase {
            Phase::Tool(_) => self.options.patience.tool,
            Phase::Starting | Phase::Model | Phase::Children => self.options.patience.idle,
        }
    }

    /// When a running child is ended for want of progress, and why.
    pub(super) fn gives_up(&self, kid: &Kid) -> (Moment, StopReason) {
        let stall = (kid.moved.after(self.patience(kid)), StopReason::Stalled);
        let timeout = self.inactivity(kid).map(|limit| (kid.moved.after(limit), StopReason::TimedOut));
        timeout.filter(|timeout| timeout.0 <= stall.0).unwrap_or(stall)
    }

    /// When a running child is warned, if it is.
    pub(super) fn warns(&self, kid: &Kid) -> Option<Moment> {
        let limit = self.inactivity(kid).filter(|_| !kid.warned)?;
        Some(kid.moved.after(limit.mul_f64(0.8)))
    }

    /// The inactivity limit does not hold while the model is asked.
    fn inactivity(&self, kid: &Kid) -> Option<Duration> {
        self.options.patience.inactivity.filter(|_| kid.pulse.phase != Phase::Model)
    }

    pub(super) fn grace(&self, reason: StopReason) -> Duration {
        if reason == StopReason::Stalled { self.options.patience.grace } else { self.options.stop_grace }
    }

    pub(super) fn queue_max(&self) -> usize {
        match self.options.at_capacity {
            AtCapacity::Queue => self.options.queue_max,
            AtCapacity::Reject | AtCapacity::Sync => 0,
        }
    }

    /// How many children may hold a slot.
    pub(super) fn slots_max(&self) -> usize {
        match self.options.at_capacity {
            AtCapacity::Queue | AtCapacity::Reject => self.options.children_max,
            AtCapacity::Sync => usize::MAX,
        }
    }

    /// Calls in the background of which some child has not settled.
    pub(super) fn calls(&self) -> usize {
        let open = self.present().filter(|kept| kept.accepted.reach != Reach::Joined && !kept.is_settled());
        open.count()
    }
}

impl Kid {
    fn new(id: &ChildId, now: Moment) -> Self {
        Kid {
            row: ChildRecord::new(id.clone()),
            live: ChildState::NEW,
            runner: Runs::NotYet,
            slot: false,
            pulse: Pulse::default(),
            moved: now,
            warned: false,
            abort_at: None,
            cause: None,
            told: false,
        }
    }

    pub(super) fn is_open(&self) -> bool {
        self.row.outcome().is_none()
    }

    pub(super) fn has_runner(&self) -> bool {
        matches!(self.runner, Runs::Born | Runs::Live)
    }

    pub(super) fn is_aborted(&self) -> bool {
        matches!(self.row.state, ChildState::Stopping { force: Force::Abort, .. })
    }

    pub(super) fn is_running(&self) -> bool {
        matches!(self.row.state, ChildState::Running { .. })
    }
}
