//! Finding, listing, requests and health.

use crate::store_suite::sample;
use crate::store_suite::{Owned, Place};
use legwork_core::delivery::ParkReason;
use legwork_core::ids::{ClaimId, DelegationId, RequestId, SessionId};
use legwork_core::outcome::{Force, StopReason};
use legwork_core::ports::{Filter, Found, Listed, StoreError};
use legwork_core::record::DelegationRecord;
use legwork_core::steering::{Asked, Request, Scope, Wish};
use legwork_core::time::Timestamp;

/// A whole id means itself, even where other ids begin with it.
pub async fn an_exact_id_wins_over_a_beginning(place: &dyn Place) {
    let store = place.open();
    let owned = Owned::accept(&store, 1, &[&[0], &[1]]).await;
    let whole = Owned::accept(&store, 2, &[&[0]]).await;
    Owned::open_session(&store, 1).await;
    let longer = legwork_core::ports::NewSession {
        id: SessionId::from_stored(format!("{}0", sample::session_id(1))),
        ..sample::session(1)
    };
    store.create_session(longer, &sample::owner_id(1)).await.expect("it is created");

    let id = owned.accepted.delegation.clone();
    assert_eq!(store.find(id.as_str()).await, Ok(vec![Found::Delegation(id.clone())]));
    let unit = owned.unit(1).clone();
    assert_eq!(store.find(unit.as_str()).await, Ok(vec![Found::Unit(id.clone(), unit)]));
    let child = owned.child(1).clone();
    assert_eq!(store.find(child.as_str()).await, Ok(vec![Found::Child(id, child)]));
    let only = whole.accepted.delegation.clone();
    assert_eq!(store.find(only.as_str()).await, Ok(vec![Found::Delegation(only)]));
    let session = sample::session_id(1);
    assert_eq!(store.find(session.as_str()).await, Ok(vec![Found::Session(session)]));
}

/// Whoever asks decides what to do with several.
pub async fn an_ambiguous_beginning_gives_all(place: &dyn Place) {
    let store = place.open();
    let first = Owned::accept(&store, 0xab00, &[&[0], &[1]]).await;
    let second = Owned::accept(&store, 0xab01, &[&[0]]).await;
    Owned::open_session(&store, 3).await;
    let [a, b] = [&first, &second].map(|owned| owned.accepted.delegation.clone());

    let both = vec![Found::Delegation(a.clone()), Found::Delegation(b.clone())];
    assert_eq!(store.find("deleg_0000ab").await, Ok(both));
    assert_eq!(store.find("deleg_0000ab0").await.map(|found| found.len()), Ok(2));
    assert_eq!(store.find("deleg_0000ab01").await, Ok(vec![Found::Delegation(b.clone())]));
    let units = [0, 1].map(|unit| Found::Unit(a.clone(), first.unit(unit).clone()));
    assert_eq!(store.find(&format!("{a}-")).await, Ok(units.to_vec()));
    let children = vec![Found::Child(a, first.child(0).clone()), Found::Child(b, second.child(0).clone())];
    assert_eq!(store.find("sa-0-").await, Ok(children));
    assert_eq!(store.find("ses_").await, Ok(vec![Found::Session(sample::session_id(3))]));
    for nothing in ["", "deleg_zz", "%", "deleg_%", "_", "DELEG_0000AB"] {
        assert_eq!(store.find(nothing).await, Ok(vec![]), "{nothing:?}");
    }
}

