//! What is said to running children, and the pause.

use crate::store_suite::sample;
use crate::store_suite::{Owned, Place};
use futures::future::join;
use legwork_core::child::{AfterLoss, ChildEvent};
use legwork_core::fact::Fact;
use legwork_core::ids::{ChildId, RequestId};
use legwork_core::outcome::{Force, StopReason};
use legwork_core::ports::{Listed, Pause, Store, StoreError, WriteSteps};
use legwork_core::steering::{Asked, Fate, Request, STEERS_WAITING_MAX, Scope, Wish};
use legwork_core::step::{Action, Actor, StepChange};
use legwork_core::time::Timestamp;
use std::sync::Arc;

fn id(n: u32) -> RequestId {
    RequestId::from_bits(u64::from(n))
}

fn steer(n: u32, child: &ChildId) -> Request {
    let wish = Wish::Steer { text: format!("text {n}") };
    Request { id: id(n), at: Timestamp(i64::from(n)), scope: Scope::Child(child.clone()), wish }
}

/// Two terminals say something when there is room for one text only: the store counts in the commit that takes it. What was read
/// makes room again, and a text that is stored already is stored.
pub async fn k27_no_more_texts_wait_for_a_child_than_may_whoever_says_them(place: &dyn Place) {
    let store = place.open();
    let mut owned = Owned::accept(&store, 1, &[&[0, 1]]).await;
    owned.record(vec![owned.started(0), owned.started(1)]).await.expect("children start");
    let (child, other) = (owned.child(0).clone(), owned.child(1).clone());
    let most = u32::try_from(STEERS_WAITING_MAX).expect("it is a small number");
    for n in 1..most {
        assert_eq!(store.ask(steer(n, &child)).await, Ok(Asked::Stored));
    }
    let (first, second) = (steer(most, &child), steer(most + 1, &child));
    let answers: [_; 2] = join(store.ask(first.clone()), store.ask(second.clone())).await.into();
    let stored = answers.iter().filter(|answer| **answer == Ok(Asked::Stored)).count();
    assert!(stored == 1 && answers.contains(&Ok(Asked::Full)), "{answers:?}");
    let (kept, refused) = if answers[0] == Ok(Asked::Stored) { (first, second) } else { (second, first) };
    assert_eq!(store.steers(&child).await.expect("readable").rows.len(), STEERS_WAITING_MAX);
    assert_eq!(store.ask(kept).await, Ok(Asked::Stored), "the same request again");
    assert_eq!(store.ask(refused.clone()).await, Ok(Asked::Full));
    assert_eq!(store.ask(steer(most + 2, &other)).await, Ok(Asked::Stored), "each child has its own");
    assert_eq!(store.write_steps(reading(&owned, 0, &[(id(1), 0)])).await, Ok(()));
    assert_eq!(store.ask(refused).await, Ok(Asked::Stored), "there is room again");
}

/// A step that begins and takes steers in.
fn reading(owned: &Owned, seq: u32, seen: &[(RequestId, u32)]) -> WriteSteps {
    let requests = seen.iter().map(|(request, _)| request.clone()).collect();
    WriteSteps {
        actor: owned.actor(0),
        fence: owned.fence(),
        at: Timestamp(70),
        changes: vec![StepChange::Intend { seq, action: Action::Steer { requests } }],
        acknowledge: vec![],
        turn: None,
        seen: seen.to_vec(),
    }
}

async fn fates(store: &Arc<dyn Store>, child: &ChildId) -> Vec<(Fate, Option<i64>)> {
    let steers = store.steers(child).await.expect("readable").rows;
    steers.into_iter().map(|steer| (steer.fate, steer.decided_at.map(|at| at.0))).collect()
}

fn is_conflict<T>(answer: &Result<T, StoreError>) -> bool {
    matches!(answer, Err(StoreError::Conflict(_)))
}

