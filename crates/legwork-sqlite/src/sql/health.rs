//! Looks the file over for `doctor`.

use crate::encoding::counter;
use crate::failure::Failure;
use crate::sql::records;
use crate::{files, schema};
use legwork_core::ids::DelegationId;
use legwork_core::ports::{StoreError, StoreHealth};
use rusqlite::Connection;
use std::path::Path;

/// Problems, and broken delegations, that are told at most; a damaged file may have thousands.
const PROBLEMS_MAX: u32 = 20;

/// Counts what belongs to nothing. Steps of sessions have the numbers of these below zero.
const STRAYS: &str = "SELECT \
    (SELECT count(*) FROM children WHERE delegation NOT IN (SELECT no FROM delegations)) \
    + (SELECT count(*) FROM units WHERE delegation NOT IN (SELECT no FROM delegations)) \
    + (SELECT count(*) FROM facts WHERE delegation NOT IN (SELECT no FROM delegations)) \
    + (SELECT count(*) FROM messages WHERE session NOT IN (SELECT no FROM sessions)) \
    + (SELECT count(*) FROM steps WHERE actor > 0 AND actor NOT IN (SELECT no FROM children)) \
    + (SELECT count(*) FROM steps WHERE actor < 0 AND -actor NOT IN (SELECT no FROM sessions))";

/// The state of the file.
pub(crate) fn health(connection: &Connection, path: &Path) -> Result<StoreHealth, Failure> {
    let mut statement = connection.prepare(&format!("PRAGMA integrity_check({PROBLEMS_MAX})"))?;
    let problems = statement.query_map((), |row| row.get::<_, String>(0))?.collect::<Result<Vec<_>, _>>()?;
    Ok(StoreHealth {
        location: path.display().to_string(),
        version: schema::version(connection)?,
        problems: problems.into_iter().filter(|problem| problem != "ok").collect(),
        broken: broken(connection)?,
        strays: count(connection, STRAYS)?,
        open: count(connection, "SELECT count(*) FROM delegations WHERE settled_at IS NULL")?,
        undelivered: count(
            connection,
            "SELECT count(*) FROM units WHERE place >= 0 AND state IN ('ready', 'parked')",
        )?,
        bytes: files::bytes(path),
    })
}

/// Reads every delegation there is, as whoever goes on with it would.
fn broken(connection: &Connection) -> Result<Vec<DelegationId>, Failure> {
    let mut statement = connection.prepare("SELECT id FROM delegations ORDER BY no")?;
    let ids = statement.query_map((), |row| row.get::<_, String>(0))?.collect::<Result<Vec<_>, _>>()?;
    let mut broken = Vec::new();
    for id in ids.into_iter().map(DelegationId::from_stored) {
        match records::one(connection, &id) {
            Ok(_) => {}
            Err(Failure::Refused(StoreError::Corrupt(_))) => broken.push(id),
            Err(failure) => return Err(failure),
        }
        if broken.len() == PROBLEMS_MAX as usize {
            break;
        }
    }
    Ok(broken)
}

fn count(connection: &Connection, sql: &str) -> Result<u64, Failure> {
    Ok(counter(connection.query_row(sql, (), |row| row.get(0))?))
}
