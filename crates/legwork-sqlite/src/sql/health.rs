//! Looks the file over for `doctor`.

use crate::encoding::{counter, name};
use crate::failure::Failure;
use crate::sql::{history, journal, records, requests, sessions};
use crate::{files, schema};
use legwork_core::ids::{ChildId, DelegationId, SessionId};
use legwork_core::ports::StoreHealth;
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
        journals: journals(connection)?,
        requests: requests::unreadable(connection, PROBLEMS_MAX as usize)?,
        sessions: conversations(connection)?,
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
    let damaged = damaged(connection, "SELECT no, id FROM delegations ORDER BY no", |no, _| {
        records::is_readable(connection, no)
    })?;
    Ok(damaged.into_iter().map(DelegationId::from_stored).collect())
}

/// Reads the journal of every child that may still be gone on with.
fn journals(connection: &Connection) -> Result<Vec<ChildId>, Failure> {
    let open = "SELECT no, id FROM children WHERE ended_at IS NULL ORDER BY no";
    let damaged = damaged(connection, open, |no, _| is_read(journal::of(connection, no)))?;
    Ok(damaged.into_iter().map(ChildId::from_stored).collect())
}

/// Reads every conversation, with the journal that it goes on from.
fn conversations(connection: &Connection) -> Result<Vec<SessionId>, Failure> {
    let damaged = damaged(connection, "SELECT no, id FROM sessions ORDER BY no", |no, id| {
        let id = SessionId::from_stored(id);
        Ok(is_read(sessions::session(connection, &id))?
            && is_read(history::messages(connection, &id))?
            && is_read(journal::of(connection, -no))?)
    })?;
    Ok(damaged.into_iter().map(SessionId::from_stored).collect())
}

/// The ids of the rows that `sql` names by number and id and that are not `fine`, the first of them.
fn damaged(
    connection: &Connection,
    sql: &str,
    fine: impl Fn(i64, &str) -> Result<bool, Failure>,
) -> Result<Vec<String>, Failure> {
    let mut statement = connection.prepare(sql)?;
    let mut rows = statement.query(())?;
    let mut damaged = Vec::new();
    while let Some(row) = rows.next()? {
        let id = name(row, 1)?;
        if !fine(row.get(0)?, &id)? {
            damaged.push(id);
        }
        if damaged.len() == PROBLEMS_MAX as usize {
            break;
        }
    }
    Ok(damaged)
}

fn is_read<T>(read: Result<T, Failure>) -> Result<bool, Failure> {
    match read {
        Ok(_) => Ok(true),
        Err(failure) if failure.is_damaged_row() => Ok(false),
        Err(failure) => Err(failure),
    }
}

fn count(connection: &Connection, sql: &str) -> Result<u64, Failure> {
    Ok(counter(connection.query_row(sql, (), |row| row.get(0))?))
}
