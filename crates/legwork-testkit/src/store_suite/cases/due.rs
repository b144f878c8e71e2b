//! What is due to a session.

use crate::store_suite::sample;
use crate::store_suite::{Owned, Place};
use legwork_core::batch::Reach;
use legwork_core::delivery::{DeliveryState, ParkReason};
use legwork_core::fact::Accepted;
use legwork_core::ids::{ClaimId, SessionId, UnitId};
use legwork_core::ports::{Portion, Store, Undelivered};
use legwork_core::time::Timestamp;
use std::sync::Arc;

/// The `n`-th delegation, of session 1.
fn of_one_session(n: u32, units: &[&[usize]], reach: Reach) -> Accepted {
    let mut accepted = sample::accepted(n, units);
    accepted.lineage.session = sample::session_id(1);
    accepted.reach = reach;
    accepted
}

async fn accept(store: &Arc<dyn Store>, accepted: Accepted) -> Owned {
    Owned::try_accept(store, accepted).await.expect("a fresh sample is accepted")
}

async fn due(store: &Arc<dyn Store>, session: &SessionId) -> Vec<UnitId> {
    let due = store.undelivered(session).await.expect("readable").rows;
    due.into_iter().map(|due| due.unit).collect()
}

/// Whoever became ready first is first, in whatever order the work was accepted, taken, given back or parked.
pub async fn undelivered_units_come_in_the_order_they_became_ready(place: &dyn Place) {
    let store = place.open();
    let session = sample::session_id(1);
    let mut early = accept(&store, of_one_session(2, &[&[0], &[1]], Reach::Push)).await;
    let mut late = accept(&store, of_one_session(3, &[&[0]], Reach::Push)).await;
    let mut other = Owned::accept(&store, 4, &[&[0]]).await;
    assert_eq!(due(&store, &session).await, [], "held");

    late.finish().await;
    early.record(vec![early.started(1), early.returned(1, "b")]).await.expect("a child can end");
    early.record(vec![early.started(0), early.returned(0, "a")]).await.expect("a child can end");
    assert_eq!(due(&store, &session).await, [late.unit(0).clone()]);
    early.record(vec![early.unit_settled(1), early.unit_settled(0)]).await.expect("both have settled");
    other.finish().await;
    let order = [late.unit(0).clone(), early.unit(1).clone(), early.unit(0).clone()];
    assert_eq!(due(&store, &session).await, order);
    assert_eq!(due(&store, &sample::session_id(4)).await, [other.unit(0).clone()]);
    assert_eq!(due(&store, &sample::session_id(9)).await, []);

    late.claim(0, 1).await.expect("it is ready");
    store.release(vec![ClaimId::from_bits(1)], Timestamp(1), "busy").await.expect("it can be released");
    late.claim(0, 2).await.expect("it is ready again");
    store.park(vec![ClaimId::from_bits(2)], Timestamp(1), ParkReason::SessionGone).await.expect("parked");
    store.unpark(late.unit(0), Timestamp(1)).await.expect("it comes back");
    assert_eq!(due(&store, &session).await, order, "a place in the order is kept");

    early.claim(1, 3).await.expect("it is ready");
    store.acknowledge(vec![ClaimId::from_bits(3)], Timestamp(1)).await.expect("delivered");
    assert_eq!(store.dismiss(early.unit(0), Timestamp(1), "no").await, Ok(true));
    assert_eq!(due(&store, &session).await, [late.unit(0).clone()]);
    let mut again = accept(&store, of_one_session(5, &[&[0]], Reach::Push)).await;
    again.finish().await;
    drop(store);
    assert_eq!(due(&place.open(), &session).await, [late.unit(0).clone(), again.unit(0).clone()]);
}

/// The state, its holder while it is claimed, and how results reach their session.
pub async fn undelivered_units_tell_where_they_are(place: &dyn Place) {
    let store = place.open();
    let session = sample::session_id(1);
    for (n, reach) in [(1, Reach::Push), (2, Reach::History), (3, Reach::Joined)] {
        accept(&store, of_one_session(n, &[&[0]], reach)).await.finish().await;
    }
    let units = due(&store, &session).await;
    let claim = ClaimId::from_bits(7);
    let claimant = sample::owner(1).claimant();
    store.claim(&units[1], claim.clone(), &claimant, Timestamp(5)).await.expect("it is ready");
    store.claim(&units[2], ClaimId::from_bits(8), &claimant, Timestamp(5)).await.expect("it is ready");
    store
        .park(vec![ClaimId::from_bits(8)], Timestamp(6), ParkReason::NoConversation)
        .await
        .expect("it can be parked");
    let row = |n, reach, state, claimant: Option<&String>| Undelivered {
        delegation: sample::accepted(n, &[&[0]]).delegation,
        unit: units[n as usize - 1].clone(),
        notice: None,
        reach,
        state,
        claimant: claimant.cloned(),
    };
    let expected = vec![
        row(1, Reach::Push, DeliveryState::Ready { tries: 0 }, None),
        row(2, Reach::History, DeliveryState::Claimed { claim, tries: 0 }, Some(&claimant)),
        row(3, Reach::Joined, DeliveryState::Parked(ParkReason::NoConversation), None),
    ];
    assert_eq!(store.undelivered(&session).await.map(|due| due.rows), Ok(expected));
}

/// In portions it is the same list, and a unit keeps its place while others come and go.
pub async fn k03_what_is_due_is_read_in_portions_that_neither_repeat_nor_lose_a_unit(place: &dyn Place) {
    let store = place.open();
    let session = sample::session_id(1);
    let mut all = Vec::new();
    for n in 2..9 {
        let mut owned = accept(&store, of_one_session(n, &[&[0], &[1]], Reach::Push)).await;
        owned.finish().await;
        all.extend([owned.unit(0).clone(), owned.unit(1).clone()]);
        Owned::accept(&store, n + 10, &[&[0]]).await.finish().await;
    }
    for most in [1, 3, 14, 15, usize::MAX] {
        assert_eq!(in_portions(&store, &session, most).await, all, "{most} at once");
    }
    assert_eq!(store.due(&session, 0, 0).await, Ok(Portion::default()));
    let listed = store.due(&session, 0, usize::MAX).await.expect("readable").rows;
    assert!(listed.windows(2).all(|pair| pair[0].place < pair[1].place) && listed[0].place > 0);
    for (number, at) in [0, 3, 13].into_iter().enumerate() {
        let claim = ClaimId::from_bits(number as u64);
        store.claim(&all[at], claim.clone(), "taker", Timestamp(1)).await.expect("it is ready");
        match at {
            3 => store.release(vec![claim], Timestamp(1), "busy").await,
            _ => store.acknowledge(vec![claim], Timestamp(1)).await,
        }
        .expect("the claim is current");
    }
    drop(store);
    let store = place.open();
    let left = [&all[1..13]].concat();
    assert_eq!(in_portions(&store, &session, 5).await, left);
    for due in &listed[1..13] {
        let alone = store.due(&session, due.place - 1, 1).await.expect("readable").rows;
        assert_eq!((alone[0].place, &alone[0].due.unit), (due.place, &due.due.unit), "it keeps its place");
    }
}

async fn in_portions(store: &Arc<dyn Store>, session: &SessionId, most: usize) -> Vec<UnitId> {
    let (mut units, mut after) = (Vec::new(), 0);
    loop {
        let portion = store.due(session, after, most).await.expect("readable").rows;
        let Some(last) = portion.last() else { return units };
        assert!(portion.len() <= most);
        after = last.place;
        units.extend(portion.into_iter().map(|due| due.due.unit));
    }
}
