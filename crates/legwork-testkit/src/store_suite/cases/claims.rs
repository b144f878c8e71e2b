//! Deliveries after their unit has settled: claims, their ends, parking, pruning.

use crate::store_suite::sample;
use crate::store_suite::{Owned, Place};
use futures::future::join_all;
use legwork_core::delivery::{DeliveryState, ParkReason};
use legwork_core::ids::{ClaimId, UnitId};
use legwork_core::ports::{StoreError, WriteSteps};
use legwork_core::step::{Action, StepChange};
use legwork_core::time::Timestamp;

/// A result is taken once.
pub async fn one_of_eight_claimers_gets_the_unit(place: &dyn Place) {
    let mut owned = Owned::accept(&place.open(), 1, &[&[0]]).await;
    owned.finish().await;
    let claims: Vec<_> = join_all((1..=8).map(|n| owned.claim(0, n))).await.into_iter().flatten().collect();
    assert_eq!(claims.len(), 1, "{claims:?}");
    let held = DeliveryState::Claimed { claim: claims[0].clone(), tries: 0 };
    assert_eq!(owned.stored().await.deliveries[0].state, held);
}

/// Not while a child runs, not when somebody has it, not when it is over, and not what does not exist.
pub async fn only_a_ready_unit_can_be_claimed(place: &dyn Place) {
    let store = place.open();
    let mut owned = Owned::accept(&store, 1, &[&[0]]).await;
    assert_eq!(owned.claim(0, 1).await, None, "held");
    owned.finish().await;
    assert!(owned.claim(0, 2).await.is_some());
    assert_eq!(owned.claim(0, 3).await, None, "claimed");
    assert_eq!(store.acknowledge(vec![ClaimId::from_bits(2)], Timestamp(3)).await, Ok(()));
    assert_eq!(owned.claim(0, 4).await, None, "delivered");
    let unknown = UnitId::from_stored("deleg_none");
    assert_eq!(store.claim(&unknown, ClaimId::from_bits(5), "taker", Timestamp(4)).await, Ok(None));
}

/// A claim that was given back, never was, or has ended can neither ack, release nor park.
pub async fn a_claim_that_is_not_current_moves_nothing(place: &dyn Place) {
    let store = place.open();
    let mut owned = Owned::accept(&store, 1, &[&[0]]).await;
    owned.finish().await;
    let old = owned.claim(0, 1).await.expect("it is ready");
    assert_eq!(store.release(vec![old.clone()], Timestamp(3), "busy").await, Ok(()));
    let current = owned.claim(0, 2).await.expect("it is ready again");
    let before = owned.stored().await;
    assert_eq!(before.deliveries[0].state, DeliveryState::Claimed { claim: current.clone(), tries: 1 });

    for stale in [old, ClaimId::from_bits(9)] {
        let refused = |answer: Result<(), StoreError>| matches!(answer, Err(StoreError::Conflict(_)));
        assert!(refused(store.acknowledge(vec![stale.clone()], Timestamp(4)).await));
        assert!(refused(store.release(vec![stale.clone()], Timestamp(4), "again").await));
        assert!(refused(store.park(vec![stale], Timestamp(4), ParkReason::SessionGone).await));
    }
    assert_eq!(owned.stored().await, before);
    assert_eq!(store.acknowledge(vec![current.clone()], Timestamp(5)).await, Ok(()));
    let again = store.acknowledge(vec![current], Timestamp(6)).await;
    assert!(matches!(again, Err(StoreError::Conflict(_))), "{again:?}");
}

/// Of several claims in one call either all end or none.
pub async fn claims_end_together_or_not_at_all(place: &dyn Place) {
    let store = place.open();
    let mut owned = Owned::accept(&store, 1, &[&[0], &[1]]).await;
    owned.finish().await;
    let first = owned.claim(0, 1).await.expect("it is ready");
    let second = owned.claim(1, 2).await.expect("it is ready");

    for claims in [vec![first.clone(), ClaimId::from_bits(9)], vec![first.clone(), first.clone()]] {
        let refused = store.acknowledge(claims, Timestamp(3)).await;
        assert!(matches!(refused, Err(StoreError::Conflict(_))), "{refused:?}");
    }
    let held = DeliveryState::Claimed { claim: first.clone(), tries: 0 };
    assert_eq!(owned.stored().await.deliveries[0].state, held);
    assert_eq!(store.acknowledge(vec![first, second], Timestamp(4)).await, Ok(()));
    assert!(
        owned.stored().await.deliveries.iter().all(|delivery| delivery.state == DeliveryState::Delivered)
    );
    assert_eq!(store.acknowledge(vec![], Timestamp(5)).await, Ok(()));
}

/// Parked is kept and comes back; dismissed is the end.
pub async fn a_parked_unit_comes_back_or_is_dismissed(place: &dyn Place) {
    let store = place.open();
    let mut owned = Owned::accept(&store, 1, &[&[0]]).await;
    let unit = owned.unit(0).clone();
    assert_eq!(store.unpark(&unit, Timestamp(1)).await, Ok(false));
    assert_eq!(store.dismiss(&unit, Timestamp(1), "no").await, Ok(false), "held");
    owned.finish().await;
    let claim = owned.claim(0, 1).await.expect("it is ready");
    assert_eq!(store.dismiss(&unit, Timestamp(2), "no").await, Ok(false), "claimed");
    assert_eq!(store.park(vec![claim], Timestamp(3), ParkReason::WriteFailed).await, Ok(()));
    let parked = DeliveryState::Parked(ParkReason::WriteFailed);
    assert_eq!(owned.stored().await.deliveries[0].state, parked);
    assert_eq!(owned.claim(0, 2).await, None, "parked");

    assert_eq!(store.unpark(&unit, Timestamp(4)).await, Ok(true));
    assert_eq!(store.unpark(&unit, Timestamp(4)).await, Ok(false));
    let claim = owned.claim(0, 3).await.expect("it is ready again");
    assert_eq!(store.park(vec![claim], Timestamp(5), ParkReason::NoConversation).await, Ok(()));
    assert_eq!(store.dismiss(&unit, Timestamp(6), "not needed any more").await, Ok(true));
    assert_eq!(store.dismiss(&unit, Timestamp(6), "twice").await, Ok(false));
    assert_eq!(owned.stored().await.deliveries[0].state, DeliveryState::Dismissed);
    assert_eq!(store.unpark(&UnitId::from_stored("deleg_none"), Timestamp(7)).await, Ok(false));
}

