//! Owners, fencing, process groups and pulses.

use crate::store_suite::sample;
use crate::store_suite::{Owned, Place};
use legwork_core::ids::{DelegationId, Epoch, OwnerId, RequestId};
use legwork_core::message::{Author, Message};
use legwork_core::outcome::{Force, StopReason};
use legwork_core::ports::{AppendError, StoreError, Takeover, Turn, WriteSteps};
use legwork_core::pulse::{Deaths, Phase, Pulse};
use legwork_core::record::{Lease, OwnerRecord};
use legwork_core::steering::{Asked, Request, Scope, Wish};
use legwork_core::step::{Action, Actor, Fence, StepChange};
use legwork_core::time::Timestamp;
use std::time::Duration;

/// After a take-over nothing of the old owner's gets in, and the new one goes on where it stopped.
pub async fn inv_30_a_late_owner_is_fenced_everywhere(place: &dyn Place) {
    let store = place.open();
    let mut owned = Owned::accept(&store, 1, &[&[0]]).await;
    owned.record(vec![owned.started(0)]).await.expect("the child starts");
    store.enter(sample::owner(2), Timestamp(2)).await.expect("a second process enters");
    let id = owned.accepted.delegation.clone();
    let taken = store.take_over(takeover(owned.owner.clone(), sample::owner_id(2), vec![id])).await;
    assert_eq!(taken, Ok(vec![(owned.accepted.delegation.clone(), Epoch(2))]));

    let late = owned.record(vec![owned.returned(0, "too late")]).await;
    assert_eq!(late, Err(AppendError::Stale(owned.accepted.delegation.clone())));
    let fenced = |answer: Result<(), StoreError>| matches!(answer, Err(StoreError::Fenced(_)));
    let pulses = vec![(owned.child(0).clone(), Pulse::default())];
    assert!(fenced(store.note_pulses(owned.fence(), Timestamp(4), pulses).await));
    assert!(fenced(store.note_group(owned.fence(), owned.actor(0), sample::group(1)).await));
    assert!(fenced(store.write_steps(first_step(&owned)).await));
    // The right process of the wrong generation is as late as another one.
    let old_self =
        Owned { owner: sample::owner_id(2), store: store.clone(), accepted: owned.accepted.clone(), ..owned };
    assert!(fenced(store.write_steps(first_step(&old_self)).await));

    let mut heir = Owned { epoch: Epoch(2), ..old_self };
    assert_eq!(store.write_steps(first_step(&heir)).await, Ok(()));
    heir.record(vec![heir.returned(0, "in time")]).await.expect("the heir writes");
    let record = heir.stored().await;
    assert_eq!((record.owner.id, record.epoch), (sample::owner_id(2), Epoch(2)));
    assert_eq!(store.steps(&heir.actor(0)).await.map(|steps| steps.len()), Ok(1));
    assert_eq!(store.groups_of(&sample::owner_id(1)).await, Ok(vec![]));
}

fn first_step(owned: &Owned) -> WriteSteps {
    WriteSteps {
        actor: owned.actor(0),
        fence: owned.fence(),
        at: Timestamp(5),
        changes: vec![StepChange::Intend { seq: 0, action: Action::Model }],
        acknowledge: Vec::new(),
        turn: None,
        seen: vec![],
    }
}

