//! A store whose appends a test can hold, let pass one by one, and fail. Everything else goes straight through; it
//! stores nothing itself.

use legwork_core::delivery::ParkReason;
use legwork_core::fact::Append;
use legwork_core::ids::{
    CallKey, ChildId, ClaimId, DelegationId, Epoch, OwnerId, RequestId, SessionId, UnitId,
};
use legwork_core::message::Message;
use legwork_core::ports::{
    AppendError, Conversations, Facts, Filter, Found, Held, Listed, NewSession, News, Pause, Pending,
    Portion, SessionRecord, Steps, Store, StoreError, StoreHealth, Takeover, Turn, Undelivered, WriteSteps,
};
use legwork_core::pulse::Pulse;
use legwork_core::record::{DelegationRecord, Lease, OwnerRecord, ProcessGroup};
use legwork_core::steering::{Asked, Request, RequestRecord};
use legwork_core::step::{Actor, Fence, StepRecord};
use legwork_core::time::Timestamp;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::watch;

/// A store with a gate before its appends.
pub struct GatedStore {
    inner: Arc<dyn Store>,
    /// Written by the test, read by every append.
    gate: watch::Sender<Gate>,
    /// Written by every append that comes to the gate, read by the test.
    arrivals: watch::Sender<usize>,
    offered: Mutex<Vec<Append>>,
    refused: Mutex<Vec<DelegationId>>,
}

/// What an append meets.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Gate {
    /// It passes.
    Open,
    /// It waits, until the number of appends that may pass is above its own.
    Closed(usize),
    /// It fails.
    Failing(StoreError),
}

impl GatedStore {
    /// A gate before `inner`, open.
    pub fn new(inner: Arc<dyn Store>) -> Self {
        GatedStore {
            inner,
            gate: watch::Sender::new(Gate::Open),
            arrivals: watch::Sender::new(0),
            offered: Mutex::default(),
            refused: Mutex::default(),
        }
    }

    /// Appends that come from now on wait.
    pub fn close(&self) {
        self.gate.send_replace(Gate::Closed(self.arrived()));
    }

    /// One waiting append, or the next one to come, passes; those after it wait.
    pub fn let_one_pass(&self) {
        self.gate.send_modify(|gate| {
            if let Gate::Closed(passing) = gate {
                *passing += 1;
            }
        });
    }

    /// All appends pass.
    pub fn open(&self) {
        self.gate.send_replace(Gate::Open);
    }

    /// All appends fail with `error`, those that wait too.
    pub fn fail(&self, error: StoreError) {
        self.gate.send_replace(Gate::Failing(error));
    }

    /// Appends of `delegation` are refused from now on, while the others of their group pass.
    pub fn refuse(&self, delegation: DelegationId) {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner).push(delegation);
    }

    /// How many groups of appends came to the gate so far.
    pub fn arrived(&self) -> usize {
        *self.arrivals.borrow()
    }

    /// Waits until `count` appends have come to the gate.
    pub async fn until_arrived(&self, count: usize) {
        let mut arrivals = self.arrivals.subscribe();
        arrivals.wait_for(|arrived| *arrived >= count).await.expect("the store itself holds the sender");
    }

    /// Every group of facts that was offered, whatever became of it.
    pub fn offered(&self) -> Vec<Append> {
        self.offered.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn pass(&self, number: usize) -> Result<(), StoreError> {
        let mut gate = self.gate.subscribe();
        let passes = |gate: &Gate| !matches!(gate, Gate::Closed(passing) if *passing <= number);
        match &*gate.wait_for(passes).await.expect("the store itself holds the sender") {
            Gate::Failing(error) => Err(error.clone()),
            Gate::Open | Gate::Closed(_) => Ok(()),
        }
    }
}

fn refusal() -> AppendError {
    AppendError::Illegal("the test does not want it".to_owned())
}

