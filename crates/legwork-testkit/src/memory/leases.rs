//! The leases of processes.

use super::state::State;
use legwork_core::ids::OwnerId;
use legwork_core::ports::StoreError;
use legwork_core::record::{Lease, OwnerRecord};
use legwork_core::time::Timestamp;
use std::time::Duration;

impl State {
    /// A process that entered and was not declared gone.
    pub(super) fn living_owner(&self, id: &OwnerId) -> Result<&OwnerRecord, StoreError> {
        let owner = self.owners.get(id).filter(|owner| !owner.gone);
        owner
            .ok_or_else(|| StoreError::Fenced(format!("{id} never entered this store, or was declared gone")))
    }

    pub(super) fn renew(
        &mut self,
        id: &OwnerId,
        period: Duration,
        renewed_at: Timestamp,
    ) -> Result<(), StoreError> {
        self.living_owner(id)?;
        let beats = self.leases.get(id).map_or(0, |lease| lease.beats) + 1;
        self.leases.insert(id.clone(), Lease { beats, period, renewed_at });
        Ok(())
    }

    pub(super) fn declare_gone(&mut self, id: &OwnerId, beats: u64) -> bool {
        let Some(owner) = self.owners.get_mut(id) else { return false };
        if self.leases.get(id).map_or(0, |lease| lease.beats) != beats {
            return false;
        }
        owner.gone = true;
        let holders = self.sessions.iter_mut().filter_map(|session| session.record.holder.as_mut());
        let owners = self.delegations.iter_mut().map(|delegation| &mut delegation.record.owner);
        holders.chain(owners).filter(|owner| owner.id == *id).for_each(|owner| owner.gone = true);
        true
    }
}
