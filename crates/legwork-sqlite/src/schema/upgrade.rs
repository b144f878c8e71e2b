//! Brings a file to the present version, one step after the other.

use super::backup;
use crate::encoding::small;
use crate::failure::Failure;
use legwork_core::ports::StoreError;
use rusqlite::Connection;
use std::path::Path;

/// Marks a SQLite file as ours: the letters `lgwk`.
const APPLICATION_ID: i64 = 0x6c67_776b;

/// The steps: the n-th makes version n + 1 out of version n.
const STEPS: &[&str] =
    &[include_str!("v1.sql"), include_str!("v2.sql"), include_str!("v3.sql"), include_str!("v4.sql")];

/// The version that this build reads and writes.
pub(crate) const VERSION: u32 = STEPS.len() as u32;

/// Refuses a file that is not ours or that a later legwork wrote. Nothing is changed.
pub(crate) fn check(connection: &Connection) -> Result<(), Failure> {
    // One look at all of it: between two, another process that makes the file may have committed.
    let snapshot = connection.unchecked_transaction()?;
    let application = pragma(&snapshot, "application_id")?;
    let found = version(&snapshot)?;
    let is_blank = snapshot.query_row("SELECT count(*) = 0 FROM sqlite_schema", (), |row| row.get(0))?;
    if application != APPLICATION_ID && !(application == 0 && found == 0 && is_blank) {
        return Err(Failure::corrupt("the file is a database of another program"));
    }
    let location = connection.path().unwrap_or_default().to_owned();
    let number = pragma(&snapshot, "user_version")?;
    if number < 0 || number == 0 && !is_blank {
        return Err(Failure::corrupt(format!(
            "{location} has the version number {number}, which no legwork writes: something else has changed it. With a copy kept, \
             `PRAGMA user_version = {VERSION}` in the SQLite shell makes it that of this legwork"
        )));
    }
    if found > VERSION {
        return Err(StoreError::Newer { location, found, known: VERSION }.into());
    }
    Ok(())
}

/// Refuses what [`check`] refuses, and a file of an older version: it cannot be brought up where nothing can be written, which
/// is so because of `why`.
pub(crate) fn check_present(connection: &Connection, why: &StoreError) -> Result<(), Failure> {
    check(connection)?;
    let found = version(connection)?;
    if found == VERSION {
        return Ok(());
    }
    let text = format!(
        "it has version {found} and must be brought to version {VERSION} before it can be looked at: {why}"
    );
    let told =
        if matches!(why, StoreError::Full(_)) { StoreError::Full(text) } else { StoreError::ReadOnly(text) };
    Err(told.into())
}

/// The version of the file; 0 for an empty one.
pub(crate) fn version(connection: &Connection) -> Result<u32, Failure> {
    Ok(small(pragma(connection, "user_version")?))
}

/// Applies the steps that are missing. A copy of the file is kept before each, unless the file was empty.
pub(crate) fn bring_up(connection: &Connection, path: &Path) -> Result<(), Failure> {
    apply(connection, path, STEPS)
}

fn apply(connection: &Connection, path: &Path, steps: &[&str]) -> Result<(), Failure> {
    if version(connection)? == 0 {
        locked(connection, || create(connection, steps))?;
    }
    for (from, step) in (0u32..).zip(steps) {
        if version(connection)? == from {
            locked(connection, || apply_locked(connection, path, from, step))?;
        }
    }
    Ok(())
}

/// Under the write lock, so that of two processes that open the file at once the second finds the work done.
fn locked(connection: &Connection, apply: impl FnOnce() -> Result<(), Failure>) -> Result<(), Failure> {
    connection.execute_batch("BEGIN IMMEDIATE")?;
    match apply() {
        Ok(()) => connection.execute_batch("COMMIT")?,
        Err(failure) => {
            if !connection.is_autocommit() {
                connection.execute_batch("ROLLBACK")?;
            }
            return Err(failure);
        }
    }
    Ok(())
}

/// Brings a file that holds nothing to the last version at once: there is nothing to keep a copy of.
fn create(connection: &Connection, steps: &[&str]) -> Result<(), Failure> {
    if version(connection)? != 0 {
        return Ok(());
    }
    for step in steps {
        connection.execute_batch(step)?;
    }
    mark(connection, small(steps.len() as i64))
}

fn apply_locked(connection: &Connection, path: &Path, from: u32, step: &str) -> Result<(), Failure> {
    if version(connection)? != from {
        return Ok(());
    }
    backup::keep(path, from)?;
    connection.execute_batch(step)?;
    mark(connection, from + 1)
}

fn mark(connection: &Connection, version: u32) -> Result<(), Failure> {
    connection.pragma_update(None, "application_id", APPLICATION_ID)?;
    connection.pragma_update(None, "user_version", version)?;
    Ok(())
}

fn pragma(connection: &Connection, name: &str) -> rusqlite::Result<i64> {
    connection.pragma_query_value(None, name, |row| row.get(0))
}

#[cfg(test)]
#[path = "upgrade_tests.rs"]
mod tests;
