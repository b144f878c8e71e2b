//! The columns of a unit's delivery, and the lines of its ledger.

use crate::encoding::{from_json, small, to_json};
use crate::failure::Failure;
use legwork_core::delivery::{DeliveryState, LedgerLine};
use legwork_core::ids::ClaimId;
use legwork_core::record::DeliveryRecord;
use legwork_core::time::Timestamp;
use rusqlite::Row;

/// A delivery state taken apart.
pub(crate) struct Columns {
    pub(crate) state: &'static str,
    pub(crate) tries: i64,
    pub(crate) claim: Option<String>,
    pub(crate) parked: Option<String>,
}

/// Takes a state apart.
pub(crate) fn columns(state: &DeliveryState) -> Result<Columns, Failure> {
    let (tries, claim, parked) = match state {
        DeliveryState::Held | DeliveryState::Delivered | DeliveryState::Dismissed => (0, None, None),
        DeliveryState::Ready { tries } => (*tries, None, None),
        DeliveryState::Claimed { claim, tries } => (*tries, Some(claim.as_str().to_owned()), None),
        DeliveryState::Parked(reason) => (0, None, Some(to_json(reason)?)),
    };
    Ok(Columns { state: state.as_str(), tries: i64::from(tries), claim, parked })
}

/// Puts a state together from the columns state, tries, claim and parked, which begin at `first`.
pub(crate) fn read(row: &Row<'_>, first: usize) -> Result<DeliveryState, Failure> {
    let word: &str = row.get_ref(first)?.as_str().map_err(|error| Failure::corrupt(error.to_string()))?;
    let tries = small(row.get(first + 1)?);
    let claim: Option<String> = row.get(first + 2)?;
    let parked: Option<String> = row.get(first + 3)?;
    match (word, claim, parked) {
        ("held", None, None) => Ok(DeliveryState::Held),
        ("ready", None, None) => Ok(DeliveryState::Ready { tries }),
        ("claimed", Some(claim), None) => {
            Ok(DeliveryState::Claimed { claim: ClaimId::from_stored(claim), tries })
        }
        ("parked", None, Some(reason)) => Ok(DeliveryState::Parked(from_json(&reason)?)),
        ("delivered", None, None) => Ok(DeliveryState::Delivered),
        ("dismissed", None, None) => Ok(DeliveryState::Dismissed),
        (word, _, _) => {
            Err(Failure::corrupt(format!("a delivery is stored as {word} with columns that do not fit")))
        }
    }
}

/// A move on its way into the ledger.
pub(crate) struct Entry<'a> {
    pub(crate) at: Timestamp,
    pub(crate) claimant: Option<&'a str>,
    pub(crate) reason: &'a str,
}

impl Entry<'_> {
    /// The line for a move to `state`, ready to be appended.
    pub(crate) fn line(&self, state: &DeliveryState) -> Result<String, Failure> {
        let line = LedgerLine {
            at: self.at,
            state: state.as_str().to_owned(),
            claimant: self.claimant.map(str::to_owned),
            reason: Some(self.reason.to_owned()),
        };
        Ok(to_json(&line)? + "\n")
    }
}

/// The whole ledger of a unit.
pub(crate) fn read_ledger(text: &str) -> Result<Vec<LedgerLine>, Failure> {
    text.lines().map(from_json).collect()
}

/// A delivery from the columns state, tries, claim, parked and ledger.
pub(crate) fn record(row: &Row<'_>) -> Result<DeliveryRecord, Failure> {
    let ledger: String = row.get(4)?;
    Ok(DeliveryRecord { state: read(row, 0)?, ledger: read_ledger(&ledger)? })
}
