//! Sessions and their histories.

use crate::store_suite::sample;
use crate::store_suite::{Owned, Place};
use legwork_core::delivery::DeliveryState;
use legwork_core::ids::{ClaimId, SessionId};
use legwork_core::message::{Author, Message, Part, ToolCall, ToolResult};
use legwork_core::ports::{Listed, SessionRecord, StoreError, Turn};
use legwork_core::time::Timestamp;
use serde_json::{Value, json};

fn turn(expected_messages: u64, messages: Vec<Message>) -> Turn {
    Turn {
        session: sample::session_id(1),
        writer: sample::owner_id(1),
        expected_messages,
        at: Timestamp(50),
        messages,
        acknowledge: vec![],
    }
}

fn is_conflict(answer: &Result<(), StoreError>) -> bool {
    matches!(answer, Err(StoreError::Conflict(_)))
}

/// Every kind of part comes back as it was.
pub async fn a_history_comes_back_in_order(place: &dyn Place) {
    let store = place.open();
    Owned::open_session(&store, 1).await;
    let broken = ToolCall {
        id: "c".to_owned(),
        name: "terminal".to_owned(),
        arguments: Value::Null,
        malformed: Some("{\"a\":".to_owned()),
    };
    let reasoning = Part::Reasoning { text: "why".to_owned(), opaque: Some(json!({ "signature": "x" })) };
    let result = ToolResult { call_id: "c".to_owned(), content: "no".to_owned(), is_error: true };
    let messages = vec![
        Message::text(Author::System, "system"),
        Message::text(Author::User, "question"),
        Message { author: Author::Assistant, parts: vec![reasoning, Part::Call(broken)] },
        Message { author: Author::Tool, parts: vec![Part::Result(result)] },
        Message::text(Author::Completion, "came back"),
    ];
    assert_eq!(store.append_turn(turn(0, messages[..2].to_vec())).await, Ok(()));
    assert_eq!(store.append_turn(turn(2, messages[2..].to_vec())).await, Ok(()));
    drop(store);

    let store = place.open();
    assert_eq!(store.history(&sample::session_id(1)).await, Ok(messages));
    assert_eq!(store.history(&sample::session_id(2)).await, Ok(vec![]));
    let record = SessionRecord {
        session: sample::session(1),
        holder: Some(sample::owner(1)),
        opening: Some("question".to_owned()),
        messages: 5,
        touched_at: Timestamp(50),
        last: 5,
    };
    assert_eq!(store.session(&sample::session_id(1)).await, Ok(Some(record)));
    assert_eq!(store.session(&sample::session_id(2)).await, Ok(None));
}

/// Two writers of one session cannot both append.
pub async fn a_turn_is_appended_under_the_expected_length_only(place: &dyn Place) {
    let store = place.open();
    let hello = || vec![Message::text(Author::User, "hello")];
    assert!(is_conflict(&store.append_turn(turn(0, hello())).await), "no such session");
    Owned::open_session(&store, 1).await;
    assert!(
        is_conflict(&store.create_session(sample::session(1), &sample::owner_id(1)).await),
        "the id is taken"
    );
    assert!(is_conflict(&store.append_turn(turn(1, hello())).await));
    assert_eq!(store.append_turn(turn(0, hello())).await, Ok(()));
    assert!(is_conflict(&store.append_turn(turn(0, hello())).await));
    assert_eq!(store.history(&sample::session_id(1)).await, Ok(hello()));
}

/// Delivered is committed with the turn: the one never without the other.
pub async fn inv_02_a_turn_and_its_acknowledgement_are_one_commit(place: &dyn Place) {
    let store = place.open();
    Owned::open_session(&store, 1).await;
    let mut owned = Owned::accept(&store, 1, &[&[0]]).await;
    owned.finish().await;
    let claim = owned.claim(0, 1).await.expect("it is ready");
    let held = DeliveryState::Claimed { claim: claim.clone(), tries: 0 };
    let came_back = |expected, claims: &[ClaimId]| Turn {
        acknowledge: claims.to_vec(),
        ..turn(expected, vec![Message::text(Author::Completion, "came back")])
    };

    assert!(is_conflict(&store.append_turn(came_back(7, std::slice::from_ref(&claim))).await));
    assert_eq!(owned.stored().await.deliveries[0].state, held, "a refused turn acknowledges nothing");
    assert!(is_conflict(&store.append_turn(came_back(0, &[claim.clone(), ClaimId::from_bits(9)])).await));
    assert_eq!(store.history(&sample::session_id(1)).await, Ok(vec![]), "a stale claim appends nothing");
    assert_eq!(owned.stored().await.deliveries[0].state, held);

    assert_eq!(store.append_turn(came_back(0, std::slice::from_ref(&claim))).await, Ok(()));
    assert_eq!(owned.stored().await.deliveries[0].state, DeliveryState::Delivered);
    assert!(is_conflict(&store.append_turn(came_back(1, &[claim])).await), "delivered once");
    assert_eq!(store.history(&sample::session_id(1)).await.map(|history| history.len()), Ok(1));
}

/// All, or those of one folder.
pub async fn sessions_are_listed_newest_first(place: &dyn Place) {
    let store = place.open();
    for n in [5, 1, 4, 3] {
        Owned::open_session(&store, n).await;
    }
    store.append_turn(Turn { at: Timestamp(99), ..turn(0, vec![]) }).await.expect("an empty turn is a touch");
    let ids = |records: Result<Listed<SessionRecord, SessionId>, StoreError>| {
        records.map(|records| records.rows.into_iter().map(|record| record.session.id).collect::<Vec<_>>())
    };
    let expected = |numbers: &[u32]| Ok(numbers.iter().map(|n| sample::session_id(*n)).collect::<Vec<_>>());
    assert_eq!(ids(store.sessions(None).await), expected(&[3, 4, 1, 5]));
    assert_eq!(ids(store.sessions(Some("/project/1")).await), expected(&[3, 1, 5]));
    assert_eq!(ids(store.sessions(Some("/project")).await), expected(&[]));
}

/// On one line, cut at 120 characters, and never changed by what comes later.
pub async fn an_opening_is_the_first_thing_a_user_said(place: &dyn Place) {
    let store = place.open();
    let opening = async || {
        let record = store.session(&sample::session_id(1)).await.expect("readable");
        record.expect("it is there").opening
    };
    Owned::open_session(&store, 1).await;
    assert_eq!(opening().await, None);
    let nothing = [
        Message::text(Author::System, "system"),
        Message::text(Author::Completion, "came back"),
        Message::text(Author::User, " \n\t "),
    ];
    assert_eq!(store.append_turn(turn(0, nothing.to_vec())).await, Ok(()));
    assert_eq!(opening().await, None, "nobody has said anything yet");
    let long = format!("  Fix\tthe\r\nbüild \u{1b}[1m {}", "ä".repeat(200));
    let said = vec![Message::text(Author::User, long), Message::text(Author::User, "second")];
    assert_eq!(store.append_turn(turn(3, said)).await, Ok(()));
    let expected = format!("Fix the büild [1m {}", "ä".repeat(102));
    assert_eq!(expected.chars().count(), 120);
    assert_eq!(opening().await, Some(expected.clone()));
    assert_eq!(store.append_turn(turn(5, vec![Message::text(Author::User, "later")])).await, Ok(()));
    assert_eq!(opening().await, Some(expected));
}
