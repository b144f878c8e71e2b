//! Rows that cannot be read cost what they belong to and nothing else (K35): it is named by its id, stays where it is, and
//! everything beside it is answered as ever.

use super::unread::{called_by, delivery};
use crate::memory::Damage;
use crate::store_suite::sample;
use crate::store_suite::{Owned, Place};
use legwork_core::batch::Reach;
use legwork_core::delivery::DeliveryState;
use legwork_core::ids::{ChildId, DelegationId, RequestId};
use legwork_core::outcome::{Force, StopReason};
use legwork_core::ports::{AppendError, Filter, Found, StoreError, WriteSteps};
use legwork_core::record::DelegationRecord;
use legwork_core::steering::{Request, Scope, Wish};
use legwork_core::step::{Action, StepChange};
use legwork_core::time::Timestamp;
use std::slice;

fn ids(records: &[DelegationRecord]) -> Vec<&DelegationId> {
    records.iter().map(|record| &record.accepted.delegation).collect()
}

/// In every list, and by its own id.
pub async fn k35_one_delegation_that_cannot_be_read_keeps_no_other_back(place: &dyn Place) {
    let store = place.open();
    let mut all = Vec::new();
    for n in 1..=3 {
        let mut accepted = sample::accepted(n, &[&[0], &[1]]);
        accepted.lineage.session = sample::session_id(1);
        all.push(Owned::try_accept(&store, accepted).await.expect("a fresh sample is accepted"));
    }
    let below = called_by(&store, 4, &all[1], 0).await;
    let [first, damaged, third] = [0, 1, 2].map(|at: usize| all[at].accepted.delegation.clone());
    place.damage(Damage::Delegation(damaged.clone()));
    let below = &below.accepted.delegation;
    let session = sample::session_id(1);
    for filter in [Filter::Open, Filter::Recent(9), Filter::OpenOf(session.clone()), Filter::Of(session)] {
        let listed = store.delegations(filter.clone()).await.expect("the others can be read");
        assert_eq!(ids(&listed.rows), [below, &third, &first], "{filter:?}");
        assert_eq!(listed.unreadable, slice::from_ref(&damaged), "{filter:?}");
    }
    let listed = store.delegations(Filter::Below(damaged.clone())).await.expect("it can be read");
    assert_eq!((ids(&listed.rows), listed.unreadable), (vec![below], vec![]));
    let read = store.delegation(&damaged).await;
    assert!(matches!(&read, Err(StoreError::Corrupt(why)) if why.contains(damaged.as_str())), "{read:?}");
    assert!(store.delegation(&third).await.is_ok_and(|record| record.is_some()));
    assert_eq!(store.find(damaged.as_str()).await, Ok(vec![Found::Delegation(damaged)]));
}

fn asked(n: u32, wish: Wish, scope: Scope) -> Request {
    Request { id: RequestId::from_bits(u64::from(n)), at: Timestamp(i64::from(n)), scope, wish }
}

fn steer(n: u32, child: &ChildId) -> Request {
    asked(n, Wish::Steer { text: format!("text {n}") }, Scope::Child(child.clone()))
}

/// A stop, and a steer among others of its child.
pub async fn k35_a_request_that_cannot_be_read_keeps_no_other_back(place: &dyn Place) {
    let store = place.open();
    let owned = Owned::accept(&store, 1, &[&[0]]).await;
    let child = owned.child(0);
    let stop = asked(4, Wish::Stop { reason: StopReason::Cancelled, force: Force::Ask }, Scope::All);
    for request in [steer(1, child), steer(2, child), steer(3, child), stop] {
        store.ask(request).await.expect("it is stored");
    }
    for n in [2, 4] {
        place.damage(Damage::Request(RequestId::from_bits(n)));
    }
    let news = store.news(0).await.expect("the others can be read");
    let told: Vec<&RequestId> = news.requests.iter().map(|(_, request)| &request.id).collect();
    assert_eq!(told, [&RequestId::from_bits(1), &RequestId::from_bits(3)]);
    let unreadable: Vec<&RequestId> = news.unreadable.iter().map(|(_, id)| id).collect();
    assert_eq!(unreadable, [&RequestId::from_bits(2), &RequestId::from_bits(4)]);
    let last = news.unreadable.last().expect("there are two").0;
    let later = store.news(last).await.expect("readable");
    assert_eq!((later.requests.len(), later.unreadable.len()), (0, 0), "each is told of once");
    let steers = store.steers(child).await.expect("the others can be read");
    let told: Vec<&RequestId> = steers.rows.iter().map(|steer| &steer.request.id).collect();
    assert_eq!(told, [&RequestId::from_bits(1), &RequestId::from_bits(3)]);
    assert_eq!(steers.unreadable, [RequestId::from_bits(2)]);
    // A session can be deleted all the same.
    Owned::open_session(&store, 9).await;
    store.release_session(&sample::session_id(9), &sample::owner_id(1)).await.expect("it is closed");
    assert_eq!(store.delete_session(&sample::session_id(9)).await, Ok(()));
}

