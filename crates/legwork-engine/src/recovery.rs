//! What a new process does about the work of owners that are proved dead: it takes their delegations over, kills what is
//! left of their commands, and settles the children. Going on from their journals comes later; until then a child that
//! ran is lost, with what is known of it, and one that had not begun is stopped.

use crate::salvage::salvage;
use crate::wiring::Clock;
use legwork_core::child::{AfterLoss, ChildEvent, ChildState};
use legwork_core::fact::{Append, Fact};
use legwork_core::ids::{ChildId, DelegationId, Epoch, OwnerId};
use legwork_core::outcome::Ending;
use legwork_core::ports::{AppendError, Filter, Liveness, Processes, Store, StoreError};
use legwork_core::record::{ChildRecord, DelegationRecord, OwnerRecord};
use std::collections::HashSet;
use thiserror::Error;

/// What recovery did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Recovered {
    /// Delegations that were taken over and settled.
    pub settled: Vec<DelegationId>,
    /// Children that had run and whose end is not known.
    pub lost: usize,
    /// Children that had been told to stop before.
    pub stopping: usize,
    /// Children that had not begun.
    pub unstarted: usize,
    /// Delegations of which the store would not take the settling; they stay open, and the others go on.
    pub refused: Vec<(DelegationId, AppendError)>,
    /// Owners of open work of which it cannot be told whether they live; their work was left alone.
    pub unclear: Vec<OwnerRecord>,
}

/// Why recovery ended early. What it had settled by then stays settled.
#[derive(Debug, Error)]
pub enum RecoveryError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Who recovers, and with what.
#[derive(Clone, Copy)]
pub struct Rescuer<'a> {
    /// Where the work is recorded.
    pub store: &'a dyn Store,
    /// Both clocks.
    pub clock: Clock,
    /// This process; it must have been entered as an owner.
    pub owner: &'a OwnerRecord,
    /// Looks at processes and ends them.
    pub processes: &'a dyn Processes,
}

/// Settles the work of every owner that is proved dead (invariant 30).
///
/// # Errors
/// [`RecoveryError`]; running it again goes on where it ended.
pub async fn settle_dead(rescuer: Rescuer<'_>) -> Result<Recovered, RecoveryError> {
    let mut recovered = Recovered::default();
    for owner in rescuer.store.owners_of_open().await? {
        if owner.id == rescuer.owner.id {
            settle_leftovers(rescuer, &mut recovered).await?;
            continue;
        }
        match rescuer.processes.liveness(&owner.process) {
            Liveness::Alive => {}
            Liveness::Unclear => recovered.unclear.push(owner),
            Liveness::Dead => settle_owner(rescuer, &owner.id, &mut recovered).await?,
        }
    }
    Ok(recovered)
}

async fn settle_owner(
    rescuer: Rescuer<'_>,
    dead: &OwnerId,
    recovered: &mut Recovered,
) -> Result<(), RecoveryError> {
    let store = rescuer.store;
    // The dead owner's commands end before anything else is said of its work.
    for (actor, group) in store.groups_of(dead).await? {
        rescuer.processes.kill_group(&group);
        store.drop_group(actor, group).await?;
    }
    let now = rescuer.clock.now().wall;
    for (delegation, _) in store.take_over(dead, &rescuer.owner.id, now).await? {
        if let Some(record) = store.delegation(&delegation).await? {
            settle_taken(rescuer, &record, recovered).await?;
        }
    }
    Ok(())
}

/// What this process took over before and could not settle then. Work that it accepted itself, and may be running, is
/// of the first generation.
async fn settle_leftovers(rescuer: Rescuer<'_>, recovered: &mut Recovered) -> Result<(), RecoveryError> {
    for record in rescuer.store.delegations(Filter::Open).await? {
        if record.owner.id == rescuer.owner.id && record.epoch > Epoch(1) {
            settle_taken(rescuer, &record, recovered).await?;
        }
    }
    Ok(())
}

async fn settle_taken(
    rescuer: Rescuer<'_>,
    record: &DelegationRecord,
    recovered: &mut Recovered,
) -> Result<(), RecoveryError> {
    let delegation = record.accepted.delegation.clone();
    let begun = record.children.iter().filter(|child| child.state.has_runner());
    let begun: Vec<ChildId> = begun.map(|child| child.id.clone()).collect();
    let killed = rescuer.processes.kill_marked(&begun);
    if killed > 0 {
        tracing::info!(%delegation, killed, "processes of a dead owner were ended");
    }
    match settle(rescuer, record).await? {
        Ok(()) => {
            record.children.iter().for_each(|child| recovered.count(child.state));
            recovered.settled.push(delegation);
        }
        Err(refusal) => {
            tracing::error!(%delegation, %refusal, "the work of a dead process could not be settled");
            recovered.refused.push((delegation, refusal));
        }
    }
    Ok(())
}

impl Recovered {
    fn count(&mut self, before: ChildState) {
        match before {
            ChildState::Queued { .. } => self.unstarted += 1,
            ChildState::Running { .. } | ChildState::Parked { .. } | ChildState::Waiting { .. } => {
                self.lost += 1
            }
            ChildState::Stopping { .. } => self.stopping += 1,
            ChildState::Settled(_) => {}
        }
    }
}

async fn settle(
    rescuer: Rescuer<'_>,
    record: &DelegationRecord,
) -> Result<Result<(), AppendError>, StoreError> {
    let mut facts = Vec::new();
    let mut open: HashSet<&ChildId> =
        record.children.iter().filter(|child| child.outcome().is_none()).map(|child| &child.id).collect();
    for child in record.children.iter().filter(|child| child.outcome().is_none()) {
        facts.push(lost(rescuer.store, child).await);
        open.remove(&child.id);
        facts.extend(units_settled_by(record, &child.id, &open));
    }
    let append = Append {
        delegation: record.accepted.delegation.clone(),
        expected_seq: record.seq,
        owner: rescuer.owner.id.clone(),
        epoch: record.epoch,
        at: rescuer.clock.now().wall,
        facts,
    };
    let answers = rescuer.store.append(vec![append]).await?;
    Ok(answers.into_iter().collect())
}

async fn lost(store: &dyn Store, child: &ChildRecord) -> Fact {
    let report = if child.state.has_runner() {
        let pulse = child.pulse.as_ref().map(|(pulse, _)| pulse.clone()).unwrap_or_default();
        Some(Box::new(salvage(store, &child.id, Ending::Interrupted, &pulse).await))
    } else {
        None
    };
    Fact::Moved { child: child.id.clone(), event: ChildEvent::OwnerLost(AfterLoss::GiveUp), report }
}

/// The unit that settles with `child`, when `open` holds no child of it any more.
fn units_settled_by(record: &DelegationRecord, child: &ChildId, open: &HashSet<&ChildId>) -> Option<Fact> {
    let children = &record.accepted.children;
    let unit = record
        .accepted
        .units
        .iter()
        .find(|unit| unit.task_indexes.iter().any(|&task| children[task] == *child))?;
    let settled = !unit.task_indexes.iter().any(|&task| open.contains(&children[task]));
    settled.then(|| Fact::UnitSettled { unit: unit.id.clone() })
}
