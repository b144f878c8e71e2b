//! A full disk: nothing that was answered is lost, and writing goes on when there is room again.

use crate::accepting::{acceptance, enter, life, template};
use crate::place::FilePlace;
use legwork_core::ids::DelegationId;
use legwork_core::ports::{Facts, StoreError};
use legwork_sqlite::{SqliteStore, StoreOptions};
use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

fn open(path: &Path, max_pages: Option<u32>) -> SqliteStore {
    let options = StoreOptions { max_pages, ..StoreOptions::default() };
    SqliteStore::open(path, options).expect("the store opens")
}

/// Accepts delegations until the store is full and says how many those were.
async fn fill(store: &SqliteStore) -> u32 {
    let template = template().await;
    for n in 1..100_000 {
        match store.append(vec![acceptance(&template, n, &"goal ".repeat(100))]).await {
            Ok(answers) => assert_eq!(answers, [Ok(())]),
            Err(error) => {
                assert!(matches!(error, StoreError::Full(_)), "{error}");
                return n - 1;
            }
        }
    }
    panic!("it never was full");
}

async fn assert_whole(store: &SqliteStore, count: u32) {
    assert_eq!(
        store.health().await.map(|health| (health.open, health.problems)),
        Ok((u64::from(count), vec![]))
    );
    for n in 1..=count {
        assert!(store.delegation(&DelegationId::from_bits(n)).await.expect("readable").is_some(), "{n}");
    }
}

#[tokio::test]
async fn k35_a_full_database_loses_nothing_and_goes_on_when_there_is_room() {
    let place = FilePlace::new();
    let store = open(&place.path(), Some(100));
    enter(&store).await;
    let count = fill(&store).await;
    assert!(count > 50, "{count}");
    assert_whole(&store, count).await;
    let template = template().await;
    let again = store.append(vec![acceptance(&template, count + 1, &"goal ".repeat(100))]).await;
    assert!(matches!(again, Err(StoreError::Full(_))), "it stays full: {again:?}");
    drop(store);

    let store = open(&place.path(), None);
    assert_whole(&store, count).await;
    let again = store.append(vec![acceptance(&template, count + 1, &"goal ".repeat(100))]).await;
    assert_eq!(again, Ok(vec![Ok(())]));
    assert_eq!(store.append(vec![life(1)]).await, Ok(vec![Ok(())]));
}

#[tokio::test]
async fn a_write_that_is_too_large_fails_alone() {
    let place = FilePlace::new();
    let store = open(&place.path(), Some(200));
    enter(&store).await;
    let template = template().await;
    let huge = "x".repeat(2 << 20);
    let goal = |n| if n == 8 { huge.as_str() } else { "small" };
    let writes = (1..=16).map(|n| store.append(vec![acceptance(&template, n, goal(n))]));
    let answers = futures::future::join_all(writes).await;
    for (n, answer) in (1u32..).zip(answers) {
        match answer {
            Ok(answers) => assert!(n != 8 && answers == [Ok(())], "{n}: {answers:?}"),
            Err(error) => assert!(n == 8 && matches!(error, StoreError::Full(_)), "{n}: {error}"),
        }
    }
    assert_eq!(store.health().await.map(|health| (health.open, health.problems)), Ok((15, vec![])));
}

/// The file of the child process below.
const LIMITED_FILE: &str = "LEGWORK_TEST_LIMITED_FILE";

/// Does its work in the process that the next test starts, whose files cannot grow; elsewhere nothing.
#[tokio::test]
async fn body_fill_under_a_file_size_limit() {
    let Some(path) = env::var_os(LIMITED_FILE).map(PathBuf::from) else { return };
    let store = open(&path, None);
    enter(&store).await;
    let count = fill(&store).await;
    assert_whole(&store, count).await;
    println!("stored {count}");
}

#[tokio::test]
async fn k35_a_file_size_limit_reads_as_full() {
    let place = FilePlace::new();
    // 1024 blocks of 512 or 1024 bytes. The signal is ignored, so that the write fails with an error instead.
    let script = "trap '' XFSZ; ulimit -f 1024; exec \"$0\" --exact --nocapture full::body_fill_under_a_file_size_limit";
    let program = env::current_exe().expect("a test has a file");
    let output =
        Command::new("sh").arg("-c").arg(script).arg(program).env(LIMITED_FILE, place.path()).output();
    let output = output.expect("sh runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    let count = text.lines().find_map(|line| line.split("stored ").nth(1)).expect("it said how many");
    assert_whole(&open(&place.path(), None), count.trim().parse().expect("a number")).await;
}
