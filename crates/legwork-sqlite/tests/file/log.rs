//! The log beside the database as a process left it that was killed, cut at any byte or damaged at any byte: what was committed
//! before the cut is there, and what cannot be read is told and left alone.

use crate::accepting::{acceptance, enter, life, template};
use crate::place::FilePlace;
use legwork_core::fact::Append;
use legwork_core::ids::DelegationId;
use legwork_core::ports::{Facts, StoreError};
use legwork_sqlite::{SqliteStore, StoreOptions};
use legwork_testkit::locks;
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use rusqlite::Connection;
use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};

/// The delegation that was there before there was a log.
const FIRST: u32 = 900;
const PAGE: usize = 4096;
const FRAME: usize = 24 + PAGE;

fn open(path: &Path) -> Result<SqliteStore, StoreError> {
    SqliteStore::open(path, StoreOptions::default())
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    path.with_file_name(format!("legwork.db{suffix}"))
}

/// The files of a process that was killed at work.
struct Left {
    database: Vec<u8>,
    log: Vec<u8>,
    index: Vec<u8>,
    /// How long the log was after each commit, and what that had brought.
    commits: Vec<(usize, Commit)>,
}

#[derive(Debug, Clone, Copy)]
enum Commit {
    Accepted(u32),
    Settled(u32),
}

impl Left {
    /// Commits of one page and of many.
    async fn at_work() -> Left {
        let place = FilePlace::new();
        let path = place.path();
        let template = template().await;
        let store = open(&path).expect("it opens");
        enter(&store).await;
        keep(&store, acceptance(&template, FIRST, "before")).await;
        drop(store);
        let store = open(&path).expect("it opens again");
        let mut commits = Vec::new();
        for n in 1..=10 {
            keep(&store, acceptance(&template, n, &"a long goal ".repeat(n as usize * 150))).await;
            commits.push((length(&path), Commit::Accepted(n)));
            if n % 3 != 0 {
                keep(&store, life(n)).await;
                commits.push((length(&path), Commit::Settled(n)));
            }
        }
        let read = |suffix| fs::read(beside(&path, suffix)).expect("it is there");
        Left { database: read(""), log: read("-wal"), index: read("-shm"), commits }
    }

    /// A place with these files.
    fn put(&self, log: &[u8], index: Option<&[u8]>) -> FilePlace {
        let place = FilePlace::new();
        let path = place.path();
        fs::create_dir_all(path.parent().expect("a folder")).expect("ours");
        fs::write(&path, &self.database).expect("ours");
        fs::write(beside(&path, "-wal"), log).expect("ours");
        if let Some(index) = index {
            fs::write(beside(&path, "-shm"), index).expect("ours");
        }
        place
    }

    /// Exactly what was committed by `length` is there.
    async fn check(&self, store: &SqliteStore, length: usize) {
        let first = store.delegation(&DelegationId::from_bits(FIRST)).await.expect("readable");
        assert!(first.is_some(), "{length}");
        for (end, commit) in &self.commits {
            let is_in = *end <= length;
            let (Commit::Accepted(n) | Commit::Settled(n)) = *commit;
            let record = store.delegation(&DelegationId::from_bits(n)).await.expect("readable");
            match commit {
                Commit::Accepted(_) => assert_eq!(record.is_some(), is_in, "{length}: {commit:?} at {end}"),
                Commit::Settled(_) => {
                    let is_settled = record.is_some_and(|record| record.is_settled());
                    assert_eq!(is_settled, is_in, "{length}: {commit:?} at {end}");
                }
            }
        }
        let health = store.health().await.expect("readable");
        assert_eq!((health.problems, health.broken, health.strays), (vec![], vec![], 0), "{length}");
    }
}

async fn keep(store: &SqliteStore, append: Append) {
    assert_eq!(store.append(vec![append]).await, Ok(vec![Ok(())]));
}

fn length(path: &Path) -> usize {
    usize::try_from(fs::metadata(beside(path, "-wal")).expect("it is there").len()).expect("a small file")
}

/// Every end of a commit, the bytes about it, the borders of frames, and bytes anywhere.
fn cuts(left: &Left) -> Vec<usize> {
    let ends = left.commits.iter().map(|(end, _)| *end);
    let mut cuts: Vec<usize> =
        ends.flat_map(|end| [end - PAGE, end - 1, end, end + 1, end + 24, end + FRAME]).collect();
    cuts.extend([0, 1, 31, 32, 33]);
    cuts.extend((0..left.log.len()).step_by(9973));
    cuts.sort_unstable();
    cuts.dedup();
    cuts.retain(|cut| *cut <= left.log.len());
    cuts
}

