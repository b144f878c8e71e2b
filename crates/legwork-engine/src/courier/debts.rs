//! Claims that are to be given back because the session did not take what was claimed for it. What the store does not
//! take back is owed until it does.

use crate::wiring::Wiring;
use legwork_core::ids::ClaimId;
use legwork_core::ports::StoreError;

/// Why a claim is given back that was owed.
pub(super) const BROKE_OFF: &str = "the offer broke off before the session had stored a turn";

/// What one courier owes to the store.
pub(super) struct Debts {
    wiring: Wiring,
    /// Claims to give back: the store failed when they were made or ended.
    owed: Vec<ClaimId>,
}

impl Debts {
    pub(super) fn new(wiring: Wiring) -> Self {
        Debts { wiring, owed: Vec::new() }
    }

    /// The claim is to be given back at the next [`pay`](Debts::pay). It may be none that the store knows.
    pub(super) fn owe(&mut self, claim: ClaimId) {
        self.owed.push(claim);
    }

    /// Gives back what is owed to the store. What follows a failure stays owed.
    pub(super) async fn pay(&mut self) -> Result<(), StoreError> {
        while let Some(claim) = self.owed.last().cloned() {
            self.release(&claim, BROKE_OFF).await?;
            self.owed.pop();
        }
        Ok(())
    }

    /// Ends a claim without delivery. `false` when it was no current claim: never made, or ended by its taker.
    pub(super) async fn release(&self, claim: &ClaimId, reason: &str) -> Result<bool, StoreError> {
        let now = self.wiring.clock.now().wall;
        match self.wiring.store.release(vec![claim.clone()], now, reason).await {
            Ok(()) => Ok(true),
            Err(StoreError::Conflict(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }
}
