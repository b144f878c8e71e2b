//! Opening, and what stands in its way.

use crate::accepting::{acceptance, enter, template};
use crate::place::FilePlace;
use futures::FutureExt;
use legwork_core::ids::DelegationId;
use legwork_core::ports::{Conversations, Facts, StoreError};
use legwork_sqlite::{SqliteStore, StoreOptions};
use rusqlite::Connection;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::time::Duration;

fn open(path: &Path) -> Result<SqliteStore, StoreError> {
    SqliteStore::open(path, StoreOptions::default())
}

fn refusal(path: &Path) -> StoreError {
    open(path).map(drop).expect_err("this store must not open")
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("it exists").permissions().mode() & 0o777
}

/// Proves SEC-10.
#[tokio::test]
async fn only_the_user_may_read_the_files() {
    let place = FilePlace::new();
    let path = place.path();
    let store = open(&path).expect("a new place is fine");
    enter(&store).await;
    assert_eq!(mode(path.parent().expect("a folder")), 0o700);
    for file in ["legwork.db", "legwork.db-wal", "legwork.db-shm"] {
        assert_eq!(mode(&path.with_file_name(file)), 0o600, "{file}");
    }
    drop(store);

    // A file that somebody opened up is closed again; a folder that exists already stays as it is.
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).expect("ours");
    fs::set_permissions(path.parent().expect("a folder"), fs::Permissions::from_mode(0o755)).expect("ours");
    drop(open(&path).expect("it opens again"));
    assert_eq!(mode(&path), 0o600);
    assert_eq!(mode(path.parent().expect("a folder")), 0o755);
}

/// A folder of another disk that is new, say. Proves SEC-10.
#[tokio::test]
async fn k35_a_link_to_a_file_that_is_not_there_yet_leads_to_the_database() {
    let place = FilePlace::new();
    let path = place.path();
    let folder = path.parent().expect("a folder");
    fs::create_dir_all(folder.join("disk")).expect("ours");
    symlink("disk/link", &path).expect("ours");
    symlink(folder.join("disk/real.db"), folder.join("disk/link")).expect("ours");
    assert!(SqliteStore::open_existing(&path, StoreOptions::default()).expect("nothing is wrong").is_none());

    enter(&open(&path).expect("it is made")).await;
    assert!(fs::symlink_metadata(&path).expect("it is there").is_symlink());
    assert!(fs::metadata(folder.join("disk/real.db")).expect("it is there").len() > 0);
    assert_eq!(mode(&path), 0o600);
    assert!(open(&path).is_ok());

    fs::remove_file(folder.join("disk/link")).expect("ours");
    symlink(&path, folder.join("disk/link")).expect("ours");
    let ring = refusal(&path);
    assert!(matches!(&ring, StoreError::Io(text) if text.contains("legwork.db")), "{ring}");
}

#[tokio::test]
async fn looking_creates_nothing() {
    let place = FilePlace::new();
    assert!(
        SqliteStore::open_existing(&place.path(), StoreOptions::default())
            .expect("nothing is wrong")
            .is_none()
    );
    assert!(!place.path().parent().expect("a folder").exists());

    enter(&open(&place.path()).expect("it opens")).await;
    let looking =
        SqliteStore::open_existing(&place.path(), StoreOptions::default()).expect("nothing is wrong");
    assert_eq!(looking.expect("now it exists").owners_of_open().await, Ok(vec![]));
}

#[test]
fn a_place_that_cannot_be_written_is_named() {
    let place = FilePlace::new();
    let folder = place.path().parent().expect("a folder").to_owned();
    fs::write(&folder, "a file where the folder should be").expect("ours");
    let below_a_file = refusal(&place.path());
    assert!(
        matches!(&below_a_file, StoreError::ReadOnly(text) if text.contains(folder.to_str().expect("text")))
    );
    fs::remove_file(&folder).expect("ours");
    fs::create_dir_all(place.path()).expect("ours");
    let is_a_folder = refusal(&place.path());
    assert!(
        matches!(&is_a_folder, StoreError::ReadOnly(text) if text.contains("legwork.db")),
        "{is_a_folder}"
    );
}

