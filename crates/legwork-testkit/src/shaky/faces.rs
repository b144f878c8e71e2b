//! The three faces of a shaky store: every call meets its luck, and some are bent.

use super::{Bend, Content, SettledUnit, ShakyStore, locked, settled_units};
use legwork_core::delivery::{DeliveryState, Lead, ParkReason};
use legwork_core::fact::Append;
use legwork_core::ids::{
    CallKey, ChildId, ClaimId, DelegationId, Epoch, OwnerId, RequestId, SessionId, UnitId,
};
use legwork_core::message::Message;
use legwork_core::ports::{
    AppendError, Conversations, Due, Facts, Filter, Found, Held, Listed, NewSession, News, Pause, Pending,
    Portion, SessionRecord, Steps, StoreError, StoreHealth, Takeover, Turn, Undelivered, WriteSteps,
};
use legwork_core::pulse::Pulse;
use legwork_core::record::{DelegationRecord, Lease, OwnerRecord, ProcessGroup};
use legwork_core::steering::{Asked, Request, RequestRecord};
use legwork_core::step::{Actor, Fence, StepRecord};
use legwork_core::time::Timestamp;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Methods that go to the inner store as they are, if they have luck.
macro_rules! passed_on {
    ($($name:ident($($given:ident: $kind:ty),*) -> $answer:ty;)+) => {
        $(
            fn $name(&self, $($given: $kind),*) -> Pending<'_, Result<$answer, StoreError>> {
                let luck = self.luck(stringify!($name), Content::Other);
                self.meet(luck, || self.inner.$name($($given),*))
            }
        )+
    };
}