/// "Where is my result?" is answered line by line.
pub async fn the_ledger_tells_every_move(place: &dyn Place) {
    let store = place.open();
    let mut owned = Owned::accept(&store, 1, &[&[0]]).await;
    let unit = owned.unit(0).clone();
    owned.finish().await;
    let claim = owned.claim(0, 1).await.expect("it is ready");
    store.release(vec![claim], Timestamp(2001), "the session is busy").await.expect("it can be released");
    let claim = owned.claim(0, 2).await.expect("it is ready");
    store.park(vec![claim], Timestamp(2002), ParkReason::SessionGone).await.expect("it can be parked");
    store.unpark(&unit, Timestamp(2003)).await.expect("it comes back");
    let claim = owned.claim(0, 3).await.expect("it is ready");
    store.acknowledge(vec![claim], Timestamp(2004)).await.expect("it is delivered");

    let ledger = &owned.stored().await.deliveries[0].ledger;
    let words: Vec<_> = ledger.iter().map(|line| line.state.as_str()).collect();
    let expected =
        ["held", "ready", "claimed", "ready", "claimed", "parked", "ready", "claimed", "delivered"];
    assert_eq!(words, expected);
    assert!(ledger.iter().all(|line| line.reason.as_ref().is_some_and(|reason| !reason.is_empty())));
    assert_eq!(ledger[3].reason.as_deref(), Some("given back: the session is busy"));
    assert_eq!(ledger[5].reason.as_deref(), Some(ParkReason::SessionGone.as_str()));
    let takers: Vec<_> = ledger.iter().map(|line| line.claimant.is_some()).collect();
    assert_eq!(takers, [false, false, true, true, true, true, false, true, true]);
    assert_eq!(ledger[8].at, Timestamp(2004));
}

/// Age removes what is delivered or dismissed in all its units, with its journals, and nothing else.
/// Proves LIVE-10, REG-8, DUR-7, RECOV-6.
pub async fn inv_05_nothing_undelivered_is_pruned(place: &dyn Place) {
    let store = place.open();
    let mut kept = vec![Owned::accept(&store, 1, &[&[0]]).await];
    for n in 2..=7 {
        let mut owned = Owned::accept(&store, n, &[&[0], &[1]]).await;
        owned.finish().await;
        kept.push(owned);
    }
    let far = Timestamp(i64::MAX);
    let claim = |n: u64| ClaimId::from_bits(n);
    kept[2].claim(0, 2).await.expect("ready");
    kept[3].claim(0, 3).await.expect("ready");
    store.park(vec![claim(3)], Timestamp(1), ParkReason::SessionGone).await.expect("parked");
    kept[4].claim(0, 4).await.expect("ready");
    store.acknowledge(vec![claim(4)], Timestamp(1)).await.expect("one of two units is delivered");
    assert_eq!(store.prune(far).await, Ok(0));

    let [dismissed, delivered] = [kept.pop(), kept.pop()].map(|owned| owned.expect("seven were made"));
    write_a_step(&delivered).await;
    for unit in [0, 1] {
        delivered.claim(unit, 60 + unit as u32).await.expect("ready");
        store.dismiss(dismissed.unit(unit), Timestamp(1), "old").await.expect("dismissed");
    }
    let late = Timestamp(i64::MAX - 1);
    store.acknowledge(vec![claim(60)], Timestamp(1)).await.expect("one is delivered");
    store.acknowledge(vec![claim(61)], late).await.expect("all are delivered");
    assert_eq!(store.prune(Timestamp(1000)).await, Ok(0), "they settled later");
    assert_eq!(store.prune(late).await, Ok(1), "what was delivered late keeps its time from then on");
    assert_eq!(store.prune(far).await, Ok(1));
    for owned in [&dismissed, &delivered] {
        assert_eq!(store.delegation(&owned.accepted.delegation).await, Ok(None));
        assert_eq!(store.find(owned.child(0).as_str()).await, Ok(vec![]));
    }
    assert_eq!(store.steps(&delivered.actor(0)).await, Ok(vec![]));
    for owned in &kept {
        assert_eq!(owned.stored().await.accepted, owned.accepted);
    }
    // What is gone leaves its ids free and nothing behind that a new delegation could trip over.
    let again = Owned::try_accept(&store, sample::accepted(7, &[&[0], &[1]])).await.map(drop);
    assert_eq!(again, Ok(()));
    assert_eq!(store.steps(&delivered.actor(0)).await, Ok(vec![]));
}

async fn write_a_step(owned: &Owned) {
    let write = WriteSteps {
        actor: owned.actor(0),
        fence: owned.fence(),
        at: Timestamp(1),
        changes: vec![StepChange::Intend { seq: 0, action: Action::Open }],
        acknowledge: vec![],
        turn: None,
        seen: vec![],
    };
    owned.store.write_steps(write).await.expect("the owner may write");
}
