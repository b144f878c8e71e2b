//! A process that is killed while it brings an old file to the present version: the next one opens it, nothing is lost, and the
//! copies from before each step are whole.

use crate::accepting::life;
use crate::place::FilePlace;
use legwork_core::ids::DelegationId;
use legwork_core::ports::Facts;
use legwork_sqlite::{SqliteStore, StoreOptions};
use rusqlite::Connection;
use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The file for the process below.
const OLD_FILE: &str = "LEGWORK_TEST_OLD_FILE";
/// Rows of a kibibyte that are added to a fixture, so that each step has work to do.
const ROWS: u32 = 3000;
const KNOWN: u32 = 4;
/// How often a process is killed for each version of the file, at least and at most: until it was hit before, in the middle and
/// after.
const KILLS: u32 = 24;
const KILLS_MAX: u32 = 200;
/// From one moment of a kill to the next, in parts of the time over which they are spread: few of them are spread
/// evenly, and no two are the same.
const STRIDE: u32 = 77;

/// What a copy and the file itself must hold.
const CONTENT: &str = "SELECT (SELECT count(*) FROM messages), (SELECT total(length(body)) FROM messages), \
    (SELECT group_concat(id) FROM delegations), (SELECT count(*) FROM facts), (SELECT count(*) FROM steps)";

type Content = (u32, f64, String, u32, u32);

fn content(path: &Path) -> Content {
    let connection = Connection::open(path).expect("SQLite works");
    let row = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?));
    connection.query_row(CONTENT, (), row).expect("it is whole")
}

fn version(path: &Path) -> u32 {
    let connection = Connection::open(path).expect("SQLite works");
    connection.pragma_query_value(None, "user_version", |row| row.get(0)).expect("readable")
}

fn backup(path: &Path, version: u32) -> PathBuf {
    path.with_extension(format!("db.v{version}.bak"))
}

/// A file of this version with the content of its fixture and much more.
fn old_file(place: &FilePlace, version: u32) -> PathBuf {
    let path = place.path();
    fs::create_dir_all(path.parent().expect("a folder")).expect("ours");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    fs::copy(root.join("fixtures").join(format!("state-v{version}.sqlite")), &path)
        .expect("it is part of the repository");
    let connection = Connection::open(&path).expect("SQLite works");
    let more = format!(
        "INSERT INTO sessions (no, id, kind, folder, created_at, messages, touched_at) VALUES (77, 'ses_77', 'chat', '/', 1, {ROWS}, 1); \
         WITH RECURSIVE n(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM n WHERE n < {ROWS} - 1) \
         INSERT INTO messages (session, seq, at, body) SELECT 77, n, 1, json_object('author', 'user', 'parts', \
         json_array(json_object('type', 'text', 'text', hex(zeroblob(480))))) FROM n;"
    );
    connection.execute_batch(&more).expect("the rows fit");
    path
}

/// Does its work in the processes that the test below starts; elsewhere nothing.
#[test]
fn body_open_an_old_file() {
    let Some(path) = env::var_os(OLD_FILE).map(PathBuf::from) else { return };
    println!("opening");
    let store = SqliteStore::open(&path, StoreOptions::default()).expect("it opens");
    println!("opened");
    drop(store);
}

/// A process that is about to open the file.
fn opening(path: &Path) -> (Child, impl Iterator<Item = String> + use<>) {
    let mut command = Command::new(env::current_exe().expect("a test has a file"));
    command.args(["--exact", "--nocapture", "killed::body_open_an_old_file"]);
    let mut process = command.env(OLD_FILE, path).stdout(Stdio::piped()).spawn().expect("it starts");
    let lines = BufReader::new(process.stdout.take().expect("it is piped")).lines();
    let mut lines = lines.map(|line| line.expect("text"));
    assert!(lines.any(|line| line.ends_with("opening")), "it begins");
    (process, lines)
}

/// How long it takes when nobody kills it.
fn undisturbed(version: u32) -> Duration {
    let place = FilePlace::new();
    let (mut process, mut lines) = opening(&old_file(&place, version));
    let begun = Instant::now();
    assert!(lines.any(|line| line.ends_with("opened")), "it opens");
    let took = begun.elapsed();
    process.wait().expect("it is our child");
    took
}

/// How a file is after a kill: its version, and which copies there are.
fn state(path: &Path) -> (u32, Vec<u32>) {
    (version(path), (1..KNOWN).filter(|version| backup(path, *version).exists()).collect())
}

/// Proves DUR-14.
#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "the moment of a kill is nobody's event")]
async fn k35_a_process_that_is_killed_while_it_brings_a_file_up_loses_nothing() {
    for from in 1..KNOWN {
        let mut whole = undisturbed(from);
        let mut states = BTreeSet::new();
        for kill in 0..KILLS_MAX {
            if kill >= KILLS && states.len() > 2 {
                break;
            }
            // The machine may have become slower, or quicker.
            if kill > 0 && kill % KILLS == 0 {
                whole = undisturbed(from);
            }
            let place = FilePlace::new();
            let path = old_file(&place, from);
            let before = content(&path);
            let (mut process, _lines) = opening(&path);
            // Deadline: a moment spread over twice the time that it took when nobody disturbed it; this time it may be slower.
            std::thread::sleep(2 * whole * (kill * STRIDE % KILLS_MAX) / KILLS_MAX);
            process.kill().expect("it is our child");
            process.wait().expect("it is our child");
            states.insert(state(&path));

            let store = SqliteStore::open(&path, StoreOptions::default()).expect("the next one opens it");
            let health = store.health().await.expect("readable");
            assert_eq!(
                (health.version, health.problems, health.broken),
                (KNOWN, vec![], vec![]),
                "{from} {kill}"
            );
            assert_eq!(store.append(vec![life(1)]).await, Ok(vec![Ok(())]), "work goes on");
            let record = store.delegation(&DelegationId::from_bits(1)).await.expect("readable");
            assert!(record.is_some_and(|record| record.is_settled()), "{from} {kill}");
            drop(store);
            let after = content(&path);
            assert_eq!(
                (after.0, after.1, &after.2, after.4),
                (before.0, before.1, &before.2, before.4),
                "{from} {kill}"
            );
            for version_kept in from..KNOWN {
                let kept = backup(&path, version_kept);
                assert_eq!(version(&kept), version_kept, "{from} {kill}");
                let kept = content(&kept);
                assert_eq!(kept, before, "{from} {kill}: the copy of version {version_kept} is whole");
            }
        }
        assert!(states.len() > 2, "it was killed in the middle, too: {states:?} in {whole:?}");
    }
}