/// What has settled stays with its owner; what is not named and what is somebody else's is left alone.
pub async fn taking_over_moves_named_open_delegations_only(place: &dyn Place) {
    let store = place.open();
    let mut settled = Owned::accept(&store, 1, &[&[0]]).await;
    settled.finish().await;
    let open = Owned::accept(&store, 2, &[&[0]]).await;
    let other = Owned::accept(&store, 3, &[&[0]]).await;
    let unnamed = Owned::accept(&store, 4, &[&[0]]).await;
    let (first, second) = (sample::owner_id(1), sample::owner_id(2));
    let named: Vec<_> =
        [&settled, &open, &other].map(|owned| owned.accepted.delegation.clone()).into_iter().collect();

    let known = |owned: &Owned| {
        let deaths = Deaths { in_a_row: 1, attempt: 1, steps: 0, in_all: 1 };
        (owned.child(0).clone(), Pulse { deaths, ..Pulse::default() })
    };
    let pulses = vec![known(&settled), known(&open), known(&unnamed)];
    let of_first = Takeover { pulses, ..takeover(first.clone(), second.clone(), named) };
    let unknown = store.take_over(of_first.clone()).await;
    assert!(matches!(unknown, Err(StoreError::Fenced(_))), "{unknown:?}");
    store.enter(sample::owner(2), Timestamp(9)).await.expect("a second process enters");
    let taken = store.take_over(of_first.clone()).await;
    let ids = [&open, &other].map(|owned| (owned.accepted.delegation.clone(), Epoch(2)));
    assert_eq!(taken, Ok(ids.to_vec()));
    assert_eq!(store.take_over(of_first).await, Ok(vec![]));

    assert_eq!(settled.stored().await.owner.id, first);
    assert_eq!(unnamed.stored().await.owner.id, first);
    assert_eq!(open.stored().await.owner, sample::owner(2));
    let pulse = open.stored().await.children[0].pulse.clone();
    assert_eq!(pulse, Some((known(&open).1, Timestamp(3))), "with the commit that moves it");
    for (still, of_a_child) in [(&settled, "settled"), (&unnamed, "not named"), (&other, "without a pulse")] {
        let deaths = still.stored().await.children[0].deaths();
        assert!(deaths.are_none(), "{of_a_child}");
    }
}

/// Whoever takes work over may have looked at it before its process had told how its attempts ended.
pub async fn k08_what_a_process_has_told_of_the_end_of_its_attempts_stands(place: &dyn Place) {
    let store = place.open();
    store.enter(sample::owner(2), Timestamp(2)).await.expect("a second process enters");
    let owned = Owned::accept(&store, 1, &[&[0, 1, 2]]).await;
    let told = Pulse { beat: 9, deaths: Deaths::default().but_not(2), ..Pulse::default() };
    let earlier = Pulse { beat: 8, deaths: Deaths::default().and(1, 0), ..Pulse::default() };
    let pulses = vec![(owned.child(0).clone(), told.clone()), (owned.child(1).clone(), earlier)];
    store.note_pulses(owned.fence(), Timestamp(7), pulses).await.expect("it is the owner");
    let died = Pulse { beat: 3, deaths: Deaths::default().and(2, 0), ..Pulse::default() };
    let pulses = (0..3).map(|task| (owned.child(task).clone(), died.clone())).collect();
    let named = vec![owned.accepted.delegation.clone()];
    let takeover = Takeover { pulses, ..takeover(owned.owner.clone(), sample::owner_id(2), named) };
    store.take_over(takeover).await.expect("it is open");
    let stored: Vec<_> = owned.stored().await.children.into_iter().map(|child| child.pulse).collect();
    let (told, died) = (Some((told, Timestamp(7))), Some((died, Timestamp(3))));
    assert_eq!(stored, [told, died.clone(), died], "known, known of an earlier attempt, and unknown");
}

fn takeover(from: OwnerId, to: OwnerId, delegations: Vec<DelegationId>) -> Takeover {
    Takeover { from, to, delegations, at: Timestamp(3), pulses: Vec::new() }
}

