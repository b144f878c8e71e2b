//! Leaves trees to other processes: their owner becomes nobody, so that whoever looks finds the work of a process that is gone.
//!
//! It does not decide which trees those are; the book does.

use crate::recovery::let_go;
use legwork_core::delivery::DeliveryState;
use legwork_core::ids::{ClaimId, DelegationId, OwnerId};
use legwork_core::ports::{Filter, Store, StoreError, Takeover};
use legwork_core::record::OwnerRecord;
use legwork_core::time::Timestamp;

/// Why claims are given back.
const LEFT: &str = "whoever had taken the results goes on in another process";

/// A tree that is to be left.
#[derive(Clone)]
pub(super) struct Leaving {
    /// Owns it from then on; nobody is behind it.
    pub(super) nobody: OwnerRecord,
    pub(super) delegations: Vec<DelegationId>,
}

/// Leaves a tree. What had been taken here for a child of it is given back before: nobody else could take it as long as this
/// process lives, and the child would read it without an end of its delivery. Where this breaks off it may be done again.
///
/// # Errors
/// [`StoreError`]; some of it may be done then.
pub(super) async fn leave(
    store: &dyn Store,
    owner: &OwnerId,
    leaving: &Leaving,
    at: Timestamp,
) -> Result<(), StoreError> {
    let Leaving { nobody, delegations } = leaving;
    store.enter(nobody.clone(), at).await?;
    for claim in taken_below(store, owner, delegations).await? {
        match store.release(vec![claim], at, LEFT).await {
            // It has ended by other means.
            Ok(()) | Err(StoreError::Conflict(_)) => {}
            Err(error) => return Err(error),
        }
    }
    // Whoever goes on with it takes no end of it for the death of this process, which may have died by then.
    let mut pulses = Vec::new();
    for delegation in delegations {
        match store.delegation(delegation).await {
            Ok(record) => pulses.extend(record.iter().flat_map(let_go)),
            Err(error @ StoreError::Corrupt(_)) => {
                tracing::warn!(%delegation, %error, "what is left to others cannot be read");
            }
            Err(error) => return Err(error),
        }
    }
    let takeover =
        Takeover { from: owner.clone(), to: nobody.id.clone(), delegations: delegations.clone(), at, pulses };
    store.take_over(takeover).await?;
    store.declare_gone(&nobody.id, 0, at).await?;
    Ok(())
}

/// The claims of this process on what children of these delegations have sent out. Nothing of these runs here any more.
async fn taken_below(
    store: &dyn Store,
    owner: &OwnerId,
    delegations: &[DelegationId],
) -> Result<Vec<ClaimId>, StoreError> {
    let mut claims = Vec::new();
    for delegation in delegations {
        // What cannot be read cannot have been taken: whoever takes it reads it first.
        let below = store.delegations(Filter::Below(delegation.clone())).await?.rows;
        for delivery in below.iter().flat_map(|called| &called.deliveries) {
            let is_mine = delivery.claimant().map(OwnerRecord::id_of_claimant).as_ref() == Some(owner);
            if let DeliveryState::Claimed { claim, .. } = &delivery.state
                && is_mine
            {
                claims.push(claim.clone());
            }
        }
    }
    Ok(claims)
}
