//! A store whose calls a test delays and lets fail, before or after they were carried out, and whose answers it bends to
//! see whether somebody notices. It writes down which calls came and stores nothing itself.

use legwork_core::delivery::ParkReason;
use legwork_core::fact::{Append, Fact};
use legwork_core::ids::{
    CallKey, ChildId, ClaimId, DelegationId, Epoch, OwnerId, RequestId, SessionId, UnitId,
};
use legwork_core::message::Message;
use legwork_core::ports::{
    AppendError, Conversations, Facts, Filter, Found, Held, NewSession, News, Pending, SessionRecord, Steps,
    Store, StoreError, StoreHealth, Turn, Undelivered, WriteSteps,
};
use legwork_core::pulse::Pulse;
use legwork_core::record::{DelegationRecord, Lease, OwnerRecord, ProcessGroup};
use legwork_core::steering::{Asked, Request, RequestRecord};
use legwork_core::step::{Actor, Fence, StepRecord};
use legwork_core::time::Timestamp;
use std::future::pending;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::sleep;

/// What a call meets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Luck {
    /// It is carried out.
    Good,
    /// It is carried out, and its answer takes this long.
    Slow(Duration),
    /// It fails and nothing is done.
    Fails,
    /// It is carried out, and fails all the same.
    FailsLate,
    /// The process dies before it is carried out: there is never an answer.
    Dies,
    /// The process dies right after it was carried out: there is never an answer.
    DiesLate,
}

/// A bug that a store can be given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bend {
    /// What became ready last is told first.
    ReadyBackwards,
    /// Every session is told of what is ready for any other.
    ReadyOfStrangers,
    /// A turn is stored without the claims that it carries, which are given back.
    ForgetsClaims,
    /// Claims are never given back.
    KeepsClaims,
    /// Requests are told again and again.
    RepeatsRequests,
}

/// Decides by the name of the port's method.
type Fortune = Box<dyn FnMut(&'static str) -> Luck + Send>;

/// A store over another one.
pub struct ShakyStore {
    inner: Arc<dyn Store>,
    fortune: Mutex<Fortune>,
    /// The names of the calls that came, in order.
    calls: Mutex<Vec<&'static str>>,
    /// The units whose settling was recorded, in order.
    settled: Mutex<Vec<UnitId>>,
    bend: Option<Bend>,
}

impl ShakyStore {
    /// A store over `inner` that does as it is told.
    pub fn new(inner: Arc<dyn Store>) -> Self {
        ShakyStore {
            inner,
            fortune: Mutex::new(Box::new(|_| Luck::Good)),
            calls: Mutex::default(),
            settled: Mutex::default(),
            bend: None,
        }
    }

    /// The same with a bug.
    pub fn bent(inner: Arc<dyn Store>, bend: Option<Bend>) -> Self {
        ShakyStore { bend, ..ShakyStore::new(inner) }
    }

    /// From now on `fortune` decides what becomes of each call.
    pub fn let_decide(&self, fortune: impl FnMut(&'static str) -> Luck + Send + 'static) {
        *locked(&self.fortune) = Box::new(fortune);
    }

    /// The calls with these names fail, until something else is said.
    pub fn fail(&self, names: &'static [&'static str]) {
        self.let_decide(move |name| if names.contains(&name) { Luck::Fails } else { Luck::Good });
    }

    /// From now on every call is carried out.
    pub fn recover(&self) {
        self.let_decide(|_| Luck::Good);
    }

    /// The names of all calls since the last time this was asked.
    pub fn take_calls(&self) -> Vec<&'static str> {
        std::mem::take(&mut *locked(&self.calls))
    }

    /// The units whose settling was recorded, in the order in which that happened.
    pub fn settled(&self) -> Vec<UnitId> {
        locked(&self.settled).clone()
    }

    fn luck(&self, name: &'static str) -> Luck {
        locked(&self.calls).push(name);
        locked(&self.fortune)(name)
    }

    /// Carries a call out as luck has it, at once, so that dropping the answer does not take it back.
    fn meet<'a, T: Send + 'a>(
        &'a self,
        luck: Luck,
        call: impl FnOnce() -> Pending<'a, Result<T, StoreError>>,
    ) -> Pending<'a, Result<T, StoreError>> {
        match luck {
            Luck::Good => call(),
            Luck::Slow(time) => {
                let done = call();
                Box::pin(async move {
                    let answer = done.await;
                    // Deadline: the test wants the answer to take this long.
                    sleep(time).await;
                    answer
                })
            }
            Luck::Fails => Box::pin(async { Err(failure()) }),
            Luck::FailsLate => {
                let done = call();
                Box::pin(async move { done.await.and(Err(failure())) })
            }
            Luck::Dies => Box::pin(pending()),
            Luck::DiesLate => {
                let done = call();
                Box::pin(async move {
                    // Whether it fails is of no interest to the dead.
                    done.await.ok();
                    pending().await
                })
            }
        }
    }
}

fn settled_units(append: &Append) -> Vec<UnitId> {
    let settled = append.facts.iter().filter_map(|fact| match fact {
        Fact::UnitSettled { unit } => Some(unit.clone()),
        Fact::Accepted(_) | Fact::Moved { .. } | Fact::Noticed { .. } => None,
    });
    settled.collect()
}

fn locked<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn failure() -> StoreError {
    StoreError::Io("the disk has a bad day".to_owned())
}

