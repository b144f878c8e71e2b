//! The store of a world: it commits groups of facts one after the other, folds them into rows as every store does, and
//! refuses or fails when the world wants it to. Like the dispatcher it holds back what waits for a commit.

use super::law::{Broken, Law};
use legwork_core::delivery::{DeliveryEvent, DeliveryState};
use legwork_core::fact::{Accepted, Append, Fact};
use legwork_core::ids::{ChildId, DelegationId};
use legwork_core::record::ChildRecord;
use legwork_core::time::Timestamp;
use legwork_engine::book::Effect;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Default)]
pub(super) struct Storage {
    next: Group,
    under_way: Option<Group>,
    /// What is durable.
    pub(super) rows: BTreeMap<DelegationId, Row>,
    /// Delegations of which it takes nothing any more.
    refused: BTreeSet<DelegationId>,
}

/// Facts and the effects that wait for them.
#[derive(Debug, Default)]
struct Group {
    appends: Vec<Append>,
    effects: Vec<Effect>,
}

/// One durable delegation.
#[derive(Debug, Clone)]
pub(super) struct Row {
    pub(super) accepted: Accepted,
    pub(super) children: Vec<ChildRecord>,
    pub(super) deliveries: Vec<DeliveryState>,
    pub(super) facts: u64,
}

/// What an ended commit leaves to do.
#[derive(Debug, Default)]
pub(super) struct Done {
    pub(super) effects: Vec<Effect>,
    pub(super) refused: Vec<DelegationId>,
}

/// What the store makes of a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Mishap {
    None,
    /// It takes nothing of this delegation, now and later.
    Refuses(DelegationId),
    /// It takes nothing this time.
    Fails,
}

impl Storage {
    pub(super) fn record(&mut self, append: Append) {
        self.next.appends.push(append);
    }

    pub(super) fn then(&mut self, effect: Effect) {
        self.next.effects.push(effect);
    }

    /// Starts a commit of what has come together, unless one is under way.
    pub(super) fn begin(&mut self) {
        if self.under_way.is_none() && !self.next.appends.is_empty() {
            self.under_way = Some(std::mem::take(&mut self.next));
        }
    }

    pub(super) fn is_idle(&self) -> bool {
        self.under_way.is_none() && self.next.appends.is_empty() && self.next.effects.is_empty()
    }

    /// The delegations of which the commit under way records something.
    pub(super) fn under_way(&self) -> Vec<DelegationId> {
        let appends = self.under_way.iter().flat_map(|group| &group.appends);
        appends.map(|append| append.delegation.clone()).collect()
    }

    /// Ends the commit under way.
    pub(super) fn end(&mut self, mishap: Mishap) -> Result<Done, Broken> {
        let Some(group) = self.under_way.take() else { return Ok(Done::default()) };
        if mishap == Mishap::Fails {
            return Ok(self.fail(group));
        }
        if let Mishap::Refuses(delegation) = mishap {
            self.refused.insert(delegation);
        }
        let mut refused = Vec::new();
        for append in group.appends {
            if !self.refused.contains(&append.delegation) {
                self.apply(append)?;
            } else if !refused.contains(&append.delegation) {
                refused.push(append.delegation);
            }
        }
        Ok(Done { effects: group.effects, refused })
    }

    /// Facts of known delegations are kept and offered again; new delegations are given up.
    fn fail(&mut self, group: Group) -> Done {
        let later = std::mem::take(&mut self.next);
        let is_new = |append: &&Append| matches!(append.facts.first(), Some(Fact::Accepted(_)));
        let new: Vec<DelegationId> =
            group.appends.iter().filter(is_new).map(|append| append.delegation.clone()).collect();
        let kept = group.appends.into_iter().chain(later.appends);
        self.next.appends = kept.filter(|append| !new.contains(&append.delegation)).collect();
        self.next.effects = group.effects.into_iter().chain(later.effects).collect();
        Done { effects: Vec::new(), refused: new }
    }

    /// Drops what waits to be recorded of a delegation, and takes out the effects that wait with it.
    pub(super) fn forget(
        &mut self,
        delegation: &DelegationId,
        mine: impl Fn(&Effect) -> bool,
    ) -> Vec<Effect> {
        self.next.appends.retain(|append| append.delegation != *delegation);
        self.next.effects.extract_if(.., |effect| mine(effect)).collect()
    }

    pub(super) fn child(&self, child: &ChildId) -> Option<&ChildRecord> {
        self.rows.values().flat_map(|row| &row.children).find(|row| row.id == *child)
    }

    fn apply(&mut self, append: Append) -> Result<(), Broken> {
        let Append { delegation, expected_seq, at, facts, .. } = append;
        if let Some(Fact::Accepted(accepted)) = facts.first() {
            self.rows.insert(delegation.clone(), Row::new(accepted));
        }
        let row = self.rows.get_mut(&delegation);
        let row = row.ok_or_else(|| refusal(format!("nobody accepted {delegation}")))?;
        Broken::unless(row.facts == expected_seq, Law::StoreTakes, || {
            format!("{delegation} has {} facts, the writer says {expected_seq}", row.facts)
        })?;
        row.facts += facts.len() as u64;
        facts.into_iter().try_for_each(|fact| row.apply(&fact, at))
    }
}

impl Row {
    fn new(accepted: &Accepted) -> Self {
        Row {
            children: accepted.children.iter().cloned().map(ChildRecord::new).collect(),
            deliveries: accepted.units.iter().map(|_| DeliveryState::Held).collect(),
            accepted: accepted.clone(),
            facts: 0,
        }
    }

    /// Folds one fact, as strictly as a store does.
    pub(super) fn apply(&mut self, fact: &Fact, at: Timestamp) -> Result<(), Broken> {
        match fact {
            Fact::Accepted(_) => Ok(()),
            Fact::Moved { child, event, .. } => {
                let row = self.children.iter_mut().find(|row| row.id == *child);
                let row = row.ok_or_else(|| refusal(format!("{child} is of another delegation")))?;
                row.apply(*event, at).map_err(|error| refusal(format!("{child}: {error}")))
            }
            // A notice is no unit: who gets it is seen in the live worlds.
            Fact::Noticed { .. } => Ok(()),
            Fact::UnitSettled { unit } => {
                let place = self.accepted.units.iter().position(|known| known.id == *unit);
                let place = place.ok_or_else(|| refusal(format!("{unit} is of another delegation")))?;
                let settled = self.is_unit_settled(place);
                Broken::unless(settled, Law::StoreTakes, || format!("{unit} has open children"))?;
                let next = self.deliveries[place].apply(DeliveryEvent::UnitSettled);
                self.deliveries[place] = next.map_err(|error| refusal(error.to_string()))?;
                Ok(())
            }
        }
    }

    pub(super) fn is_unit_settled(&self, place: usize) -> bool {
        let tasks = &self.accepted.units[place].task_indexes;
        tasks.iter().all(|task| self.children[*task].outcome().is_some())
    }
}

fn refusal(how: String) -> Broken {
    Broken { law: Law::StoreTakes, how }
}
