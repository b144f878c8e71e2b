//! Brings the settled units of a delegation to a caller that joins it. A claim is held until the caller's turn is stored,
//! and given back when that fails. What was claimed for a caller that does not get it is given back here.

use crate::dispatcher::Message;
use crate::wiring::Wiring;
use legwork_core::below::Below;
use legwork_core::delivery::DeliveryState;
use legwork_core::ids::{ChildId, ClaimId, DelegationId, UnitId};
use legwork_core::ports::{JoinError, Joined, StoreError};
use legwork_core::record::ChildRecord;
use legwork_core::taking::{Taker, UnitAt, missed_texts};
use tokio::sync::mpsc;

/// Claims that are made for a caller. Those that it does not get, because it went away or something of it failed, are given
/// back: nobody else frees what a living process has taken.
pub(crate) struct OnTheWay<'a> {
    wiring: &'a Wiring,
    mailbox: &'a mpsc::Sender<Message>,
    claims: Vec<ClaimId>,
}

impl<'a> OnTheWay<'a> {
    /// None so far.
    pub(crate) fn new(wiring: &'a Wiring, mailbox: &'a mpsc::Sender<Message>) -> Self {
        OnTheWay { wiring, mailbox, claims: Vec::new() }
    }

    /// A claim that may be made, whatever the answer will be.
    fn claim(&mut self) -> ClaimId {
        let claim = ClaimId::from_bits((self.wiring.bits)());
        self.claims.push(claim.clone());
        claim
    }

    /// The caller has them.
    fn arrive(&mut self) {
        self.claims.clear();
    }
}

impl Drop for OnTheWay<'_> {
    fn drop(&mut self) {
        let claims = std::mem::take(&mut self.claims);
        if !claims.is_empty() && self.mailbox.try_send(Message::GiveBack(claims)).is_err() {
            tracing::warn!(
                "results that a caller did not wait for come free with this process: its engine is busy or ending"
            );
        }
    }
}

/// Claims every unit of a settled delegation, below which nothing is open any more, that is not delivered: also what an
/// earlier join of this process, or of one that is dead, had claimed and not stored, for a call is joined by one agent
/// at a time.
///
/// # Errors
/// When the delegation is unknown or the store fails; claims that were made stay on the way then, for another try.
pub(crate) async fn collect(
    on_the_way: &mut OnTheWay<'_>,
    delegation: &DelegationId,
) -> Result<Joined, JoinError> {
    let wiring = on_the_way.wiring;
    let record = wiring.store.delegation(delegation).await?;
    let record = record.ok_or_else(|| JoinError::Unknown(delegation.clone()))?;
    if !record.is_settled() {
        return Err(JoinError::Unknown(delegation.clone()));
    }
    let below = Below::of(wiring.store.as_ref(), &record).await?;
    let new_claim = || on_the_way.claim();
    let claims = taker(wiring).take_all(&record, &wiring.owner.claimant(), new_claim).await?;
    on_the_way.claims.clone_from(&claims);
    let missed = missed(wiring, record.children.iter()).await;
    on_the_way.arrive();
    Ok(Joined { record, claims, missed, below })
}

/// As [`collect`], for one unit whose children have settled.
///
/// # Errors
/// As [`collect`].
pub(crate) async fn collect_unit(
    on_the_way: &mut OnTheWay<'_>,
    delegation: &DelegationId,
    unit: &UnitId,
) -> Result<Joined, JoinError> {
    let wiring = on_the_way.wiring;
    let record = wiring.store.delegation(delegation).await?;
    let unknown = || JoinError::Unknown(delegation.clone());
    let record = record.ok_or_else(unknown)?;
    let place = record.accepted.units.iter().position(|known| known.id == *unit).ok_or_else(unknown)?;
    if record.deliveries[place].state == DeliveryState::Held {
        return Err(unknown());
    }
    let below = Below::of(wiring.store.as_ref(), &record).await?;
    let new_claim = || on_the_way.claim();
    let taken =
        taker(wiring).take_unit(UnitAt { record: &record, place }, &wiring.owner.claimant(), new_claim).await;
    let claims: Vec<ClaimId> = taken?.into_iter().collect();
    on_the_way.claims.clone_from(&claims);
    let tasks = record.accepted.units[place].task_indexes.iter();
    let missed = missed(wiring, tasks.filter_map(|task| record.children.get(*task))).await;
    on_the_way.arrive();
    Ok(Joined { record, claims, missed, below })
}

async fn missed(wiring: &Wiring, children: impl Iterator<Item = &ChildRecord>) -> Vec<(ChildId, String)> {
    let unreadable = |child: &ChildId, error: StoreError| tracing::warn!(%child, %error, "what was said to a child too late cannot be read");
    let children: Vec<ChildId> = children.map(|child| child.id.clone()).collect();
    missed_texts(wiring.store.as_ref(), &children, unreadable).await
}

fn taker(wiring: &Wiring) -> Taker<'_> {
    Taker {
        facts: wiring.store.as_ref(),
        processes: wiring.processes.as_ref(),
        owner: &wiring.owner.id,
        at: wiring.clock.now().wall,
    }
}
