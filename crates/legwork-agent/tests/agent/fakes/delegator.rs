//! An engine over the store in memory, whose children all end as soon as somebody joins them.

use super::bench::Bench;
use legwork_agent::tools::ToolOutput;
use legwork_core::batch::{Completions, Fallback, Lineage, NewBatch, Reach, Ticket, Unit};
use legwork_core::below::Below;
use legwork_core::child::ChildEvent;
use legwork_core::fact::{Accepted, Append, Fact};
use legwork_core::ids::{CallKey, ChildId, ClaimId, DelegationId, RequestId, SessionId, UnitId};
use legwork_core::outcome::{Ending, Force, StopReason};
use legwork_core::ports::{
    ChildView, Conversations, Delegator, DispatchError, Facts, Inbox, JoinError, Joined, LookError,
    NewSession, Pending, Refusal, SessionKind, SessionView, SteerError, Stopped, StoreError, Watch,
};
use legwork_core::record::{OwnerRecord, Process};
use legwork_core::report::Report;
use legwork_core::steering::Scope;
use legwork_core::time::Timestamp;
use legwork_testkit::memory::MemoryStore;
use serde_json::Value;
use std::sync::{Arc, Mutex};
use std::time::Duration;

pub struct FakeDelegator {
    pub store: Arc<MemoryStore>,
    batches: Mutex<Vec<NewBatch>>,
    stops: Mutex<Vec<Scope>>,
    refusals: Mutex<Vec<Refusal>>,
    report: Box<dyn Fn(&str) -> Report + Send + Sync>,
    views: Mutex<Vec<ChildView>>,
    steers: Mutex<Vec<(ChildId, String, Option<SessionId>)>>,
    /// Why this caller may not delegate at all.
    pub objection: Option<Refusal>,
    /// What is steered or stopped has ended since it was looked at.
    pub too_late: bool,
    /// What was said to children too late.
    pub missed: Vec<(ChildId, String)>,
    /// Why nothing of other processes is shown.
    pub unreadable: Option<String>,
    /// The transcripts that a ticket names.
    pub transcripts: Vec<String>,
    /// How long a join takes.
    pub takes: Option<Duration>,
    /// Joins never come back.
    pub hangs: bool,
    /// Calls come back by their groups.
    pub completions: Completions,
    /// Units after the first are waited for.
    pub later_inline: bool,
    /// The unit at this place cannot be read.
    pub unread_unit: Option<usize>,
    /// Calls are waited for, and this is why.
    pub fallback: Option<Fallback>,
}

impl FakeDelegator {
    /// Children answer with their goal.
    pub async fn new() -> Self {
        Self::reporting(|goal| Report {
            answer: Some(format!("did: {goal}")),
            ..Report::bare(Ending::Answered)
        })
        .await
    }

    pub async fn reporting(report: impl Fn(&str) -> Report + Send + Sync + 'static) -> Self {
        let store = Arc::new(MemoryStore::new());
        let process = Process { boot_id: "boot".to_owned(), pid: 1, start_ticks: 1 };
        let owner = OwnerRecord::new(Bench::fence().owner, process);
        store.enter(owner, Timestamp(0)).await.expect("an empty store takes an owner");
        FakeDelegator {
            store,
            batches: Mutex::default(),
            stops: Mutex::default(),
            refusals: Mutex::default(),
            report: Box::new(report),
            views: Mutex::default(),
            steers: Mutex::default(),
            objection: None,
            too_late: false,
            missed: vec![],
            unreadable: None,
            transcripts: vec![],
            takes: None,
            hangs: false,
            completions: Completions::Together,
            later_inline: false,
            unread_unit: None,
            fallback: None,
        }
    }

    pub fn refuse_next(&self, refusal: Refusal) {
        self.refusals.lock().expect("no holder panics").push(refusal);
    }

    pub fn batches(&self) -> Vec<NewBatch> {
        self.batches.lock().expect("no holder panics").clone()
    }

    pub fn stops(&self) -> Vec<Scope> {
        self.stops.lock().expect("no holder panics").clone()
    }

    /// What a look shows from now on.
    pub fn show(&self, views: Vec<ChildView>) {
        *self.views.lock().expect("no holder panics") = views;
    }

    pub fn steers(&self) -> Vec<(ChildId, String, Option<SessionId>)> {
        self.steers.lock().expect("no holder panics").clone()
    }