/// Proves DUR-1.
#[tokio::test]
async fn k43_a_log_that_ends_at_any_byte_holds_every_commit_that_was_whole() {
    let left = Left::at_work().await;
    let template = template().await;
    for cut in cuts(&left) {
        let place = left.put(&left.log[..cut], None);
        let store = open(&place.path()).expect("it opens");
        left.check(&store, cut).await;
        keep(&store, acceptance(&template, 1000, "later")).await;
        keep(&store, life(1000)).await;
        drop(store);
        let store = open(&place.path()).expect("it opens again");
        left.check(&store, cut).await;
        let later = store.delegation(&DelegationId::from_bits(1000)).await.expect("readable");
        assert!(later.is_some_and(|record| record.is_settled()), "{cut}: work goes on");
    }
}

/// Opening it, for work or for a look, is refused, says where the damage is, and leaves all as it is.
fn refused(place: &FilePlace, what: &str) {
    let files = ["", "-wal", "-shm"].map(|suffix| beside(&place.path(), suffix));
    let before = files.clone().map(|file| fs::read(file).ok());
    let look = SqliteStore::open_existing(&place.path(), StoreOptions::default()).map(drop);
    for answer in [open(&place.path()).map(drop), look] {
        assert!(
            matches!(&answer, Err(StoreError::Corrupt(text)) if text.contains("legwork.db-wal") && text.contains("committed")),
            "{what}: {answer:?}"
        );
    }
    assert_eq!(files.map(|file| fs::read(file).ok()), before, "{what}");
}

#[tokio::test]
async fn k35_a_log_with_a_changed_byte_is_refused_and_left_alone() {
    let left = Left::at_work().await;
    let frames = (left.log.len() - 32) / FRAME;
    // Each part of the head of the log, of the heads of frames, and of pages: at the beginning, in the middle, at the end.
    let of_frame =
        |frame: usize| [0, 5, 9, 17, 24, 24 + PAGE / 2, FRAME - 1].map(|at| 32 + frame * FRAME + at);
    let places = [0, 5, 9, 13, 17, 25]
        .into_iter()
        .chain([0, 1, frames / 2, frames - 1].into_iter().flat_map(of_frame));
    for place in places {
        let mut log = left.log.clone();
        log[place] ^= 0x10;
        refused(&left.put(&log, Some(&left.index)), &format!("byte {place}"));
    }
}

#[tokio::test]
async fn k35_a_log_that_is_shorter_than_its_index_says_is_refused_and_left_alone() {
    let left = Left::at_work().await;
    for cut in [0, 17, 32, 32 + FRAME, left.log.len() / 2, left.log.len() - FRAME, left.log.len() - 1] {
        refused(&left.put(&left.log[..cut], Some(&left.index)), &format!("cut at {cut}"));
    }
}

/// What a death leaves is no damage, whatever is left of the index.
#[tokio::test]
async fn k35_a_log_with_all_that_was_committed_opens_whatever_stands_behind_it() {
    let left = Left::at_work().await;
    let whole = left.log.len();
    let half = left.log[whole - FRAME..whole - 100].to_vec();
    let (mut other, mut torn, mut unset) = (left.index.clone(), left.index.clone(), left.index.clone());
    // Of another log; written in part; not made yet.
    other[32..40].fill(7);
    other[80..88].fill(7);
    torn[16..20].copy_from_slice(&9999_u32.to_ne_bytes());
    unset[..96].fill(0);
    for behind in [vec![], half, vec![0; 500], vec![0xff; 3 * FRAME]] {
        let log = [left.log.clone(), behind].concat();
        for index in
            [Some(&left.index[..]), Some(&other), Some(&torn), Some(&unset), Some(&left.index[..40]), None]
        {
            let place = left.put(&log, index);
            left.check(&open(&place.path()).expect("it opens"), whole).await;
        }
    }
}

/// A log may go when all of it is in the database, and when the database went.
#[tokio::test]
async fn k35_a_log_that_is_gone_is_not_missed_when_the_database_has_all_of_it() {
    let left = Left::at_work().await;
    let whole = left.log.len();
    // Closed by SQLite, and by us.
    let place = left.put(&left.log, Some(&left.index));
    let other = Connection::open(place.path()).expect("SQLite works");
    other.query_row("PRAGMA wal_checkpoint(PASSIVE)", (), |_| Ok(())).expect("SQLite works");
    let moved = fs::read(beside(&place.path(), "-shm")).expect("it is there");
    drop(other);
    for _ in 0..2 {
        assert!(!beside(&place.path(), "-wal").exists() && !beside(&place.path(), "-shm").exists());
        left.check(&open(&place.path()).expect("it opens"), whole).await;
    }
    // Whoever keeps the files of a log leaves an empty one, or none.
    for log in [Some([]), None] {
        fs::write(beside(&place.path(), "-shm"), &moved).expect("ours");
        log.inspect(|log| fs::write(beside(&place.path(), "-wal"), log).expect("ours"));
        left.check(&open(&place.path()).expect("it opens"), whole).await;
    }
    fs::remove_file(place.path()).expect("ours");
    fs::write(beside(&place.path(), "-shm"), &left.index).expect("ours");
    let begun_anew = open(&place.path()).expect("it opens");
    assert_eq!(begun_anew.delegation(&DelegationId::from_bits(FIRST)).await, Ok(None));
}

