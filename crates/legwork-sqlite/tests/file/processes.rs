//! Several processes on one file.

use crate::accepting::{acceptance, enter, template};
use crate::place::FilePlace;
use legwork_core::ids::DelegationId;
use legwork_core::ports::Facts;
use legwork_sqlite::{SqliteStore, StoreOptions};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use rusqlite::Connection;
use std::env;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// The file and the first id of the child processes below.
const SHARED_FILE: &str = "LEGWORK_TEST_SHARED_FILE";
const FIRST_ID: &str = "LEGWORK_TEST_FIRST_ID";

/// Appends of one writer.
const APPENDS: u32 = 200;

fn open(path: &Path) -> SqliteStore {
    SqliteStore::open(path, StoreOptions::default()).expect("the store opens")
}

/// Appends one after the other and tells each that was answered.
async fn write(path: &Path, first: u32, count: u32) {
    write_into(&open(path), first, count).await;
}

async fn write_into(store: &SqliteStore, first: u32, count: u32) {
    enter(store).await;
    let template = template().await;
    for n in first..first + count {
        let answer = store.append(vec![acceptance(&template, n, "goal")]).await;
        assert_eq!(answer, Ok(vec![Ok(())]), "{n}");
        println!("stored {n}");
    }
}

fn in_a_runtime<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime starts");
    runtime.block_on(work)
}

#[tokio::test]
async fn two_stores_in_one_process_write_one_file() {
    let place = FilePlace::new();
    thread::scope(|scope| {
        for first in [1000, 2000] {
            let path = place.path();
            scope.spawn(move || in_a_runtime(write(&path, first, APPENDS)));
        }
    });
    let health = open(&place.path()).health().await.expect("readable");
    assert_eq!((health.open, health.problems), (u64::from(2 * APPENDS), vec![]));
}

/// Writers of the crowd, and what each of them appends.
const CROWD: u32 = 300;
const CROWD_APPENDS: u32 = 10;
/// Three writers, who wait for each other all the time, show how fast the machine is now by a tenth of what the crowd does.
const FEW: u32 = 3;
const FEW_APPENDS: u32 = CROWD * CROWD_APPENDS / 10 / FEW;
/// What a crowd in a queue may take longer for an append than a few. It takes less; where chance decides, those that look for the
/// lock take the time from the one that writes, and it takes many times as long.
const SLOWER: u32 = 2;
/// Other programs may take the machine away in the middle of a crowd, but hardly of each.
const CROWDS: u32 = 4;
/// Nobody of the crowd goes on without its turn, however slow the machine is.
const CROWD_WAIT: Duration = Duration::from_secs(3600);

/// Lets so many write at once, and says how long all of them take together.
fn time_of(writers: u32, appends: u32) -> Duration {
    let place = FilePlace::new();
    drop(open(&place.path()));
    let begun = Instant::now();
    thread::scope(|scope| {
        for writer in 1..=writers {
            let path = place.path();
            scope.spawn(move || {
                let options = StoreOptions { lock_wait: CROWD_WAIT, ..StoreOptions::default() };
                let store = SqliteStore::open(&path, options).expect("the store opens");
                in_a_runtime(write_into(&store, writer * 1000, appends));
            });
        }
    });
    let took = begun.elapsed();
    let health = in_a_runtime(open(&place.path()).health()).expect("readable");
    assert_eq!((health.open, health.problems), (u64::from(writers * appends), vec![]));
    took
}

/// Chance alone would let some of them wait for longer than the store does: there, three hundred take many times as long for
/// their work as a few would for the same.
#[test]
fn k35_none_of_many_that_write_at_once_is_refused() {
    // Each has half a dozen files open.
    let (_, files_max) = getrlimit(Resource::RLIMIT_NOFILE).expect("there is a limit");
    setrlimit(Resource::RLIMIT_NOFILE, files_max, files_max).expect("it may be raised so far");
    let in_turn = (0..CROWDS).any(|_| {
        let few = time_of(FEW, FEW_APPENDS) * 10;
        let crowd = time_of(CROWD, CROWD_APPENDS);
        println!("a few would take {few:?}, the crowd took {crowd:?}");
        crowd < few * SLOWER
    });
    assert!(in_turn, "each of {CROWDS} crowds was slowed down by looking for the lock");
}

