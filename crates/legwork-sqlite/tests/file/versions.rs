//! Files of other versions. Each fixture was written by its version of the schema and must open for ever.

use crate::accepting::{acceptance, enter, life, owner, template};
use crate::place::FilePlace;
use legwork_core::batch::Reach;
use legwork_core::delivery::DeliveryState;
use legwork_core::ids::{ChildId, ClaimId, DelegationId, Epoch, RequestId, SessionId, UnitId};
use legwork_core::message::{Author, Message};
use legwork_core::ports::{
    Conversations, Facts, Held, NewSession, News, Pause, SessionKind, Steps, StoreError, Turn, Undelivered,
    WriteSteps,
};
use legwork_core::record::Lease;
use legwork_core::steering::{Asked, Fate, Request, Scope, Wish};
use legwork_core::step::{Action, Actor, Fence, Product, StepChange, StepState};
use legwork_core::time::Timestamp;
use legwork_sqlite::{SqliteStore, StoreOptions};
use rusqlite::Connection;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The newest version that this build knows.
const KNOWN: u32 = 4;

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

    let newer = StoreError::Newer { location: place.path().display().to_string(), found: 99, known: KNOWN };
    let refused = SqliteStore::open(&place.path(), StoreOptions::default()).map(drop);
    assert_eq!(refused, Err(newer.clone()));
    let refused = SqliteStore::open_existing(&place.path(), StoreOptions::default()).map(drop);
    assert_eq!(refused, Err(newer));
    assert_eq!(fs::read(place.path()).expect("ours"), before);
}

/// What the fixtures of all versions hold.
async fn check_common_content(store: &SqliteStore) {
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
    let steps = store.steps(&child_of_open()).await.expect("readable");
    let states: Vec<_> = steps.into_iter().take(3).map(|step| (step.seq, step.action, step.state)).collect();
    let opened = Product::Opened(vec![Message::text(Author::User, "goal")]);
    let expected = [
        (0, Action::Open, StepState::Done(opened)),
        (1, Action::Model, StepState::Failed("cut off".to_owned())),
        (2, Action::Model, StepState::Intended),
    ];
    assert_eq!(states, expected);
    let due = store.undelivered(&SessionId::from_bits(1)).await.expect("readable").rows;
    let expected = Undelivered {
        delegation: DelegationId::from_bits(2),
        unit: UnitId::whole(&DelegationId::from_bits(2)),
        notice: None,
        reach: Reach::Joined,
        state: DeliveryState::Ready { tries: 0 },
        claimant: None,
    };
    assert_eq!(due, [expected]);
}

/// What a file of any version can do once it is open: its work goes on, and its session is opened, written and closed.
async fn go_on(store: &SqliteStore) {
    let asked = store.ask(steer(7)).await;
    assert_eq!(asked, Ok(Asked::Stored));
    assert_eq!(store.append(vec![life(1)]).await, Ok(vec![Ok(())]));
    let fates = store.steers(&ChildId::from_bits(0, 1)).await.expect("readable").rows;
    assert_eq!(fates.last().map(|steer| steer.fate.clone()), Some(Fate::Missed));
    let session = SessionId::from_bits(1);
    let due = store.undelivered(&session).await.expect("readable").rows;
    let due: Vec<_> = due.into_iter().map(|due| due.delegation).collect();
    assert_eq!(due, [2, 1].map(DelegationId::from_bits));
    assert_eq!(store.hold_session(&session, &owner(), None).await, Ok(Held::Here));
    assert_eq!(store.append_turn(turn(session.clone(), 2, vec![])).await, Ok(()));
    assert_eq!(store.release_session(&session, &owner()).await, Ok(()));
    assert_eq!(store.prune(Timestamp(i64::MAX)).await, Ok(1));
}