/// A text to a child that lives is stored; its end makes what it did not read missed; afterwards nothing is taken.
pub async fn ctrl_10_a_steer_is_seen_missed_or_refused(place: &dyn Place) {
    let store = place.open();
    let mut owned = Owned::accept(&store, 1, &[&[0, 1]]).await;
    let (first, second) = (owned.child(0).clone(), owned.child(1).clone());
    assert_eq!(store.ask(steer(1, &first)).await, Ok(Asked::Stored), "also while it waits for a slot");
    owned.record(vec![owned.started(0), owned.started(1)]).await.expect("children start");
    for n in [4, 2] {
        assert_eq!(store.ask(steer(n, &first)).await, Ok(Asked::Stored));
    }
    assert_eq!(store.ask(steer(3, &second)).await, Ok(Asked::Stored));
    let unknown = sample::accepted(9, &[&[0]]).children[0].clone();
    assert_eq!(store.ask(steer(5, &unknown)).await, Ok(Asked::Unknown));
    assert_eq!(store.write_steps(reading(&owned, 0, &[(id(1), 0), (id(4), 0)])).await, Ok(()));

    let lost =
        Fact::Moved { child: second.clone(), event: ChildEvent::OwnerLost(AfterLoss::GiveUp), report: None };
    owned.record(vec![owned.returned(0, "done"), lost]).await.expect("both end");
    let ended_at = Some(1003);
    let seen = (Fate::Seen { step: 0 }, Some(70));
    assert_eq!(fates(&store, &first).await, [seen.clone(), seen, (Fate::Missed, ended_at)]);
    assert_eq!(fates(&store, &second).await, [(Fate::Missed, ended_at)], "also when its process is lost");
    assert_eq!(store.ask(steer(6, &first)).await, Ok(Asked::Ended));
    assert_eq!(store.ask(steer(2, &first)).await, Ok(Asked::Stored), "the same request again");
    assert_eq!(store.news(0).await.map(|news| news.requests), Ok(vec![]), "nothing is open");
    drop(store);
    let store = place.open();
    let texts: Vec<_> =
        store.steers(&first).await.expect("readable").rows.into_iter().map(|steer| steer.request).collect();
    assert_eq!(texts, [steer(1, &first), steer(4, &first), steer(2, &first)], "oldest first");
    assert_eq!(store.steers(&unknown).await, Ok(Listed::default()));
}

/// Not twice, not by another child, not without its step, and a stop is not read at all.
pub async fn ctrl_10_a_steer_is_seen_once_by_its_own_child(place: &dyn Place) {
    let store = place.open();
    let owned = Owned::accept(&store, 1, &[&[0, 1]]).await;
    Owned::open_session(&store, 1).await;
    let wish = Wish::Stop { reason: StopReason::Cancelled, force: Force::Ask };
    let stop = Request { wish, ..steer(3, owned.child(0)) };
    for request in [steer(1, owned.child(0)), steer(2, owned.child(1)), stop] {
        store.ask(request).await.expect("it is stored");
    }
    for n in [2, 3, 9] {
        assert!(is_conflict(&store.write_steps(reading(&owned, 0, &[(id(n), 0)])).await), "{n}");
    }
    assert!(is_conflict(&store.write_steps(reading(&owned, 0, &[(id(1), 0), (id(1), 0)])).await), "twice");
    assert!(is_conflict(&store.write_steps(reading(&owned, 0, &[(id(1), 1)])).await), "no such step");
    let session =
        WriteSteps { actor: Actor::Session(sample::session_id(1)), ..reading(&owned, 0, &[(id(1), 0)]) };
    assert!(is_conflict(&store.write_steps(session).await), "a session is not steered");
    assert!(is_conflict(&store.settle_request(&id(1), &owned.owner, Timestamp(9)).await), "not a stop");
    let wide = Request { scope: Scope::All, ..steer(7, owned.child(0)) };
    assert!(is_conflict(&store.ask(wide).await), "one child is steered");
    assert_eq!(fates(&store, owned.child(0)).await, [(Fate::Open, None)]);

    assert_eq!(store.write_steps(reading(&owned, 0, &[(id(1), 0)])).await, Ok(()));
    assert!(is_conflict(&store.write_steps(reading(&owned, 1, &[(id(1), 1)])).await), "read is read");
    assert_eq!(fates(&store, owned.child(0)).await, [(Fate::Seen { step: 0 }, Some(70))]);
}

/// Seen and the step that takes it in: the one never without the other.
pub async fn inv_02_a_steer_is_seen_in_the_commit_of_its_step(place: &dyn Place) {
    let store = place.open();
    let owned = Owned::accept(&store, 1, &[&[0]]).await;
    for n in [1, 2] {
        store.ask(steer(n, owned.child(0))).await.expect("it is stored");
    }
    let open = vec![(Fate::Open, None); 2];
    assert!(is_conflict(&store.write_steps(reading(&owned, 5, &[(id(1), 5)])).await), "a gap");
    assert_eq!(fates(&store, owned.child(0)).await, open);
    assert!(is_conflict(&store.write_steps(reading(&owned, 0, &[(id(1), 0), (id(9), 0)])).await));
    assert_eq!(fates(&store, owned.child(0)).await, open);
    let acknowledge = vec![legwork_core::ids::ClaimId::from_bits(9)];
    let stale = WriteSteps { acknowledge, ..reading(&owned, 0, &[(id(1), 0)]) };
    assert!(is_conflict(&store.write_steps(stale).await), "a stale claim");
    assert_eq!(fates(&store, owned.child(0)).await, open);
    assert_eq!(store.steps(&owned.actor(0)).await, Ok(vec![]));

    assert_eq!(store.write_steps(reading(&owned, 0, &[(id(1), 0), (id(2), 0)])).await, Ok(()));
    assert_eq!(fates(&store, owned.child(0)).await, vec![(Fate::Seen { step: 0 }, Some(70)); 2]);
    assert_eq!(store.steps(&owned.actor(0)).await.map(|steps| steps.len()), Ok(1));
}

