//! Results on their way into a session: the message that they become, and, for a session that cannot be woken, the units
//! that wait when it is opened. Those are taken one by one, in the order in which they became ready.
//!
//! It stores no turn. Whoever takes a claim acknowledges it in the commit of the turn that carries it, or gives it back.

use super::completion::{self, Arrival, Completion};
use super::setup::SessionSetup;
use crate::journal::wall_clock;
use legwork_core::delivery::DeliveryState;
use legwork_core::ids::{ChildId, ClaimId, SessionId, UnitId};
use legwork_core::ports::{Facts, StoreError, Undelivered};
use legwork_core::record::{DelegationRecord, OwnerRecord};
use legwork_core::steering::{Fate, Wish};

/// Why a claim of an earlier holder of the session is ended.
const OWNER_DIED: &str = "the process that took the results died before its turn was stored";
/// Why a claim is given back.
const NOT_STORED: &str = "the turn that was to carry it could not be stored";

/// A unit that is claimed for the session.
pub(crate) struct Taken {
    pub(crate) claim: ClaimId,
    pub(crate) record: DelegationRecord,
    /// Which of the delegation's units it is.
    pub(crate) unit: usize,
}

/// The units that wait for a session which this process holds. Each is looked at once.
#[derive(Default)]
pub(crate) struct Waiting {
    seen: Vec<UnitId>,
}

impl Waiting {
    /// Claims the next unit. Results that a child of the session waits for are not its own and stay.
    ///
    /// # Errors
    /// [`StoreError`]; a claim that was made all the same comes free with this process.
    pub(crate) async fn next(
        &mut self,
        setup: &SessionSetup,
        session: &SessionId,
    ) -> Result<Option<Taken>, StoreError> {
        loop {
            let due = setup.store.undelivered(session).await?;
            let Some(next) = due.into_iter().find(|due| !self.seen.contains(&due.unit)) else {
                return Ok(None);
            };
            self.seen.push(next.unit.clone());
            if let Some(taken) = take(setup, &next).await? {
                return Ok(Some(taken));
            }
        }
    }
}

async fn take(setup: &SessionSetup, due: &Undelivered) -> Result<Option<Taken>, StoreError> {
    let Some(record) = setup.store.delegation(&due.delegation).await? else { return Ok(None) };
    let unit = record.accepted.units.iter().position(|unit| unit.id == due.unit);
    let Some(unit) = unit.filter(|_| record.accepted.lineage.parent.is_none()) else { return Ok(None) };
    if !make_ready(setup, due).await? {
        return Ok(None);
    }
    let bits = getrandom::u64().map_err(|error| StoreError::Io(format!("no random bits: {error}")))?;
    let myself = setup.store.owner(&setup.fence.owner).await?;
    let claimant = myself.map_or_else(|| setup.fence.owner.to_string(), |myself| myself.claimant());
    let claim = setup.store.claim(&due.unit, ClaimId::from_bits(bits), &claimant, wall_clock()).await?;
    Ok(claim.map(|claim| Taken { claim, record, unit }))
}

/// Whether the unit can be claimed, after what stood in the way and is nobody's any more was taken away. The session is open
/// here and nowhere else, so whoever else took its results for it is dead.
async fn make_ready(setup: &SessionSetup, due: &Undelivered) -> Result<bool, StoreError> {
    match &due.state {
        DeliveryState::Ready { .. } => Ok(true),
        DeliveryState::Parked(_) => setup.store.unpark(&due.unit, wall_clock()).await,
        DeliveryState::Claimed { claim, .. } => {
            let taker = OwnerRecord::id_of_claimant(due.claimant.as_deref().unwrap_or_default());
            if taker == setup.fence.owner {
                return Ok(false);
            }
            match setup.store.release(vec![claim.clone()], wall_clock(), OWNER_DIED).await {
                Ok(()) => Ok(true),
                Err(StoreError::Conflict(_)) => Ok(false),
                Err(error) => Err(error),
            }
        }
        DeliveryState::Held | DeliveryState::Delivered | DeliveryState::Dismissed => Ok(false),
    }
}

/// Gives a claim back whose turn could not be stored. Where that fails too it comes free with this process.
pub(crate) async fn give_back(setup: &SessionSetup, claim: ClaimId) {
    if let Err(error) = setup.store.release(vec![claim], wall_clock(), NOT_STORED).await {
        tracing::debug!(%error, "a claim could not be given back; it comes free with this process");
    }
}

/// The message that the results of a unit become. `None` when it could not be written, which is a bug.
pub(crate) async fn written(
    setup: &SessionSetup,
    record: &DelegationRecord,
    unit: usize,
) -> Option<Completion> {
    let tasks = record.accepted.units.get(unit).map(|unit| unit.task_indexes.as_slice()).unwrap_or_default();
    let children = tasks.iter().filter_map(|task| record.accepted.children.get(*task));
    let missed = missed(setup.store.as_ref(), children).await;
    let arrival = Arrival { record: record.clone(), unit, missed, now: wall_clock() };
    let bytes_max = completion::bytes_max(setup.model.facts().window);
    let spill = setup.spill.clone();
    let writing = tokio::task::spawn_blocking(move || completion::write(&arrival, bytes_max, &spill));
    writing.await.inspect_err(|error| tracing::error!(%error, "BUG: a completion could not be written")).ok()
}

/// What was said to children too late for them to read. Without it the completion is still whole.
async fn missed(facts: &dyn Facts, children: impl Iterator<Item = &ChildId>) -> Vec<(ChildId, String)> {
    let mut missed = Vec::new();
    for child in children {
        match facts.steers(child).await {
            Ok(records) => {
                let texts = records.into_iter().filter(|record| record.fate == Fate::Missed);
                missed.extend(texts.filter_map(|record| match record.request.wish {
                    Wish::Steer { text } => Some((child.clone(), text)),
                    Wish::Stop { .. } => None,
                }));
            }
            Err(error) => tracing::warn!(%child, %error, "what was said to a child too late cannot be read"),
        }
    }
    missed
}
