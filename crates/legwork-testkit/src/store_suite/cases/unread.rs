//! Results below a child that had ended before it had read them: they come to their end with its own.

use crate::store_suite::sample;
use crate::store_suite::{Owned, Place};
use legwork_core::delivery::{DeliveryState, ParkReason};
use legwork_core::fact::Accepted;
use legwork_core::ids::{CallKey, ClaimId};
use legwork_core::ports::{Store, StoreError};
use legwork_core::record::DeliveryRecord;
use legwork_core::time::Timestamp;
use std::sync::Arc;

/// The `n`-th delegation, made by the child of `above` at `index`.
pub(super) async fn called_by(store: &Arc<dyn Store>, n: u32, above: &Owned, index: usize) -> Owned {
    let caller = above.child(index).clone();
    let accepted = sample::accepted(n, &[&[0]]);
    let mut lineage = above.accepted.lineage.clone();
    lineage.depth += 1;
    lineage.parent = Some(caller.clone());
    let call_key = Some(CallKey { caller: caller.as_str().to_owned(), call: format!("call_{n}") });
    Owned::try_accept(store, Accepted { lineage, call_key, ..accepted }).await.expect("it is accepted")
}

pub(super) async fn delivery(owned: &Owned, unit: usize) -> DeliveryRecord {
    owned.stored().await.deliveries[unit].clone()
}

fn last_reason(delivery: &DeliveryRecord) -> Option<&str> {
    delivery.ledger.last().and_then(|line| line.reason.as_deref())
}

/// Through whatever ends the claim of what is above, at whatever depth, and nothing beside it.
pub async fn inv_01_what_a_child_had_not_read_ends_with_its_own_results(place: &dyn Place) {
    let store = place.open();
    let mut top = Owned::accept(&store, 1, &[&[0], &[1]]).await;
    let mut low = called_by(&store, 2, &top, 0).await;
    let mut lowest = called_by(&store, 3, &low, 0).await;
    let mut beside = called_by(&store, 4, &top, 1).await;
    for owned in [&mut lowest, &mut low, &mut beside, &mut top] {
        owned.finish().await;
    }
    let held = low.claim(0, 1).await.expect("it is ready");
    for (n, parks) in [(2, false), (3, true)] {
        let claim = top.claim(0, n).await.expect("it is ready");
        let ended = match parks {
            true => store.park(vec![claim], Timestamp(5), ParkReason::WriteFailed).await,
            false => store.release(vec![claim], Timestamp(5), "busy").await,
        };
        assert_eq!(ended, Ok(()));
        assert!(!delivery(&low, 0).await.state.is_final(), "nothing was told");
    }
    assert_eq!(store.unpark(top.unit(0), Timestamp(6)).await, Ok(true));
    let claim = top.claim(0, 4).await.expect("it is ready");
    assert_eq!(store.acknowledge(vec![claim], Timestamp(7)).await, Ok(()));
    for told in [&low, &lowest] {
        let delivery = delivery(told, 0).await;
        assert_eq!(delivery.state, DeliveryState::Delivered, "{delivery:?}");
        assert_eq!(delivery.told_with().as_ref(), Some(top.unit(0)), "{delivery:?}");
    }
    let late = store.acknowledge(vec![held], Timestamp(8)).await;
    assert!(matches!(late, Err(StoreError::Conflict(_))), "{late:?}");
    assert_eq!(delivery(&beside, 0).await.state, DeliveryState::Ready { tries: 0 });
    let due = store.undelivered(&top.accepted.lineage.session).await.expect("readable").rows;
    let due: Vec<_> = due.iter().map(|due| &due.unit).collect();
    assert_eq!(due, [beside.unit(0), top.unit(1)]);
}

/// A person gives up what is above.
pub async fn k05_what_a_child_had_not_read_is_given_up_with_its_own_results(place: &dyn Place) {
    let store = place.open();
    let mut top = Owned::accept(&store, 1, &[&[0]]).await;
    let mut low = called_by(&store, 2, &top, 0).await;
    low.finish().await;
    top.finish().await;
    assert!(low.claim(0, 1).await.is_some());
    assert_eq!(store.dismiss(top.unit(0), Timestamp(4), "not needed").await, Ok(true));
    let given_up = delivery(&low, 0).await;
    assert_eq!(given_up.state, DeliveryState::Dismissed);
    let reason = format!("given up with the results of {}", top.unit(0));
    assert_eq!((last_reason(&given_up), given_up.told_with()), (Some(reason.as_str()), None));
    assert_eq!(store.health().await.expect("readable").undelivered, 0);
}

/// What has not settled, and what a child waits for that lives.
pub async fn what_is_open_below_stays(place: &dyn Place) {
    let store = place.open();
    let mut top = Owned::accept(&store, 1, &[&[0]]).await;
    let mut low = called_by(&store, 2, &top, 0).await;
    let mut lowest = called_by(&store, 3, &low, 0).await;
    low.record(vec![low.started(0)]).await.expect("it begins");
    lowest.finish().await;
    top.finish().await;
    let claim = top.claim(0, 1).await.expect("it is ready");
    assert_eq!(store.acknowledge(vec![ClaimId::clone(&claim)], Timestamp(3)).await, Ok(()));
    assert_eq!(delivery(&low, 0).await.state, DeliveryState::Held);
    assert_eq!(delivery(&lowest, 0).await.state, DeliveryState::Ready { tries: 0 });
    low.record(vec![low.returned(0, "done"), low.unit_settled(0)]).await.expect("it ends");
    assert_eq!(delivery(&low, 0).await.state, DeliveryState::Ready { tries: 0 });
}
