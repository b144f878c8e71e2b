//! Keeps a copy of the database as it was before a schema step. Copies are never removed by us.

use crate::failure::{self, Failure};
use crate::files;
use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, OpenFlags};
use std::path::Path;

/// Copies the database to its backup file for `version`. The copy is whole or an error is told. The caller holds the
/// write lock, so that nothing changes meanwhile; a connection that writes cannot be copied from, so that the copy
/// is made through one of its own.
pub(crate) fn keep(path: &Path, version: u32) -> Result<(), Failure> {
    let target = files::backup_path(path, version);
    files::prepare_backup(&target)?;
    let source = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    copy(&source, &target).map_err(|error| Failure::Refused(failure::of_sqlite(&error, &target)))
}

fn copy(source: &Connection, target: &Path) -> rusqlite::Result<()> {
    let mut copy = Connection::open(target)?;
    let backup = Backup::new(source, &mut copy)?;
    match backup.step(-1)? {
        StepResult::Done => Ok(()),
        StepResult::More | StepResult::Busy | StepResult::Locked | _ => {
            Err(rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_BUSY), None))
        }
    }
}
