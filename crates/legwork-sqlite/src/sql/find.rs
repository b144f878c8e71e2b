//! What an id, or the beginning of one, means.

use crate::failure::Failure;
use legwork_core::ids::{ChildId, DelegationId, SessionId, UnitId};
use legwork_core::ports::Found;
use rusqlite::Connection;

/// Everything whose id is `text` or, when nothing is, begins with it.
pub(crate) fn find(connection: &Connection, text: &str) -> Result<Vec<Found>, Failure> {
    if text.is_empty() {
        return Ok(Vec::new());
    }
    let exact = between(connection, text, text)?;
    if !exact.is_empty() {
        return Ok(exact);
    }
    // The last of all characters: every id that begins with the text sorts before this one.
    between(connection, text, &format!("{text}\u{10FFFF}"))
}

/// A unit is left out when its delegation is found too: the only unit of a delegation has the delegation's id, and
/// the others begin with it.
fn between(connection: &Connection, first: &str, last: &str) -> Result<Vec<Found>, Failure> {
    let mut found = Vec::new();
    collect(
        connection,
        "SELECT id, id FROM delegations WHERE id BETWEEN ?1 AND ?2 ORDER BY id",
        (first, last),
        |delegation, _| found.push(Found::Delegation(DelegationId::from_stored(delegation))),
    )?;
    collect(
        connection,
        "SELECT d.id, u.id FROM units u JOIN delegations d ON d.no = u.delegation \
         WHERE u.id BETWEEN ?1 AND ?2 AND u.place >= 0 AND NOT d.id BETWEEN ?1 AND ?2 ORDER BY u.id",
        (first, last),
        |delegation, unit| {
            found.push(Found::Unit(DelegationId::from_stored(delegation), UnitId::from_stored(unit)));
        },
    )?;
    collect(
        connection,
        "SELECT d.id, c.id FROM children c JOIN delegations d ON d.no = c.delegation \
         WHERE c.id BETWEEN ?1 AND ?2 ORDER BY c.id",
        (first, last),
        |delegation, child| {
            found.push(Found::Child(DelegationId::from_stored(delegation), ChildId::from_stored(child)));
        },
    )?;
    collect(
        connection,
        "SELECT id, id FROM sessions WHERE id BETWEEN ?1 AND ?2 ORDER BY id",
        (first, last),
        |session, _| found.push(Found::Session(SessionId::from_stored(session))),
    )?;
    Ok(found)
}

fn collect(
    connection: &Connection,
    sql: &str,
    range: (&str, &str),
    mut take: impl FnMut(String, String),
) -> Result<(), Failure> {
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query(range)?;
    while let Some(row) = rows.next()? {
        take(row.get(0)?, row.get(1)?);
    }
    Ok(())
}
