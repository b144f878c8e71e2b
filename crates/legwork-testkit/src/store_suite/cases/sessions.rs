//! Who has a session open, what it is called, and its end.

use crate::store_suite::sample;
use crate::store_suite::{Owned, Place};
use futures::future::join_all;
use legwork_core::batch::Lineage;
use legwork_core::fact::Accepted;
use legwork_core::ids::{ClaimId, OwnerId, RequestId};
use legwork_core::message::{Author, Message};
use legwork_core::outcome::{Force, StopReason};
use legwork_core::ports::{Held, NewSession, SessionKind, Store, StoreError, Turn, WriteSteps};
use legwork_core::steering::{Request, Scope, Wish};
use legwork_core::step::{Action, Actor, Fence, StepChange};
use legwork_core::time::Timestamp;
use std::sync::Arc;

fn turn(writer: u32, expected_messages: u64) -> Turn {
    Turn {
        session: sample::session_id(1),
        writer: sample::owner_id(writer),
        expected_messages,
        at: Timestamp(50),
        messages: vec![Message::text(Author::User, "hello")],
        acknowledge: vec![],
    }
}

fn step(writer: u32, seq: u32) -> WriteSteps {
    WriteSteps {
        actor: Actor::Session(sample::session_id(1)),
        fence: Fence { owner: sample::owner_id(writer), epoch: legwork_core::ids::Epoch(1) },
        at: Timestamp(50),
        changes: vec![StepChange::Intend { seq, action: Action::Model }],
        acknowledge: vec![],
        turn: None,
        seen: vec![],
    }
}

fn is_conflict<T>(answer: &Result<T, StoreError>) -> bool {
    matches!(answer, Err(StoreError::Conflict(_)))
}

fn is_fenced<T>(answer: &Result<T, StoreError>) -> bool {
    matches!(answer, Err(StoreError::Fenced(_)))
}

async fn hold(store: &Arc<dyn Store>, owner: u32, instead_of: Option<OwnerId>) -> Result<Held, StoreError> {
    store.hold_session(&sample::session_id(1), &sample::owner_id(owner), instead_of.as_ref()).await
}

async fn holder(store: &Arc<dyn Store>) -> Option<OwnerId> {
    let record = store.session(&sample::session_id(1)).await.expect("readable").expect("it is there");
    record.holder.map(|holder| holder.id)
}

/// History, journal and groups: whoever does not have the session open gets nothing in.
pub async fn inv_30_a_session_is_written_by_its_holder_only(place: &dyn Place) {
    let store = place.open();
    let id = sample::session_id(1);
    let unknown = store.create_session(sample::session(1), &sample::owner_id(1)).await;
    assert!(is_fenced(&unknown), "who never entered opens nothing: {unknown:?}");
    Owned::open_session(&store, 1).await;
    store.enter(sample::owner(2), Timestamp(2)).await.expect("a second process enters");
    assert_eq!(holder(&store).await, Some(sample::owner_id(1)));

    let late = store.append_turn(turn(2, 0)).await;
    let Err(StoreError::Fenced(text)) = late else { panic!("{late:?}") };
    let names = [sample::owner_id(1), sample::owner_id(2)].map(|owner| text.contains(owner.as_str()));
    assert_eq!(names, [true, true], "{text}");
    assert!(is_fenced(&store.write_steps(step(2, 0)).await));
    let fence = Fence { owner: sample::owner_id(2), epoch: legwork_core::ids::Epoch(1) };
    assert!(is_fenced(&store.note_group(fence, Actor::Session(id.clone()), sample::group(1)).await));
    assert_eq!(store.append_turn(turn(1, 0)).await, Ok(()));
    assert_eq!(store.write_steps(step(1, 0)).await, Ok(()));

    assert_eq!(store.release_session(&id, &sample::owner_id(2)).await, Ok(()), "harmless");
    assert_eq!(holder(&store).await, Some(sample::owner_id(1)));
    assert_eq!(store.release_session(&id, &sample::owner_id(1)).await, Ok(()));
    assert_eq!(holder(&store).await, None);
    assert!(is_fenced(&store.append_turn(turn(1, 1)).await), "it is open nowhere");
    assert_eq!(hold(&store, 2, None).await, Ok(Held::Here));
    assert!(is_fenced(&store.write_steps(step(1, 1)).await));
    drop(store);

    let store = place.open();
    assert_eq!(holder(&store).await, Some(sample::owner_id(2)), "who has it open is stored");
    assert_eq!(store.write_steps(step(2, 1)).await, Ok(()));
    assert_eq!(store.append_turn(turn(2, 1)).await, Ok(()));
    assert_eq!(store.history(&id).await.map(|history| history.len()), Ok(2));
}