/// A lease is renewed until its process is declared gone; from then on nothing new of it gets in.
pub async fn inv_30_a_process_that_was_declared_gone_is_kept_out(place: &dyn Place) {
    let store = place.open();
    let owned = Owned::accept(&store, 1, &[&[0]]).await;
    Owned::open_session(&store, 1).await;
    let (mine, period) = (sample::owner_id(1), Duration::from_millis(2500));
    assert_eq!(store.lease(&mine).await, Ok(None));
    for (beats, at) in [(1, 5), (2, 9)] {
        assert_eq!(store.renew(&mine, period, Timestamp(at)).await, Ok(()));
        let lease = Lease { beats, period, renewed_at: Timestamp(at) };
        assert_eq!(store.lease(&mine).await, Ok(Some(lease)));
    }
    assert_eq!(store.declare_gone(&mine, 1, Timestamp(10)).await, Ok(false), "it has renewed it since");
    assert_eq!(store.owner(&mine).await, Ok(Some(sample::owner(1))));
    drop(store);

    let store = place.open();
    for _ in 0..2 {
        assert_eq!(store.declare_gone(&mine, 2, Timestamp(10)).await, Ok(true));
    }
    let gone = Some(OwnerRecord { gone: true, ..sample::owner(1) });
    assert_eq!(store.owner(&mine).await, Ok(gone.clone()));
    assert_eq!(store.owners_of_open().await, Ok(gone.clone().into_iter().collect()));
    let record = store.delegation(&owned.accepted.delegation).await.expect("it reads");
    assert_eq!(record.map(|record| record.owner), gone);
    let session = store.session(&sample::session_id(1)).await.expect("it reads").expect("it is stored");
    assert_eq!(session.holder, gone);
    let fenced = |answer: Result<(), StoreError>| matches!(answer, Err(StoreError::Fenced(_)));
    assert!(fenced(store.renew(&mine, period, Timestamp(11)).await));
    assert!(fenced(store.create_session(sample::session(2), &mine).await));
    assert!(store.hold_session(&sample::session_id(1), &mine, None).await.is_err());
    let late = Owned::try_accept(&store, sample::accepted(2, &[&[0]])).await;
    assert!(late.is_err(), "it accepts nothing more");
    assert!(fenced(store.renew(&sample::owner_id(7), period, Timestamp(11)).await), "it never entered");
}

/// What it owns and holds is still its own until somebody takes it over, and yet it is shut out of it.
pub async fn inv_30_a_process_that_was_declared_gone_writes_nothing_more(place: &dyn Place) {
    let store = place.open();
    let mut owned = Owned::accept(&store, 1, &[&[0]]).await;
    owned.record(vec![owned.started(0)]).await.expect("the child starts");
    Owned::open_session(&store, 1).await;
    let scope = Scope::Delegation(owned.accepted.delegation.clone());
    let wish = Wish::Stop { reason: StopReason::Cancelled, force: Force::Ask };
    let stop = Request { id: RequestId::from_bits(1), at: Timestamp(4), scope, wish };
    assert_eq!(store.ask(stop.clone()).await, Ok(Asked::Stored));
    let before = owned.stored().await;
    let (mine, session) = (owned.owner.clone(), Actor::Session(sample::session_id(1)));
    store.renew(&mine, Duration::from_secs(1), Timestamp(5)).await.expect("it lives");
    assert_eq!(store.declare_gone(&mine, 1, Timestamp(9)).await, Ok(true));

    let late = owned.record(vec![owned.returned(0, "too late")]).await;
    assert_eq!(late, Err(AppendError::Stale(owned.accepted.delegation.clone())));
    let fenced = |answer: Result<(), StoreError>| matches!(answer, Err(StoreError::Fenced(_)));
    let pulses = vec![(owned.child(0).clone(), Pulse::default())];
    assert!(fenced(store.note_pulses(owned.fence(), Timestamp(10), pulses).await));
    assert!(fenced(store.write_steps(first_step(&owned)).await));
    let of_session = WriteSteps { actor: session.clone(), ..first_step(&owned) };
    assert!(fenced(store.write_steps(of_session).await));
    for actor in [owned.actor(0), session] {
        assert!(fenced(store.note_group(owned.fence(), actor, sample::group(1)).await));
    }
    let turn = Turn {
        session: sample::session_id(1),
        expected_messages: 0,
        writer: mine.clone(),
        at: Timestamp(10),
        messages: vec![Message::text(Author::System, "too late")],
        acknowledge: Vec::new(),
    };
    assert!(fenced(store.append_turn(turn).await));
    assert!(fenced(store.settle_request(&stop.id, &mine, Timestamp(10)).await));

    let stored = owned.stored().await;
    assert_eq!((&stored.children, stored.seq, stored.epoch), (&before.children, before.seq, before.epoch));
    assert_eq!(store.groups_of(&mine).await, Ok(vec![]));
    assert_eq!(store.steps(&owned.actor(0)).await, Ok(vec![]));
    assert_eq!(store.history(&sample::session_id(1)).await, Ok(vec![]));
    assert_eq!(store.news(0).await.map(|news| news.requests.len()), Ok(1), "the stop waits for an heir");
}

