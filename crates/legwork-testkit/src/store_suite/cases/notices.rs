//! Notices of early failures.

use crate::store_suite::sample;
use crate::store_suite::{Owned, Place};
use legwork_core::batch::Reach;
use legwork_core::child::ChildEvent;
use legwork_core::delivery::DeliveryState;
use legwork_core::fact::Fact;
use legwork_core::ids::{ClaimId, UnitId};
use legwork_core::outcome::{Ending, FailureKind};
use legwork_core::ports::{AppendError, Store};
use legwork_core::report::Report;
use legwork_core::time::Timestamp;
use std::sync::Arc;

async fn accept(store: &Arc<dyn Store>, n: u32, units: &[&[usize]]) -> Owned {
    let mut accepted = sample::accepted(n, units);
    accepted.reach = Reach::Push;
    Owned::try_accept(store, accepted).await.expect("a fresh sample is accepted")
}

fn failed(owned: &Owned, index: usize) -> Fact {
    let report = Report::bare(Ending::Failed(FailureKind::Model));
    let event = ChildEvent::Returned(report.ending);
    Fact::Moved { child: owned.child(index).clone(), event, report: Some(Box::new(report)) }
}

fn noticed(owned: &Owned, index: usize) -> Fact {
    Fact::Noticed { child: owned.child(index).clone() }
}

async fn due(owned: &Owned) -> Vec<(UnitId, Option<usize>)> {
    let due = owned.store.undelivered(&owned.accepted.lineage.session).await.expect("readable").rows;
    due.into_iter().map(|due| (due.unit, due.notice)).collect()
}

/// A notice is due with the failure that it tells of, and ends like a unit; the unit's results come all the same, behind it.
///
/// Proves DUR-16.
pub async fn a_notice_goes_the_way_of_a_unit_and_is_none(place: &dyn Place) {
    let store = place.open();
    let mut owned = accept(&store, 2, &[&[0, 2], &[1]]).await;
    let notice = UnitId::notice(owned.child(2));
    owned
        .record(vec![owned.started(2), failed(&owned, 2), noticed(&owned, 2)])
        .await
        .expect("it failed early");
    assert_eq!(due(&owned).await, [(notice.clone(), Some(2))]);
    let record = owned.stored().await;
    assert_eq!((record.deliveries.len(), record.notices.len(), record.notices[0].task_index), (2, 1, 2));
    assert_eq!(store.health().await.expect("readable").undelivered, 0);
    assert_eq!(store.find(notice.as_str()).await, Ok(vec![]));

    let claim = ClaimId::from_bits(7);
    let claimed = store.claim(&notice, claim.clone(), "taker", Timestamp(5)).await;
    assert_eq!(claimed, Ok(Some(claim.clone())));
    owned
        .record(vec![owned.started(0), owned.returned(0, "a"), owned.unit_settled(0)])
        .await
        .expect("it ends");
    let order = [(notice, Some(2)), (owned.unit(0).clone(), None)];
    assert_eq!(due(&owned).await, order, "what is taken is not taken away");
    store.acknowledge(vec![claim], Timestamp(6)).await.expect("it is told");
    let record = owned.stored().await;
    assert_eq!(record.notices[0].delivery.state, DeliveryState::Delivered);
    assert_eq!(record.deliveries[0].state, DeliveryState::Ready { tries: 0 }, "the unit is as it was");
    assert_eq!(due(&owned).await, order[1..]);
}

/// What nobody has taken of it when its unit settles says nothing new any more.
pub async fn a_notice_ends_with_its_unit_and_keeps_nothing(place: &dyn Place) {
    let store = place.open();
    let mut owned = accept(&store, 2, &[&[0, 1], &[2, 3]]).await;
    for (fails, goes_on) in [(0, 1), (2, 3)] {
        let facts =
            vec![owned.started(fails), owned.started(goes_on), failed(&owned, fails), noticed(&owned, fails)];
        owned.record(facts).await.expect("it failed early");
    }
    owned.record(vec![owned.returned(1, "b"), owned.unit_settled(0)]).await.expect("it ends");
    let states: Vec<DeliveryState> =
        owned.stored().await.notices.into_iter().map(|notice| notice.delivery.state).collect();
    assert_eq!(states, [DeliveryState::Dismissed, DeliveryState::Ready { tries: 0 }]);
    owned.record(vec![owned.returned(3, "d"), owned.unit_settled(1)]).await.expect("it ends");
    let units = [(owned.unit(0).clone(), None), (owned.unit(1).clone(), None)];
    assert_eq!(due(&owned).await, units);
    for (place, claim) in [(0, 1), (1, 2)] {
        owned.claim(place, claim).await.expect("it is ready");
        store.acknowledge(vec![ClaimId::from_bits(u64::from(claim))], Timestamp(9)).await.expect("delivered");
    }
    assert_eq!(store.prune(Timestamp(i64::MAX)).await, Ok(1), "a notice keeps nothing");
}

/// Only who has failed before the others of its unit is told of.
pub async fn a_notice_without_an_early_failure_is_refused(place: &dyn Place) {
    let store = place.open();
    let mut owned = accept(&store, 2, &[&[0, 1, 2]]).await;
    let refused = |answer: Result<(), AppendError>| {
        assert!(matches!(answer, Err(AppendError::Illegal(_))), "{answer:?}")
    };
    refused(owned.record(vec![noticed(&owned, 0)]).await);
    refused(owned.record(vec![owned.started(0), owned.returned(0, "a"), noticed(&owned, 0)]).await);
    owned
        .record(vec![owned.started(0), failed(&owned, 0), noticed(&owned, 0)])
        .await
        .expect("it failed early");
    refused(owned.record(vec![noticed(&owned, 1)]).await);
    assert_eq!(due(&owned).await.len(), 1);
}
