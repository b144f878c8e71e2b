//! Journals of steps: their order, their fences, and the acknowledgements that are committed with them.

use crate::store_suite::sample;
use crate::store_suite::{Owned, Place};
use legwork_core::delivery::DeliveryState;
use legwork_core::ids::ClaimId;
use legwork_core::message::{Author, Message, ToolCall, ToolResult};
use legwork_core::ports::{StoreError, Turn, WriteSteps};
use legwork_core::report::{Cost, Usage};
use legwork_core::step::{Action, Actor, Finish, Product, Reply, StepChange, StepRecord, StepState};
use legwork_core::time::Timestamp;
use serde_json::json;

fn write(owned: &Owned, changes: Vec<StepChange>) -> WriteSteps {
    WriteSteps {
        actor: owned.actor(0),
        fence: owned.fence(),
        at: Timestamp(5),
        changes,
        acknowledge: vec![],
        turn: None,
        seen: vec![],
    }
}

fn intend(seq: u32) -> StepChange {
    StepChange::Intend { seq, action: Action::Model }
}

fn finish(seq: u32) -> StepChange {
    StepChange::Finish { seq, product: Product::Opened(vec![Message::text(Author::User, "go")]) }
}

fn fail(seq: u32) -> StepChange {
    StepChange::Fail { seq, error: "it broke".to_owned() }
}

fn is_conflict(answer: &Result<(), StoreError>) -> bool {
    matches!(answer, Err(StoreError::Conflict(_)))
}

/// Every action and product, with parallel calls that end in another order.
pub async fn a_journal_comes_back_in_order(place: &dyn Place) {
    let store = place.open();
    let owned = Owned::accept(&store, 1, &[&[0, 1]]).await;
    let call = ToolCall {
        id: "call_1".to_owned(),
        name: "read_file".to_owned(),
        arguments: json!({ "path": "a.txt", "nested": [1, null, 2.5] }),
        malformed: None,
    };
    let result = ToolResult { call_id: "call_1".to_owned(), content: "text".to_owned(), is_error: false };
    let reply = Reply {
        message: Message::text(Author::Assistant, "hm"),
        usage: Usage { input: 9, output: 8, cached: 7, reasoning: 6 },
        cost: Cost::Unknown,
        model: None,
        finish: Finish::Length,
    };
    let tool = |read_only| Action::Tool { call: call.clone(), read_only };
    let opened = Product::Opened(vec![Message::text(Author::System, "s"), Message::text(Author::User, "u")]);
    let intend = |seq, action| StepChange::Intend { seq, action };
    let finish = |seq, product| StepChange::Finish { seq, product };
    let writes = [
        vec![intend(0, Action::Open), finish(0, opened.clone()), intend(1, Action::Model)],
        vec![finish(1, Product::Reply(reply.clone())), intend(2, tool(true)), intend(3, tool(false))],
        vec![fail(3)],
        vec![finish(2, Product::Output(result.clone())), intend(4, Action::Model)],
    ];
    for changes in writes {
        assert_eq!(store.write_steps(write(&owned, changes)).await, Ok(()));
    }
    let record = |seq, action, state| StepRecord { seq, action, state };
    let expected = vec![
        record(0, Action::Open, StepState::Done(opened)),
        record(1, Action::Model, StepState::Done(Product::Reply(reply))),
        record(2, tool(true), StepState::Done(Product::Output(result))),
        record(3, tool(false), StepState::Failed("it broke".to_owned())),
        record(4, Action::Model, StepState::Intended),
    ];
    let (actor, other) = (owned.actor(0), owned.actor(1));
    drop((owned, store));
    let store = place.open();
    assert_eq!(store.steps(&actor).await, Ok(expected));
    assert_eq!(store.steps(&other).await, Ok(vec![]));
}

/// Neither a gap nor a repetition.
pub async fn a_step_begins_at_the_next_free_place(place: &dyn Place) {
    let store = place.open();
    let owned = Owned::accept(&store, 1, &[&[0]]).await;
    assert!(is_conflict(&store.write_steps(write(&owned, vec![intend(1)])).await));
    assert_eq!(store.write_steps(write(&owned, vec![intend(0), intend(1)])).await, Ok(()));
    for seq in [0, 1, 3] {
        assert!(is_conflict(&store.write_steps(write(&owned, vec![intend(seq)])).await), "{seq}");
    }
    assert!(is_conflict(&store.write_steps(write(&owned, vec![intend(2), intend(2)])).await));
    assert_eq!(store.write_steps(write(&owned, vec![intend(2)])).await, Ok(()));
    assert_eq!(store.steps(&owned.actor(0)).await.map(|steps| steps.len()), Ok(3));
}

