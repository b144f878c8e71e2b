//! Brings the settled units of a delegation to a caller that joins it. A claim is held until the caller's turn is stored,
//! and given back when that fails. What was claimed for a caller that does not get it is given back here.

use crate::dispatcher::Message;
use crate::wiring::Wiring;
use legwork_core::below::Below;
use legwork_core::delivery::DeliveryState;
use legwork_core::ids::{ChildId, ClaimId, DelegationId, UnitId};
use legwork_core::ports::{JoinError, Joined, StoreError};
use legwork_core::record::{ChildRecord, DelegationRecord};
use legwork_core::taking::{Taker, UnitAt, missed_texts};
use std::borrow::Cow;
use tokio::sync::{mpsc, oneshot};

/// How often a claim is looked at that somebody else of this process had.
const LOOKS_MAX: usize = 8;

/// Claims that are made for a caller. Those that it does not get, because it went away or something of it failed, are given
/// back: nobody else frees what a living process has taken.
pub(crate) struct OnTheWay<'a> {
    wiring: &'a Wiring,
    mailbox: &'a mpsc::Sender<Message>,
    /// The place in the line of what is given back; taken before anything is claimed, so that there is always room.
    place: Option<mpsc::Permit<'a, Vec<ClaimId>>>,
    claims: Vec<ClaimId>,
}

/// The ways to the dispatcher.
#[derive(Clone, Copy)]
pub(crate) struct Ways<'a> {
    /// For messages.
    pub(crate) mailbox: &'a mpsc::Sender<Message>,
    /// For claims that were made for callers which did not get them; a caller for which there is no room claims nothing yet.
    pub(crate) owed: &'a mpsc::Sender<Vec<ClaimId>>,
}

impl<'a> OnTheWay<'a> {
    /// Nothing is claimed yet; waits until there is room for what may have to be given back.
    pub(crate) async fn begin(wiring: &'a Wiring, ways: Ways<'a>) -> Result<OnTheWay<'a>, JoinError> {
        let place = ways.owed.reserve().await.map_err(|_| JoinError::Closed)?;
        Ok(OnTheWay { wiring, mailbox: ways.mailbox, place: Some(place), claims: Vec::new() })
    }

    /// A claim that may be made, whatever the answer will be.
    fn claim(&mut self) -> ClaimId {
        let claim = ClaimId::from_bits((self.wiring.bits)());
        self.claims.push(claim.clone());
        claim
    }

    /// The claim of the unit at this place. One that this process has in its hands already may be about to be given back: it is
    /// kept first, and looked at again (invariant 6).
    async fn take(&mut self, record: &DelegationRecord, place: usize) -> Result<Option<ClaimId>, JoinError> {
        let wiring = self.wiring;
        let (taker, claimant) = (taker(wiring), wiring.owner.claimant());
        let mut record = Cow::Borrowed(record);
        for _ in 0..LOOKS_MAX {
            let unit = UnitAt { record: &record, place };
            let taken = taker.take_unit(unit, &claimant, || self.claim()).await;
            match taken? {
                Some(found) if !self.claims.contains(&found) => self.keep(found).await?,
                taken => return Ok(taken),
            }
            let now = wiring.store.delegation(&record.accepted.delegation).await?;
            let Some(now) = now else { return Ok(None) };
            record = Cow::Owned(now);
        }
        let unit = &record.accepted.units[place].id;
        let changed = format!("the claim of {unit} changed {LOOKS_MAX} times while it was taken up");
        Err(StoreError::Conflict(changed).into())
    }

    /// The claim is this caller's, and is given back if it does not get it.
    async fn keep(&mut self, claim: ClaimId) -> Result<(), JoinError> {
        self.claims.push(claim.clone());
        let (reply, answer) = oneshot::channel();
        self.mailbox.send(Message::Keep(claim, reply)).await.map_err(|_| JoinError::Closed)?;
        answer.await.map_err(|_| JoinError::Closed)
    }

    /// The caller has them.
    fn arrive(&mut self) {
        self.claims.clear();
    }
}

impl Drop for OnTheWay<'_> {
    fn drop(&mut self) {
        let claims = std::mem::take(&mut self.claims);
        if claims.is_empty() {
            return;
        }
        if self.mailbox.is_closed() {
            tracing::warn!(
                "results that a caller did not wait for come free with this process: its engine has ended"
            );
        }
        if let Some(place) = self.place.take() {
            place.send(claims);
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
    let mut claims = Vec::new();
    for place in 0..record.accepted.units.len() {
        claims.extend(on_the_way.take(&record, place).await?);
    }
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
    let claims: Vec<ClaimId> = on_the_way.take(&record, place).await?.into_iter().collect();
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