/// A session is open in one process at a time.
pub async fn of_eight_openers_one_gets_the_session(place: &dyn Place) {
    let store = place.open();
    Owned::open_session(&store, 1).await;
    store.release_session(&sample::session_id(1), &sample::owner_id(1)).await.expect("it can be closed");
    for n in 11..=18 {
        store.enter(sample::owner(n), Timestamp(2)).await.expect("a process enters");
    }
    let answers = join_all((11..=18).map(|n| hold(&store, n, None))).await;
    let here: Vec<u32> =
        (11..).zip(&answers).filter(|(_, answer)| **answer == Ok(Held::Here)).map(|(n, _)| n).collect();
    let [winner] = here[..] else { panic!("{answers:?}") };
    let others = answers.iter().filter(|answer| **answer == Ok(Held::By(sample::owner(winner)))).count();
    assert_eq!(others, 7, "{answers:?}");
    assert_eq!(hold(&store, winner, None).await, Ok(Held::Here), "opening twice is harmless");
}

/// Only the holder that was proved dead is replaced: whoever took over meanwhile stays.
pub async fn a_dead_holder_is_replaced_by_name_only(place: &dyn Place) {
    let store = place.open();
    Owned::open_session(&store, 1).await;
    for n in [2, 3] {
        store.enter(sample::owner(n), Timestamp(2)).await.expect("a process enters");
    }
    let dead = Some(sample::owner_id(1));
    assert_eq!(hold(&store, 2, Some(sample::owner_id(3))).await, Ok(Held::By(sample::owner(1))));
    assert_eq!(hold(&store, 2, dead.clone()).await, Ok(Held::Here));
    assert_eq!(hold(&store, 3, dead).await, Ok(Held::By(sample::owner(2))), "the second of two heirs");
    let unknown = store.hold_session(&sample::session_id(9), &sample::owner_id(2), None).await;
    assert_eq!(unknown, Ok(Held::Unknown));
    assert!(is_fenced(&hold(&store, 8, None).await), "who never entered opens nothing");
}

/// One name means one session, within a folder.
pub async fn a_name_is_taken_once_in_a_folder(place: &dyn Place) {
    let store = place.open();
    Owned::open_session(&store, 2).await;
    Owned::open_session(&store, 4).await;
    Owned::open_session(&store, 1).await;
    let named = |n, name: &str| NewSession { name: Some(name.to_owned()), ..sample::session(n) };
    let create = |session| store.create_session(session, &sample::owner_id(1));
    let taken = create(named(6, "session 2")).await;
    assert!(is_conflict(&taken), "{taken:?}");
    assert_eq!(store.session(&sample::session_id(6)).await, Ok(None));
    assert_eq!(create(named(5, "session 2")).await, Ok(()), "another folder");

    let rename = |n, name| {
        let store = store.clone();
        async move { store.rename_session(&sample::session_id(n), name).await }
    };
    assert!(is_conflict(&rename(4, Some("session 2")).await));
    assert_eq!(rename(2, Some("session 2")).await, Ok(()), "its own name");
    assert_eq!(rename(2, None).await, Ok(()));
    assert_eq!(rename(4, Some("session 2")).await, Ok(()), "the name is free again");
    assert!(is_conflict(&rename(6, Some("x")).await), "there is no such session");
    assert_eq!(rename(1, None).await, Ok(()), "sessions without a name do not disturb each other");
    drop(store);
    let store = place.open();
    let name = async |n| {
        let record = store.session(&sample::session_id(n)).await.expect("readable");
        record.and_then(|record| record.session.name)
    };
    assert_eq!([name(1).await, name(2).await], [None, None]);
    assert_eq!(name(4).await.as_deref(), Some("session 2"));
    assert_eq!(name(5).await.as_deref(), Some("session 2"));
}