/// Once, after it began.
pub async fn only_an_open_step_can_end(place: &dyn Place) {
    let store = place.open();
    let owned = Owned::accept(&store, 1, &[&[0]]).await;
    assert!(is_conflict(&store.write_steps(write(&owned, vec![finish(0)])).await));
    assert_eq!(store.write_steps(write(&owned, vec![intend(0), intend(1)])).await, Ok(()));
    assert_eq!(store.write_steps(write(&owned, vec![finish(0), fail(1)])).await, Ok(()));
    for change in [finish(0), fail(0), finish(1), fail(1), finish(2)] {
        assert!(is_conflict(&store.write_steps(write(&owned, vec![change.clone()])).await), "{change:?}");
    }
    let in_one = vec![intend(2), finish(2), fail(2)];
    assert!(is_conflict(&store.write_steps(write(&owned, in_one)).await));
    let before_its_beginning = vec![finish(2), intend(2)];
    assert!(is_conflict(&store.write_steps(write(&owned, before_its_beginning)).await));
    assert_eq!(store.write_steps(write(&owned, vec![intend(2), finish(2)])).await, Ok(()));
}

/// One change that does not fit takes the others with it.
pub async fn a_write_is_stored_whole_or_not_at_all(place: &dyn Place) {
    let store = place.open();
    let owned = Owned::accept(&store, 1, &[&[0]]).await;
    assert_eq!(store.write_steps(write(&owned, vec![intend(0)])).await, Ok(()));
    let before = store.steps(&owned.actor(0)).await;
    for changes in [vec![finish(0), intend(2)], vec![finish(0), finish(0)], vec![intend(1), fail(5)]] {
        assert!(is_conflict(&store.write_steps(write(&owned, changes)).await));
        assert_eq!(store.steps(&owned.actor(0)).await, before);
    }
    let mut stranger = write(&owned, vec![finish(0)]);
    stranger.actor = Actor::Child(legwork_core::ids::ChildId::from_bits(0, 99));
    assert!(is_conflict(&store.write_steps(stranger).await));
}

/// Results that a child's journal takes in are delivered by that commit and by no other.
pub async fn inv_02_steps_and_acknowledgement_are_one_commit(place: &dyn Place) {
    let store = place.open();
    let parent = Owned::accept(&store, 1, &[&[0]]).await;
    let mut below = Owned::accept(&store, 2, &[&[0]]).await;
    below.finish().await;
    let claim = below.claim(0, 1).await.expect("it is ready");
    let held = DeliveryState::Claimed { claim: claim.clone(), tries: 0 };
    let with =
        |changes, claims: &[ClaimId]| WriteSteps { acknowledge: claims.to_vec(), ..write(&parent, changes) };

    assert!(is_conflict(&store.write_steps(with(vec![finish(0)], std::slice::from_ref(&claim))).await));
    assert_eq!(below.stored().await.deliveries[0].state, held);
    let stale = [claim.clone(), ClaimId::from_bits(9)];
    assert!(is_conflict(&store.write_steps(with(vec![intend(0)], &stale)).await));
    assert_eq!(store.steps(&parent.actor(0)).await, Ok(vec![]));
    assert_eq!(below.stored().await.deliveries[0].state, held);

    assert_eq!(store.write_steps(with(vec![intend(0)], &[claim])).await, Ok(()));
    assert_eq!(below.stored().await.deliveries[0].state, DeliveryState::Delivered);
}

/// The process that has the session open writes its journal, and nobody else does.
pub async fn a_session_has_a_journal_of_its_own(place: &dyn Place) {
    let store = place.open();
    let owned = Owned::accept(&store, 1, &[&[0]]).await;
    let session = Actor::Session(sample::session_id(1));
    let by_session = |owner| WriteSteps {
        actor: session.clone(),
        fence: legwork_core::step::Fence { owner, ..owned.fence() },
        ..write(&owned, vec![intend(0)])
    };
    assert!(is_conflict(&store.write_steps(by_session(sample::owner_id(1))).await), "no such session");
    Owned::open_session(&store, 1).await;
    let stranger = store.write_steps(by_session(sample::owner_id(8))).await;
    assert!(matches!(stranger, Err(StoreError::Fenced(_))), "{stranger:?}");
    assert_eq!(store.write_steps(by_session(sample::owner_id(1))).await, Ok(()));
    assert_eq!(store.write_steps(write(&owned, vec![intend(0), intend(1)])).await, Ok(()));
    assert_eq!(store.steps(&session).await.map(|steps| steps.len()), Ok(1));
    assert_eq!(store.steps(&owned.actor(0)).await.map(|steps| steps.len()), Ok(2));
}

/// The first step of session 1's journal with a message of its history.
fn session_turn(owned: &Owned, expected_messages: u64, acknowledge: &[ClaimId]) -> WriteSteps {
    let turn = Turn {
        session: sample::session_id(1),
        writer: owned.owner.clone(),
        expected_messages,
        at: Timestamp(50),
        messages: vec![Message::text(Author::User, "hello")],
        acknowledge: acknowledge.to_vec(),
    };
    let actor = Actor::Session(sample::session_id(1));
    WriteSteps { actor, turn: Some(turn), ..write(owned, vec![intend(0)]) }
}