#[tokio::test]
async fn the_fixture_of_version_1_opens_and_goes_on() {
    let place = FilePlace::new();
    let path = copied(&place, 1);
    let store = open(&path);
    check_common_content(&store).await;
    let session = store.session(&SessionId::from_bits(1)).await.expect("readable").expect("it is there");
    assert_eq!(session.session.kind, SessionKind::Chat);
    assert_eq!((session.holder, session.opening.as_deref()), (None, Some("hello")));
    assert_eq!(store.news(0).await, Ok(News::default()));
    go_on(&store).await;
    let kept = Connection::open(path.with_extension("db.v1.bak")).expect("a copy was kept");
    let version: u32 = kept.pragma_query_value(None, "user_version", |row| row.get(0)).expect("readable");
    assert_eq!(version, 1);
}

#[tokio::test]
async fn the_fixture_of_version_2_opens_and_goes_on() {
    let place = FilePlace::new();
    let store = open(&copied(&place, 2));
    check_common_content(&store).await;
    let session = store.session(&SessionId::from_bits(1)).await.expect("readable").expect("it is there");
    assert_eq!(session.session.name.as_deref(), Some("first"));
    assert_eq!(session.holder.map(|holder| holder.id), Some(owner()));
    assert_eq!(session.opening.as_deref(), Some("hello"));
    let other = store.session(&SessionId::from_bits(2)).await.expect("readable").expect("it is there");
    assert_eq!((other.session.kind, other.holder), (SessionKind::Run, None));
    let news = store.news(0).await.expect("readable");
    assert_eq!((news.pause, news.requests.len()), (Pause::On, 1));
    let fates = store.steers(&ChildId::from_bits(0, 1)).await.expect("readable").rows;
    let fates: Vec<_> = fates.into_iter().map(|steer| steer.fate).collect();
    assert_eq!(fates, [Fate::Seen { step: 3 }, Fate::Open]);
    assert!(store.write_steps(session_step(0)).await.is_err(), "that step has begun");
    assert_eq!(store.write_steps(session_step(1)).await, Ok(()));
    go_on(&store).await;
}

#[tokio::test]
async fn the_fixture_of_version_3_opens_and_goes_on() {
    let place = FilePlace::new();
    let store = open(&copied(&place, 3));
    check_common_content(&store).await;
    let lease = Lease { beats: 1, period: Duration::from_secs(10), renewed_at: Timestamp(9) };
    assert_eq!(store.lease(&owner()).await, Ok(Some(lease)));
    let session = store.session(&SessionId::from_bits(1)).await.expect("readable").expect("it is there");
    assert_eq!(session.holder.map(|holder| holder.gone), Some(false));
    go_on(&store).await;
}

/// A journal that holds a switch of models has no older version, so that a program which cannot read one says so of the file.
#[tokio::test]
async fn the_fixture_of_version_4_opens_and_goes_on() {
    let place = FilePlace::new();
    let store = open(&copied(&place, 4));
    check_common_content(&store).await;
    let steps = store.steps(&child_of_open()).await.expect("readable");
    let last = steps.last().map(|step| (step.action.clone(), step.state.clone()));
    assert_eq!(last, Some((switch(), StepState::Done(Product::Switched))));
    go_on(&store).await;
}

/// A released step of the schema is never changed: a file made today has the tables of the fixture, and a file of an older
/// version has them once it was opened.
#[tokio::test]
async fn the_schema_is_the_one_of_the_fixture() {
    let fresh = FilePlace::new();
    drop(open(&fresh.path()));
    let kept: Vec<_> = (1..KNOWN)
        .map(|version| fresh.path().with_extension(format!("db.v{version}.bak")))
        .filter(|path| path.exists())
        .collect();
    assert_eq!(kept, Vec::<PathBuf>::new(), "there was nothing to keep a copy of");
    let known = FilePlace::new();
    let path = copied(&known, KNOWN);
    assert_eq!(schema(&fresh.path()), schema(&path));
    for version in 1..KNOWN {
        let place = FilePlace::new();
        let older = copied(&place, version);
        drop(open(&older));
        assert_eq!(schema(&older), schema(&path), "version {version}");
    }
}

