//! Steps that do not exist yet, applied to a file of version 1.

use super::*;
use crate::{files, opening, options::StoreOptions};
use std::fs;
use std::os::unix::fs::PermissionsExt;

const SECOND: &str = "ALTER TABLE owners ADD COLUMN host TEXT";
const BROKEN: &str = "ALTER TABLE owners ADD COLUMN host TEXT; ALTER TABLE nothing ADD COLUMN x TEXT";

/// A file of version 1 with one row, open.
fn version_1(path: &Path) -> Connection {
    files::prepare(path).expect("the folder can be written");
    let connection = opening::writer(path, StoreOptions::default()).expect("the file opens");
    apply(&connection, path, &STEPS[..1]).expect("the first step is fine");
    let row =
        "INSERT INTO owners (id, boot_id, pid, start_ticks, entered_at) VALUES ('own_1', 'boot', 1, 2, 3)";
    connection.execute(row, ()).expect("the row fits");
    connection
}

fn owners(connection: &Connection) -> i64 {
    connection.query_row("SELECT count(*) FROM owners", (), |row| row.get(0)).expect("the table is there")
}

#[test]
fn a_step_keeps_a_copy_of_the_file_before_it() {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let path = folder.path().join("legwork.db");
    let connection = version_1(&path);
    assert!(!files::backup_path(&path, 0).exists(), "an empty file needs no copy");

    apply(&connection, &path, &[STEPS[0], SECOND]).expect("the step is fine");
    assert_eq!(version(&connection).expect("readable"), 2);
    assert_eq!(connection.query_row("SELECT host IS NULL FROM owners", (), |row| row.get(0)), Ok(true));

    let kept = files::backup_path(&path, 1);
    assert_eq!(kept.file_name().and_then(|name| name.to_str()), Some("legwork.db.v1.bak"));
    assert_eq!(fs::metadata(&kept).expect("it was kept").permissions().mode() & 0o777, 0o600);
    let kept = Connection::open(kept).expect("it is a database");
    assert_eq!((version(&kept).expect("readable"), owners(&kept)), (1, 1));
    check(&kept).expect("it is one of ours");
}

#[test]
fn a_step_that_fails_leaves_the_file_as_it_was() {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let path = folder.path().join("legwork.db");
    let connection = version_1(&path);
    apply(&connection, &path, &[STEPS[0], BROKEN]).expect_err("the step is broken");
    assert_eq!((version(&connection).expect("readable"), owners(&connection)), (1, 1));
    assert!(connection.query_row("SELECT host FROM owners", (), |_| Ok(())).is_err());

    apply(&connection, &path, &[STEPS[0], SECOND]).expect("a mended step goes through");
    assert_eq!(version(&connection).expect("readable"), 2);
}

#[test]
fn a_step_is_applied_once() {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let path = folder.path().join("legwork.db");
    let connection = version_1(&path);
    let beside = opening::writer(&path, StoreOptions::default()).expect("the file opens twice");
    for connection in [&connection, &beside] {
        apply(connection, &path, &[STEPS[0], SECOND]).expect("the second finds it done");
    }
    assert_eq!(owners(&beside), 1);
}
