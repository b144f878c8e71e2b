//! One session's courier: it waits until something is ready and the session is idle, claims the first unit that can be offered,
//! and offers it. Which one that is, the [choice](super::choice) tells before every offer.
//!
//! Once an offer is accepted the claim is the session's: it is acknowledged in the commit of the turn, or given back. What the
//! store does not take back stays among the [debts](super::debts).

use super::choice::{Choice, Found, Next, gaps};
use super::debts::{BROKE_OFF, Debts};
use super::routes::{Attached, Left};
use crate::gap::Gaps;
use crate::wiring::Wiring;
use futures::FutureExt;
use legwork_core::batch::Reach;
use legwork_core::delivery::{DeliveryState, NOTICE_LATE, ParkReason};
use legwork_core::ids::{ClaimId, SessionId, UnitId};
use legwork_core::ports::{Inbox, Offer, Receipt, StoreError};
use legwork_core::time::Timestamp;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, sleep_until};

/// Work that another process settles rings no bell here, so the store is looked at this often without one: somebody may sit at the
/// conversation and wait for it, and a look that finds nothing reads one entry of an index.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

const BUSY: &str = "the session was busy";
const UNFIT: &str = "the session could not make a message of it";
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
    in_hand: Option<InHand>,
    /// The claim of what is being offered, which is to be given back should the offer fail by a bug.
    offering: Option<ClaimId>,
    /// Between looks at what is in hand although the session is idle.
    patience: Gaps,
    choice: Choice,
    debts: Debts,
}

