//! Accepting delegations: durable, once for each call, under ids of their own, in a sound shape.

use crate::store_suite::sample;
use crate::store_suite::{Owned, Place};
use legwork_core::batch::{Reach, Tenant};
use legwork_core::child::ChildState;
use legwork_core::delivery::DeliveryState;
use legwork_core::fact::{Accepted, Append, Fact};
use legwork_core::ids::{CallKey, ChildId, Epoch, UnitId};
use legwork_core::ports::{AppendError, StoreError};
use legwork_core::time::Timestamp;

/// A ticket means durable.
/// Proves REG-2, LIVE-13, DUR-2, DUR-3.
pub async fn inv_02_an_acceptance_survives_reopening(place: &dyn Place) {
    let owned = Owned::accept(&place.open(), 7, &[&[0, 2], &[1]]).await;
    let before = owned.stored().await;
    let accepted = owned.accepted.clone();
    drop(owned);

    let store = place.open();
    let record = store.delegation(&accepted.delegation).await.expect("readable").expect("still there");
    assert_eq!(record, before);
    assert_eq!(record.accepted, accepted);
    assert_eq!((record.accepted_at, record.epoch, record.seq), (Timestamp(1000), Epoch(1), 1));
    assert_eq!(record.owner, sample::owner(1));
    assert_eq!(
        record.children.iter().map(|child| &child.id).collect::<Vec<_>>(),
        accepted.children.iter().collect::<Vec<_>>()
    );
    assert!(record.children.iter().all(|child| child.state == ChildState::NEW));
    assert!(record.deliveries.iter().all(|delivery| delivery.state == DeliveryState::Held));
    assert_eq!(record.deliveries.len(), 2);
}

/// Whom a call is for, as far as its front door knows, and what it says about all of its tasks.
/// Proves ROUTE-5, TASK-6.
pub async fn route_05_the_keys_of_a_tenant_survive_reopening(place: &dyn Place) {
    for (n, keys) in [["T024", "U7", "Ada"], ["", "U7", " "], ["", "", ""]].into_iter().enumerate() {
        let n = u32::try_from(n).expect("three of them") + 1;
        let mut call = sample::accepted(n, &[&[0]]);
        call.lineage.tenant = Tenant::new(keys[0], keys[1], keys[2]);
        call.context = (n == 1).then(|| "for all".to_owned());
        Owned::try_accept(&place.open(), call.clone()).await.expect("a fresh sample is accepted");
        let store = place.open();
        let record = store.delegation(&call.delegation).await.expect("readable").expect("still there");
        let tenant = &record.accepted.lineage.tenant;
        let known = [tenant.scope_id(), tenant.user_id(), tenant.user_name()];
        assert_eq!(known, keys.map(|key| Some(key).filter(|key| !key.trim().is_empty())));
        assert_eq!(record.accepted, call);
    }
}

/// The same call makes one delegation, however often it arrives.
pub async fn inv_06_a_repeated_call_is_answered_with_the_first_delegation(place: &dyn Place) {
    let store = place.open();
    let keyed = |n| Accepted { call_key: Some(sample::call_key(1)), ..sample::accepted(n, &[&[0]]) };
    let first = Owned::try_accept(&store, keyed(1)).await.expect("the first is accepted");
    let id = first.accepted.delegation.clone();

    let again = Owned::try_accept(&store, keyed(2)).await;
    assert_eq!(again.map(drop), Err(AppendError::Repeated(id.clone())));
    let same = Owned::try_accept(&store, keyed(1)).await;
    assert_eq!(same.map(drop), Err(AppendError::Repeated(id.clone())));
    assert_eq!(store.by_call_key(&sample::call_key(1)).await, Ok(Some(id)));
    assert_eq!(store.by_call_key(&sample::call_key(2)).await, Ok(None));

    // Caller and call make the key together: one of them alone is nobody's.
    let key = |caller: u32, call: u32| CallKey {
        caller: sample::call_key(caller).caller,
        call: sample::call_key(call).call,
    };
    for (n, (caller, call)) in (10..).zip([(1, 2), (2, 1), (2, 2)]) {
        assert_eq!(store.by_call_key(&key(caller, call)).await, Ok(None), "({caller}, {call})");
        let accepted = Accepted { call_key: Some(key(caller, call)), ..sample::accepted(n, &[&[0]]) };
        let other = Owned::try_accept(&store, accepted).await.expect("it is another call");
        assert_eq!(store.by_call_key(&key(caller, call)).await, Ok(Some(other.accepted.delegation.clone())));
    }
    assert_eq!(store.by_call_key(&key(1, 1)).await, Ok(Some(first.accepted.delegation.clone())));

    // Calls without a key have nothing to be recognised by.
    Owned::accept(&store, 3, &[&[0]]).await;
    Owned::accept(&store, 4, &[&[0]]).await;
}

/// Ids of delegations, units and children stand for one thing each.
pub async fn inv_36_an_id_that_is_taken_is_refused(place: &dyn Place) {
    let store = place.open();
    let first = Owned::accept(&store, 1, &[&[0], &[1]]).await;

    let same_id =
        Accepted { delegation: first.accepted.delegation.clone(), ..sample::accepted(2, &[&[0], &[1]]) };
    let mut same_unit = sample::accepted(3, &[&[0], &[1]]);
    same_unit.units[1].id = UnitId::part(&first.accepted.delegation, 2);
    let mut same_child = sample::accepted(4, &[&[0], &[1]]);
    same_child.children[0] = ChildId::from_bits(1, 1);

    for taken in [same_id, same_unit, same_child] {
        let id = taken.delegation.clone();
        assert_eq!(Owned::try_accept(&store, taken).await.map(drop), Err(AppendError::IdTaken(id)));
    }
    assert_eq!(first.stored().await.accepted, first.accepted);
}

