//! Which results are delivered by being printed: those of a shell that no process stands ready to print, and that no
//! subagent which goes on has asked for.

use std::time::Duration;

use legwork_core::batch::Unit;
use legwork_core::below::{Below, Receiver};
use legwork_core::delivery::DeliveryState;
use legwork_core::ids::ClaimId;
use legwork_core::ports::{SessionKind, Store, StoreError};
use legwork_core::record::DelegationRecord;
use legwork_core::taking::UnitAt;
use tokio::time::Instant;

use crate::owner::Owner;

/// How long another process may hold results that it puts aside.
const PUTTING_ASIDE_MAX: Duration = Duration::from_secs(1);
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Claims the units that no conversation can take, if they are printed whole. One that another process is just putting aside
/// is waited for: a worker does that with all that it has ended.
///
/// # Errors
/// When the store fails.
pub(super) async fn claim_unowned(
    store: &dyn Store,
    (record, below): (&DelegationRecord, &Below),
    wanted: &[usize],
    owner: &Owner,
) -> Result<Vec<ClaimId>, StoreError> {
    let until = Instant::now() + PUTTING_ASIDE_MAX;
    let mut record = record.clone();
    loop {
        if is_for_another(store, &record, owner).await? {
            return Ok(Vec::new());
        }
        let Claimed { claims, is_all } = claim(store, (&record, below), wanted, owner).await?;
        if is_all || Instant::now() >= until {
            return Ok(claims);
        }
        // Deadline: whoever has it parks or delivers it and tells nobody, so this process looks again until then.
        tokio::time::sleep(LOOK_EVERY).await;
        match store.delegation(&record.accepted.delegation).await? {
            Some(now) => record = now,
            None => return Ok(claims),
        }
    }
}

/// Whether a conversation takes them, or the subagent that has asked for them, or the `delegate` that still runs prints
/// them itself.
async fn is_for_another(
    store: &dyn Store,
    record: &DelegationRecord,
    owner: &Owner,
) -> Result<bool, StoreError> {
    match Receiver::of(store, record).await {
        Ok(Receiver::Session | Receiver::With(..)) => {}
        // It may go on, and may be mended.
        Ok(Receiver::Caller(_)) | Err(StoreError::Corrupt(_)) => return Ok(true),
        Err(error) => return Err(error),
    }
    let session = match store.session(&record.accepted.lineage.session).await {
        Ok(session) => session,
        // It may be a conversation, and may be mended.
        Err(StoreError::Corrupt(_)) => return Ok(true),
        Err(error) => return Err(error),
    };
    Ok(session.is_some_and(|session| {
        session.session.kind != SessionKind::Shell
            || session.holder.is_some_and(|holder| owner.lives_elsewhere(&holder))
    }))
}

/// What one look has claimed.
struct Claimed {
    claims: Vec<ClaimId>,
    /// None of it is in other hands, or was when it was to be claimed.
    is_all: bool,
}

/// Claims what is printed whole, with all that is below it. What this process has claimed before is among the claims again.
async fn claim(
    store: &dyn Store,
    (record, below): (&DelegationRecord, &Below),
    wanted: &[usize],
    owner: &Owner,
) -> Result<Claimed, StoreError> {
    let mut claimed = Claimed { claims: Vec::new(), is_all: true };
    let is_whole = |unit: &Unit| {
        let tasks = &unit.task_indexes;
        tasks.iter().all(|task| wanted.contains(task)) && below.open_under(tasks).next().is_none()
    };
    let units = record.accepted.units.iter().zip(&record.deliveries).enumerate();
    for (place, (_, delivery)) in units.filter(|(_, (unit, _))| is_whole(unit)) {
        match delivery.state {
            DeliveryState::Ready { .. } | DeliveryState::Parked(_) | DeliveryState::Claimed { .. } => {}
            DeliveryState::Held | DeliveryState::Delivered | DeliveryState::Dismissed => continue,
        }
        let claimant = owner.record.claimant();
        let taker = owner.taker(store);
        let claim = taker.take_unit(UnitAt { record, place }, &claimant, || owner.new_claim()).await?;
        // Where the record says that it can be taken and it cannot, somebody was faster.
        claimed.is_all &= claim.is_some();
        claimed.claims.extend(claim);
    }
    Ok(claimed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use legwork_core::delivery::ParkReason;
    use legwork_testkit::memory::MemoryStore;
    use legwork_testkit::store_suite::Owned;
    use std::sync::Arc;

    /// How far a worker is that puts a result aside.
    #[derive(Debug, Clone, Copy)]
    enum Worker {
        IsAboutToClaim,
        HasClaimed,
        HasParked,
    }

    /// The worker moves after the record was read, and before the claim.
    #[tokio::test(start_paused = true)]
    async fn k02_what_a_worker_puts_aside_just_then_is_claimed_by_whoever_prints_it() {
        for worker in [Worker::IsAboutToClaim, Worker::HasClaimed, Worker::HasParked] {
            let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
            let mut owned = Owned::accept(&store, 1, &[&[0]]).await;
            owned.finish().await;
            let record = owned.stored().await;
            let (here, there) = (Owner::new(), Owner::new());
            for owner in [&here, &there] {
                store.enter(owner.record.clone(), owner.now()).await.expect("it enters");
            }
            let claim = async || {
                let (unit, claimant) = (owned.unit(0), there.record.claimant());
                let claim = store.claim(unit, there.new_claim(), &claimant, there.now()).await;
                claim.expect("the store works").expect("nobody has it")
            };
            let park = async |claim| {
                let parked = store.park(vec![claim], there.now(), ParkReason::NoConversation).await;
                parked.expect("the claim is current");
            };
            let below = Below::of(store.as_ref(), &record).await.expect("it reads");
            let claiming = claim_unowned(store.as_ref(), (&record, &below), &[0], &here);
            let claims = match worker {
                Worker::IsAboutToClaim => claiming.await,
                Worker::HasClaimed => {
                    let held = claim().await;
                    let parking = async {
                        // Deadline: time is paused, and this is after the first look and before the last.
                        tokio::time::sleep(PUTTING_ASIDE_MAX / 2).await;
                        park(held).await;
                    };
                    tokio::join!(claiming, parking).0
                }
                Worker::HasParked => {
                    park(claim().await).await;
                    claiming.await
                }
            };
            let claims = claims.expect("the store works");
            assert_eq!(claims.len(), 1, "{worker:?}");
            store.acknowledge(claims, here.now()).await.expect("the claim is ours");
            assert_eq!(owned.stored().await.deliveries[0].state, DeliveryState::Delivered, "{worker:?}");
        }
    }
}
