//! Brings the settled units of a delegation to a caller that joins it. A claim is held until the caller's turn is stored,
//! and given back when that fails.

use legwork_core::delivery::DeliveryState;
use legwork_core::ids::{ClaimId, DelegationId};
use legwork_core::ports::{JoinError, Joined, Store, StoreError};
use legwork_core::time::Timestamp;

/// Claims every unit of a settled delegation that is ready, for `claimant`.
///
/// # Errors
/// When the delegation is unknown or the store fails; claims that were taken are then still held by this process
/// and come free with it.
pub async fn collect(
    store: &dyn Store,
    delegation: &DelegationId,
    claimant: &str,
    at: Timestamp,
    mut new_claim: impl FnMut() -> ClaimId + Send,
) -> Result<Joined, JoinError> {
    let failed = |error: StoreError| JoinError::Store(error.to_string());
    let record = store.delegation(delegation).await.map_err(failed)?;
    let record = record.ok_or_else(|| JoinError::Unknown(delegation.clone()))?;
    if !record.is_settled() {
        return Err(JoinError::Unknown(delegation.clone()));
    }
    let mut claims = Vec::new();
    for (unit, delivery) in record.accepted.units.iter().zip(&record.deliveries) {
        if matches!(delivery.state, DeliveryState::Ready { .. }) {
            let claim = store.claim(&unit.id, new_claim(), claimant, at).await.map_err(failed)?;
            claims.extend(claim);
        }
    }
    Ok(Joined { record, claims })
}