/// Open, recent, and open of one session.
pub async fn delegations_are_listed_newest_first(place: &dyn Place) {
    let store = place.open();
    for n in [3, 1, 2] {
        let mut owned = Owned::accept(&store, n, &[&[0]]).await;
        if n == 1 {
            owned.finish().await;
        }
    }
    let ids = |listed: Result<Listed<DelegationRecord, DelegationId>, StoreError>| {
        let ids = |listed: Listed<DelegationRecord, DelegationId>| {
            listed.rows.into_iter().map(|record| record.accepted.delegation).collect()
        };
        listed.map(ids).map(|ids: Vec<_>| ids)
    };
    let expected =
        |numbers: &[u32]| Ok(numbers.iter().map(|n| DelegationId::from_bits(*n)).collect::<Vec<_>>());
    assert_eq!(ids(store.delegations(Filter::Open).await), expected(&[2, 3]));
    assert_eq!(ids(store.delegations(Filter::Recent(2)).await), expected(&[2, 1]));
    assert_eq!(ids(store.delegations(Filter::Recent(0)).await), expected(&[]));
    assert_eq!(ids(store.delegations(Filter::Recent(usize::MAX)).await), expected(&[2, 1, 3]));
    assert_eq!(ids(store.delegations(Filter::OpenOf(sample::session_id(3))).await), expected(&[3]));
    assert_eq!(ids(store.delegations(Filter::OpenOf(sample::session_id(1))).await), expected(&[]));
    assert_eq!(ids(store.delegations(Filter::Of(sample::session_id(1))).await), expected(&[1]));
    assert_eq!(ids(store.delegations(Filter::Of(sample::session_id(9))).await), expected(&[]));
    assert_eq!(store.delegation(&DelegationId::from_bits(9)).await, Ok(None));
}

fn request(n: u32, scope: Scope) -> Request {
    let wish = Wish::Stop { reason: StopReason::Cancelled, force: Force::Abort };
    Request { id: RequestId::from_bits(u64::from(n)), at: Timestamp(i64::from(n)), scope, wish }
}

/// A request stays until somebody carried it out, and numbers only grow.
pub async fn requests_come_in_order_until_they_are_settled(place: &dyn Place) {
    let store = place.open();
    let owned = Owned::accept(&store, 1, &[&[0]]).await;
    let requests = [
        request(5, Scope::All),
        request(1, Scope::Child(owned.child(0).clone())),
        request(3, Scope::Session(sample::session_id(1))),
    ];
    for request in &requests {
        assert_eq!(store.ask(request.clone()).await, Ok(Asked::Stored));
    }
    assert_eq!(
        store.ask(requests[0].clone()).await,
        Ok(Asked::Stored),
        "the same request again is the same request"
    );
    let all = store.news(0).await.expect("readable").requests;
    assert_eq!(
        all.iter().map(|(_, request)| request).collect::<Vec<_>>(),
        requests.iter().collect::<Vec<_>>()
    );
    assert!(all.windows(2).all(|pair| pair[0].0 < pair[1].0) && all[0].0 > 0);
    assert_eq!(store.news(all[0].0).await.map(|news| news.requests).as_deref(), Ok(&all[1..]));

    let settle = |n: u32| store.settle_request(&requests[n as usize].id, &owned.owner, Timestamp(9));
    assert_eq!(settle(1).await, Ok(()));
    assert_eq!(settle(1).await, Ok(()), "settled is settled");
    let rest = [all[0].clone(), all[2].clone()];
    assert_eq!(place.open().news(0).await.map(|news| news.requests).as_deref(), Ok(&rest[..]));
    let unknown = store.settle_request(&RequestId::from_bits(77), &owned.owner, Timestamp(9)).await;
    assert!(matches!(unknown, Err(StoreError::Conflict(_))), "{unknown:?}");

    assert_eq!(settle(2).await, Ok(()));
    store.ask(request(8, Scope::All)).await.expect("it is stored");
    let last = store.news(all[2].0).await.expect("readable").requests;
    assert_eq!(last.len(), 1, "a number is never used again");
}

/// What `doctor` shows.
pub async fn health_counts_what_is_open_and_undelivered(place: &dyn Place) {
    let store = place.open();
    let empty = store.health().await.expect("a fresh store is well");
    assert_eq!((empty.open, empty.undelivered, empty.problems.len()), (0, 0, 0));

    Owned::accept(&store, 1, &[&[0]]).await;
    let mut owned = Owned::accept(&store, 2, &[&[0], &[1], &[2], &[3]]).await;
    owned.finish().await;
    for unit in 0..3 {
        owned.claim(unit, unit as u32).await.expect("ready");
    }
    store.park(vec![ClaimId::from_bits(0)], Timestamp(1), ParkReason::SessionGone).await.expect("parked");
    store.acknowledge(vec![ClaimId::from_bits(1)], Timestamp(1)).await.expect("delivered");
    let health = store.health().await.expect("readable");
    assert_eq!((health.open, health.undelivered, health.problems.len()), (1, 2, 0));
    assert!(!health.location.is_empty());
}
