//! Looks the file over for `doctor`.

use crate::encoding::counter;
use crate::failure::Failure;
use crate::{files, schema};
use legwork_core::ports::StoreHealth;
use rusqlite::Connection;
use std::path::Path;

/// Problems that are told at most; a damaged file may have thousands.
const PROBLEMS_MAX: u32 = 20;

/// The state of the file.
pub(crate) fn health(connection: &Connection, path: &Path) -> Result<StoreHealth, Failure> {
    let mut statement = connection.prepare(&format!("PRAGMA integrity_check({PROBLEMS_MAX})"))?;
    let problems = statement.query_map((), |row| row.get::<_, String>(0))?.collect::<Result<Vec<_>, _>>()?;
    Ok(StoreHealth {
        location: path.display().to_string(),
        version: schema::version(connection)?,
        problems: problems.into_iter().filter(|problem| problem != "ok").collect(),
        open: count(connection, "SELECT count(*) FROM delegations WHERE settled_at IS NULL")?,
        undelivered: count(
            connection,
            "SELECT count(*) FROM units WHERE place >= 0 AND state IN ('ready', 'parked')",
        )?,
        bytes: files::bytes(path),
    })
}

fn count(connection: &Connection, sql: &str) -> Result<u64, Failure> {
    Ok(counter(connection.query_row(sql, (), |row| row.get(0))?))
}
