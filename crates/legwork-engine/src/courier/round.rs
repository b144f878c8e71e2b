//! One session's courier: it waits until something is ready and the session is idle, claims the first unit in the order
//! in which they became ready, and offers it. Where results are is read from the store before every offer.
//!
//! Once an offer is accepted the claim is the session's: it is acknowledged in the commit of the turn, or given back.

use super::routes::{Attached, Left};
use crate::gap::Gaps;
use crate::wiring::Wiring;
use futures::FutureExt;
use legwork_core::batch::{Reach, Unit};
use legwork_core::below::Below;
use legwork_core::delivery::{DeliveryState, NOTICE_LATE, ParkReason};
use legwork_core::ids::{ClaimId, SessionId, UnitId};
use legwork_core::ports::{Inbox, Offer, Receipt, StoreError, Undelivered};
use legwork_core::taking::Taker;
use legwork_core::time::Timestamp;
use std::collections::HashSet;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, sleep_until};

/// Between tries of an offer that came back, or of a store that fails.
const FIRST_GAP: Duration = Duration::from_millis(100);
const LONGEST_GAP: Duration = Duration::from_secs(30);
/// Work that another process settles rings no bell here, so the store is looked at this often without one.
const LOOK_AGAIN: Duration = Duration::from_secs(15);

const BUSY: &str = "the session was busy";
const UNFIT: &str = "the session could not make a message of it";
const BROKE_OFF: &str = "the offer broke off before the session had stored a turn";
const CLOSED: &str = "the session was closed before its turn was stored";

/// Brings completions to one session.
pub(super) struct Courier {
    session: SessionId,
    wiring: Wiring,
    /// Written by the routes; when they are gone the courier ends.
    newest: watch::Receiver<Attached>,
    /// Rung by the routes.
    bell: Arc<Notify>,
    /// Between tries of what came back or failed.
    gaps: Gaps,
    /// What the session accepted last, until the store says what became of it.
    in_hand: Option<Hold>,
    /// Between looks at what is in hand although the session is idle.
    patience: Gaps,
    /// Units of its calls whose caller waits for them itself.
    inline: HashSet<UnitId>,
    /// Claims to give back: the store failed when they were made or ended.
    owed: Vec<ClaimId>,
    /// Units that could not be handed over for reasons of their own.
    aside: Vec<SetAside>,
}

/// A unit that is tried again when its time has come, and keeps nothing back meanwhile (invariant 3).
struct SetAside {
    unit: UnitId,
    gaps: Gaps,
    again_at: Instant,
}

struct Hold {
    unit: UnitId,
    claim: ClaimId,
}

/// Why an inbox is served no longer.
enum Leave {
    /// The session has another one now.
    Replaced,
    /// The session is closed.
    Closed,
    /// The engine is ending.
    Over,
}

/// What a look into the store found.
enum Look {
    /// The next unit to offer.
    Next(Undelivered),
    /// Nothing is ready.
    Nothing,
    /// Nothing is ready but what was set aside until then.
    Later(Instant),
    /// What the session took came back.
    CameBack,
    /// What the session took has not arrived yet.
    InHand,
}

impl Courier {
    pub(super) fn new(
        session: SessionId,
        wiring: Wiring,
        newest: watch::Receiver<Attached>,
        bell: Arc<Notify>,
    ) -> Self {
        let gaps = Gaps::new(FIRST_GAP, LONGEST_GAP);
        Courier {
            session,
            wiring,
            newest,
            bell,
            patience: gaps.clone(),
            gaps,
            in_hand: None,
            inline: HashSet::new(),
            owed: Vec::new(),
            aside: Vec::new(),
        }
    }

    /// Serves the session until its inbox is closed or the engine ends.
    pub(super) async fn run(mut self) -> Left {
        loop {
            let Attached { number, inbox } = self.newest.borrow_and_update().clone();
            let mut leave = self.serve(inbox.as_ref()).await;
            if matches!(leave, Leave::Closed) {
                leave = self.settle_up().await;
            }
            match leave {
                Leave::Replaced => {}
                Leave::Closed => return Left { session: self.session, number },
                Leave::Over => {
                    if let Err(error) = self.pay().await {
                        tracing::warn!(session = %self.session, %error, "claims could not be given back; they come free with this process");
                    }
                    return Left { session: self.session, number };
                }
            }
        }
    }

    async fn serve(&mut self, inbox: &dyn Inbox) -> Leave {
        loop {
            if let Err(leave) = self.round(inbox).await {
                return leave;
            }
        }
    }

