//! Tries whether there is room for writes, for `doctor`. It stores nothing.

use crate::options::StoreOptions;
use crate::{failure, files, opening};
use legwork_core::ports::StoreError;
use rusqlite::Connection;
use std::path::Path;

/// Bytes that are tried: what a few steps of a subagent take.
const BYTES: u32 = 256 * 1024;

/// Pages that the connection of the trial keeps in memory; all others go to the disk although nothing is committed.
const PAGES_KEPT: u32 = 8;

/// Writes into the database within a transaction that is undone, and into a file beside it. The first shows limits of the
/// database and of its log, the second a disk on which the log has room left from before.
///
/// # Errors
/// What a write would be refused with.
pub(crate) fn try_room(path: &Path, options: StoreOptions) -> Result<(), StoreError> {
    in_database(path, options).map_err(|error| failure::of_sqlite(&error, path))?;
    files::try_room(path, BYTES as usize)
}

fn in_database(path: &Path, options: StoreOptions) -> rusqlite::Result<()> {
    let connection = opening::writer(path, options)?;
    connection.pragma_update(None, "cache_size", PAGES_KEPT)?;
    connection.execute_batch("BEGIN IMMEDIATE")?;
    let tried = fill(&connection);
    // SQLite undoes a transaction for which there is no room by itself.
    if !connection.is_autocommit() {
        connection.execute_batch("ROLLBACK")?;
    }
    tried
}

fn fill(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch("CREATE TABLE room (bytes BLOB)")?;
    connection.execute("INSERT INTO room VALUES (randomblob(?1))", [BYTES]).map(drop)
}