impl Facts for GatedStore {
    fn append(&self, appends: Vec<Append>) -> Pending<'_, Result<Vec<Result<(), AppendError>>, StoreError>> {
        Box::pin(async move {
            self.offered.lock().unwrap_or_else(PoisonError::into_inner).extend(appends.iter().cloned());
            let number = self.arrived();
            self.arrivals.send_modify(|arrived| *arrived += 1);
            self.pass(number).await?;
            let refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let is_refused = |append: &Append| refused.contains(&append.delegation);
            let verdicts: Vec<bool> = appends.iter().map(is_refused).collect();
            let passing = appends.into_iter().filter(|append| !is_refused(append)).collect();
            let mut answers = self.inner.append(passing).await?.into_iter();
            let answer = |refused| if refused { Some(Err(refusal())) } else { answers.next() };
            Ok(verdicts.into_iter().map_while(answer).collect())
        })
    }

    fn enter(&self, owner: OwnerRecord, at: Timestamp) -> Pending<'_, Result<(), StoreError>> {
        self.inner.enter(owner, at)
    }

    fn delegation(&self, id: &DelegationId) -> Pending<'_, Result<Option<DelegationRecord>, StoreError>> {
        self.inner.delegation(id)
    }

    fn delegations(
        &self,
        filter: Filter,
    ) -> Pending<'_, Result<Listed<DelegationRecord, DelegationId>, StoreError>> {
        self.inner.delegations(filter)
    }

    fn by_call_key(&self, key: &CallKey) -> Pending<'_, Result<Option<DelegationId>, StoreError>> {
        self.inner.by_call_key(key)
    }

    fn find(&self, text: &str) -> Pending<'_, Result<Vec<Found>, StoreError>> {
        self.inner.find(text)
    }

    fn note_pulses(
        &self,
        fence: Fence,
        at: Timestamp,
        pulses: Vec<(ChildId, Pulse)>,
    ) -> Pending<'_, Result<(), StoreError>> {
        self.inner.note_pulses(fence, at, pulses)
    }

    fn claim(
        &self,
        unit: &UnitId,
        claim: ClaimId,
        claimant: &str,
        at: Timestamp,
    ) -> Pending<'_, Result<Option<ClaimId>, StoreError>> {
        self.inner.claim(unit, claim, claimant, at)
    }

    fn acknowledge(&self, claims: Vec<ClaimId>, at: Timestamp) -> Pending<'_, Result<(), StoreError>> {
        self.inner.acknowledge(claims, at)
    }

    fn release(
        &self,
        claims: Vec<ClaimId>,
        at: Timestamp,
        reason: &str,
    ) -> Pending<'_, Result<(), StoreError>> {
        self.inner.release(claims, at, reason)
    }

    fn park(
        &self,
        claims: Vec<ClaimId>,
        at: Timestamp,
        reason: ParkReason,
    ) -> Pending<'_, Result<(), StoreError>> {
        self.inner.park(claims, at, reason)
    }

    fn unpark(&self, unit: &UnitId, at: Timestamp) -> Pending<'_, Result<bool, StoreError>> {
        self.inner.unpark(unit, at)
    }

    fn dismiss(&self, unit: &UnitId, at: Timestamp, reason: &str) -> Pending<'_, Result<bool, StoreError>> {
        self.inner.dismiss(unit, at, reason)
    }

    fn ask(&self, request: Request) -> Pending<'_, Result<Asked, StoreError>> {
        self.inner.ask(request)
    }

    fn news(&self, after: u64) -> Pending<'_, Result<News, StoreError>> {
        self.inner.news(after)
    }

    fn steers(&self, child: &ChildId) -> Pending<'_, Result<Listed<RequestRecord, RequestId>, StoreError>> {
        self.inner.steers(child)
    }

    fn set_pause(&self, pause: Pause, at: Timestamp) -> Pending<'_, Result<bool, StoreError>> {
        self.inner.set_pause(pause, at)
    }

    fn undelivered(
        &self,
        session: &SessionId,
    ) -> Pending<'_, Result<Listed<Undelivered, UnitId>, StoreError>> {
        self.inner.undelivered(session)
    }

    fn due(&self, session: &SessionId, after: u64, most: usize) -> Pending<'_, Result<Portion, StoreError>> {
        self.inner.due(session, after, most)
    }

    fn settle_request(
        &self,
        request: &RequestId,
        owner: &OwnerId,
        at: Timestamp,
    ) -> Pending<'_, Result<(), StoreError>> {
        self.inner.settle_request(request, owner, at)
    }

    fn owner(&self, id: &OwnerId) -> Pending<'_, Result<Option<OwnerRecord>, StoreError>> {
        self.inner.owner(id)
    }

    fn renew(&self, owner: &OwnerId, period: Duration, at: Timestamp) -> Pending<'_, Result<(), StoreError>> {
        self.inner.renew(owner, period, at)
    }

    fn lease(&self, owner: &OwnerId) -> Pending<'_, Result<Option<Lease>, StoreError>> {
        self.inner.lease(owner)
    }

    fn declare_gone(
        &self,
        owner: &OwnerId,
        beats: u64,
        at: Timestamp,
    ) -> Pending<'_, Result<bool, StoreError>> {
        self.inner.declare_gone(owner, beats, at)
    }

    fn owners_of_open(&self) -> Pending<'_, Result<Vec<OwnerRecord>, StoreError>> {
        self.inner.owners_of_open()
    }

    fn take_over(&self, takeover: Takeover) -> Pending<'_, Result<Vec<(DelegationId, Epoch)>, StoreError>> {
        self.inner.take_over(takeover)
    }

    fn note_group(
        &self,
        fence: Fence,
        child: Actor,
        group: ProcessGroup,
    ) -> Pending<'_, Result<(), StoreError>> {
        self.inner.note_group(fence, child, group)
    }

    fn drop_group(&self, child: Actor, group: ProcessGroup) -> Pending<'_, Result<(), StoreError>> {
        self.inner.drop_group(child, group)
    }

    fn groups_of(&self, owner: &OwnerId) -> Pending<'_, Result<Vec<(Actor, ProcessGroup)>, StoreError>> {
        self.inner.groups_of(owner)
    }

    fn prune(&self, before: Timestamp) -> Pending<'_, Result<usize, StoreError>> {
        self.inner.prune(before)
    }

    fn health(&self) -> Pending<'_, Result<StoreHealth, StoreError>> {
        self.inner.health()
    }
}