    async fn round(&mut self, inbox: &dyn Inbox) -> Result<(), Leave> {
        self.until_idle(inbox).await?;
        match self.look(inbox.reach()).await {
            Ok(Look::Next(next)) => self.hand_over(next, inbox).await,
            Ok(Look::Nothing) => {
                if self.gaps.close() {
                    tracing::info!(session = %self.session, "results arrive again");
                }
                self.until_rung_or(Instant::now() + LOOK_AGAIN).await
            }
            Ok(Look::Later(then)) => {
                // Deadline: what could not be handed over is given time before it is tried again.
                let until = (Instant::now() + LOOK_AGAIN).min(then);
                self.until_rung_or(until).await
            }
            Ok(Look::CameBack) => self.leave_alone().await,
            Ok(Look::InHand) => {
                let gap = self.patience.widen();
                self.pause(gap).await
            }
            Err(error) => self.troubled(&error).await,
        }
    }

    async fn until_idle(&mut self, inbox: &dyn Inbox) -> Result<(), Leave> {
        let idle = AssertUnwindSafe(async { inbox.idle().await }).catch_unwind();
        match attentive(&mut self.newest, idle).await? {
            Ok(true) => Ok(()),
            Ok(false) => Err(Leave::Closed),
            Err(_) => {
                tracing::error!(session = %self.session, "BUG: an inbox panicked and counts as closed");
                Err(Leave::Closed)
            }
        }
    }

    async fn until_rung_or(&mut self, until: Instant) -> Result<(), Leave> {
        let rung = async {
            tokio::select! {
                () = self.bell.notified() => {}
                // Deadline: work that another process settles rings no bell here.
                () = sleep_until(until) => {}
            }
        };
        attentive(&mut self.newest, rung).await
    }

    async fn pause(&mut self, gap: Duration) -> Result<(), Leave> {
        // Deadline: what failed or came back is given time before it is tried again.
        attentive(&mut self.newest, sleep(gap)).await
    }

    async fn leave_alone(&mut self) -> Result<(), Leave> {
        let gap = self.gaps.widen();
        self.pause(gap).await
    }

    async fn troubled(&mut self, error: &StoreError) -> Result<(), Leave> {
        if self.gaps.is_closed() {
            tracing::warn!(session = %self.session, %error, "results cannot be brought to their session now; they are kept, and it is tried again");
        } else {
            tracing::debug!(session = %self.session, %error, "results still cannot be brought to their session");
        }
        self.leave_alone().await
    }

    /// Finds the next unit to offer, after what stands in its way and is nobody's any more was taken away.
    async fn look(&mut self, reach: Reach) -> Result<Look, StoreError> {
        let mut units = self.undelivered(reach).await?;
        if self.make_way(&units).await? {
            units = self.undelivered(reach).await?;
        }
        if let Some(hold) = &self.in_hand {
            match units.iter().find(|unit| unit.unit == hold.unit).map(|unit| &unit.state) {
                Some(DeliveryState::Claimed { claim, .. }) if *claim == hold.claim => {
                    if !self.patience.is_longest() {
                        return Ok(Look::InHand);
                    }
                    tracing::warn!(session = %self.session, unit = %hold.unit, "a session is idle and has not stored the turn of a result; the result is offered again");
                    self.owed.extend(self.in_hand.take().map(|hold| hold.claim));
                    self.pay().await?;
                    return Ok(Look::CameBack);
                }
                Some(_) => {
                    self.in_hand = None;
                    return Ok(Look::CameBack);
                }
                None => {
                    self.in_hand = None;
                    self.gaps.close();
                }
            }
        }
        units.retain(|unit| matches!(unit.state, DeliveryState::Ready { .. }));
        loop {
            match self.next(&units) {
                Look::Next(due) if self.is_held_back(&due).await? => {
                    units.retain(|unit| unit.unit != due.unit);
                }
                look => return Ok(look),
            }
        }
    }

    /// Whether something that a child of the unit had sent out is still to end: it is told with the unit, and whatever settled
    /// between the offer and the turn would count as told.
    async fn is_held_back(&self, due: &Undelivered) -> Result<bool, StoreError> {
        if due.notice.is_some() {
            return Ok(false);
        }
        let store = self.wiring.store.as_ref();
        let record = match store.delegation(&due.delegation).await {
            Ok(Some(record)) => record,
            // Whoever hands it over finds out the same.
            Ok(None) | Err(StoreError::Corrupt(_)) => return Ok(false),
            Err(error) => return Err(error),
        };
        let unit = record.accepted.units.iter().find(|unit| unit.id == due.unit);
        let tasks = unit.map(|unit| unit.task_indexes.as_slice()).unwrap_or_default();
        let below = Below::of(store, &record).await?;
        Ok(below.open_under(tasks).next().is_some())
    }

