//! One session's courier: it waits until something is ready and the session is idle, claims the first unit in the order
//! in which they became ready, and offers it. Where results are is read from the store before every offer, in portions from the
//! front, and no further than the first that can be offered.
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
use legwork_core::ports::{Due, Inbox, Offer, Receipt, StoreError, Undelivered};
use legwork_core::record::DelegationRecord;
use legwork_core::taking::Taker;
use legwork_core::time::Timestamp;
use std::collections::{HashMap, HashSet};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, sleep_until};

/// Between tries of an offer that came back, or of a store that fails.
const FIRST_GAP: Duration = Duration::from_millis(100);
const LONGEST_GAP: Duration = Duration::from_secs(30);
/// Work that another process settles rings no bell here, so the store is looked at this often without one: somebody may sit at the
/// conversation and wait for it, and a look that finds nothing reads one entry of an index.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// Units that are read at once.
const PORTION: usize = 32;

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
    aside: HashMap<UnitId, SetAside>,
}

/// A unit that is tried again when its time has come, and keeps nothing back meanwhile (invariant 3).
struct SetAside {
    gaps: Gaps,
    again_at: Instant,
}

struct Hold {
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

/// A unit that is ready, with where it stands among what is due, and its delegation.
struct Next {
    place: u64,
    due: Undelivered,
    /// Which unit of the record it is, or tells of.
    unit: usize,
    record: DelegationRecord,
}

/// What becomes of a unit in its turn.
enum Turn {
    /// It is offered.
    Next(Box<Next>),
    /// Those behind it go first.
    Passed,
    /// The same, until then.
    Later(Instant),
}

/// What a look into the store found.
enum Look {
    /// The next unit to offer.
    Next(Box<Next>),
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
            aside: HashMap::new(),
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
            Ok(Look::Next(next)) => self.hand_over(*next, inbox).await,
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
        self.pay().await?;
        if let Some(look) = self.look_at_hand().await? {
            return Ok(look);
        }
        let (mut later, mut after) = (None::<Instant>, 0);
        loop {
            let portion = self.wiring.store.due(&self.session, after, PORTION).await?;
            let Some(last) = portion.last_place() else {
                return Ok(later.map_or(Look::Nothing, Look::Later));
            };
            after = last;
            for (_, unit) in portion.unreadable {
                self.set_aside(unit, "where they are cannot be read; `legwork doctor` says what to do");
            }
            for due in portion.rows {
                match self.turn_of(due, reach).await? {
                    Turn::Next(next) => return Ok(Look::Next(next)),
                    Turn::Passed => {}
                    Turn::Later(then) => later = Some(later.map_or(then, |other| other.min(then))),
                }
            }
        }
    }