/// Held, with open work, or with results that wait: kept. Refused changes nothing.
/// Proves SESS-4.
pub async fn inv_05_a_session_is_deleted_only_when_all_is_over(place: &dyn Place) {
    let store = place.open();
    let id = sample::session_id(1);
    assert!(is_conflict(&store.delete_session(&id).await), "there is no such session");
    Owned::open_session(&store, 1).await;
    let mut owned = Owned::accept(&store, 1, &[&[0], &[1]]).await;
    store.append_turn(turn(1, 0)).await.expect("its holder writes");
    assert!(is_conflict(&store.delete_session(&id).await), "it is open");
    store.release_session(&id, &sample::owner_id(1)).await.expect("it can be closed");
    assert!(is_conflict(&store.delete_session(&id).await), "its work goes on");
    owned.finish().await;
    assert!(is_conflict(&store.delete_session(&id).await), "results wait");
    owned.claim(0, 1).await.expect("ready");
    store.acknowledge(vec![ClaimId::from_bits(1)], Timestamp(1)).await.expect("delivered");
    assert!(is_conflict(&store.delete_session(&id).await), "one of two results waits");
    owned.claim(1, 2).await.expect("ready");
    assert!(is_conflict(&store.delete_session(&id).await), "taken is not delivered");
    assert_eq!(store.history(&id).await.map(|history| history.len()), Ok(1));
    assert_eq!(owned.stored().await.accepted, owned.accepted);

    store.release(vec![ClaimId::from_bits(2)], Timestamp(1), "busy").await.expect("given back");
    store.dismiss(owned.unit(1), Timestamp(1), "not needed").await.expect("dismissed");
    assert_eq!(store.delete_session(&id).await, Ok(()));
    assert_eq!(store.session(&id).await, Ok(None));
}

/// History, journal, delegations and requests go; those of others stay, and the id leaves nothing behind.
/// Proves SESS-3.
pub async fn a_deleted_session_takes_its_own_with_it_and_nothing_else(place: &dyn Place) {
    let store = place.open();
    for n in [1, 2] {
        Owned::open_session(&store, n).await;
    }
    store.append_turn(turn(1, 0)).await.expect("its holder writes");
    store.write_steps(step(1, 0)).await.expect("its holder writes");
    let other_turn = Turn { session: sample::session_id(2), ..turn(1, 0) };
    store.append_turn(other_turn).await.expect("its holder writes");
    let mut owned = [Owned::accept(&store, 1, &[&[0]]).await, Owned::accept(&store, 2, &[&[0]]).await];
    for (owned, n) in owned.iter_mut().zip(1..) {
        owned.finish().await;
        owned.claim(0, n).await.expect("ready");
        store.acknowledge(vec![ClaimId::from_bits(u64::from(n))], Timestamp(1)).await.expect("delivered");
        let wish = Wish::Stop { reason: StopReason::Cancelled, force: Force::Ask };
        let scope = Scope::Session(sample::session_id(n));
        let request = Request { id: RequestId::from_bits(u64::from(n)), at: Timestamp(1), scope, wish };
        store.ask(request).await.expect("it is stored");
    }
    let id = sample::session_id(1);
    // What a child of the session had delegated goes too.
    let lineage =
        Lineage { parent: Some(owned[0].child(0).clone()), depth: 1, ..Lineage::of_session(id.clone()) };
    let below = Accepted { lineage, ..sample::accepted(3, &[&[0]]) };
    let mut below = Owned::try_accept(&store, below).await.expect("it is accepted");
    below.finish().await;
    below.claim(0, 3).await.expect("ready");
    store.acknowledge(vec![ClaimId::from_bits(3)], Timestamp(1)).await.expect("delivered");
    store.release_session(&id, &sample::owner_id(1)).await.expect("it can be closed");
    assert_eq!(store.delete_session(&id).await, Ok(()));
    assert_eq!(store.delegation(&below.accepted.delegation).await, Ok(None), "at every level");

    assert_eq!(store.history(&id).await, Ok(vec![]));
    assert_eq!(store.steps(&Actor::Session(id.clone())).await, Ok(vec![]));
    assert_eq!(store.delegation(&owned[0].accepted.delegation).await, Ok(None));
    assert_eq!(store.find(owned[0].child(0).as_str()).await, Ok(vec![]));
    let open = store.news(0).await.expect("readable").requests;
    let scopes: Vec<_> = open.into_iter().map(|(_, request)| request.scope).collect();
    assert_eq!(scopes, [Scope::Session(sample::session_id(2))]);
    assert_eq!(owned[1].stored().await.accepted, owned[1].accepted);
    assert_eq!(store.history(&sample::session_id(2)).await.map(|history| history.len()), Ok(1));

    Owned::open_session(&store, 1).await;
    assert_eq!(store.append_turn(turn(1, 0)).await, Ok(()));
    assert_eq!(store.write_steps(step(1, 0)).await, Ok(()));
    assert_eq!(Owned::try_accept(&store, sample::accepted(1, &[&[0]])).await.map(drop), Ok(()));
}

