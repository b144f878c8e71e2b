//! Keeps a copy of the database as it was before a schema step. Copies are never removed by us.

use crate::failure::{self, Failure};
use crate::files;
use rusqlite::Connection;
use rusqlite::backup::{Backup, StepResult};
use std::path::Path;

/// Copies the database to its backup file for `version`. The copy is whole or an error is told.
pub(crate) fn keep(connection: &Connection, path: &Path, version: u32) -> Result<(), Failure> {
    let target = files::backup_path(path, version);
    files::prepare_backup(&target)?;
    copy(connection, &target).map_err(|error| Failure::Refused(failure::of_sqlite(&error, &target)))
}

fn copy(connection: &Connection, target: &Path) -> rusqlite::Result<()> {
    let mut copy = Connection::open(target)?;
    let backup = Backup::new(connection, &mut copy)?;
    // All pages in one step: the source cannot change in between, since its write lock is ours.
    match backup.step(-1)? {
        StepResult::Done => Ok(()),
        StepResult::More | StepResult::Busy | StepResult::Locked | _ => {
            Err(rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_BUSY), None))
        }
    }
}
