//! Switches that hold for every process of the store.

use crate::failure::Failure;
use legwork_core::ports::Pause;
use legwork_core::time::Timestamp;
use rusqlite::Connection;

/// No new children start.
const PAUSED: &str = "paused";

/// Whether new children may start.
pub(crate) fn pause(connection: &Connection) -> Result<Pause, Failure> {
    let is_on = connection.prepare_cached("SELECT 1 FROM switches WHERE name = ?1")?.exists((PAUSED,))?;
    Ok(if is_on { Pause::On } else { Pause::Off })
}

/// Says whether it stood otherwise before.
pub(crate) fn set_pause(connection: &Connection, pause: Pause, at: Timestamp) -> Result<bool, Failure> {
    let changed = match pause {
        Pause::On => {
            let mut statement = connection.prepare_cached(
                "INSERT INTO switches (name, since) VALUES (?1, ?2) ON CONFLICT (name) DO NOTHING",
            )?;
            statement.execute((PAUSED, at.0))?
        }
        Pause::Off => {
            connection.prepare_cached("DELETE FROM switches WHERE name = ?1")?.execute((PAUSED,))?
        }
    };
    Ok(changed > 0)
}
