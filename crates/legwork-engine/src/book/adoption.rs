//! How the book takes in delegations of a dead process: it knows them from then on as if it had accepted them, under the
//! epoch of the take-over. Children that go on wait in the queue like all others; the limits of the queue do not bind them,
//! since they were accepted before.

use super::entry::Delegated;
use super::{Adopted, Book, Effect, Loss};
use crate::recovery::is_suspect;
use legwork_core::child::{AfterLoss, ChildEvent, ChildState};
use legwork_core::ids::{ChildId, DelegationId};
use legwork_core::outcome::{Force, StopReason};
use legwork_core::ports::StopNotice;
use legwork_core::time::Now;

impl Book {
    /// What is known already is left as it is.
    pub(super) fn adopt(&mut self, adopted: Vec<Adopted>, now: Now) -> Vec<Effect> {
        let new = |one: &Adopted| !self.delegations.contains_key(&one.record.accepted.delegation);
        let adopted: Vec<Adopted> = adopted.into_iter().filter(new).collect();
        adopted.iter().for_each(|one| self.enter(one, now));
        let ids: Vec<DelegationId> =
            adopted.iter().map(|one| one.record.accepted.delegation.clone()).collect();
        let mut effects: Vec<Effect> = adopted.into_iter().flat_map(|one| self.lose(one, now)).collect();
        for id in ids {
            effects.extend(self.stop_orphan(&id, now));
        }
        effects
    }

    /// The children stand where their process left them.
    fn enter(&mut self, adopted: &Adopted, now: Now) {
        let delegated = Delegated::adopted(&adopted.record, now);
        let accepted = &delegated.accepted;
        for (index, child) in accepted.children.iter().enumerate() {
            self.whereabouts.insert(child.clone(), (accepted.delegation.clone(), index));
        }
        if let Some(parent) = &accepted.lineage.parent {
            self.offspring.entry(parent.clone()).or_default().push(accepted.delegation.clone());
        }
        // The slots that they held were those of the dead process; each is given back by the move that follows.
        self.slots_used += delegated.children.iter().filter(|child| child.state.holds_slot()).count();
        self.delegations.insert(accepted.delegation.clone(), delegated);
    }

    /// Every unsettled child has lost its owner.
    fn lose(&mut self, adopted: Adopted, now: Now) -> Vec<Effect> {
        let Adopted { record, mut losses, withheld } = adopted;
        let mut effects = Vec::new();
        for (index, child) in record.children.iter().enumerate() {
            if child.outcome().is_some() {
                continue;
            }
            let none = Loss { after: AfterLoss::Requeue, stopped: None, report: None };
            let Loss { after, stopped, report } = losses.remove(&index).unwrap_or(none);
            if let Some(reason) = stopped {
                let event = ChildEvent::StopAsked { reason, force: Force::Abort };
                effects.extend(self.record(&child.id, event, None, now).unwrap_or_default());
            }
            effects.extend(
                self.record(&child.id, ChildEvent::OwnerLost(after), report, now).unwrap_or_default(),
            );
            if !matches!(self.standing(&child.id), Some(ChildState::Queued { .. })) {
                continue;
            }
            let session = &record.accepted.lineage.session;
            if withheld.contains(&index) {
                self.withheld.insert(child.id.clone());
            } else if is_suspect(child.deaths()) {
                self.suspects.push(child.deaths().in_all, child.id.clone());
            } else {
                let queue = match self.capacity.heirs_max() {
                    Some(_) => &mut self.heirs,
                    None => &mut self.queue,
                };
                queue.push(session, child.id.clone());
            }
        }
        effects
    }

    /// What a child delegated that is not there any more ends with it.
    fn stop_orphan(&mut self, id: &DelegationId, now: Now) -> Vec<Effect> {
        let Some(delegated) = self.delegations.get(id) else { return Vec::new() };
        let Some(parent) = &delegated.accepted.lineage.parent else { return Vec::new() };
        if self.standing(parent).is_some_and(|state| state.outcome().is_none()) {
            return Vec::new();
        }
        let open = delegated.children.iter().filter(|child| child.state.outcome().is_none());
        let open: Vec<ChildId> = open.map(|child| child.id.clone()).collect();
        let notice = StopNotice { reason: StopReason::ParentStopped, force: Force::Ask };
        open.iter().flat_map(|child| self.stop_tree(child, notice, now)).collect()
    }
}