/// Does its work in the processes that the tests below start; elsewhere nothing.
#[tokio::test]
async fn body_write_a_shared_file() {
    let Some(path) = env::var_os(SHARED_FILE).map(PathBuf::from) else { return };
    let first = env::var(FIRST_ID).expect("the parent names the id").parse().expect("a number");
    let count = if first == FOREVER { u32::MAX - FOREVER } else { APPENDS };
    write(&path, first, count).await;
}

/// The first id of a writer that goes on until it is killed.
const FOREVER: u32 = 1_000_000;

fn spawn_writer(path: &Path, first: u32) -> Child {
    let mut command = Command::new(env::current_exe().expect("a test has a file"));
    command.args(["--exact", "--nocapture", "processes::body_write_a_shared_file"]);
    command.env(SHARED_FILE, path).env(FIRST_ID, first.to_string()).stdout(Stdio::piped());
    command.spawn().expect("the process starts")
}

/// Proves BUILD-8, DUR-1.
#[tokio::test]
async fn two_processes_create_and_write_one_file() {
    let place = FilePlace::new();
    let writers = [1000, 2000].map(|first| spawn_writer(&place.path(), first));
    for writer in writers {
        let output = writer.wait_with_output().expect("it is our child");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    }
    let health = open(&place.path()).health().await.expect("readable");
    assert_eq!((health.open, health.problems), (u64::from(2 * APPENDS), vec![]));
}

#[tokio::test]
async fn inv_02_kill_9_loses_nothing_that_was_answered() {
    let place = FilePlace::new();
    for round in 1..=3u32 {
        let mut writer = spawn_writer(&place.path(), FOREVER);
        let lines = BufReader::new(writer.stdout.take().expect("it is piped")).lines();
        let told = lines
            .map(|line| line.expect("text"))
            .filter_map(|line| line.split("stored ").nth(1).map(str::to_owned));
        let last = told.take(50 * round as usize).last().expect("it wrote");
        writer.kill().expect("it is our child");
        writer.wait().expect("it is our child");

        let store = open(&place.path());
        let last: u32 = last.trim().parse().expect("a number");
        for n in FOREVER..=last {
            assert!(store.delegation(&DelegationId::from_bits(n)).await.expect("readable").is_some(), "{n}");
        }
        assert_eq!(store.health().await.map(|health| health.problems), Ok(vec![]));
        drop(store);
        std::fs::remove_dir_all(place.path().parent().expect("a folder")).expect("ours");
    }
}

/// A process that stands still between commits keeps nobody from writing, however much waits in it.
#[tokio::test(flavor = "multi_thread")]
async fn k35_nobody_waits_for_a_process_that_stands_still_between_commits() {
    let place = FilePlace::new();
    let store = Arc::new(open(&place.path()));
    enter(store.as_ref()).await;
    let template = template().await;
    let mut writes = JoinSet::new();
    for n in 0..APPENDS {
        let (store, append) = (Arc::clone(&store), acceptance(&template, n, "goal"));
        writes.spawn(async move { store.append(vec![append]).await });
    }
    let other = Connection::open(place.path()).expect("it opens");
    other.busy_timeout(Duration::ZERO).expect("it is set");
    while let Some(written) = writes.join_next().await {
        assert_eq!(written.expect("it does not panic"), Ok(vec![Ok(())]));
        let mine = tokio::task::block_in_place(|| {
            store.between_commits(|| other.execute_batch("BEGIN IMMEDIATE; COMMIT"))
        });
        mine.expect("the right to write is nobody's");
    }
}