    /// The next of what is ready, in order; what was set aside only when its time has come.
    fn next(&self, ready: &[Undelivered]) -> Look {
        let now = Instant::now();
        let mut later: Option<Instant> = None;
        for due in ready {
            match self.aside.iter().find(|aside| aside.unit == due.unit) {
                Some(aside) if aside.again_at > now => {
                    later = Some(later.map_or(aside.again_at, |other| other.min(aside.again_at)));
                }
                Some(_) | None => return Look::Next(due.clone()),
            }
        }
        later.map_or(Look::Nothing, Look::Later)
    }

    /// The unit cannot be handed over, and that is no trouble of the store's or the session's: those after it go first.
    fn set_aside(&mut self, unit: UnitId, why: &str) {
        let known = self.aside.iter_mut().find(|aside| aside.unit == unit);
        let Some(aside) = known else {
            tracing::error!(session = %self.session, %unit, why, "results cannot be brought to their session; they are kept and tried again, and others go before them");
            let mut gaps = Gaps::new(FIRST_GAP, LONGEST_GAP);
            let again_at = Instant::now() + gaps.widen();
            self.aside.push(SetAside { unit, gaps, again_at });
            return;
        };
        aside.again_at = Instant::now() + aside.gaps.widen();
    }

    /// The units that reach the session through an inbox of this kind.
    async fn undelivered(&self, reach: Reach) -> Result<Vec<Undelivered>, StoreError> {
        let mut units = self.wiring.store.undelivered(&self.session).await?;
        let through = |unit: &Undelivered| unit.reach == reach && reach != Reach::Joined;
        units.retain(|unit| through(unit) && !self.inline.contains(&unit.unit));
        Ok(units)
    }

    /// Makes parked units ready, for the session is here; gives back what this courier owes, and what the dead had taken.
    /// Answers whether anything changed.
    async fn make_way(&mut self, units: &[Undelivered]) -> Result<bool, StoreError> {
        let mut changed = false;
        for unit in units {
            match &unit.state {
                DeliveryState::Ready { .. } => {}
                DeliveryState::Held
                | DeliveryState::Claimed { .. }
                | DeliveryState::Parked(_)
                | DeliveryState::Delivered
                | DeliveryState::Dismissed => {
                    let taker = self.taker();
                    changed |= taker.make_ready(&unit.unit, &unit.state, unit.claimant.as_deref()).await?;
                }
            }
        }
        let owes = !self.owed.is_empty();
        self.pay().await?;
        Ok(changed || owes)
    }

    async fn hand_over(&mut self, next: Undelivered, inbox: &dyn Inbox) -> Result<(), Leave> {
        let claim = ClaimId::from_bits((self.wiring.bits)());
        let offer = match self.offer(&next, &claim).await {
            Ok(offer) => offer,
            Err(error @ (StoreError::Corrupt(_) | StoreError::Conflict(_))) => {
                self.set_aside(next.unit, &error.to_string());
                return Ok(());
            }
            Err(error) => return self.troubled(&error).await,
        };
        if offer.record.accepted.units[offer.unit].inline {
            self.inline.insert(next.unit);
            return Ok(());
        }
        // A notice that came back after its unit had settled: what follows it is there already.
        if offer.notice.is_some() && offer.record.deliveries[offer.unit].state != DeliveryState::Held {
            let dismissed = self.wiring.store.dismiss(&next.unit, self.now(), NOTICE_LATE).await;
            return match dismissed {
                Ok(_) => Ok(()),
                Err(error) => self.troubled(&error).await,
            };
        }
        let claimant = self.wiring.owner.claimant();
        let claimed = self.wiring.store.claim(&next.unit, claim.clone(), &claimant, self.now()).await;
        match claimed {
            Ok(Some(_)) => {}
            // Somebody was faster; the next look tells what became of it.
            Ok(None) => return self.leave_alone().await,
            Err(error) => {
                // It may be held all the same.
                self.owed.push(claim);
                return self.troubled(&error).await;
            }
        }
        let answer = AssertUnwindSafe(async { inbox.offer(offer).await }).catch_unwind();
        match attentive(&mut self.newest, answer).await {
            Ok(Ok(receipt)) => self.answered(receipt, next.unit, claim).await,
            Ok(Err(_)) => {
                tracing::error!(session = %self.session, unit = %next.unit, "BUG: an inbox panicked at an offer");
                self.give_back(claim, BROKE_OFF).await
            }
            Err(leave) => {
                // Whoever leaves has no time for gaps: a store that fails now is asked again later.
                self.owed.push(claim);
                if let Err(error) = self.pay().await {
                    tracing::debug!(session = %self.session, %error, "a claim could not be given back yet");
                }
                Err(leave)
            }
        }
    }