    async fn append(&self, delegation: &DelegationId, (seq, at): (u64, i64), facts: Vec<Fact>) {
        let fence = Bench::fence();
        if let Some(Fact::Accepted(accepted)) = facts.first() {
            self.prepare_session(&accepted.lineage.session).await;
        }
        let append = Append {
            delegation: delegation.clone(),
            expected_seq: seq,
            owner: fence.owner,
            epoch: fence.epoch,
            at: Timestamp(at),
            facts,
        };
        let answers = self.store.append(vec![append]).await.expect("the store in memory answers");
        assert_eq!(answers, [Ok(())]);
    }

    /// Results come to a session that is there.
    async fn prepare_session(&self, id: &SessionId) {
        if self.store.session(id).await.expect("readable").is_some() {
            return;
        }
        let session = NewSession {
            id: id.clone(),
            name: None,
            kind: SessionKind::Chat,
            folder: "/project".to_owned(),
            at: Timestamp(0),
        };
        self.store.create_session(session, &Bench::fence().owner).await.expect("it is created");
    }

    async fn settle(&self, delegation: &DelegationId) -> Joined {
        let record = self.store.delegation(delegation).await.expect("readable").expect("it was accepted");
        let mut facts = Vec::new();
        for (task, child) in record.accepted.tasks.iter().zip(&record.accepted.children) {
            let report = (self.report)(&task.goal);
            let moved = |event, report| Fact::Moved { child: child.clone(), event, report };
            facts.push(moved(ChildEvent::Started, None));
            if report.ending == Ending::Interrupted {
                let stop = ChildEvent::StopAsked { reason: StopReason::Cancelled, force: Force::Ask };
                facts.push(moved(stop, None));
            }
            facts.push(moved(ChildEvent::Returned(report.ending), Some(Box::new(report))));
        }
        let units = record.accepted.units.iter().map(|unit| unit.id.clone());
        facts.extend(units.clone().map(|unit| Fact::UnitSettled { unit }));
        self.append(delegation, (record.seq, 1500), facts).await;
        let mut claims = Vec::new();
        for (number, unit) in (record.seq + 77..).zip(units) {
            let claim = ClaimId::from_bits(number);
            claims.extend(self.store.claim(&unit, claim, "test", Timestamp(1600)).await.expect("it answers"));
        }
        let record = self.store.delegation(delegation).await.expect("readable").expect("it is there");
        Joined { record, claims, missed: self.missed.clone(), below: Below::default() }
    }
}