    /// What became of what the session took; nothing when it has nothing in hand any more.
    async fn look_at_hand(&mut self) -> Result<Option<Look>, StoreError> {
        let Some(hold) = &self.in_hand else { return Ok(None) };
        let at_its_place = self.wiring.store.due(&self.session, hold.place - 1, 1).await?;
        let mine = at_its_place.rows.into_iter().find(|due| due.due.unit == hold.unit);
        match mine.map(|due| due.due.state) {
            Some(DeliveryState::Claimed { claim, .. }) if claim == hold.claim => {
                if !self.patience.is_longest() {
                    return Ok(Some(Look::InHand));
                }
                tracing::warn!(session = %self.session, unit = %hold.unit, "a session is idle and has not stored the turn of a result; the result is offered again");
                self.owed.extend(self.in_hand.take().map(|hold| hold.claim));
                self.pay().await?;
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

    /// Whether a unit can be offered now. One that is parked is made ready, for the session is here, and so is one that the dead
    /// had taken; one that cannot be read is set aside.
    async fn turn_of(&mut self, Due { place, due }: Due, reach: Reach) -> Result<Turn, StoreError> {
        let is_mine = due.reach == reach && reach != Reach::Joined && !self.inline.contains(&due.unit);
        if !is_mine {
            return Ok(Turn::Passed);
        }
        if let Some(aside) = self.aside.get(&due.unit)
            && aside.again_at > Instant::now()
        {
            return Ok(Turn::Later(aside.again_at));
        }
        if !self.taker().make_ready(&due.unit, &due.state, due.claimant.as_deref()).await? {
            return Ok(Turn::Passed);
        }
        let (record, unit) = match self.read(&due).await {
            Ok(found) => found,
            Err(error @ (StoreError::Corrupt(_) | StoreError::Conflict(_))) => {
                return Ok(Turn::Later(self.set_aside(due.unit, &error.to_string())));
            }
            Err(error) => return Err(error),
        };
        if due.notice.is_none() && self.is_held_back((&record, unit)).await? {
            return Ok(Turn::Passed);
        }
        Ok(Turn::Next(Box::new(Next { place, due, unit, record })))
    }

    /// The delegation of a unit, and which of its units it is.
    async fn read(&self, due: &Undelivered) -> Result<(DelegationRecord, usize), StoreError> {
        let record = self.wiring.store.delegation(&due.delegation).await?;
        let gone = || StoreError::Conflict(format!("the unit {} is not stored any more", due.unit));
        let record = record.ok_or_else(gone)?;
        let is_it = |unit: &Unit| match due.notice {
            Some(task) => unit.task_indexes.contains(&task),
            None => unit.id == due.unit,
        };
        let unit = record.accepted.units.iter().position(is_it).ok_or_else(gone)?;
        Ok((record, unit))
    }

    /// Whether something that a child of the unit had sent out is still to end: it is told with the unit, and whatever settled
    /// between the offer and the turn would count as told.
    async fn is_held_back(&self, (record, unit): (&DelegationRecord, usize)) -> Result<bool, StoreError> {
        let below = Below::of(self.wiring.store.as_ref(), record).await?;
        Ok(below.open_under(&record.accepted.units[unit].task_indexes).next().is_some())
    }

    /// The unit cannot be handed over, and that is no trouble of the store's or the session's: those after it go first, until the
    /// time that is given back.
    fn set_aside(&mut self, unit: UnitId, why: &str) -> Instant {
        let now = Instant::now();
        if let Some(aside) = self.aside.get_mut(&unit) {
            aside.again_at = now + aside.gaps.widen();
            return aside.again_at;
        }
        tracing::error!(session = %self.session, %unit, why, "results cannot be brought to their session; they are kept and tried again, and others go before them");
        let mut gaps = Gaps::new(FIRST_GAP, LONGEST_GAP);
        let again_at = now + gaps.widen();
        self.aside.insert(unit, SetAside { gaps, again_at });
        again_at
    }

    async fn hand_over(&mut self, next: Next, inbox: &dyn Inbox) -> Result<(), Leave> {
        let Next { place, due, unit, record } = next;
        if record.accepted.units[unit].inline {
            self.inline.insert(due.unit);
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
        let offer =
            Offer { session: self.session.clone(), claim: claim.clone(), unit, notice: due.notice, record };
        let hold = Hold { unit: due.unit, place, claim: claim.clone() };
        let claimant = self.wiring.owner.claimant();
        let claimed = self.wiring.store.claim(&hold.unit, claim.clone(), &claimant, self.now()).await;
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
            Ok(Ok(receipt)) => self.answered(receipt, hold).await,
            Ok(Err(_)) => {
                tracing::error!(session = %self.session, unit = %hold.unit, "BUG: an inbox panicked at an offer");
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

    async fn answered(&mut self, receipt: Receipt, hold: Hold) -> Result<(), Leave> {
        match receipt {
            Receipt::Accepted => {
                self.aside.remove(&hold.unit);
                self.in_hand = Some(hold);
                self.patience.close();
                Ok(())
            }
            Receipt::Busy => self.give_back(hold.claim, BUSY).await,
            Receipt::Unfit => {
                self.set_aside(hold.unit, UNFIT);
                match self.release(&hold.claim, UNFIT).await {
                    Ok(_) => Ok(()),
                    Err(error) => {
                        self.owed.push(hold.claim);
                        self.troubled(&error).await
                    }
                }
            }
            Receipt::Gone => {
                let parked =
                    self.wiring.store.park(vec![hold.claim.clone()], self.now(), ParkReason::SessionGone);
                if let Err(error) = parked.await {
                    tracing::debug!(session = %self.session, %error, "a completion without a session could not be parked yet");
                    self.owed.push(hold.claim);
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
