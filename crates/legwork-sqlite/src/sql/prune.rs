//! Removes what is settled, told and old. Nothing undelivered is ever removed (invariant 5).

use super::{delivery, records};
use crate::failure::Failure;
use legwork_core::time::Timestamp;
use rusqlite::Connection;

const DELETIONS: [&str; 6] = [
    "DELETE FROM requests WHERE child IN (SELECT id FROM children WHERE delegation = ?1)",
    "DELETE FROM steps WHERE actor IN (SELECT no FROM children WHERE delegation = ?1)",
    "DELETE FROM children WHERE delegation = ?1",
    "DELETE FROM units WHERE delegation = ?1",
    "DELETE FROM facts WHERE delegation = ?1",
    "DELETE FROM delegations WHERE no = ?1",
];

/// Delegations that go in one transaction. Others of the store wait as long as that takes, and journals can be large.
pub(crate) const SLICE: usize = 32;

/// Removes at most [`SLICE`] delegations that settled before `before` and whose units were all delivered or dismissed
/// before it; steers go with their children. What cannot be read stays. Says how many that were: fewer than a slice
/// when nothing more is old.
pub(crate) fn prune(connection: &Connection, before: Timestamp) -> Result<usize, Failure> {
    let mut statement = connection.prepare_cached(
        "SELECT no FROM delegations d WHERE settled_at < ?1 AND NOT EXISTS \
         (SELECT 1 FROM units WHERE delegation = d.no AND place >= 0 AND state NOT IN ('delivered', 'dismissed'))",
    )?;
    let told = statement.query_map((before.0,), |row| row.get::<_, i64>(0))?;
    let told = told.collect::<Result<Vec<_>, _>>()?;
    let mut removed = 0;
    for no in told {
        if removed == SLICE {
            break;
        }
        // What cannot be read may be mended, and then it is worth as much as it was. It is read whole only when it would go.
        if is_older(connection, no, before)? && records::is_readable(connection, no)? {
            remove(connection, no)?;
            removed += 1;
        }
    }
    Ok(removed)
}

/// Removes stops that were asked for before `before`. One that nobody has carried out stays while work is open that was
/// there when it was asked for: whoever goes on with that work reads it (invariant 11).
pub(crate) fn prune_stops(connection: &Connection, before: Timestamp) -> Result<(), Failure> {
    let mut statement = connection.prepare_cached(
        "DELETE FROM requests WHERE at < ?1 AND child IS NULL AND (settled_at IS NOT NULL OR NOT EXISTS \
         (SELECT 1 FROM delegations WHERE settled_at IS NULL AND accepted_at <= requests.at))",
    )?;
    statement.execute((before.0,))?;
    Ok(())
}

/// Whether all of its units had come to where they are before `before`, as far as that can be read.
fn is_older(connection: &Connection, delegation: i64, before: Timestamp) -> Result<bool, Failure> {
    match last_move(connection, delegation) {
        Ok(moved) => Ok(moved < before),
        Err(failure) if failure.is_damaged_row() => Ok(false),
        Err(failure) => Err(failure),
    }
}

/// When the last of its units came to where it is. A result that waited for long keeps its whole time from then on.
fn last_move(connection: &Connection, delegation: i64) -> Result<Timestamp, Failure> {
    let mut statement =
        connection.prepare_cached("SELECT ledger FROM units WHERE delegation = ?1 AND place >= 0")?;
    let mut rows = statement.query((delegation,))?;
    let mut latest = Timestamp(i64::MIN);
    while let Some(row) = rows.next()? {
        let ledger = delivery::read_ledger(&row.get::<_, String>(0)?)?;
        latest = latest.max(ledger.last().map_or(latest, |line| line.at));
    }
    Ok(latest)
}

/// Removes one delegation with all that belongs to it.
pub(crate) fn remove(connection: &Connection, delegation: i64) -> Result<(), Failure> {
    for sql in DELETIONS {
        connection.prepare_cached(sql)?.execute((delegation,))?;
    }
    Ok(())
}