/// Recovery looks at exactly these processes.
pub async fn owners_of_open_work_are_listed(place: &dyn Place) {
    let store = place.open();
    assert_eq!(store.owners_of_open().await, Ok(vec![]));
    assert_eq!(store.owner(&sample::owner(9).id).await, Ok(None));
    let mut owned = Owned::accept(&store, 1, &[&[0]]).await;
    store.enter(sample::owner(2), Timestamp(2)).await.expect("a process without work enters");
    store.enter(sample::owner(1), Timestamp(3)).await.expect("entering twice is harmless");
    assert_eq!(store.owners_of_open().await, Ok(vec![sample::owner(1)]));
    assert_eq!(store.owner(&sample::owner(1).id).await, Ok(Some(sample::owner(1))));
    store.note_group(owned.fence(), owned.actor(0), sample::group(1)).await.expect("it is stored");
    owned.finish().await;
    assert_eq!(store.owners_of_open().await, Ok(vec![sample::owner(1)]), "a group of it is not dropped");
    store.drop_group(owned.actor(0), sample::group(1)).await.expect("it is stored");
    assert_eq!(store.owners_of_open().await, Ok(vec![]));
}

/// Stored before the command runs; forgotten by name; kept with the process that started them.
pub async fn groups_are_remembered_until_dropped(place: &dyn Place) {
    let store = place.open();
    let owned = Owned::accept(&store, 1, &[&[0, 1]]).await;
    Owned::open_session(&store, 1).await;
    let session = Actor::Session(sample::session_id(1));
    for (actor, n) in [(owned.actor(0), 1), (owned.actor(0), 2), (owned.actor(1), 3), (session.clone(), 4)] {
        assert_eq!(store.note_group(owned.fence(), actor, sample::group(n)).await, Ok(()));
    }
    assert_eq!(store.note_group(owned.fence(), owned.actor(0), sample::group(1)).await, Ok(()));

    assert_eq!(store.drop_group(owned.actor(0), sample::group(1)).await, Ok(()));
    assert_eq!(
        store.drop_group(owned.actor(0), sample::group(3)).await,
        Ok(()),
        "of another actor: harmless"
    );
    let (id, owner) = (owned.fence(), owned.owner.clone());
    let expected = vec![
        (owned.actor(0), sample::group(2)),
        (owned.actor(1), sample::group(3)),
        (session.clone(), sample::group(4)),
    ];
    drop((owned, store));

    let store = place.open();
    assert_eq!(store.groups_of(&owner).await, Ok(expected));
    assert_eq!(store.groups_of(&sample::owner_id(2)).await, Ok(vec![]));
    let stranger = Fence { owner: sample::owner_id(7), ..id };
    let refused = store.note_group(stranger, session, sample::group(5)).await;
    assert!(matches!(refused, Err(StoreError::Fenced(_))), "{refused:?}");
}

/// All pulses of one call are stored, or none.
pub async fn pulses_are_stored_for_the_owner_only(place: &dyn Place) {
    let store = place.open();
    let mine = Owned::accept(&store, 1, &[&[0, 1]]).await;
    let pulse = |beat| Pulse { beat, phase: Phase::Tool("terminal".to_owned()), ..Pulse::default() };
    let pulses = vec![(mine.child(0).clone(), pulse(3)), (mine.child(1).clone(), pulse(4))];
    assert_eq!(store.note_pulses(mine.fence(), Timestamp(7), pulses).await, Ok(()));
    let stored = |record: legwork_core::record::DelegationRecord| {
        record.children.into_iter().map(|child| child.pulse).collect::<Vec<_>>()
    };
    let expected = vec![Some((pulse(3), Timestamp(7))), Some((pulse(4), Timestamp(7)))];
    assert_eq!(stored(mine.stored().await), expected);

    let stranger = Fence { epoch: Epoch(2), ..mine.fence() };
    let late = store.note_pulses(stranger, Timestamp(8), vec![(mine.child(0).clone(), pulse(9))]).await;
    assert!(matches!(late, Err(StoreError::Fenced(_))), "{late:?}");
    let unknown = sample::accepted(9, &[&[0]]).children[0].clone();
    let mixed = vec![(mine.child(0).clone(), pulse(9)), (unknown, pulse(9))];
    let mixed = store.note_pulses(mine.fence(), Timestamp(8), mixed).await;
    assert!(matches!(mixed, Err(StoreError::Conflict(_))), "{mixed:?}");
    assert_eq!(stored(mine.stored().await), expected);
}