/// They are as undelivered as before.
pub async fn k35_results_of_which_it_cannot_be_read_where_they_are_keep_no_others_back(place: &dyn Place) {
    let store = place.open();
    Owned::open_session(&store, 1).await;
    store.release_session(&sample::session_id(1), &sample::owner_id(1)).await.expect("it is closed");
    let mut units = Vec::new();
    for n in 1..=3 {
        let mut accepted = sample::accepted(n, &[&[0]]);
        accepted.lineage.session = sample::session_id(1);
        accepted.reach = Reach::Push;
        let mut owned = Owned::try_accept(&store, accepted).await.expect("a fresh sample is accepted");
        owned.finish().await;
        units.push(owned.unit(0).clone());
    }
    place.damage(Damage::Unit(units[1].clone()));
    let due = store.undelivered(&sample::session_id(1)).await.expect("the others can be read");
    let told: Vec<_> = due.rows.iter().map(|due| &due.unit).collect();
    assert_eq!((told, &due.unreadable), (vec![&units[0], &units[2]], &vec![units[1].clone()]));
    let (mut after, mut read) = (0, (Vec::new(), Vec::new()));
    loop {
        let portion = store.due(&sample::session_id(1), after, 1).await.expect("the others can be read");
        let Some(last) = portion.last_place() else { break };
        after = last;
        read.0.extend(portion.rows.into_iter().map(|due| due.due.unit));
        read.1.extend(portion.unreadable.into_iter().map(|(_, unit)| unit));
    }
    assert_eq!(read, (vec![units[0].clone(), units[2].clone()], vec![units[1].clone()]), "one by one");
    let deleted = store.delete_session(&sample::session_id(1)).await;
    assert!(matches!(deleted, Err(StoreError::Conflict(_))), "{deleted:?}");
}

/// In one commit with those of others.
pub async fn k35_facts_of_what_cannot_be_read_are_refused_and_no_others(place: &dyn Place) {
    let store = place.open();
    let [one, two, three] = [
        Owned::accept(&store, 1, &[&[0]]).await,
        Owned::accept(&store, 2, &[&[0]]).await,
        Owned::accept(&store, 3, &[&[0]]).await,
    ];
    place.damage(Damage::Delegation(two.accepted.delegation.clone()));
    let appends = [&one, &two, &three].map(|owned| owned.append(vec![owned.started(0)]));
    let answers = store.append(appends.to_vec()).await.expect("the store works");
    let [first, damaged, third] = <[_; 3]>::try_from(answers).expect("one answer each");
    assert_eq!((first, third), (Ok(()), Ok(())));
    assert!(matches!(damaged, Err(AppendError::Unreadable(_))), "{damaged:?}");
    for owned in [&one, &three] {
        assert!(owned.stored().await.children[0].state.has_runner(), "it is stored");
    }
}

/// What `doctor` shows.
pub async fn k35_health_names_what_cannot_be_read(place: &dyn Place) {
    let store = place.open();
    let owned = Owned::accept(&store, 1, &[&[0], &[1]]).await;
    let other = Owned::accept(&store, 2, &[&[0]]).await;
    for index in 0..2 {
        let write = WriteSteps {
            actor: owned.actor(index),
            fence: owned.fence(),
            at: Timestamp(5),
            changes: vec![StepChange::Intend { seq: 0, action: Action::Open }],
            acknowledge: Vec::new(),
            turn: None,
            seen: Vec::new(),
        };
        store.write_steps(write).await.expect("it is stored");
    }
    store.ask(steer(1, owned.child(0))).await.expect("it is stored");
    let health = store.health().await.expect("readable");
    assert_eq!((health.broken, health.journals, health.requests), (vec![], vec![], vec![]));
    place.damage(Damage::Journal(owned.actor(1)));
    place.damage(Damage::Request(RequestId::from_bits(1)));
    place.damage(Damage::Delegation(other.accepted.delegation.clone()));
    let health = store.health().await.expect("readable");
    assert_eq!(health.broken, slice::from_ref(&other.accepted.delegation));
    assert_eq!(health.journals, [owned.child(1).clone()]);
    assert_eq!(health.requests, [RequestId::from_bits(1)]);
}

/// Old, delivered, and damaged.
pub async fn inv_05_nothing_that_cannot_be_read_is_pruned(place: &dyn Place) {
    let store = place.open();
    let mut all = Vec::new();
    for n in 1..=3 {
        let mut owned = Owned::accept(&store, n, &[&[0]]).await;
        owned.finish().await;
        let claim = owned.claim(0, n).await.expect("it is ready");
        store.acknowledge(vec![claim], Timestamp(3000)).await.expect("it is delivered");
        all.push(owned);
    }
    place.damage(Damage::Delegation(all[0].accepted.delegation.clone()));
    place.damage(Damage::Unit(all[1].unit(0).clone()));
    assert_eq!(store.prune(Timestamp(9_000)).await, Ok(1), "one of them can be read");
    let left = store.delegations(Filter::Recent(9)).await.expect("readable");
    assert_eq!((left.rows.len(), left.unreadable.len()), (0, 2));
}

/// Neither it nor what is below it.
pub async fn inv_01_what_cannot_be_read_is_told_with_nothing(place: &dyn Place) {
    let store = place.open();
    let mut top = Owned::accept(&store, 1, &[&[0]]).await;
    let mut low = called_by(&store, 2, &top, 0).await;
    let mut lowest = called_by(&store, 3, &low, 0).await;
    let mut beside = called_by(&store, 4, &top, 0).await;
    for owned in [&mut lowest, &mut low, &mut beside, &mut top] {
        owned.finish().await;
    }
    place.damage(Damage::Delegation(low.accepted.delegation.clone()));
    let claim = top.claim(0, 1).await.expect("it is ready");
    assert_eq!(store.acknowledge(vec![claim], Timestamp(7)).await, Ok(()));
    assert_eq!(delivery(&beside, 0).await.told_with().as_ref(), Some(top.unit(0)));
    assert_eq!(delivery(&lowest, 0).await.state, DeliveryState::Ready { tries: 0 });
    let due = store.undelivered(&top.accepted.lineage.session).await.expect("readable");
    let due: Vec<_> = due.rows.iter().map(|due| &due.unit).collect();
    assert_eq!(due, [lowest.unit(0), low.unit(0)], "somebody may mend it");
}