/// Steps, messages and acknowledgements of a session are there together.
pub async fn inv_02_a_turn_of_a_journal_and_its_history_are_one_commit(place: &dyn Place) {
    let store = place.open();
    let mut owned = Owned::accept(&store, 1, &[&[0], &[1]]).await;
    Owned::open_session(&store, 1).await;
    owned.finish().await;
    let [first, second] =
        [owned.claim(0, 1).await, owned.claim(1, 2).await].map(|claim| claim.expect("it is ready"));
    let whole = WriteSteps { acknowledge: vec![second], ..session_turn(&owned, 0, &[first]) };
    assert_eq!(store.write_steps(whole).await, Ok(()));
    drop(store);
    let store = place.open();
    let id = sample::session_id(1);
    assert_eq!(store.history(&id).await, Ok(vec![Message::text(Author::User, "hello")]));
    assert_eq!(store.steps(&Actor::Session(id.clone())).await.map(|steps| steps.len()), Ok(1));
    let record = store.session(&id).await.expect("readable").expect("it is there");
    assert_eq!((record.messages, record.touched_at), (1, Timestamp(50)));
    assert_eq!(record.opening.as_deref(), Some("hello"));
    let delegation = store.delegation(&owned.accepted.delegation).await.expect("readable").expect("there");
    assert!(delegation.deliveries.iter().all(|delivery| delivery.state == DeliveryState::Delivered));
}

/// A write that failed after the fact is offered again: it is refused, and nothing of it is there twice.
pub async fn inv_02_a_write_that_is_stored_already_is_refused_whole(place: &dyn Place) {
    let store = place.open();
    let mut owned = Owned::accept(&store, 1, &[&[0]]).await;
    Owned::open_session(&store, 1).await;
    owned.finish().await;
    let claim = owned.claim(0, 1).await.expect("it is ready");
    let first = session_turn(&owned, 0, &[claim]);
    let next = WriteSteps { changes: vec![finish(0), intend(1)], ..session_turn(&owned, 1, &[]) };
    let grown_only = WriteSteps { changes: vec![], ..session_turn(&owned, 2, &[]) };
    let ends_only = WriteSteps { turn: None, changes: vec![fail(1)], ..session_turn(&owned, 0, &[]) };
    for write in [first, next, grown_only, ends_only] {
        assert_eq!(store.write_steps(write.clone()).await, Ok(()), "{write:?}");
        let stored = async || {
            let id = sample::session_id(1);
            let steps = store.steps(&Actor::Session(id.clone())).await;
            (steps, store.history(&id).await, owned.stored().await)
        };
        let before = stored().await;
        assert!(is_conflict(&store.write_steps(write.clone()).await), "{write:?}");
        assert_eq!(stored().await, before, "{write:?}");
    }
}

/// One piece that does not fit takes the others with it.
pub async fn a_turn_of_a_journal_is_stored_whole_or_not_at_all(place: &dyn Place) {
    let store = place.open();
    let mut owned = Owned::accept(&store, 1, &[&[0]]).await;
    for n in [1, 2] {
        Owned::open_session(&store, n).await;
    }
    store.enter(sample::owner(2), Timestamp(2)).await.expect("a second process enters");
    owned.finish().await;
    let claim = owned.claim(0, 1).await.expect("it is ready");
    let claims = std::slice::from_ref(&claim);
    let good = || session_turn(&owned, 0, claims);
    let turn_of = |change: fn(&mut Turn)| {
        let mut write = good();
        write.turn.iter_mut().for_each(change);
        write
    };
    let wrong = [
        session_turn(&owned, 3, claims),
        session_turn(&owned, 0, &[claim.clone(), ClaimId::from_bits(9)]),
        WriteSteps { acknowledge: vec![claim.clone()], ..good() },
        WriteSteps { changes: vec![intend(4)], ..good() },
        WriteSteps { actor: owned.actor(0), ..good() },
        turn_of(|turn| turn.session = sample::session_id(2)),
    ];
    for write in wrong {
        let answer = store.write_steps(write.clone()).await;
        assert!(is_conflict(&answer), "{answer:?}: {write:?}");
    }
    let stranger = store.write_steps(turn_of(|turn| turn.writer = sample::owner_id(2))).await;
    assert!(matches!(stranger, Err(StoreError::Fenced(_))), "{stranger:?}");
    for actor in [Actor::Session(sample::session_id(1)), owned.actor(0)] {
        assert_eq!(store.steps(&actor).await, Ok(vec![]));
    }
    assert_eq!(store.history(&sample::session_id(1)).await, Ok(vec![]));
    let held = DeliveryState::Claimed { claim: claim.clone(), tries: 0 };
    assert_eq!(owned.stored().await.deliveries[0].state, held);
    assert_eq!(store.write_steps(good()).await, Ok(()));
}
