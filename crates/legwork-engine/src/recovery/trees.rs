//! Open delegations in trees: each with the child that made it, and with what its own children made.

use super::toll::is_suspect;
use super::{Orphans, RecoveryError};
use legwork_core::ids::{ChildId, DelegationId};
use legwork_core::ports::{Filter, Listed, Store};
use legwork_core::record::{ChildRecord, DelegationRecord, OwnerRecord};
use std::collections::{BTreeMap, HashMap, HashSet};

/// Open delegations that hang together, parents first.
pub(super) struct Tree {
    records: Vec<DelegationRecord>,
}

/// What is looked at.
#[derive(Default)]
pub(super) struct Grove {
    /// What can be read of it.
    pub(super) trees: Vec<Tree>,
    /// Delegations that cannot. What they delegated stands alone, like what a parent that has ended had delegated.
    pub(super) unreadable: Vec<DelegationId>,
}

/// The trees of the open delegations that are looked at.
///
/// # Errors
/// When the store fails, or the one delegation that is meant cannot be read.
pub(super) async fn of(store: &dyn Store, orphans: &Orphans) -> Result<Grove, RecoveryError> {
    match orphans {
        Orphans::All => Ok(grove(store.delegations(Filter::Open).await?)),
        Orphans::OfSession(session) => Ok(grove(store.delegations(Filter::OpenOf(session.clone())).await?)),
        Orphans::Of(id) => {
            let Some(record) = store.delegation(id).await? else { return Ok(Grove::default()) };
            let session = record.accepted.lineage.session;
            let mut trees = grown(store.delegations(Filter::OpenOf(session)).await?.rows);
            trees.retain(|tree| tree.ids().any(|member| member == id));
            // What else of the session cannot be read was not asked for.
            Ok(Grove { trees, unreadable: Vec::new() })
        }
    }
}

fn grove(found: Listed<DelegationRecord, DelegationId>) -> Grove {
    Grove { trees: grown(found.rows), unreadable: found.unreadable }
}

/// Sorts delegations, which come newest first, into trees. A child exists before what it delegates.
fn grown(newest_first: Vec<DelegationRecord>) -> Vec<Tree> {
    let mut root_of: HashMap<ChildId, usize> = HashMap::new();
    let mut trees: BTreeMap<usize, Tree> = BTreeMap::new();
    for (place, record) in newest_first.into_iter().rev().enumerate() {
        let parent = record.accepted.lineage.parent.as_ref();
        let root = parent.and_then(|parent| root_of.get(parent)).copied().unwrap_or(place);
        root_of.extend(record.accepted.children.iter().map(|child| (child.clone(), root)));
        trees.entry(root).or_insert_with(|| Tree { records: Vec::new() }).records.push(record);
    }
    trees.into_values().collect()
}

impl Tree {
    pub(super) fn records(&self) -> &[DelegationRecord] {
        &self.records
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = &DelegationId> {
        self.records.iter().map(|record| &record.accepted.delegation)
    }

    /// When it is its turn to be taken up: what is to run alone before what may be the death of it, and of that what has seen
    /// the fewest deaths.
    pub(super) fn turn(&self) -> (bool, u32) {
        let children = self.records.iter().flat_map(|record| &record.children);
        let open = children.filter(|child| child.outcome().is_none()).map(ChildRecord::deaths);
        let suspects = open.filter(|deaths| is_suspect(*deaths)).map(|deaths| deaths.in_all);
        suspects.min().map_or((true, 0), |fewest| (false, fewest))
    }

    /// What of it is not among `ids`, if anything.
    pub(super) fn without(mut self, ids: &HashSet<DelegationId>) -> Option<Tree> {
        self.records.retain(|record| !ids.contains(&record.accepted.delegation));
        (!self.records.is_empty()).then_some(self)
    }

    /// The delegation that a child of it belongs to.
    pub(super) fn home_of(&self, child: &ChildId) -> Option<&DelegationId> {
        let home = self.records.iter().find(|record| record.accepted.children.contains(child));
        home.map(|record| &record.accepted.delegation)
    }

    /// These children, and everything that was sent out below them.
    pub(super) fn with_below(&self, children: &[ChildId]) -> HashSet<ChildId> {
        let mut reached: HashSet<ChildId> = children.iter().cloned().collect();
        for record in &self.records {
            let parent = record.accepted.lineage.parent.as_ref();
            if parent.is_some_and(|parent| reached.contains(parent)) {
                reached.extend(record.accepted.children.iter().cloned());
            }
        }
        reached
    }

    /// Each of its owners once.
    pub(super) fn owners(&self) -> Vec<&OwnerRecord> {
        let mut owners: Vec<&OwnerRecord> = Vec::new();
        for record in &self.records {
            if !owners.iter().any(|known| known.id == record.owner.id) {
                owners.push(&record.owner);
            }
        }
        owners
    }

    pub(super) fn of_owner(&self, owner: &OwnerRecord) -> Vec<DelegationId> {
        let theirs = self.records.iter().filter(|record| record.owner.id == owner.id);
        theirs.map(|record| record.accepted.delegation.clone()).collect()
    }
}