/// Every task has one child of its own and is in exactly one unit.
pub async fn an_acceptance_in_a_wrong_shape_is_refused(place: &dyn Place) {
    let store = place.open();
    let mut empty = sample::accepted(1, &[]);
    empty.units.clear();
    let mut childless = sample::accepted(2, &[&[0, 1]]);
    childless.children.pop();
    let mut outside = sample::accepted(3, &[&[0, 1]]);
    outside.units[0].task_indexes = vec![0, 2];
    let mut twice = sample::accepted(4, &[&[0, 1]]);
    twice.units[0].task_indexes = vec![0, 0];
    let mut twins = sample::accepted(5, &[&[0, 1]]);
    twins.children[1] = twins.children[0].clone();

    for unsound in [empty, childless, outside, twice, twins] {
        let id = unsound.delegation.clone();
        let answer = Owned::try_accept(&store, unsound).await.map(drop);
        assert!(matches!(answer, Err(AppendError::Illegal(_))), "{id}: {answer:?}");
        assert_eq!(store.delegation(&id).await, Ok(None));
    }
}

/// Work belongs to a process that is known, so that its death can be proved later.
pub async fn only_a_process_that_entered_may_accept(place: &dyn Place) {
    let store = place.open();
    let accepted = sample::accepted(1, &[&[0]]);
    let append = Append {
        delegation: accepted.delegation.clone(),
        expected_seq: 0,
        owner: sample::owner_id(9),
        epoch: Epoch(1),
        at: Timestamp(1),
        facts: vec![Fact::Accepted(Box::new(accepted))],
    };
    let answers = store.append(vec![append]).await.expect("the store works");
    assert!(matches!(answers.as_slice(), [Err(AppendError::Illegal(_))]), "{answers:?}");
}

/// One that waits is there itself.
pub async fn k07_results_that_come_by_themselves_are_accepted_only_for_a_session_that_is_there(
    place: &dyn Place,
) {
    let store = place.open();
    Owned::open_session(&store, 8).await;
    for (n, reach) in [(1, Reach::Push), (2, Reach::History)] {
        let accepted =
            Accepted { reach, call_key: Some(sample::call_key(n)), ..sample::accepted(n, &[&[0]]) };
        let append = accepting(&accepted);
        let gone = accepted.lineage.session.clone();
        let refused = store.append(vec![append.clone()]).await.expect("the store works");
        assert_eq!(refused, [Err(AppendError::NoSession(gone))], "{reach:?}");
        assert_eq!(store.delegation(&accepted.delegation).await, Ok(None));
        assert_eq!(store.by_call_key(&sample::call_key(n)).await, Ok(None));
        Owned::open_session(&store, n).await;
        assert_eq!(store.append(vec![append.clone()]).await, Ok(vec![Ok(())]));
        store.release_session(&sample::session_id(n), &sample::owner_id(1)).await.expect("it is closed");
        let deleted = store.delete_session(&sample::session_id(n)).await;
        assert!(matches!(deleted, Err(StoreError::Conflict(_))), "{deleted:?}");
        let again = store.append(vec![append]).await.expect("the store works");
        assert_eq!(again, [Err(AppendError::Repeated(accepted.delegation))]);
    }
    let waits = Accepted { reach: Reach::Joined, ..sample::accepted(3, &[&[0]]) };
    assert_eq!(store.append(vec![accepting(&waits)]).await, Ok(vec![Ok(())]));
}

/// In whatever order they come, and at the same time.
pub async fn k07_of_an_acceptance_and_the_deletion_of_its_session_one_is_carried_out(place: &dyn Place) {
    let (one, other) = (place.open(), place.open());
    for n in 1..=40 {
        Owned::open_session(&one, n).await;
        let session = sample::session_id(n);
        one.release_session(&session, &sample::owner_id(1)).await.expect("it is closed");
        let append = accepting(&Accepted { reach: Reach::Push, ..sample::accepted(n, &[&[0]]) });
        let (accepted, deleted) = if n % 2 == 0 {
            tokio::join!(one.append(vec![append]), other.delete_session(&session))
        } else {
            let (deleted, accepted) = tokio::join!(other.delete_session(&session), one.append(vec![append]));
            (accepted, deleted)
        };
        let accepted = accepted.expect("the store works").remove(0);
        let is_there = one.session(&session).await.expect("readable").is_some();
        match (accepted, deleted) {
            (Ok(()), Err(StoreError::Conflict(_))) => assert!(is_there),
            (Err(AppendError::NoSession(_)), Ok(())) => assert!(!is_there),
            both => panic!("{n}: {both:?}"),
        }
    }
}

/// As process 1 would accept it.
fn accepting(accepted: &Accepted) -> Append {
    Append {
        delegation: accepted.delegation.clone(),
        expected_seq: 0,
        owner: sample::owner_id(1),
        epoch: Epoch(1),
        at: Timestamp(1000),
        facts: vec![Fact::Accepted(Box::new(accepted.clone()))],
    }
}