impl Facts for ShakyStore {
    fn append(&self, appends: Vec<Append>) -> Pending<'_, Result<Vec<Result<(), AppendError>>, StoreError>> {
        if self.stands_still() {
            return Box::pin(async move {
                self.until_it_goes_on().await;
                self.append(appends).await
            });
        }
        let luck = self.luck("append", Content::Facts(&appends));
        let settled: Vec<Vec<UnitId>> = appends.iter().map(settled_units).collect();
        self.meet(luck, move || {
            let began = locked(&self.settled).moment();
            let recorded = self.inner.append(appends);
            Box::pin(async move {
                let answers = recorded.await?;
                let taken = answers.iter().zip(settled).filter(|(answer, _)| answer.is_ok());
                let mut settled = locked(&self.settled);
                let ended = settled.moment();
                let taken = taken.flat_map(|(_, units)| units);
                settled.units.extend(taken.map(|unit| SettledUnit { unit, began, ended }));
                Ok(answers)
            })
        })
    }

    fn release(
        &self,
        claims: Vec<ClaimId>,
        at: Timestamp,
        reason: &str,
    ) -> Pending<'_, Result<(), StoreError>> {
        let luck = self.luck("release", Content::Other);
        let keeps = self.bend == Some(Bend::KeepsClaims);
        let kept = if keeps { Vec::new() } else { claims };
        self.meet(luck, || self.inner.release(kept, at, reason))
    }

    fn renew(&self, owner: &OwnerId, period: Duration, at: Timestamp) -> Pending<'_, Result<(), StoreError>> {
        let luck = self.luck("renew", Content::Other);
        let (forgets, facts) = (self.bend == Some(Bend::ForgetsRenewals), self.inner.clone());
        let owner = owner.clone();
        self.meet(luck, move || {
            Box::pin(async move {
                // The first one makes the lease.
                if forgets && facts.lease(&owner).await?.is_some() {
                    return Ok(());
                }
                facts.renew(&owner, period, at).await
            })
        })
    }

    fn news(&self, after: u64) -> Pending<'_, Result<News, StoreError>> {
        let luck = self.luck("news", Content::Other);
        let after = if self.bend == Some(Bend::RepeatsRequests) { 0 } else { after };
        self.meet(luck, || self.inner.news(after))
    }

    fn undelivered(
        &self,
        session: &SessionId,
    ) -> Pending<'_, Result<Listed<Undelivered, UnitId>, StoreError>> {
        let luck = self.luck("undelivered", Content::Other);
        let session = session.clone();
        self.meet(luck, move || {
            Box::pin(async move {
                let due = self.bent_due(&session).await?;
                self.read.fetch_add(due.rows.len(), Ordering::Relaxed);
                let rows = due.rows.into_iter().map(|due| due.due).collect();
                Ok(Listed { rows, unreadable: due.unreadable.into_iter().map(|(_, unit)| unit).collect() })
            })
        })
    }

    fn due(&self, session: &SessionId, after: u64, most: usize) -> Pending<'_, Result<Portion, StoreError>> {
        let luck = self.luck("due", Content::Other);
        let session = session.clone();
        self.meet(luck, move || {
            Box::pin(async move {
                let mut due = self.bent_due(&session).await?;
                due.rows.retain(|due| due.place > after);
                due.rows.truncate(most);
                due.unreadable.retain(|(place, _)| *place > after);
                self.read.fetch_add(due.rows.len(), Ordering::Relaxed);
                Ok(due)
            })
        })
    }

    fn delegations(
        &self,
        filter: Filter,
    ) -> Pending<'_, Result<Listed<DelegationRecord, DelegationId>, StoreError>> {
        let luck = self.luck("delegations", Content::Other);
        let is_below = matches!(filter, Filter::Below(_));
        self.meet(luck, move || {
            let found = self.inner.delegations(filter);
            Box::pin(async move {
                let mut found = found.await?;
                match self.bend.filter(|_| is_below) {
                    Some(Bend::ForgetsUnread) => found.rows.clear(),
                    Some(Bend::TellsAgain) => found.rows.iter_mut().for_each(call_unread),
                    Some(
                        Bend::ReadyBackwards
                        | Bend::ReadyOfStrangers
                        | Bend::ForgetsClaims
                        | Bend::AcknowledgesAfterwards
                        | Bend::KeepsClaims
                        | Bend::RepeatsRequests
                        | Bend::IgnoresFences
                        | Bend::ForgetsRenewals
                        | Bend::LeavesBehind,
                    )
                    | None => {}
                }
                Ok(found)
            })
        })
    }

    passed_on! {
        enter(owner: OwnerRecord, at: Timestamp) -> ();
        delegation(id: &DelegationId) -> Option<DelegationRecord>;
        by_call_key(key: &CallKey) -> Option<DelegationId>;
        find(text: &str) -> Vec<Found>;
        note_pulses(fence: Fence, at: Timestamp, pulses: Vec<(ChildId, Pulse)>) -> ();
        claim(unit: &UnitId, claim: ClaimId, claimant: &str, at: Timestamp) -> Option<ClaimId>;
        acknowledge(claims: Vec<ClaimId>, at: Timestamp) -> ();
        park(claims: Vec<ClaimId>, at: Timestamp, reason: ParkReason) -> ();
        unpark(unit: &UnitId, at: Timestamp) -> bool;
        dismiss(unit: &UnitId, at: Timestamp, reason: &str) -> bool;
        ask(request: Request) -> Asked;
        steers(child: &ChildId) -> Listed<RequestRecord, RequestId>;
        set_pause(pause: Pause, at: Timestamp) -> bool;
        settle_request(request: &RequestId, owner: &OwnerId, at: Timestamp) -> ();
        owner(id: &OwnerId) -> Option<OwnerRecord>;
        lease(owner: &OwnerId) -> Option<Lease>;
        declare_gone(owner: &OwnerId, beats: u64, at: Timestamp) -> bool;
        owners_of_open() -> Vec<OwnerRecord>;
        take_over(takeover: Takeover) -> Vec<(DelegationId, Epoch)>;
        note_group(fence: Fence, child: Actor, group: ProcessGroup) -> ();
        drop_group(child: Actor, group: ProcessGroup) -> ();
        groups_of(owner: &OwnerId) -> Vec<(Actor, ProcessGroup)>;
        prune(before: Timestamp) -> usize;
        health() -> StoreHealth;
    }
}

impl Steps for ShakyStore {
    fn write_steps(&self, write: WriteSteps) -> Pending<'_, Result<(), StoreError>> {
        if self.stands_still() {
            return Box::pin(async move {
                self.until_it_goes_on().await;
                self.write_steps(write).await
            });
        }
        let luck = self.luck("write_steps", Content::Steps(&write));
        self.meet(luck, || match self.bend {
            Some(Bend::IgnoresFences) => Box::pin(self.write_as_whoever_may(write)),
            Some(
                Bend::ReadyBackwards
                | Bend::ReadyOfStrangers
                | Bend::ForgetsClaims
                | Bend::AcknowledgesAfterwards
                | Bend::KeepsClaims
                | Bend::RepeatsRequests
                | Bend::ForgetsRenewals
                | Bend::ForgetsUnread
                | Bend::TellsAgain
                | Bend::LeavesBehind,
            )
            | None => self.inner.write_steps(write),
        })
    }

    passed_on! {
        steps(actor: &Actor) -> Vec<StepRecord>;
    }
}