impl Steps for GatedStore {
    fn write_steps(&self, write: WriteSteps) -> Pending<'_, Result<(), StoreError>> {
        self.inner.write_steps(write)
    }

    fn steps(&self, actor: &Actor) -> Pending<'_, Result<Vec<StepRecord>, StoreError>> {
        self.inner.steps(actor)
    }
}

impl Conversations for GatedStore {
    fn create_session(&self, session: NewSession, holder: &OwnerId) -> Pending<'_, Result<(), StoreError>> {
        self.inner.create_session(session, holder)
    }

    fn session(&self, id: &SessionId) -> Pending<'_, Result<Option<SessionRecord>, StoreError>> {
        self.inner.session(id)
    }

    fn sessions(
        &self,
        folder: Option<&str>,
    ) -> Pending<'_, Result<Listed<SessionRecord, SessionId>, StoreError>> {
        self.inner.sessions(folder)
    }

    fn hold_session(
        &self,
        id: &SessionId,
        owner: &OwnerId,
        instead_of: Option<&OwnerId>,
    ) -> Pending<'_, Result<Held, StoreError>> {
        self.inner.hold_session(id, owner, instead_of)
    }

    fn release_session(&self, id: &SessionId, owner: &OwnerId) -> Pending<'_, Result<(), StoreError>> {
        self.inner.release_session(id, owner)
    }

    fn rename_session(&self, id: &SessionId, name: Option<&str>) -> Pending<'_, Result<(), StoreError>> {
        self.inner.rename_session(id, name)
    }

    fn delete_session(&self, id: &SessionId) -> Pending<'_, Result<(), StoreError>> {
        self.inner.delete_session(id)
    }

    fn discard_session(&self, id: &SessionId, owner: &OwnerId) -> Pending<'_, Result<bool, StoreError>> {
        self.inner.discard_session(id, owner)
    }

    fn append_turn(&self, turn: Turn) -> Pending<'_, Result<(), StoreError>> {
        self.inner.append_turn(turn)
    }

    fn history(&self, id: &SessionId) -> Pending<'_, Result<Vec<Message>, StoreError>> {
        self.inner.history(id)
    }
}
