//! Stops and steers on their way to whoever owns what they are aimed at, and what became of them.

use super::{fence, switches};
use crate::encoding::{counter, from_json, name, stored, to_json};
use crate::failure::Failure;
use legwork_core::ids::{ChildId, OwnerId, RequestId};
use legwork_core::ports::{Listed, News, StoreError};
use legwork_core::steering::{Asked, Fate, Request, RequestRecord, STEERS_WAITING_MAX, Scope, Wish};
use legwork_core::step::Actor;
use legwork_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row};

/// Who moves something, and when.
#[derive(Debug, Clone, Copy)]
pub(crate) struct By<'a> {
    pub(crate) owner: &'a OwnerId,
    pub(crate) at: Timestamp,
}

/// The child that a steer is for; nothing for a stop.
///
/// # Errors
/// `Conflict` for a steer that is aimed at anything but one child.
pub(crate) fn steered(request: &Request) -> Result<Option<ChildId>, StoreError> {
    match (&request.wish, &request.scope) {
        (Wish::Stop { .. }, _) => Ok(None),
        (Wish::Steer { .. }, Scope::Child(child)) => Ok(Some(child.clone())),
        (Wish::Steer { .. }, Scope::Delegation(_) | Scope::Unit(_) | Scope::Session(_) | Scope::All) => {
            Err(StoreError::Conflict(format!("{} is a steer, which only one child can take", request.id)))
        }
    }
}

/// Stores a request. The same one again is harmless: its id is its receipt.
pub(crate) fn ask(
    connection: &Connection,
    request: &Request,
    child: Option<&ChildId>,
    body: &str,
) -> Result<Asked, Failure> {
    let mut known = connection.prepare_cached("SELECT 1 FROM requests WHERE id = ?1")?;
    if known.exists((request.id.as_str(),))? {
        return Ok(Asked::Stored);
    }
    if let Some(child) = child {
        let mut statement =
            connection.prepare_cached("SELECT ended_at IS NULL FROM children WHERE id = ?1")?;
        match statement.query_row((child.as_str(),), |row| row.get(0)).optional()? {
            Some(true) => {}
            Some(false) => return Ok(Asked::Ended),
            None => return Ok(Asked::Unknown),
        }
        let mut waiting = connection
            .prepare_cached("SELECT count(*) FROM requests WHERE child = ?1 AND settled_at IS NULL")?;
        let waiting: i64 = waiting.query_row((child.as_str(),), |row| row.get(0))?;
        if counter(waiting) >= STEERS_WAITING_MAX as u64 {
            return Ok(Asked::Full);
        }
    }
    let mut statement =
        connection.prepare_cached("INSERT INTO requests (id, at, body, child) VALUES (?1, ?2, ?3, ?4)")?;
    statement.execute((request.id.as_str(), request.at.0, body, child.map(ChildId::as_str)))?;
    Ok(Asked::Stored)
}

/// The open requests with a number above `after`, in the order they were made, and the pause.
pub(crate) fn news(connection: &Connection, after: u64) -> Result<News, Failure> {
    let mut statement = connection.prepare_cached(
        "SELECT no, body, id FROM requests WHERE settled_at IS NULL AND no > ?1 ORDER BY no",
    )?;
    let mut rows = statement.query((stored(after),))?;
    let (mut requests, mut unreadable) = (Vec::new(), Vec::new());
    while let Some(row) = rows.next()? {
        let no = counter(row.get(0)?);
        match request(row, 1) {
            Ok(request) => requests.push((no, request)),
            Err(failure) if failure.is_damaged_row() => unreadable.push((no, id(row, 2)?)),
            Err(failure) => return Err(failure),
        }
    }
    Ok(News { requests, unreadable, pause: switches::pause(connection)? })
}

/// The requests that cannot be read, the first `most` of them.
pub(crate) fn unreadable(connection: &Connection, most: usize) -> Result<Vec<RequestId>, Failure> {
    let mut statement =
        connection.prepare_cached("SELECT body, fate, settled_at, id FROM requests ORDER BY no")?;
    let mut rows = statement.query(())?;
    let mut unreadable = Vec::new();
    while let Some(row) = rows.next()? {
        match record(row) {
            Ok(_) => {}
            Err(failure) if failure.is_damaged_row() => unreadable.push(id(row, 3)?),
            Err(failure) => return Err(failure),
        }
        if unreadable.len() == most {
            break;
        }
    }
    Ok(unreadable)
}