/// A text that comes while the child ends is either refused or missed, and never open for ever.
pub async fn ctrl_10_steers_and_the_end_of_their_child_come_in_one_order(place: &dyn Place) {
    let store = place.open();
    for n in 1..=8 {
        let mut owned = Owned::accept(&store, n, &[&[0]]).await;
        let child = owned.child(0).clone();
        owned.record(vec![owned.started(0)]).await.expect("it starts");
        let end = [owned.returned(0, "done")].to_vec();
        let (asked, ended) = join(store.ask(steer(n, &child)), owned.record(end)).await;
        ended.expect("it ends");
        let fates: Vec<_> = fates(&store, &child).await.into_iter().map(|(fate, _)| fate).collect();
        match asked.expect("the store works") {
            Asked::Stored => assert_eq!(fates, [Fate::Missed]),
            Asked::Ended => assert_eq!(fates, []),
            Asked::Unknown | Asked::Full => panic!("the child is known and was told nothing else"),
        }
    }
}

/// Old stops go by their age, what was said goes with the child it was said to.
pub async fn nothing_that_was_said_is_pruned_before_its_child(place: &dyn Place) {
    let store = place.open();
    let mut owned = Owned::accept(&store, 1, &[&[0]]).await;
    let child = owned.child(0).clone();
    store.ask(steer(1, &child)).await.expect("it is stored");
    assert_eq!(store.prune(Timestamp(i64::MAX)).await, Ok(0));
    assert_eq!(store.news(0).await.map(|news| news.requests.len()), Ok(1));
    owned.finish().await;
    assert_eq!(store.prune(Timestamp(i64::MAX)).await, Ok(0), "its results wait");
    assert_eq!(fates(&store, &child).await.len(), 1);
    store.dismiss(owned.unit(0), Timestamp(1), "no").await.expect("dismissed");
    assert_eq!(store.prune(Timestamp(i64::MAX)).await, Ok(1));
    assert_eq!(store.steers(&child).await, Ok(Listed::default()));
}

/// Age does not take a stop from work that is still to be gone on with, whatever it names.
pub async fn inv_11_a_stop_that_nobody_carried_out_outlives_its_age_while_its_work_is_open(
    place: &dyn Place,
) {
    let store = place.open();
    let mut owned = Owned::accept(&store, 1, &[&[0]]).await;
    let session = owned.accepted.lineage.session.clone();
    let scopes = [
        Scope::Child(owned.child(0).clone()),
        Scope::Delegation(owned.accepted.delegation.clone()),
        Scope::Session(session),
        Scope::All,
    ];
    for (n, scope) in (1..).zip(scopes) {
        let wish = Wish::Stop { reason: StopReason::Cancelled, force: Force::Ask };
        let request = Request { id: RequestId::from_bits(n), at: Timestamp(5000), scope, wish };
        assert_eq!(store.ask(request).await, Ok(Asked::Stored));
    }
    let far = Timestamp(i64::MAX);
    let open = || async { store.news(0).await.map(|news| news.requests.len()) };
    assert_eq!(store.prune(far).await, Ok(0));
    assert_eq!(open().await, Ok(4));
    let by = sample::owner_id(1);
    store.settle_request(&RequestId::from_bits(1), &by, Timestamp(6000)).await.expect("it is open");
    assert_eq!(store.prune(far).await, Ok(0));
    assert_eq!(open().await, Ok(3));
    owned.finish().await;
    assert_eq!(store.prune(far).await, Ok(0), "its results wait");
    assert_eq!(open().await, Ok(0), "nothing is left that they could stop");
}

/// However many are old, one call removes them all.
pub async fn dur_07_all_that_is_old_is_pruned_at_once(place: &dyn Place) {
    let store = place.open();
    for n in 1..=70 {
        let mut owned = Owned::accept(&store, n, &[&[0]]).await;
        owned.finish().await;
        store.dismiss(owned.unit(0), Timestamp(1), "no").await.expect("dismissed");
    }
    assert_eq!(store.prune(Timestamp(i64::MAX)).await, Ok(70));
    assert_eq!(store.prune(Timestamp(i64::MAX)).await, Ok(0));
}

/// Every process of the store sees it, also one that comes later.
pub async fn a_pause_holds_for_the_whole_store(place: &dyn Place) {
    let store = place.open();
    let pause = |store: Arc<dyn Store>| async move { store.news(0).await.map(|news| news.pause) };
    assert_eq!(pause(store.clone()).await, Ok(Pause::Off));
    assert_eq!(store.set_pause(Pause::Off, Timestamp(1)).await, Ok(false), "it is not");
    assert_eq!(store.set_pause(Pause::On, Timestamp(2)).await, Ok(true));
    assert_eq!(store.set_pause(Pause::On, Timestamp(3)).await, Ok(false), "it is already");
    assert_eq!(pause(store.clone()).await, Ok(Pause::On));
    assert_eq!(pause(place.open()).await, Ok(Pause::On));
    assert_eq!(place.open().set_pause(Pause::Off, Timestamp(4)).await, Ok(true));
    assert_eq!(pause(store).await, Ok(Pause::Off));
}
