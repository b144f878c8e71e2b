//! Taking settled results, and the one rule by which they are taken back from whoever took them before: from a process
//! that is proved dead, and from nobody else (invariants 6 and 30).
//!
//! It stores no turn: whoever takes a claim here acknowledges it in the commit that carries the results.

use crate::delivery::DeliveryState;
use crate::ids::{ChildId, ClaimId, OwnerId, UnitId};
use crate::ports::{Facts, Liveness, Processes, StoreError};
use crate::record::{DelegationRecord, OwnerRecord};
use crate::steering::RequestRecord;
use crate::time::Timestamp;

/// How often results are looked at that somebody else moves meanwhile.
const LOOKS_MAX: usize = 8;
/// What the ledger says of a claim whose taker died.
const TAKER_DIED: &str = "the process that took the results died before they had arrived";

/// Somebody who takes results.
#[derive(Clone, Copy)]
pub struct Taker<'a> {
    /// Where the results are.
    pub facts: &'a dyn Facts,
    /// Tells who lives.
    pub processes: &'a dyn Processes,
    /// The process that takes them.
    pub owner: &'a OwnerId,
    /// When.
    pub at: Timestamp,
}

/// In whose hands claimed results are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hand {
    /// Of this process.
    Mine,
    /// Of a process that is proved dead.
    Dead,
    /// Of a process that lives, or of which it cannot be told.
    Others,
}

/// One unit of a delegation as it was read.
#[derive(Debug, Clone, Copy)]
pub struct UnitAt<'a> {
    /// The delegation.
    pub record: &'a DelegationRecord,
    /// Which of its units.
    pub place: usize,
}

impl Taker<'_> {
    /// In whose hands results are that were claimed under the signature `claimant`.
    ///
    /// # Errors
    /// [`StoreError`] when the store cannot be read.
    pub async fn hand(&self, claimant: Option<&str>) -> Result<Hand, StoreError> {
        let taker = OwnerRecord::id_of_claimant(claimant.unwrap_or_default());
        if taker == *self.owner {
            return Ok(Hand::Mine);
        }
        let taker = self.facts.owner(&taker).await?;
        let is_dead = |taker: &OwnerRecord| taker.liveness(self.processes) == Liveness::Dead;
        Ok(if taker.as_ref().is_some_and(is_dead) { Hand::Dead } else { Hand::Others })
    }

    /// Ends a claim whose taker is proved dead. `false` when it is not, or somebody else was faster.
    ///
    /// # Errors
    /// [`StoreError`]; the claim stands then.
    pub async fn free(&self, claim: &ClaimId, claimant: Option<&str>) -> Result<bool, StoreError> {
        match self.hand(claimant).await? {
            Hand::Dead => {}
            Hand::Mine | Hand::Others => return Ok(false),
        }
        match self.facts.release(vec![claim.clone()], self.at, TAKER_DIED).await {
            Ok(()) => Ok(true),
            // The taker had delivered them before it died, or somebody else was faster.
            Err(StoreError::Conflict(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Whether the unit can be claimed, after what stood in the way and is nobody's any more was taken away.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn make_ready(
        &self,
        unit: &UnitId,
        state: &DeliveryState,
        claimant: Option<&str>,
    ) -> Result<bool, StoreError> {
        match state {
            DeliveryState::Ready { .. } => Ok(true),
            DeliveryState::Parked(_) => self.facts.unpark(unit, self.at).await,
            DeliveryState::Claimed { claim, .. } => self.free(claim, claimant).await,
            DeliveryState::Held | DeliveryState::Delivered | DeliveryState::Dismissed => Ok(false),
        }
    }

    /// The claims of everything in `record` that is carried to its end by the caller, who alone carries results of it in
    /// this process: what this process has claimed already is taken up again, and what a dead one had claimed is claimed
    /// anew under `signature`.
    ///
    /// # Errors
    /// [`StoreError`]; claims that were made all the same stay with this process and come free with it.
    pub async fn take_all(
        &self,
        record: &DelegationRecord,
        signature: &str,
        mut new_claim: impl FnMut() -> ClaimId,
    ) -> Result<Vec<ClaimId>, StoreError> {
        let mut claims = Vec::new();
        for place in 0..record.accepted.units.len() {
            claims.extend(self.take_unit(UnitAt { record, place }, signature, &mut new_claim).await?);
        }
        Ok(claims)
    }

    /// As [`Taker::take_all`], for the unit at this place. Results that somebody else moves between the look and the claim are
    /// looked at again: whoever gives them back at that moment must not have them pass for delivered.
    ///
    /// # Errors
    /// [`StoreError`]; a claim that was made all the same stays with this process and comes free with it. A conflict when they
    /// were moved [`LOOKS_MAX`] times in a row.
    pub async fn take_unit(
        &self,
        UnitAt { record, place }: UnitAt<'_>,
        signature: &str,
        new_claim: impl FnOnce() -> ClaimId,
    ) -> Result<Option<ClaimId>, StoreError> {
        let unit = &record.accepted.units[place].id;
        let mut delivery = record.deliveries[place].clone();
        let mut new_claim = Some(new_claim);
        let mut claim = None;
        for _ in 0..LOOKS_MAX {
            let claimant = delivery.claimant();
            if let DeliveryState::Claimed { claim, .. } = &delivery.state
                && self.hand(claimant).await? == Hand::Mine
            {
                return Ok(Some(claim.clone()));
            }
            if self.make_ready(unit, &delivery.state, claimant).await? {
                claim = claim.or_else(|| new_claim.take().map(|new_claim| new_claim()));
                let fresh = claim.clone().expect("the first look that wants a claim makes it");
                if let Some(made) = self.facts.claim(unit, fresh, signature, self.at).await? {
                    return Ok(Some(made));
                }
            }
            let now = self.facts.delegation(&record.accepted.delegation).await?;
            let Some(now) = now.and_then(|now| now.deliveries.get(place).cloned()) else { return Ok(None) };
            if now.state == delivery.state {
                return Ok(None);
            }
            delivery = now;
        }
        Err(StoreError::Conflict(format!(
            "the results of {unit} were moved {LOOKS_MAX} times while they were taken"
        )))
    }
}

/// What was said to these children too late for them to read, child by child. Results without it are still whole, so a child
/// whose texts cannot be read is only told to `unreadable`.
pub async fn missed_texts(
    facts: &dyn Facts,
    children: &[ChildId],
    unreadable: impl Fn(&ChildId, StoreError),
) -> Vec<(ChildId, String)> {
    let mut missed = Vec::new();
    for child in children {
        match facts.steers(child).await {
            Ok(listed) => {
                let texts = listed.rows.into_iter().filter_map(RequestRecord::missed);
                missed.extend(texts.map(|text| (child.clone(), text)));
                for request in listed.unreadable {
                    unreadable(child, StoreError::Corrupt(format!("{request}, which was said to it")));
                }
            }
            Err(error) => unreadable(child, error),
        }
    }
    missed
}
