//! Delegations to fill a store with.

use legwork_core::child::ChildEvent;
use legwork_core::fact::{Accepted, Append, Fact};
use legwork_core::ids::{ChildId, DelegationId, Epoch, OwnerId, UnitId};
use legwork_core::outcome::Ending;
use legwork_core::ports::Facts;
use legwork_core::record::{OwnerRecord, Process};
use legwork_core::time::Timestamp;
use legwork_sqlite::SqliteStore;
use legwork_testkit::store_suite::Owned;
use std::sync::Arc;

/// The process that owns what these functions make.
pub fn owner() -> OwnerId {
    OwnerId::from_bits(1)
}

/// Lets the owner enter.
pub async fn enter(store: &SqliteStore) {
    let process = Process { boot_id: "boot".to_owned(), pid: 1, start_ticks: 1 };
    store.enter(OwnerRecord::new(owner(), process), Timestamp(1)).await.expect("a process can enter");
}

/// A delegation with one task, made after a sample.
pub async fn template() -> Accepted {
    let store: Arc<dyn legwork_core::ports::Store> = Arc::new(legwork_testkit::memory::MemoryStore::new());
    Owned::accept(&store, 1, &[&[0]]).await.accepted
}

/// The acceptance of the delegation with these id bits and this goal.
pub fn acceptance(template: &Accepted, bits: u32, goal: &str) -> Append {
    let mut accepted = template.clone();
    accepted.delegation = DelegationId::from_bits(bits);
    accepted.children = vec![ChildId::from_bits(0, bits)];
    accepted.units[0].id = UnitId::whole(&accepted.delegation);
    accepted.tasks[0].goal = goal.to_owned();
    append(bits, 0, vec![Fact::Accepted(Box::new(accepted))])
}

/// Its child's whole life.
pub fn life(bits: u32) -> Append {
    let child = ChildId::from_bits(0, bits);
    let moved = |event| Fact::Moved { child: child.clone(), event, report: None };
    let unit = UnitId::whole(&DelegationId::from_bits(bits));
    let ended = ChildEvent::Returned(Ending::Answered);
    append(bits, 1, vec![moved(ChildEvent::Started), moved(ended), Fact::UnitSettled { unit }])
}

fn append(bits: u32, expected_seq: u64, facts: Vec<Fact>) -> Append {
    Append {
        delegation: DelegationId::from_bits(bits),
        expected_seq,
        owner: owner(),
        epoch: Epoch(1),
        at: Timestamp(i64::from(bits)),
        facts,
    }
}
