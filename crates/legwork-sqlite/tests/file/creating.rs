//! Several openings of one file at once, as several processes of one state folder do.

use legwork_sqlite::{SqliteStore, StoreOptions};
use std::path::Path;
use std::sync::Barrier;

const ROUNDS: usize = 40;

#[test]
fn a_file_that_another_process_is_just_making_is_not_taken_for_a_strangers() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for round in 0..ROUNDS {
        open_at_once(&folder.path().join(format!("{round}.db")));
    }
}

/// One makes the file while three others look whether it is theirs.
fn open_at_once(path: &Path) {
    let start = Barrier::new(4);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                start.wait();
                SqliteStore::open(path, StoreOptions::default()).expect("it is ours");
            });
        }
    });
}
