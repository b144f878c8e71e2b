//! Stops and steers on their way to whoever owns what they are aimed at.

use crate::encoding::{counter, from_json, stored};
use crate::failure::Failure;
use legwork_core::ids::{OwnerId, RequestId};
use legwork_core::steering::Request;
use legwork_core::time::Timestamp;
use rusqlite::Connection;

/// Stores a request. The same one again is harmless: its id is its receipt.
pub(crate) fn ask(connection: &Connection, request: &Request, body: &str) -> Result<(), Failure> {
    let mut statement = connection.prepare_cached(
        "INSERT INTO requests (id, at, body) VALUES (?1, ?2, ?3) ON CONFLICT (id) DO NOTHING",
    )?;
    statement.execute((request.id.as_str(), request.at.0, body))?;
    Ok(())
}

/// The open requests with a number above `after`, in the order they were made.
pub(crate) fn open_after(connection: &Connection, after: u64) -> Result<Vec<(u64, Request)>, Failure> {
    let mut statement = connection
        .prepare_cached("SELECT no, body FROM requests WHERE no > ?1 AND settled_by IS NULL ORDER BY no")?;
    let mut rows = statement.query((stored(after),))?;
    let mut open = Vec::new();
    while let Some(row) = rows.next()? {
        open.push((counter(row.get(0)?), from_json(&row.get::<_, String>(1)?)?));
    }
    Ok(open)
}

/// Marks a request as carried out. The first mark stays.
pub(crate) fn settle(
    connection: &Connection,
    request: &RequestId,
    owner: &OwnerId,
    at: Timestamp,
) -> Result<(), Failure> {
    let mut known = connection.prepare_cached("SELECT 1 FROM requests WHERE id = ?1")?;
    if !known.exists((request.as_str(),))? {
        return Err(Failure::conflict(format!("there is no request {request}")));
    }
    let mut statement = connection.prepare_cached(
        "UPDATE requests SET settled_by = ?2, settled_at = ?3 WHERE id = ?1 AND settled_by IS NULL",
    )?;
    statement.execute((request.as_str(), owner.as_str(), at.0))?;
    Ok(())
}
