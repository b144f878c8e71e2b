//! Ten thousand delegations: what is listed, found and pruned among them. It measures nothing.

use crate::accepting::{acceptance, enter, life, template};
use crate::place::FilePlace;
use futures::future::join_all;
use legwork_core::ids::{ChildId, ClaimId, DelegationId, UnitId};
use legwork_core::ports::{Facts, Filter, Found};
use legwork_core::time::Timestamp;
use legwork_sqlite::{SqliteStore, StoreOptions};

const COUNT: u32 = 10_000;

#[tokio::test]
async fn ten_thousand_delegations_are_listed_found_and_pruned() {
    let place = FilePlace::new();
    let store = SqliteStore::open(&place.path(), StoreOptions::default()).expect("the store opens");
    enter(&store).await;
    let template = template().await;
    for first in (1..=COUNT).step_by(500) {
        let ids = first..first + 500;
        let appends: Vec<_> =
            ids.clone().map(|n| acceptance(&template, n, "goal")).chain(ids.map(life)).collect();
        let answers = store.append(appends).await.expect("the store works");
        assert!(answers.iter().all(Result::is_ok));
    }
    let recent = store.delegations(Filter::Recent(3)).await.expect("readable").rows;
    let ids: Vec<_> = recent.iter().map(|record| record.accepted.delegation.clone()).collect();
    assert_eq!(ids, [COUNT, COUNT - 1, COUNT - 2].map(DelegationId::from_bits));
    assert_eq!(store.delegations(Filter::Open).await.map(|open| open.is_empty()), Ok(true));
    let child = ChildId::from_bits(0, 7777);
    assert_eq!(
        store.find("sa-0-00001e61").await,
        Ok(vec![Found::Child(DelegationId::from_bits(7777), child)])
    );

    let half: Vec<u32> = (1..=COUNT / 2).collect();
    join_all(half.iter().map(|n| take_one(&store, *n))).await;
    assert_eq!(store.prune(Timestamp(i64::MAX)).await, Ok(half.len() - half.len() / 100));
    let health = store.health().await.expect("readable");
    assert_eq!((health.undelivered, health.problems), (u64::from(COUNT / 2), vec![]));
}

/// Claims every hundredth and dismisses the others.
async fn take_one(store: &SqliteStore, n: u32) {
    let unit = UnitId::whole(&DelegationId::from_bits(n));
    if n.is_multiple_of(100) {
        let claim = ClaimId::from_bits(u64::from(n));
        assert!(store.claim(&unit, claim, "taker", Timestamp(1)).await.expect("the store works").is_some());
    } else {
        assert_eq!(store.dismiss(&unit, Timestamp(1), "not needed").await, Ok(true));
    }
}
