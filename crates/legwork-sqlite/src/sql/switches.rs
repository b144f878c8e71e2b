//! Switches that hold for every process of the store.

use crate::failure::Failure;
use legwork_core::time::Timestamp;
use rusqlite::Connection;

/// No new children start.
pub(crate) const PAUSED: &str = "paused";

/// Whether a switch is on.
pub(crate) fn is_on(connection: &Connection, name: &str) -> Result<bool, Failure> {
    Ok(connection.prepare_cached("SELECT 1 FROM switches WHERE name = ?1")?.exists((name,))?)
}

/// Turns a switch; says whether it stood otherwise before.
pub(crate) fn set(connection: &Connection, name: &str, on: bool, at: Timestamp) -> Result<bool, Failure> {
    let changed = if on {
        let mut statement = connection.prepare_cached(
            "INSERT INTO switches (name, since) VALUES (?1, ?2) ON CONFLICT (name) DO NOTHING",
        )?;
        statement.execute((name, at.0))?
    } else {
        connection.prepare_cached("DELETE FROM switches WHERE name = ?1")?.execute((name,))?
    };
    Ok(changed > 0)
}