impl Conversations for ShakyStore {
    fn append_turn(&self, turn: Turn) -> Pending<'_, Result<(), StoreError>> {
        if self.stands_still() {
            return Box::pin(async move {
                self.until_it_goes_on().await;
                self.append_turn(turn).await
            });
        }
        let luck = self.luck("append_turn", Content::Turn(&turn));
        self.meet(luck, move || match self.bend {
            Some(Bend::ForgetsClaims) if !turn.acknowledge.is_empty() => {
                let (claims, at) = (turn.acknowledge.clone(), turn.at);
                let stored = self.inner.append_turn(Turn { acknowledge: Vec::new(), ..turn });
                Box::pin(async move {
                    stored.await?;
                    self.inner.release(claims, at, "a bug").await
                })
            }
            Some(Bend::AcknowledgesAfterwards) if !turn.acknowledge.is_empty() => {
                let (claims, at) = (turn.acknowledge.clone(), turn.at);
                let stored = self.inner.append_turn(Turn { acknowledge: Vec::new(), ..turn });
                Box::pin(async move {
                    stored.await?;
                    self.inner.acknowledge(claims, at).await
                })
            }
            Some(
                Bend::ReadyBackwards
                | Bend::ReadyOfStrangers
                | Bend::ForgetsClaims
                | Bend::AcknowledgesAfterwards
                | Bend::KeepsClaims
                | Bend::RepeatsRequests
                | Bend::IgnoresFences
                | Bend::ForgetsRenewals
                | Bend::ForgetsUnread
                | Bend::TellsAgain
                | Bend::LeavesBehind,
            )
            | None => self.inner.append_turn(turn),
        })
    }

    passed_on! {
        create_session(session: NewSession, holder: &OwnerId) -> ();
        session(id: &SessionId) -> Option<SessionRecord>;
        sessions(folder: Option<&str>) -> Listed<SessionRecord, SessionId>;
        hold_session(id: &SessionId, owner: &OwnerId, instead_of: Option<&OwnerId>) -> Held;
        release_session(id: &SessionId, owner: &OwnerId) -> ();
        rename_session(id: &SessionId, name: Option<&str>) -> ();
        delete_session(id: &SessionId) -> ();
        discard_session(id: &SessionId, owner: &OwnerId) -> bool;
        history(id: &SessionId) -> Vec<Message>;
    }
}

/// The place of what became ready last, and of the first unit of a stranger, where these are bent.
const LAST_PLACE: u64 = 1 << 32;

impl ShakyStore {
    /// All that is due to a session, in the order in which this store gives it.
    async fn bent_due(&self, session: &SessionId) -> Result<Portion, StoreError> {
        let mut due = self.inner.due(session, 0, usize::MAX).await?;
        match self.bend {
            Some(Bend::ReadyBackwards) => {
                due.rows.reverse();
                due.rows.iter_mut().for_each(|due| due.place = LAST_PLACE - due.place);
            }
            Some(Bend::ReadyOfStrangers) => {
                let others = self.inner.sessions(None).await?.rows.into_iter().map(|other| other.session.id);
                for (other, first) in others.zip((1..).map(|number: u64| number * LAST_PLACE)) {
                    let strangers = self.inner.due(&other, 0, usize::MAX).await?;
                    due.rows.extend(
                        strangers.rows.into_iter().map(|due| Due { place: first + due.place, ..due }),
                    );
                }
            }
            Some(Bend::LeavesBehind) => {
                let mut own = Vec::new();
                for due in due.rows {
                    let record = self.inner.delegation(&due.due.delegation).await?;
                    if record.is_some_and(|record| record.accepted.lineage.parent.is_none()) {
                        own.push(due);
                    }
                }
                return Ok(Portion { rows: own, unreadable: due.unreadable });
            }
            Some(
                Bend::ForgetsClaims
                | Bend::AcknowledgesAfterwards
                | Bend::KeepsClaims
                | Bend::RepeatsRequests
                | Bend::IgnoresFences
                | Bend::ForgetsRenewals
                | Bend::ForgetsUnread
                | Bend::TellsAgain,
            )
            | None => {}
        }
        Ok(due)
    }
}

/// Lets what was delivered look as if it had been told with something above.
fn call_unread(record: &mut DelegationRecord) {
    let above = UnitId::from_stored("above");
    let delivered =
        record.deliveries.iter_mut().filter(|delivery| delivery.state == DeliveryState::Delivered);
    for line in delivered.filter_map(|delivery| delivery.ledger.last_mut()) {
        line.reason = Some(Lead::Told.reason(&above));
    }
}
