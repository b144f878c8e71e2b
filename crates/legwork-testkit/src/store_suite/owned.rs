//! One delegation as its owner sees it: it knows how many facts there are and appends the next ones.

use super::sample;
use legwork_core::child::ChildEvent;
use legwork_core::fact::{Accepted, Append, Fact};
use legwork_core::ids::{ChildId, ClaimId, Epoch, OwnerId, UnitId};
use legwork_core::outcome::Ending;
use legwork_core::ports::{AppendError, NewSession, Store};
use legwork_core::record::DelegationRecord;
use legwork_core::step::{Actor, Fence};
use legwork_core::time::Timestamp;
use std::sync::Arc;

/// An accepted delegation and what its owner knows of it.
pub struct Owned {
    /// Where it is stored.
    pub store: Arc<dyn Store>,
    /// What was accepted.
    pub accepted: Accepted,
    /// The process that owns it.
    pub owner: OwnerId,
    /// That process's generation.
    pub epoch: Epoch,
    /// How many facts are recorded.
    pub seq: u64,
}

impl Owned {
    /// Lets process 1 accept the `n`-th sample delegation, whose units hold the given tasks.
    pub async fn accept(store: &Arc<dyn Store>, n: u32, units: &[&[usize]]) -> Owned {
        Owned::try_accept(store, sample::accepted(n, units)).await.expect("a fresh sample is accepted")
    }

    /// Lets process 1 accept a delegation. The session that its results come to by themselves is there.
    ///
    /// # Errors
    /// The store's refusal.
    pub async fn try_accept(store: &Arc<dyn Store>, accepted: Accepted) -> Result<Owned, AppendError> {
        let owner = sample::owner(1);
        store.enter(owner.clone(), Timestamp(1)).await.expect("a process can enter");
        let session = &accepted.lineage.session;
        if accepted.reach.needs_session() && store.session(session).await.expect("readable").is_none() {
            let new = NewSession { id: session.clone(), name: None, ..sample::session(1) };
            store.create_session(new, &owner.id).await.expect("it is created");
            store.release_session(session, &owner.id).await.expect("it is closed");
        }
        let fact = Fact::Accepted(Box::new(accepted.clone()));
        let store = Arc::clone(store);
        let mut owned = Owned { store, accepted, owner: owner.id, epoch: Epoch(1), seq: 0 };
        owned.record(vec![fact]).await.map(|()| owned)
    }

    /// Lets process 1 enter and create the `n`-th sample session, which it has open then.
    pub async fn open_session(store: &Arc<dyn Store>, n: u32) {
        store.enter(sample::owner(1), Timestamp(1)).await.expect("a process can enter");
        store.create_session(sample::session(n), &sample::owner_id(1)).await.expect("it is created");
    }

    /// The append of `facts` as this owner would make it.
    pub fn append(&self, facts: Vec<Fact>) -> Append {
        Append {
            delegation: self.accepted.delegation.clone(),
            expected_seq: self.seq,
            owner: self.owner.clone(),
            epoch: self.epoch,
            at: Timestamp(1000 + i64::try_from(self.seq).unwrap_or(0)),
            facts,
        }
    }

    /// Appends facts and counts them.
    ///
    /// # Errors
    /// The store's refusal.
    pub async fn record(&mut self, facts: Vec<Fact>) -> Result<(), AppendError> {
        let count = facts.len() as u64;
        let answers = self.store.append(vec![self.append(facts)]).await.expect("the store works");
        let [answer] = <[_; 1]>::try_from(answers).expect("one append has one answer");
        answer.map(|()| self.seq += count)
    }

    /// Starts every child, lets it return, and settles every unit.
    pub async fn finish(&mut self) {
        for index in 0..self.accepted.children.len() {
            self.record(vec![self.started(index), self.returned(index, "done")])
                .await
                .expect("a child can end");
        }
        let settled = (0..self.accepted.units.len()).map(|unit| self.unit_settled(unit)).collect();
        self.record(settled).await.expect("units settle after their children");
    }

    /// The delegation as it is stored.
    pub async fn stored(&self) -> DelegationRecord {
        let record = self.store.delegation(&self.accepted.delegation).await.expect("the store can be read");
        record.expect("an accepted delegation is stored")
    }

    /// Claims the unit at `index` under the `n`-th claim id.
    pub async fn claim(&self, index: usize, n: u32) -> Option<ClaimId> {
        let claim = ClaimId::from_bits(u64::from(n));
        self.store.claim(self.unit(index), claim, "taker", Timestamp(2000)).await.expect("the store works")
    }

    /// The child of the task at `index`.
    pub fn child(&self, index: usize) -> &ChildId {
        &self.accepted.children[index]
    }

    /// The journal's owner for the child at `index`.
    pub fn actor(&self, index: usize) -> Actor {
        Actor::Child(self.child(index).clone())
    }

    /// The unit at `index`.
    pub fn unit(&self, index: usize) -> &UnitId {
        &self.accepted.units[index].id
    }

    /// What lets this owner write.
    pub fn fence(&self) -> Fence {
        Fence { owner: self.owner.clone(), epoch: self.epoch }
    }

    /// The fact that a child began.
    pub fn started(&self, index: usize) -> Fact {
        Fact::Moved { child: self.child(index).clone(), event: ChildEvent::Started, report: None }
    }

    /// The fact that a child came back with an answer.
    pub fn returned(&self, index: usize, answer: &str) -> Fact {
        let report = sample::report(Ending::Answered, answer);
        let event = ChildEvent::Returned(report.ending);
        Fact::Moved { child: self.child(index).clone(), event, report: Some(Box::new(report)) }
    }

    /// The fact that all children of a unit have settled.
    pub fn unit_settled(&self, index: usize) -> Fact {
        Fact::UnitSettled { unit: self.unit(index).clone() }
    }
}