/// Whether it was used is looked at in the same commit: what others did with it meanwhile is not lost with it (invariant 2).
pub async fn inv_02_a_session_is_discarded_only_by_its_holder_and_only_unused(place: &dyn Place) {
    let store = place.open();
    let (id, holder) = (sample::session_id(1), sample::owner_id(1));
    assert_eq!(store.discard_session(&id, &holder).await, Ok(false), "there is no such session");
    Owned::open_session(&store, 1).await;
    store.enter(sample::owner(2), Timestamp(2)).await.expect("a second process enters");
    assert_eq!(store.discard_session(&id, &sample::owner_id(2)).await, Ok(false), "it is not open there");
    store.release_session(&id, &holder).await.expect("it can be closed");
    assert_eq!(store.discard_session(&id, &holder).await, Ok(false), "it is open nowhere");
    assert_eq!(hold(&store, 1, None).await, Ok(Held::Here));
    assert_eq!(store.discard_session(&id, &holder).await, Ok(true));
    assert_eq!(place.open().session(&id).await, Ok(None));

    Owned::open_session(&store, 1).await;
    store.append_turn(turn(1, 0)).await.expect("its holder writes");
    assert_eq!(store.discard_session(&id, &holder).await, Ok(false), "something was said");
    Owned::open_session(&store, 2).await;
    let mut owned = Owned::accept(&store, 2, &[&[0]]).await;
    owned.finish().await;
    let delegated = store.discard_session(&sample::session_id(2), &holder).await;
    assert_eq!(delegated, Ok(false), "something was delegated for it");
    let records = store.sessions(None).await.expect("readable").rows;
    let stored: Vec<_> = records.into_iter().map(|record| (record.session.id, record.messages)).collect();
    assert_eq!(stored, [(sample::session_id(2), 0), (id, 1)]);
}

/// What made a session is told for ever.
pub async fn every_kind_of_session_comes_back(place: &dyn Place) {
    let store = place.open();
    store.enter(sample::owner(1), Timestamp(1)).await.expect("a process enters");
    let kinds = [SessionKind::Chat, SessionKind::Run, SessionKind::Shell];
    for (n, kind) in (1..).zip(kinds) {
        let session = NewSession { kind, ..sample::session(n) };
        store.create_session(session, &sample::owner_id(1)).await.expect("it is created");
    }
    let records = place.open().sessions(None).await.expect("readable").rows;
    let stored: Vec<_> = records.into_iter().rev().map(|record| record.session.kind).collect();
    assert_eq!(stored, kinds);
}