struct InHand {
    unit: UnitId,
    /// Where it stands among what is due.
    place: u64,
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
    /// Where the results of the session are.
    Found(Found),
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
        let gaps = gaps();
        let choice = Choice::new(session.clone(), wiring.clone());
        let debts = Debts::new(wiring.clone());
        let (patience, in_hand, offering) = (gaps.clone(), None, None);
        Courier { session, wiring, newest, bell, gaps, in_hand, offering, patience, choice, debts }
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
                    if let Err(error) = self.debts.pay().await {
                        tracing::warn!(session = %self.session, %error, "claims could not be given back; they come free with this process");
                    }
                    return Left { session: self.session, number };
                }
            }
        }
    }

    async fn serve(&mut self, inbox: &dyn Inbox) -> Leave {
        loop {
            let round = AssertUnwindSafe(self.round(inbox)).catch_unwind().await;
            let gone_on = match round {
                Ok(gone_on) => gone_on,
                Err(_) => self.panicked().await,
            };
            if let Err(leave) = gone_on {
                return leave;
            }
        }
    }

    /// A round failed by a bug. What it claimed is given back, and the session is served again after a gap that grows: its results
    /// come as long as it is open (invariant 3).
    async fn panicked(&mut self) -> Result<(), Leave> {
        if self.gaps.is_closed() {
            tracing::error!(session = %self.session, "BUG: a courier panicked; the results of its session are kept, and it is tried again");
        } else {
            tracing::debug!(session = %self.session, "BUG: a courier panicked again");
        }
        if let Some(claim) = self.offering.take() {
            self.debts.owe(claim);
        }
        self.leave_alone().await
    }

    async fn round(&mut self, inbox: &dyn Inbox) -> Result<(), Leave> {
        self.until_idle(inbox).await?;
        match self.look(inbox.reach()).await {
            Ok(Look::Found(Found::Next(next))) => {
                let gone_on = self.hand_over(*next, inbox).await;
                self.offering = None;
                gone_on
            }
            Ok(Look::Found(Found::Nothing)) => {
                if self.gaps.close() {
                    tracing::info!(session = %self.session, "results arrive again");
                }
                self.until_rung_or(Instant::now() + LOOK_AGAIN).await
            }
            Ok(Look::Found(Found::Later(then))) => {
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
                biased;
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
        self.debts.pay().await?;
        match self.look_at_hand().await? {
            Some(look) => Ok(look),
            None => self.choice.next(reach).await.map(Look::Found),
        }
    }

    /// What became of what the session took; nothing when it has nothing in hand any more.
    async fn look_at_hand(&mut self) -> Result<Option<Look>, StoreError> {
        let Some(in_hand) = &self.in_hand else { return Ok(None) };
        let at_its_place = self.wiring.store.due(&self.session, in_hand.place - 1, 1).await?;
        let mine = at_its_place.rows.into_iter().find(|due| due.due.unit == in_hand.unit);
        match mine.map(|due| due.due.state) {
            Some(DeliveryState::Claimed { claim, .. }) if claim == in_hand.claim => {
                if !self.patience.is_longest() {
                    return Ok(Some(Look::InHand));
                }
                tracing::warn!(session = %self.session, unit = %in_hand.unit, "a session is idle and has not stored the turn of a result; the result is offered again");
                if let Some(in_hand) = self.in_hand.take() {
                    self.debts.owe(in_hand.claim);
                }
                self.debts.pay().await?;
                Ok(Some(Look::CameBack))
            }
            Some(_) => {
                self.in_hand = None;
                Ok(Some(Look::CameBack))
            }
            None => {
                self.in_hand = None;
                self.gaps.close();
                Ok(None)
            }
        }
    }

    async fn hand_over(&mut self, next: Next, inbox: &dyn Inbox) -> Result<(), Leave> {
        let Next { place, due, unit, record } = next;
        if record.accepted.units[unit].inline {
            self.choice.pass_over(due.unit);
            return Ok(());
        }
        // A notice that came back after its unit had settled: what follows it is there already.
        if due.notice.is_some() && record.deliveries[unit].state != DeliveryState::Held {
            let dismissed = self.wiring.store.dismiss(&due.unit, self.now(), NOTICE_LATE).await;
            return match dismissed {
                Ok(_) => Ok(()),
                Err(error) => self.troubled(&error).await,
            };
        }
        let claim = ClaimId::from_bits((self.wiring.bits)());
        self.offering = Some(claim.clone());
        let offer =
            Offer { session: self.session.clone(), claim: claim.clone(), unit, notice: due.notice, record };
        let in_hand = InHand { unit: due.unit, place, claim: claim.clone() };
        let claimant = self.wiring.owner.claimant();
        let claimed = self.wiring.store.claim(&in_hand.unit, claim.clone(), &claimant, self.now()).await;
        match claimed {
            Ok(Some(_)) => {}
            // Somebody was faster; the next look tells what became of it.
            Ok(None) => return self.leave_alone().await,
            Err(error) => {
                // It may be held all the same.
                self.debts.owe(claim);
                return self.troubled(&error).await;
            }
        }
        let answer = AssertUnwindSafe(async { inbox.offer(offer).await }).catch_unwind();
        match attentive(&mut self.newest, answer).await {
            Ok(Ok(receipt)) => self.answered(receipt, in_hand).await,
            Ok(Err(_)) => {
                tracing::error!(session = %self.session, unit = %in_hand.unit, "BUG: an inbox panicked at an offer");
                self.give_back(claim, BROKE_OFF).await
            }
            Err(leave) => {
                // Whoever leaves has no time for gaps: a store that fails now is asked again later.
                self.debts.owe(claim);
                if let Err(error) = self.debts.pay().await {
                    tracing::debug!(session = %self.session, %error, "a claim could not be given back yet");
                }
                Err(leave)
            }
        }
    }

    async fn answered(&mut self, receipt: Receipt, in_hand: InHand) -> Result<(), Leave> {
        match receipt {
            Receipt::Accepted => {
                self.choice.taken(&in_hand.unit);
                self.in_hand = Some(in_hand);
                self.patience.close();
                Ok(())
            }
            Receipt::Busy => self.give_back(in_hand.claim, BUSY).await,
            Receipt::Unfit => {
                self.choice.set_aside(in_hand.unit, UNFIT);
                match self.debts.release(&in_hand.claim, UNFIT).await {
                    Ok(_) => Ok(()),
                    Err(error) => {
                        self.debts.owe(in_hand.claim);
                        self.troubled(&error).await
                    }
                }
            }
            Receipt::Gone => {
                let parked =
                    self.wiring.store.park(vec![in_hand.claim.clone()], self.now(), ParkReason::SessionGone);
                if let Err(error) = parked.await {
                    tracing::debug!(session = %self.session, %error, "a completion without a session could not be parked yet");
                    self.debts.owe(in_hand.claim);
                }
                Err(Leave::Closed)
            }
        }
    }

    /// Gives a claim back that the session did not take, and leaves the session alone for a while.
    async fn give_back(&mut self, claim: ClaimId, reason: &'static str) -> Result<(), Leave> {
        match self.debts.release(&claim, reason).await {
            Ok(_) => self.leave_alone().await,
            Err(error) => {
                self.debts.owe(claim);
                self.troubled(&error).await
            }
        }
    }

    /// The session is closed: it stores no turn any more, so nothing stays in its hands.
    async fn settle_up(&mut self) -> Leave {
        if let Some(in_hand) = self.in_hand.take() {
            match self.debts.release(&in_hand.claim, CLOSED).await {
                Ok(_) => {}
                Err(_) => self.debts.owe(in_hand.claim),
            }
        }
        while let Err(error) = self.debts.pay().await {
            if let Err(leave) = self.troubled(&error).await {
                return leave;
            }
        }
        Leave::Closed
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
