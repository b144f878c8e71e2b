//! Files of other versions. The fixture was written by version 1 of the schema and must open for ever.

use crate::accepting::{acceptance, enter, life, owner, template};
use crate::place::FilePlace;
use legwork_core::delivery::DeliveryState;
use legwork_core::ids::{ChildId, ClaimId, DelegationId, Epoch, SessionId, UnitId};
use legwork_core::message::{Author, Message};
use legwork_core::ports::{Conversations, Facts, NewSession, Steps, StoreError, Turn, WriteSteps};
use legwork_core::step::{Action, Actor, Fence, Product, StepChange, StepState};
use legwork_core::time::Timestamp;
use legwork_sqlite::{SqliteStore, StoreOptions};
use rusqlite::Connection;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};

/// The newest version that this build knows.
const KNOWN: u32 = 1;

fn open(path: &Path) -> SqliteStore {
    SqliteStore::open(path, StoreOptions::default()).expect("the store opens")
}

fn fixture(version: u32) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.join("fixtures").join(format!("state-v{version}.sqlite"))
}

/// A copy of the fixture where a store may write.
fn copied(place: &FilePlace, version: u32) -> PathBuf {
    let path = place.path();
    fs::create_dir_all(path.parent().expect("a folder")).expect("ours");
    fs::copy(fixture(version), &path).expect("the fixture is part of the repository");
    path
}

#[tokio::test]
async fn a_file_of_a_newer_version_is_refused_and_left_alone() {
    let place = FilePlace::new();
    enter(&open(&place.path())).await;
    let newer = Connection::open(place.path()).expect("SQLite works");
    newer.pragma_update(None, "user_version", 99).expect("SQLite works");
    newer.pragma_update_and_check(None, "journal_mode", "delete", |_| Ok(())).expect("SQLite works");
    drop(newer);
    let before = fs::read(place.path()).expect("ours");

    let refused = SqliteStore::open(&place.path(), StoreOptions::default()).map(drop);
    assert_eq!(refused, Err(StoreError::Newer { found: 99, known: KNOWN }));
    let refused = SqliteStore::open_existing(&place.path()).map(drop);
    assert_eq!(refused, Err(StoreError::Newer { found: 99, known: KNOWN }));
    assert_eq!(fs::read(place.path()).expect("ours"), before);
}

#[tokio::test]
async fn the_fixture_of_version_1_opens_and_goes_on() {
    let place = FilePlace::new();
    let store = open(&copied(&place, 1));
    let health = store.health().await.expect("readable");
    assert_eq!((health.version, health.open, health.undelivered), (KNOWN, 1, 1));
    assert_eq!(health.problems, Vec::<String>::new());
    let mut states = Vec::new();
    for id in [1, 2, 3].map(DelegationId::from_bits) {
        let record = store.delegation(&id).await.expect("readable").expect("it is in the fixture");
        states.push(record.deliveries[0].state.clone());
    }
    assert_eq!(states, [DeliveryState::Held, DeliveryState::Ready { tries: 0 }, DeliveryState::Delivered]);
    let history = store.history(&SessionId::from_bits(1)).await;
    assert_eq!(
        history,
        Ok(vec![Message::text(Author::User, "hello"), Message::text(Author::Completion, "done")])
    );
    let steps = store.steps(&Actor::Child(ChildId::from_bits(0, 1))).await.expect("readable");
    let states: Vec<_> = steps.into_iter().map(|step| (step.seq, step.action, step.state)).collect();
    let opened = Product::Opened(vec![Message::text(Author::User, "goal")]);
    let expected = [
        (0, Action::Open, StepState::Done(opened)),
        (1, Action::Model, StepState::Failed("cut off".to_owned())),
        (2, Action::Model, StepState::Intended),
    ];
    assert_eq!(states, expected);
    assert_eq!(store.append(vec![life(1)]).await, Ok(vec![Ok(())]));
}

/// A released step of the schema is never changed: a file made today has the tables of the fixture.
#[tokio::test]
async fn the_schema_is_the_one_of_the_fixture() {
    let place = FilePlace::new();
    drop(open(&place.path()));
    let other = FilePlace::new();
    let path = copied(&other, KNOWN);
    assert_eq!(schema(&place.path()), schema(&path));
}

fn schema(path: &Path) -> Vec<(String, Option<String>)> {
    let connection = Connection::open(path).expect("SQLite works");
    let mut statement =
        connection.prepare("SELECT name, sql FROM sqlite_schema ORDER BY name").expect("SQLite works");
    let rows = statement.query_map((), |row| Ok((row.get(0)?, row.get(1)?))).expect("SQLite works");
    rows.map(|row| row.expect("SQLite works")).collect()
}

/// The journal of the child of the open delegation.
fn journal() -> WriteSteps {
    let opened = Product::Opened(vec![Message::text(Author::User, "goal")]);
    let intend = |seq, action| StepChange::Intend { seq, action };
    WriteSteps {
        actor: Actor::Child(ChildId::from_bits(0, 1)),
        fence: Fence { owner: owner(), epoch: Epoch(1) },
        at: Timestamp(9),
        changes: vec![
            intend(0, Action::Open),
            StepChange::Finish { seq: 0, product: opened },
            intend(1, Action::Model),
            StepChange::Fail { seq: 1, error: "cut off".to_owned() },
            intend(2, Action::Model),
        ],
        acknowledge: vec![],
    }
}

/// Writes the fixture of the present version when this variable is set: once for a new version, and never again after
/// that was released.
const MAKE_FIXTURE: &str = "LEGWORK_TEST_MAKE_FIXTURE";

#[tokio::test]
async fn the_fixture_can_be_made() {
    if env::var_os(MAKE_FIXTURE).is_none() {
        return;
    }
    let place = FilePlace::new();
    let store = open(&place.path());
    enter(&store).await;
    let template = template().await;
    let session = SessionId::from_bits(1);
    let new = NewSession {
        id: session.clone(),
        name: Some("first".to_owned()),
        kind: "chat".to_owned(),
        folder: "/project/1".to_owned(),
        at: Timestamp(1),
    };
    store.create_session(new).await.expect("created");
    let appends = (1..=3).map(|n| acceptance(&template, n, "goal")).chain([life(2), life(3)]).collect();
    assert_eq!(store.append(appends).await, Ok(vec![Ok(()); 5]));
    let claim = ClaimId::from_bits(1);
    let unit = UnitId::whole(&DelegationId::from_bits(3));
    store.claim(&unit, claim.clone(), "the session", Timestamp(9)).await.expect("claimed");
    let messages = vec![Message::text(Author::User, "hello"), Message::text(Author::Completion, "done")];
    let turn = Turn { session, expected_messages: 0, at: Timestamp(9), messages, acknowledge: vec![claim] };
    store.append_turn(turn).await.expect("appended");
    store.write_steps(journal()).await.expect("written");
    drop(store);
    fs::create_dir_all(fixture(KNOWN).parent().expect("a folder")).expect("ours");
    fs::copy(place.path(), fixture(KNOWN)).expect("the repository can be written");
}