/// Content that only an older version could hold: names that are taken twice, openings of every form, requests of both
/// fates, and deliveries in every state.
#[tokio::test]
async fn a_file_of_version_1_is_brought_up_with_everything_in_it() {
    let place = FilePlace::new();
    let path = copied(&place, 1);
    let old = Connection::open(&path).expect("SQLite works");
    old.execute_batch(OLD_CONTENT).expect("the rows fit");
    drop(old);
    let store = open(&path);
    let sessions = store.sessions(Some("/p")).await.expect("readable").rows;
    let names: Vec<_> = sessions.iter().map(|record| record.session.name.as_deref()).collect();
    assert_eq!(names, [None, None, Some("twin"), Some("twin (ses_a)")]);
    let openings: Vec<_> = sessions.iter().map(|record| record.opening.as_deref()).collect();
    let long = "x".repeat(120);
    assert_eq!(openings, [None, Some(long.as_str()), Some("two lines and a tab"), None]);

    let open: Vec<_> =
        store.news(0).await.expect("readable").requests.into_iter().map(|(no, _)| no).collect();
    assert_eq!(open, [2]);
    let settled: String = old_fate(&path);
    assert_eq!(settled, "\"carried_out\"");
    let due = store.undelivered(&SessionId::from_bits(1)).await.expect("readable").rows;
    let states: Vec<_> = due.iter().map(|due| (due.delegation.clone(), due.state.as_str())).collect();
    assert_eq!(states, [(DelegationId::from_bits(1), "claimed"), (DelegationId::from_bits(2), "parked")]);
    assert_eq!(due[0].claimant.as_deref(), Some("taker"));
    assert_eq!(store.health().await.map(|health| health.problems), Ok(vec![]));
}

fn old_fate(path: &Path) -> String {
    let connection = Connection::open(path).expect("SQLite works");
    connection.query_row("SELECT fate FROM requests WHERE no = 1", (), |row| row.get(0)).expect("it is there")
}

const OLD_CONTENT: &str = r#"
INSERT INTO sessions (no, id, name, kind, folder, created_at, messages, touched_at) VALUES
  (10, 'ses_a', 'twin', 'chat', '/p', 1, 1, 1), (11, 'ses_b', 'twin', 'run', '/p', 2, 3, 2),
  (12, 'ses_c', NULL, 'run', '/p', 3, 1, 3), (13, 'ses_d', NULL, 'shell', '/p', 4, 1, 4);
INSERT INTO messages (session, seq, at, body) VALUES
  (10, 0, 1, '{"author":"user","parts":[]}'),
  (11, 0, 1, '{"author":"system","parts":[{"type":"text","text":"not this"}]}'),
  (11, 1, 1, '{"author":"user","parts":[{"type":"text","text":" \n "}]}'),
  (11, 2, 1, '{"author":"user","parts":[{"type":"text","text":"\n two  lines\r\nand\ta   tab\n"}]}'),
  (12, 0, 1, json_object('author', 'user', 'parts',
    json_array(json_object('type', 'text', 'text', replace(hex(zeroblob(100)), '0', 'x'))))),
  (13, 0, 1, 'no JSON at all');
INSERT INTO requests (no, id, at, body, settled_by, settled_at) VALUES
  (1, 'req_1', 1, '{}', 'own_1', 2),
  (2, 'req_2', 1, '{"id":"req_2","at":1,"scope":"all","wish":{"stop":{"reason":"cancelled","force":"ask"}}}', NULL, NULL);
UPDATE units SET state = 'claimed', claim = 'clm_1',
  ledger = '{"at":1,"state":"claimed","claimant":"taker","reason":null}' || char(10) WHERE no = 1;
UPDATE units SET state = 'parked', parked = '"session_gone"' WHERE no = 2;
"#;

fn schema(path: &Path) -> Vec<(String, Option<String>)> {
    let connection = Connection::open(path).expect("SQLite works");
    let mut statement =
        connection.prepare("SELECT name, sql FROM sqlite_schema ORDER BY name").expect("SQLite works");
    let rows = statement.query_map((), |row| Ok((row.get(0)?, row.get(1)?))).expect("SQLite works");
    rows.map(|row| row.expect("SQLite works")).collect()
}

