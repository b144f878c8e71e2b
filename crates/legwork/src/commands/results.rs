//! `legwork results ID`: the stored results, again and again. Work of a process that has died is settled first, and results
//! that nobody can take any more are delivered by being printed.

use legwork_core::delivery::DeliveryState;
use legwork_core::ids::{ClaimId, UnitId};
use legwork_core::ports::{Conversations, Facts};
use legwork_core::record::{DelegationRecord, DeliveryRecord, OwnerRecord};
use legwork_sqlite::SqliteStore;

use crate::args::ResultsArgs;
use crate::failure::{CliError, Exit};
use crate::invocation::Invocation;
use crate::lookup::{self, Target};
use crate::outcomes::Outcomes;
use crate::owner::{self, Owner};
use crate::{state, stdout};

/// Prints what is stored.
///
/// # Errors
/// When there is no such delegation, or the state folder cannot be used.
pub async fn run(invocation: &Invocation, args: &ResultsArgs) -> Result<Exit, CliError> {
    if state::open_to_look(invocation).await?.is_none() {
        return Err(lookup::unknown(&args.id));
    }
    let store = state::open_to_work(invocation)?;
    let target = lookup::find(store.as_ref(), &args.id).await?.of_delegation(&args.id)?;
    let owner = owner::enter(store.as_ref()).await?;
    owner::settle_the_dead(store.as_ref(), &owner, invocation.common.quiet).await?;
    let (record, wanted) = afresh(store.as_ref(), target, &args.id).await?;
    let claims = claim_unowned(store.as_ref(), &record, &wanted, &owner).await?;
    let printed = print(invocation, &Outcomes::of(&record, wanted));
    match &printed {
        Ok(_) => store.acknowledge(claims, owner.now()).await?,
        Err(_) => store.release(claims, owner.now(), "the results could not be written out").await?,
    }
    printed
}

/// The delegation as it is after the dead were settled.
async fn afresh(
    store: &dyn Facts,
    target: Target,
    typed: &str,
) -> Result<(DelegationRecord, Vec<usize>), CliError> {
    let (before, wanted) = match target {
        Target::Delegation(record) => {
            let all = (0..record.children.len()).collect();
            (record, all)
        }
        Target::Unit(record, place) => {
            let of_unit = record.accepted.units[place].task_indexes.clone();
            (record, of_unit)
        }
        Target::Child(record, task_index) => (record, vec![task_index]),
        Target::Session(_) => return Err(lookup::unknown(typed)),
    };
    let record = store.delegation(&before.accepted.delegation).await?;
    Ok((record.ok_or_else(|| lookup::unknown(typed))?, wanted))
}

/// Claims the units that no conversation can take, those of a shell whose process is gone, if they are printed whole.
async fn claim_unowned(
    store: &SqliteStore,
    record: &DelegationRecord,
    wanted: &[usize],
    owner: &Owner,
) -> Result<Vec<ClaimId>, CliError> {
    let session = store.session(&record.accepted.lineage.session).await?;
    let of_a_shell = session.is_none_or(|session| session.session.kind == "shell");
    if !of_a_shell || owner.lives_elsewhere(&record.owner) {
        return Ok(Vec::new());
    }
    let mut claims = Vec::new();
    for (unit, delivery) in record.accepted.units.iter().zip(&record.deliveries) {
        let whole = unit.task_indexes.iter().all(|task| wanted.contains(task));
        if whole && make_ready(store, &unit.id, delivery, owner).await? {
            let claimant = owner.record.claimant();
            claims.extend(store.claim(&unit.id, owner.new_claim(), &claimant, owner.now()).await?);
        }
    }
    Ok(claims)
}

/// Whether the unit can be claimed, after what stood in the way and is gone was taken away.
async fn make_ready(
    store: &SqliteStore,
    unit: &UnitId,
    delivery: &DeliveryRecord,
    owner: &Owner,
) -> Result<bool, CliError> {
    match &delivery.state {
        DeliveryState::Ready { .. } => Ok(true),
        DeliveryState::Parked(_) => Ok(store.unpark(unit, owner.now()).await?),
        DeliveryState::Claimed { claim, .. } => {
            let claimant = delivery.ledger.last().and_then(|line| line.claimant.as_deref());
            let taker = OwnerRecord::id_of_claimant(claimant.unwrap_or_default());
            let taker = store.owner(&taker).await?;
            if taker.is_none_or(|taker| owner.lives_elsewhere(&taker)) {
                return Ok(false);
            }
            let reason = "the process that took the results died before it had written them out";
            store.release(vec![claim.clone()], owner.now(), reason).await?;
            Ok(true)
        }
        DeliveryState::Held | DeliveryState::Delivered | DeliveryState::Dismissed => Ok(false),
    }
}

fn print(invocation: &Invocation, outcomes: &Outcomes<'_>) -> Result<Exit, CliError> {
    if invocation.common.json {
        stdout::print_json(&outcomes.to_json_with_delivery())?;
    } else {
        stdout::print(&outcomes.to_text())?;
    }
    Ok(outcomes.exit())
}
