//! Children that do not begin in this process, because it lacks what they need, such as the key of their model. They stay queued
//! while others of their tree go on; once none does any more, the tree is left to another process.
//!
//! What a child needs is not known here; whoever hands work over says which children are withheld.

use super::{Book, Effect};
use legwork_core::ids::{ChildId, DelegationId};
use std::collections::BTreeSet;

impl Book {
    /// Wants to let go of trees of which nothing goes on here any more.
    pub(super) fn leave_trees(&mut self, effects: &mut Vec<Effect>) {
        let homes = self.withheld.iter().filter_map(|child| self.whereabouts.get(child));
        let roots: BTreeSet<DelegationId> = homes.map(|(delegation, _)| self.root_of(delegation)).collect();
        for root in roots {
            let tree = self.open_tree(&root);
            if self.parting.contains(&root) || tree.iter().any(|id| self.goes_on(id)) {
                continue;
            }
            self.parting.insert(root);
            effects.push(Effect::LetGo(tree));
        }
    }

    /// Forgets delegations that are left to another process. Those that have settled meanwhile stay, and all do when something
    /// of them goes on again: the wish was one of an earlier time then.
    pub fn part(&mut self, delegations: &[DelegationId]) -> Vec<DelegationId> {
        for id in delegations {
            let root = self.root_of(id);
            self.parting.remove(&root);
        }
        if delegations.iter().any(|id| self.goes_on(id)) {
            return Vec::new();
        }
        let mut left = delegations.to_vec();
        left.retain(|id| self.delegations.get(id).is_some_and(|delegated| !delegated.is_settled()));
        left.iter().for_each(|id| self.remove(id));
        left
    }

    /// The delegations of the tree that a child is part of which have not settled, the deepest first.
    pub fn open_tree_of(&self, child: &ChildId) -> Vec<DelegationId> {
        let Some((home, _)) = self.whereabouts.get(child) else { return Vec::new() };
        let mut tree = self.open_tree(&self.root_of(home));
        let depth = |id: &DelegationId| self.delegations.get(id).map(|known| known.accepted.lineage.depth);
        tree.sort_by_key(|id| std::cmp::Reverse(depth(id)));
        tree
    }

    /// The delegations of a tree that have not settled.
    fn open_tree(&self, root: &DelegationId) -> Vec<DelegationId> {
        let open = self.delegations.iter().filter(|(_, delegated)| !delegated.is_settled());
        let of_tree = open.filter(|(id, _)| self.root_of(id) == *root);
        of_tree.map(|(id, _)| id.clone()).collect()
    }

    /// Whether a child of it that has not settled may go on in this process.
    fn goes_on(&self, id: &DelegationId) -> bool {
        let children = self.delegations.get(id).into_iter().flat_map(|delegated| &delegated.children);
        let mut open = children.filter(|child| child.state.outcome().is_none());
        open.any(|child| !self.withheld.contains(&child.id))
    }

    /// The uppermost delegation of the tree that this process knows.
    fn root_of(&self, id: &DelegationId) -> DelegationId {
        let parent =
            self.delegations.get(id).and_then(|delegated| delegated.accepted.lineage.parent.as_ref());
        match parent.and_then(|parent| self.whereabouts.get(parent)) {
            Some((above, _)) => self.root_of(above),
            None => id.clone(),
        }
    }
}