#[tokio::test]
async fn k35_an_empty_log_that_was_not_moved_into_the_database_is_missed() {
    let left = Left::at_work().await;
    let mut half = left.index.clone();
    half[96..100].copy_from_slice(&2_u32.to_ne_bytes());
    for (index, from) in [(&left.index, "number 1 on"), (&half, "number 3 on")] {
        let place = left.put(&[], Some(index));
        refused(&place, from);
        let told = open(&place.path()).map(drop).expect_err("it is refused").to_string();
        assert!(told.contains(from), "{told}");
    }
}

/// A program that uses no index takes the log away when it closes, and leaves the index of before.
#[tokio::test]
async fn k35_a_database_that_was_open_in_exclusive_mode_after_a_kill_is_not_refused() {
    let left = Left::at_work().await;
    let place = left.put(&left.log, Some(&left.index));
    let other = Connection::open(place.path()).expect("SQLite works");
    other.pragma_update_and_check(None, "locking_mode", "exclusive", |_| Ok(())).expect("a mode it has");
    other.execute_batch("BEGIN EXCLUSIVE; COMMIT").expect("the lock is free");
    drop(other);
    assert!(!beside(&place.path(), "-wal").exists() && beside(&place.path(), "-shm").exists());
    left.check(&open(&place.path()).expect("it opens"), left.log.len()).await;
}

/// What the error says that can be done.
#[tokio::test]
async fn k35_a_refused_log_opens_with_every_whole_commit_once_its_index_is_moved_away() {
    let left = Left::at_work().await;
    let cut = left.log.len() / 2;
    let place = left.put(&left.log[..cut], Some(&left.index));
    let told = open(&place.path()).map(drop).expect_err("it is refused").to_string();
    assert!(told.contains("legwork.db-shm moved away"), "{told}");
    fs::rename(beside(&place.path(), "-shm"), beside(&place.path(), "-shm.old")).expect("ours");
    left.check(&open(&place.path()).expect("it opens"), cut).await;
}

/// Somebody else opens and closes the database, or begins the log anew, after its index was read.
#[tokio::test]
async fn k35_a_log_that_somebody_changes_meanwhile_is_looked_at_again() {
    let left = Left::at_work().await;
    let mut before = left.index.clone();
    // Twice: the two copies of the header.
    before[16..20].copy_from_slice(&9999_u32.to_ne_bytes());
    before[64..68].copy_from_slice(&9999_u32.to_ne_bytes());
    for change in [Change::Removed, Change::Replaced, Change::Written] {
        let place = left.put(&left.log, Some(&before));
        let [log, index] = ["-wal", "-shm"].map(|suffix| beside(&place.path(), suffix));
        fs::remove_file(&log).expect("ours");
        // Whoever looks waits here, with the index read.
        mkfifo(&log, Mode::S_IRWXU).expect("ours");
        let store = std::thread::scope(|scope| {
            scope.spawn(|| {
                let end = OpenOptions::new().write(true).open(&log).expect("somebody looks");
                fs::remove_file(&log).expect("ours");
                fs::write(&log, &left.log).expect("ours");
                match change {
                    Change::Removed => fs::remove_file(&index).expect("ours"),
                    Change::Replaced => {
                        fs::remove_file(&index).expect("ours");
                        fs::write(&index, &left.index).expect("ours");
                    }
                    Change::Written => fs::write(&index, &left.index).expect("ours"),
                }
                drop(end);
            });
            open(&place.path())
        });
        left.check(&store.unwrap_or_else(|error| panic!("{change:?}: {error}")), left.log.len()).await;
    }
}

/// What somebody does to an index.
#[derive(Debug, Clone, Copy)]
enum Change {
    Removed,
    Replaced,
    Written,
}

/// Two openings in one process, and the locks of the first.
#[tokio::test]
async fn k35_opening_a_file_again_takes_no_lock_away_from_the_process() {
    let place = FilePlace::new();
    let store = open(&place.path()).expect("it opens");
    enter(&store).await;
    let before = locks(&place.path());
    assert!(before.len() >= 2, "a connection holds the database and the index: {before:?}");
    let again = open(&place.path()).expect("it opens again");
    let looking = SqliteStore::open_existing(&place.path(), StoreOptions::default()).expect("it opens");
    assert_eq!(locks(&place.path()), before);
    drop((again, looking));
    assert_eq!(locks(&place.path()), before);
}

/// The locks of this process on the database and its index.
fn locks(path: &Path) -> Vec<String> {
    ["", "-shm"].iter().flat_map(|suffix| locks::held(&beside(path, suffix))).collect()
}