/// The child of the open delegation.
fn child_of_open() -> Actor {
    Actor::Child(ChildId::from_bits(0, 1))
}

fn fence() -> Fence {
    Fence { owner: owner(), epoch: Epoch(1) }
}

/// Its journal.
fn journal() -> WriteSteps {
    let opened = Product::Opened(vec![Message::text(Author::User, "goal")]);
    let intend = |seq, action| StepChange::Intend { seq, action };
    let requests = vec![steer(1).id];
    WriteSteps {
        actor: child_of_open(),
        fence: fence(),
        at: Timestamp(9),
        changes: vec![
            intend(0, Action::Open),
            StepChange::Finish { seq: 0, product: opened },
            intend(1, Action::Model),
            StepChange::Fail { seq: 1, error: "cut off".to_owned() },
            intend(2, Action::Model),
            intend(3, Action::Steer { requests: requests.clone() }),
            StepChange::Finish {
                seq: 3,
                product: Product::Steered(Message::text(Author::User, "look there")),
            },
            intend(4, switch()),
            StepChange::Finish { seq: 4, product: Product::Switched },
        ],
        acknowledge: vec![],
        turn: None,
        seen: requests.into_iter().map(|request| (request, 3)).collect(),
    }
}

/// Another model of the chain is asked.
fn switch() -> Action {
    Action::Switch { place: 1, model: "second".to_owned() }
}

/// The `seq`-th step of the session's journal.
fn session_step(seq: u32) -> WriteSteps {
    WriteSteps {
        actor: Actor::Session(SessionId::from_bits(1)),
        changes: vec![StepChange::Intend { seq, action: Action::Compact }],
        seen: vec![],
        ..journal()
    }
}

fn steer(n: u64) -> Request {
    let wish = Wish::Steer { text: "look there".to_owned() };
    let scope = Scope::Child(ChildId::from_bits(0, 1));
    Request { id: RequestId::from_bits(n), at: Timestamp(5), scope, wish }
}

fn turn(session: SessionId, expected_messages: u64, acknowledge: Vec<ClaimId>) -> Turn {
    let messages = vec![Message::text(Author::User, "hello"), Message::text(Author::Completion, "done")];
    Turn { session, writer: owner(), expected_messages, at: Timestamp(9), messages, acknowledge }
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
    make_sessions(&store).await;
    let mut template = template().await;
    template.lineage.session = SessionId::from_bits(1);
    let appends = (1..=3).map(|n| acceptance(&template, n, "goal")).chain([life(2), life(3)]).collect();
    assert_eq!(store.append(appends).await, Ok(vec![Ok(()); 5]));
    let claim = ClaimId::from_bits(1);
    let unit = UnitId::whole(&DelegationId::from_bits(3));
    store.claim(&unit, claim.clone(), "the session", Timestamp(9)).await.expect("claimed");
    store.append_turn(turn(SessionId::from_bits(1), 0, vec![claim])).await.expect("appended");
    for n in [1, 2] {
        assert_eq!(store.ask(steer(n)).await, Ok(Asked::Stored));
    }
    store.write_steps(journal()).await.expect("written");
    store.write_steps(session_step(0)).await.expect("written");
    store.set_pause(Pause::On, Timestamp(9)).await.expect("written");
    store.renew(&owner(), Duration::from_secs(10), Timestamp(9)).await.expect("written");
    drop(store);
    fs::create_dir_all(fixture(KNOWN).parent().expect("a folder")).expect("ours");
    fs::copy(place.path(), fixture(KNOWN)).expect("the repository can be written");
}

async fn make_sessions(store: &SqliteStore) {
    for (n, name, kind) in [(1, Some("first"), SessionKind::Chat), (2, None, SessionKind::Run)] {
        let new = NewSession {
            id: SessionId::from_bits(n),
            name: name.map(str::to_owned),
            kind,
            folder: "/project/1".to_owned(),
            at: Timestamp(1),
        };
        store.create_session(new, &owner()).await.expect("created");
    }
    store.release_session(&SessionId::from_bits(2), &owner()).await.expect("closed");
}