/// Methods that go to the inner store as they are, if they have luck.
macro_rules! passed_on {
    ($($name:ident($($given:ident: $kind:ty),*) -> $answer:ty;)+) => {
        $(
            fn $name(&self, $($given: $kind),*) -> Pending<'_, Result<$answer, StoreError>> {
                let luck = self.luck(stringify!($name));
                self.meet(luck, || self.inner.$name($($given),*))
            }
        )+
    };
}

impl Facts for ShakyStore {
    fn append(&self, appends: Vec<Append>) -> Pending<'_, Result<Vec<Result<(), AppendError>>, StoreError>> {
        let luck = self.luck("append");
        let settled: Vec<Vec<UnitId>> = appends.iter().map(settled_units).collect();
        self.meet(luck, move || {
            let recorded = self.inner.append(appends);
            Box::pin(async move {
                let answers = recorded.await?;
                let taken = answers.iter().zip(settled).filter(|(answer, _)| answer.is_ok());
                locked(&self.settled).extend(taken.flat_map(|(_, units)| units));
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
        let luck = self.luck("release");
        let keeps = self.bend == Some(Bend::KeepsClaims);
        let kept = if keeps { Vec::new() } else { claims };
        self.meet(luck, || self.inner.release(kept, at, reason))
    }

    fn news(&self, after: u64) -> Pending<'_, Result<News, StoreError>> {
        let luck = self.luck("news");
        let after = if self.bend == Some(Bend::RepeatsRequests) { 0 } else { after };
        self.meet(luck, || self.inner.news(after))
    }

    fn undelivered(&self, session: &SessionId) -> Pending<'_, Result<Vec<Undelivered>, StoreError>> {
        let luck = self.luck("undelivered");
        let session = session.clone();
        self.meet(luck, move || {
            Box::pin(async move {
                let mut units = self.inner.undelivered(&session).await?;
                match self.bend {
                    Some(Bend::ReadyBackwards) => units.reverse(),
                    Some(Bend::ReadyOfStrangers) => {
                        for other in self.inner.sessions(None).await? {
                            units.extend(self.inner.undelivered(&other.session.id).await?);
                        }
                    }
                    Some(Bend::ForgetsClaims | Bend::KeepsClaims | Bend::RepeatsRequests) | None => {}
                }
                Ok(units)
            })
        })
    }

    passed_on! {
        enter(owner: OwnerRecord, at: Timestamp) -> ();
        delegation(id: &DelegationId) -> Option<DelegationRecord>;
        delegations(filter: Filter) -> Vec<DelegationRecord>;
        by_call_key(key: &CallKey) -> Option<DelegationId>;
        find(text: &str) -> Vec<Found>;
        note_pulses(fence: Fence, at: Timestamp, pulses: Vec<(ChildId, Pulse)>) -> ();
        claim(unit: &UnitId, claim: ClaimId, claimant: &str, at: Timestamp) -> Option<ClaimId>;
        acknowledge(claims: Vec<ClaimId>, at: Timestamp) -> ();
        park(claims: Vec<ClaimId>, at: Timestamp, reason: ParkReason) -> ();
        unpark(unit: &UnitId, at: Timestamp) -> bool;
        dismiss(unit: &UnitId, at: Timestamp, reason: &str) -> bool;
        ask(request: Request) -> Asked;
        steers(child: &ChildId) -> Vec<RequestRecord>;
        set_paused(paused: bool, at: Timestamp) -> bool;
        settle_request(request: &RequestId, owner: &OwnerId, at: Timestamp) -> ();
        owner(id: &OwnerId) -> Option<OwnerRecord>;
        renew(owner: &OwnerId, period: Duration, at: Timestamp) -> ();
        lease(owner: &OwnerId) -> Option<Lease>;
        declare_gone(owner: &OwnerId, beats: u64, at: Timestamp) -> bool;
        owners_of_open() -> Vec<OwnerRecord>;
        take_over(from: &OwnerId, to: &OwnerId, delegations: Vec<DelegationId>, at: Timestamp) -> Vec<(DelegationId, Epoch)>;
        note_group(fence: Fence, child: Actor, group: ProcessGroup) -> ();
        drop_group(child: Actor, group: ProcessGroup) -> ();
        groups_of(owner: &OwnerId) -> Vec<(Actor, ProcessGroup)>;
        prune(before: Timestamp) -> usize;
        health() -> StoreHealth;
    }
}

impl Steps for ShakyStore {
    passed_on! {
        write_steps(write: WriteSteps) -> ();
        steps(actor: &Actor) -> Vec<StepRecord>;
    }
}

impl Conversations for ShakyStore {
    fn append_turn(&self, turn: Turn) -> Pending<'_, Result<(), StoreError>> {
        let luck = self.luck("append_turn");
        self.meet(luck, move || {
            if self.bend != Some(Bend::ForgetsClaims) || turn.acknowledge.is_empty() {
                return self.inner.append_turn(turn);
            }
            let (claims, at) = (turn.acknowledge.clone(), turn.at);
            let stored = self.inner.append_turn(Turn { acknowledge: Vec::new(), ..turn });
            Box::pin(async move {
                stored.await?;
                self.inner.release(claims, at, "a bug").await
            })
        })
    }

    passed_on! {
        create_session(session: NewSession, holder: &OwnerId) -> ();
        session(id: &SessionId) -> Option<SessionRecord>;
        sessions(folder: Option<&str>) -> Vec<SessionRecord>;
        hold_session(id: &SessionId, owner: &OwnerId, instead_of: Option<&OwnerId>) -> Held;
        release_session(id: &SessionId, owner: &OwnerId) -> ();
        rename_session(id: &SessionId, name: Option<&str>) -> ();
        delete_session(id: &SessionId) -> ();
        history(id: &SessionId) -> Vec<Message>;
    }
}