#[test]
fn k35_a_damaged_or_foreign_file_is_refused_and_left_alone() {
    let place = FilePlace::new();
    fs::create_dir_all(place.path().parent().expect("a folder")).expect("ours");
    fs::write(place.path(), "this is not a database, it is a letter to my aunt\n".repeat(200)).expect("ours");
    let letter = fs::read(place.path()).expect("ours");
    let damaged = refusal(&place.path());
    assert!(matches!(damaged, StoreError::Corrupt(_)), "{damaged}");
    assert_eq!(fs::read(place.path()).expect("ours"), letter);

    fs::remove_file(place.path()).expect("ours");
    let foreign = Connection::open(place.path()).expect("SQLite works");
    foreign.execute_batch("CREATE TABLE recipes (name TEXT)").expect("SQLite works");
    drop(foreign);
    let foreign = refusal(&place.path());
    assert!(matches!(&foreign, StoreError::Corrupt(text) if text.contains("another program")), "{foreign}");
}

#[tokio::test]
async fn k35_damage_in_the_middle_of_the_file_is_told() {
    let place = FilePlace::new();
    let store = open(&place.path()).expect("it opens");
    enter(&store).await;
    let template = template().await;
    let appends = (1..=50).map(|n| acceptance(&template, n, &"long goal ".repeat(300))).collect();
    store.append(appends).await.expect("the store works");
    drop(store);
    let mut bytes = fs::read(place.path()).expect("ours");
    let middle = bytes.len() / 2;
    bytes[middle..middle + 4096].fill(0xa5);
    fs::write(place.path(), bytes).expect("ours");

    let store = open(&place.path()).expect("its head is whole");
    let told = match store.health().await {
        Ok(health) => !health.problems.is_empty(),
        Err(error) => matches!(error, StoreError::Corrupt(_)),
    };
    assert!(told);
}

#[tokio::test]
async fn a_lock_that_is_not_given_back_ends_the_wait_and_only_that_write() {
    let place = FilePlace::new();
    let options = StoreOptions { lock_wait: Duration::from_millis(20), ..StoreOptions::default() };
    let store = SqliteStore::open(&place.path(), options).expect("it opens");
    enter(&store).await;
    let template = template().await;
    let other = Connection::open(place.path()).expect("SQLite works");
    other.execute_batch("BEGIN IMMEDIATE").expect("the lock is free");

    let locked = store.append(vec![acceptance(&template, 1, "goal")]).await;
    assert!(matches!(locked, Err(StoreError::Locked(_))), "{locked:?}");
    assert_eq!(store.delegation(&DelegationId::from_bits(1)).await, Ok(None), "readers are not in its way");
    other.execute_batch("ROLLBACK").expect("it is ours");
    assert_eq!(store.append(vec![acceptance(&template, 1, "goal")]).await, Ok(vec![Ok(())]));
}

#[tokio::test]
async fn what_was_handed_over_is_stored_although_nobody_waits() {
    let place = FilePlace::new();
    let template = template().await;
    let store = open(&place.path()).expect("it opens");
    enter(&store).await;
    for n in 1..=100 {
        // Polled once, so that the command waits in the writer's queue, and dropped then.
        assert!(store.append(vec![acceptance(&template, n, "goal")]).now_or_never().is_none());
    }
    drop(store);
    assert!(!place.path().with_file_name("legwork.db-wal").exists(), "the log was moved into the database");
    let store = open(&place.path()).expect("it opens again");
    assert_eq!(store.health().await.map(|health| (health.open, health.problems)), Ok((100, vec![])));
}

/// A look at a file that is gone would show what nobody can add to any more, and one at another file another store.
#[tokio::test]
async fn k35_what_was_removed_or_replaced_is_not_looked_at() {
    let place = FilePlace::new();
    let path = place.path();
    let store = open(&path).expect("it opens");
    store.sessions(None).await.expect("it reads");
    let away = path.with_extension("away");
    fs::rename(&path, &away).expect("it is moved");
    let gone = store.sessions(None).await;
    assert!(matches!(gone, Err(StoreError::Gone(_))), "{gone:?}");
    fs::copy(&away, &path).expect("a copy takes its place");
    let replaced = store.sessions(None).await;
    assert!(matches!(replaced, Err(StoreError::Gone(_))), "{replaced:?}");
    fs::rename(&away, &path).expect("it is put back");
    store.sessions(None).await.expect("it reads again");
}