impl Delegator for FakeDelegator {
    fn dispatch(&self, batch: NewBatch) -> Pending<'_, Result<Ticket, DispatchError>> {
        Box::pin(async move {
            let number = {
                let mut batches = self.batches.lock().expect("no holder panics");
                batches.push(batch.clone());
                u32::try_from(batches.len()).expect("there are few")
            };
            let refusal = self.refusals.lock().expect("no holder panics").pop();
            if let Some(refusal) = self.objection.clone().or(refusal) {
                return Err(refusal.into());
            }
            let id = DelegationId::from_bits(number);
            let count = batch.tasks.len();
            let mut units = Unit::of_call(&id, &batch.tasks, self.completions);
            units.iter_mut().skip(1).for_each(|unit| unit.inline = self.later_inline);
            let reach = if self.fallback.is_some() { Reach::Joined } else { batch.reach };
            let accepted = Accepted {
                delegation: id.clone(),
                lineage: batch.lineage,
                call_key: batch.call_key,
                context: batch.context,
                reach,
                children: (0..count).map(|index| ChildId::from_bits(index, number)).collect(),
                tasks: batch.tasks,
                units,
                setting: batch.setting,
                transcripts: vec![String::new(); count],
                fallback: self.fallback,
            };
            let ticket = Ticket { transcripts: self.transcripts.clone(), ..accepted.ticket() };
            self.append(&id, (0, 1000), vec![Fact::Accepted(Box::new(accepted))]).await;
            Ok(ticket)
        })
    }

    fn accepted(&self, key: &CallKey) -> Pending<'_, Result<Option<Accepted>, LookError>> {
        let key = key.clone();
        Box::pin(async move {
            let Some(id) = self.store.by_call_key(&key).await.expect("readable") else { return Ok(None) };
            let record = self.store.delegation(&id).await.expect("readable");
            Ok(record.map(|record| record.accepted))
        })
    }

    fn objection(&self, _: &Lineage) -> Pending<'_, Option<Refusal>> {
        Box::pin(async { self.objection.clone() })
    }

    fn join(&self, delegation: &DelegationId) -> Pending<'_, Result<Joined, JoinError>> {
        let delegation = delegation.clone();
        Box::pin(async move {
            if self.hangs {
                std::future::pending::<()>().await;
            }
            if let Some(takes) = self.takes {
                // Deadline: it is this long that the children take.
                tokio::time::timeout(takes, std::future::pending::<()>()).await.ok();
            }
            Ok(self.settle(&delegation).await)
        })
    }

    fn join_unit(&self, delegation: &DelegationId, unit: &UnitId) -> Pending<'_, Result<Joined, JoinError>> {
        let (delegation, unit) = (delegation.clone(), unit.clone());
        Box::pin(async move {
            let record =
                self.store.delegation(&delegation).await.expect("readable").expect("it was accepted");
            if self.unread_unit.is_some_and(|place| record.accepted.units[place].id == unit) {
                return Err(JoinError::Store(StoreError::Full("no room".to_owned())));
            }
            if !record.is_settled() {
                let mut all = self.settle(&delegation).await;
                self.store
                    .release(all.claims.clone(), Timestamp(1), "one unit only")
                    .await
                    .expect("released");
                all.claims.clear();
            }
            let claim = ClaimId::from_bits(u64::from_str_radix(&unit.as_str()[15..], 16).expect("a number"));
            let claim = self.store.claim(&unit, claim, "test", Timestamp(1700)).await.expect("it answers");
            let record = self.store.delegation(&delegation).await.expect("readable").expect("it is there");
            let claims = claim.into_iter().collect();
            Ok(Joined { record, claims, missed: self.missed.clone(), below: Below::default() })
        })
    }

    fn until_settled(&self, delegation: &DelegationId) -> Pending<'_, Result<(), JoinError>> {
        let delegation = delegation.clone();
        Box::pin(async move {
            let joined = self.join(&delegation).await?;
            let given_back = self.store.release(joined.claims, Timestamp(1), "nobody takes it yet").await;
            given_back.map_err(JoinError::Store)
        })
    }

    /// Tells every child that is shown and that has not ended.
    fn stop(&self, scope: Scope, _: StopReason, _: Force) -> Pending<'_, Stopped> {
        let views = self.views.lock().expect("no holder panics");
        let is_in_scope = |view: &&ChildView| match &scope {
            Scope::Child(child) => view.child == *child,
            Scope::Delegation(delegation) => view.delegation == *delegation,
            Scope::Session(session) => view.session == *session,
            Scope::Unit(_) | Scope::All => false,
        };
        let children = views
            .iter()
            .filter(|_| !self.too_late)
            .filter(is_in_scope)
            .map(|view| view.child.clone())
            .collect();
        self.stops.lock().expect("no holder panics").push(scope);
        Box::pin(async { Stopped { children, untold: None } })
    }

    fn steer(
        &self,
        child: &ChildId,
        text: String,
        session: Option<&SessionId>,
    ) -> Pending<'_, Result<RequestId, SteerError>> {
        self.steers.lock().expect("no holder panics").push((child.clone(), text, session.cloned()));
        let child = child.clone();
        Box::pin(async move {
            if self.too_late { Err(SteerError::NotFound(child)) } else { Ok(RequestId::from_bits(1)) }
        })
    }

    fn attach(&self, _: &SessionId, _: Arc<dyn Inbox>) -> Pending<'_, ()> {
        panic!("delegate_task does not wait in the background")
    }

    fn view(&self, _: Option<&DelegationId>) -> Pending<'_, Vec<ChildView>> {
        let views = self.views.lock().expect("no holder panics").clone();
        Box::pin(async { views })
    }

    /// Everything that is shown, whosever it is: the tool keeps to its caller's.
    fn view_session(&self, _: &SessionId) -> Pending<'_, SessionView> {
        let children = self.views.lock().expect("no holder panics").clone();
        let unreadable = self.unreadable.clone();
        Box::pin(async { SessionView { children, unreadable } })
    }

    fn watch(&self) -> Box<dyn Watch> {
        panic!("delegate_task does not watch")
    }
}

/// The JSON of an output.
pub fn json_of(output: &ToolOutput) -> Value {
    serde_json::from_str(&output.content).expect("the answer is JSON")
}