/// The steers of a child, oldest first.
pub(crate) fn of_child(
    connection: &Connection,
    child: &ChildId,
) -> Result<Listed<RequestRecord, RequestId>, Failure> {
    let mut statement = connection
        .prepare_cached("SELECT body, fate, settled_at, id FROM requests WHERE child = ?1 ORDER BY no")?;
    let mut rows = statement.query((child.as_str(),))?;
    let mut listed = Listed::default();
    while let Some(row) = rows.next()? {
        match record(row) {
            Ok(record) => listed.rows.push(record),
            Err(failure) if failure.is_damaged_row() => listed.unreadable.push(id(row, 3)?),
            Err(failure) => return Err(failure),
        }
    }
    Ok(listed)
}

fn request(row: &Row<'_>, column: usize) -> Result<Request, Failure> {
    from_json(&row.get::<_, String>(column)?)
}

fn id(row: &Row<'_>, column: usize) -> Result<RequestId, Failure> {
    Ok(RequestId::from_stored(name(row, column)?))
}

fn record(row: &Row<'_>) -> Result<RequestRecord, Failure> {
    let fate: Option<String> = row.get(1)?;
    Ok(RequestRecord {
        request: request(row, 0)?,
        fate: fate.map_or(Ok(Fate::Open), |fate| from_json(&fate))?,
        decided_at: row.get::<_, Option<i64>>(2)?.map(Timestamp),
    })
}

/// Marks a stop as carried out. The first mark stays.
pub(crate) fn settle(connection: &Connection, request: &RequestId, by: By<'_>) -> Result<(), Failure> {
    fence::known_owner(connection, by.owner)?;
    let mut known = connection.prepare_cached("SELECT child IS NULL FROM requests WHERE id = ?1")?;
    match known.query_row((request.as_str(),), |row| row.get(0)).optional()? {
        Some(true) => decide(connection, request, &Fate::CarriedOut, by),
        Some(false) => Err(Failure::conflict(format!("{request} is a steer, which is seen or missed"))),
        None => Err(Failure::conflict(format!("there is no request {request}"))),
    }
}

/// Refuses steers that are not for `actor`, are named twice, or are not open any more.
pub(crate) fn check_seen(
    connection: &Connection,
    actor: &Actor,
    seen: &[(RequestId, u32)],
) -> Result<(), Failure> {
    let mut open =
        connection.prepare_cached("SELECT child, settled_at IS NULL FROM requests WHERE id = ?1")?;
    for (place, (request, _)) in seen.iter().enumerate() {
        let found = open.query_row((request.as_str(),), |row| {
            Ok((row.get::<_, Option<String>>(0)?, row.get::<_, bool>(1)?))
        });
        let is_for_it = match (found.optional()?, actor) {
            (Some((Some(child), true)), Actor::Child(id)) => child == id.as_str(),
            (Some((Some(_) | None, _)) | None, Actor::Child(_) | Actor::Session(_)) => false,
        };
        if !is_for_it || seen[..place].iter().any(|(other, _)| other == request) {
            return Err(Failure::conflict(format!("{request} is not an open steer of {}", actor.as_str())));
        }
    }
    Ok(())
}

/// Marks steers as read.
pub(crate) fn mark_seen(
    connection: &Connection,
    seen: &[(RequestId, u32)],
    by: By<'_>,
) -> Result<(), Failure> {
    for (request, step) in seen {
        decide(connection, request, &Fate::Seen { step: *step }, by)?;
    }
    Ok(())
}

fn decide(
    connection: &Connection,
    request: &RequestId,
    fate: &Fate,
    By { owner, at }: By<'_>,
) -> Result<(), Failure> {
    let mut statement = connection.prepare_cached(
        "UPDATE requests SET fate = ?2, settled_by = ?3, settled_at = ?4 WHERE id = ?1 AND settled_at IS NULL",
    )?;
    statement.execute((request.as_str(), to_json(fate)?, owner.as_str(), at.0))?;
    Ok(())
}

/// Marks what a child that has settled did not read.
pub(crate) fn miss(
    connection: &Connection,
    child: &ChildId,
    By { owner, at }: By<'_>,
) -> Result<(), Failure> {
    let mut statement = connection.prepare_cached(
        "UPDATE requests SET fate = ?2, settled_by = ?3, settled_at = ?4 WHERE child = ?1 AND settled_at IS NULL",
    )?;
    statement.execute((child.as_str(), to_json(&Fate::Missed)?, owner.as_str(), at.0))?;
    Ok(())
}