    async fn offer(&self, next: &Undelivered, claim: &ClaimId) -> Result<Offer, StoreError> {
        let record = self.wiring.store.delegation(&next.delegation).await?;
        let gone = || StoreError::Conflict(format!("the unit {} is not stored any more", next.unit));
        let record = record.ok_or_else(gone)?;
        let is_it = |unit: &Unit| match next.notice {
            Some(task) => unit.task_indexes.contains(&task),
            None => unit.id == next.unit,
        };
        let unit = record.accepted.units.iter().position(is_it).ok_or_else(gone)?;
        Ok(Offer { session: self.session.clone(), claim: claim.clone(), unit, notice: next.notice, record })
    }

    async fn answered(&mut self, receipt: Receipt, unit: UnitId, claim: ClaimId) -> Result<(), Leave> {
        match receipt {
            Receipt::Accepted => {
                self.aside.retain(|aside| aside.unit != unit);
                self.in_hand = Some(Hold { unit, claim });
                self.patience.close();
                Ok(())
            }
            Receipt::Busy => self.give_back(claim, BUSY).await,
            Receipt::Unfit => {
                self.set_aside(unit, UNFIT);
                match self.release(&claim, UNFIT).await {
                    Ok(_) => Ok(()),
                    Err(error) => {
                        self.owed.push(claim);
                        self.troubled(&error).await
                    }
                }
            }
            Receipt::Gone => {
                let parked = self.wiring.store.park(vec![claim.clone()], self.now(), ParkReason::SessionGone);
                if let Err(error) = parked.await {
                    tracing::debug!(session = %self.session, %error, "a completion without a session could not be parked yet");
                    self.owed.push(claim);
                }
                Err(Leave::Closed)
            }
        }
    }

    /// Gives a claim back that the session did not take, and leaves the session alone for a while.
    async fn give_back(&mut self, claim: ClaimId, reason: &'static str) -> Result<(), Leave> {
        match self.release(&claim, reason).await {
            Ok(_) => self.leave_alone().await,
            Err(error) => {
                self.owed.push(claim);
                self.troubled(&error).await
            }
        }
    }

    /// Gives back what is owed to the store.
    async fn pay(&mut self) -> Result<(), StoreError> {
        while let Some(claim) = self.owed.last().cloned() {
            self.release(&claim, BROKE_OFF).await?;
            self.owed.pop();
        }
        Ok(())
    }

    /// The session is closed: it stores no turn any more, so nothing stays in its hands.
    async fn settle_up(&mut self) -> Leave {
        if let Some(hold) = self.in_hand.take() {
            match self.release(&hold.claim, CLOSED).await {
                Ok(_) => {}
                Err(_) => self.owed.push(hold.claim),
            }
        }
        while let Err(error) = self.pay().await {
            if let Err(leave) = self.troubled(&error).await {
                return leave;
            }
        }
        Leave::Closed
    }

    /// Ends a claim without delivery. `false` when it was no current claim: never made, or ended by its taker.
    async fn release(&self, claim: &ClaimId, reason: &str) -> Result<bool, StoreError> {
        match self.wiring.store.release(vec![claim.clone()], self.now(), reason).await {
            Ok(()) => Ok(true),
            Err(StoreError::Conflict(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn taker(&self) -> Taker<'_> {
        Taker {
            facts: self.wiring.store.as_ref(),
            processes: self.wiring.processes.as_ref(),
            owner: &self.wiring.owner.id,
            at: self.now(),
        }
    }

    fn now(&self) -> Timestamp {
        self.wiring.clock.now().wall
    }
}

/// Waits for `wait`, unless the session gets another inbox or the engine ends.
async fn attentive<T>(
    newest: &mut watch::Receiver<Attached>,
    wait: impl Future<Output = T>,
) -> Result<T, Leave> {
    tokio::select! {
        biased;
        changed = newest.changed() => Err(if changed.is_ok() { Leave::Replaced } else { Leave::Over }),
        done = wait => Ok(done),
    }
}
