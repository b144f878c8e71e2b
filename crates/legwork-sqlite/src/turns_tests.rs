//! Writers of one database and their turns.

use super::*;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::time::Instant;
use tempfile::TempDir;

/// Longer than any of these waits takes.
const LONG: Duration = Duration::from_secs(600);

fn database() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("some.db");
    (folder, path)
}

/// Looks until `is_so`.
fn until(is_so: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < end, "it does not come about");
        // Deadline: the system tells nobody when a lock begins to be waited for; the minute above ends it.
        thread::park_timeout(Duration::from_millis(1));
    }
}

/// Whether somebody waits for the turn.
fn is_waited_for(path: &Path) -> bool {
    let [_, turn] = files::turn_paths(path);
    let turn = format!(":{} ", fs::metadata(turn).expect("it is there").ino());
    let locks = fs::read_to_string("/proc/locks").expect("the system tells of locks");
    locks.lines().any(|line| line.contains("->") && line.contains(&turn))
}

#[test]
fn k35_whoever_waits_is_next_although_the_one_before_asks_again_at_once() {
    let (_folder, path) = database();
    let mut first = Turns::new(&path);
    for _ in 0..100 {
        assert!(first.called_within(LONG).expect("it queues"), "nobody has it");
        let (tried, is_tried) = mpsc::channel::<()>();
        thread::scope(|scope| {
            let path = &path;
            let second = scope.spawn(move || {
                let mut second = Turns::new(path);
                let turn = second.wait(LONG);
                // Kept until the first has asked again.
                is_tried.recv().expect("it asks");
                turn.is_some()
            });
            until(|| is_waited_for(path));
            drop(Turn(first.place.as_deref().expect("it queued")));
            let again = first.called_within(Duration::ZERO).expect("it queues");
            assert!(!again, "it went ahead of one that waited");
            tried.send(()).expect("it waits");
            assert!(second.join().expect("no panic"), "it was called");
        });
        until(|| *first.place.as_ref().expect("it queued").standing() == Standing::Away);
    }
}

#[test]
fn k35_one_turn_at_a_time() {
    let (_folder, path) = database();
    let (at_once, taken) = (AtomicU32::new(0), AtomicU32::new(0));
    thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                let mut turns = Turns::new(&path);
                for _ in 0..50 {
                    let turn = turns.wait(LONG).expect("everybody gives it on");
                    assert_eq!(at_once.fetch_add(1, Ordering::SeqCst), 0);
                    at_once.fetch_sub(1, Ordering::SeqCst);
                    taken.fetch_add(1, Ordering::SeqCst);
                    drop(turn);
                }
            });
        }
    });
    assert_eq!(taken.into_inner(), 16 * 50);
}

/// A process that is stopped in its turn, or before it, holds up nobody for longer than one wait.
#[test]
fn k35_one_that_stands_still_in_its_turn_is_waited_for_once() {
    let (_folder, path) = database();
    let (mut still, mut other) = (Turns::new(&path), Turns::new(&path));
    let turn = still.wait(LONG).expect("nobody has it");
    assert!(other.wait(Duration::from_millis(20)).is_none());
    assert!(other.wait(LONG).is_none(), "it is not waited for again");
    drop(turn);
    until(|| *other.place.as_ref().expect("it queued").standing() == Standing::Away);
    assert!(other.wait(LONG).is_some(), "it queues again");
}

#[test]
fn k35_a_writer_that_ends_while_it_queues_keeps_nobody_out() {
    let (_folder, path) = database();
    let mut first = Turns::new(&path);
    let turn = first.wait(LONG).expect("nobody has it");
    let mut ended = Turns::new(&path);
    assert!(ended.wait(Duration::from_millis(20)).is_none());
    drop(ended);
    drop(turn);
    assert!(Turns::new(&path).wait(LONG).is_some());
}

#[test]
fn k35_without_a_queue_nothing_is_waited_for() {
    let (folder, path) = database();
    fs::remove_dir(folder.path()).expect("ours");
    assert!(Turns::new(&path).wait(LONG).is_none());
}
