//! Removes what is settled, told and old. Nothing undelivered is ever removed (invariant 5).

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

/// Removes delegations that settled before `before` and are delivered or dismissed in all their units, and stops
/// that were asked for before it; steers go with their children. Says how many delegations that were.
pub(crate) fn prune(connection: &Connection, before: Timestamp) -> Result<usize, Failure> {
    let mut statement = connection.prepare_cached(
        "SELECT no FROM delegations d WHERE settled_at < ?1 AND NOT EXISTS \
         (SELECT 1 FROM units WHERE delegation = d.no AND place >= 0 AND state NOT IN ('delivered', 'dismissed'))",
    )?;
    let numbers = statement.query_map((before.0,), |row| row.get::<_, i64>(0))?;
    let numbers = numbers.collect::<Result<Vec<_>, _>>()?;
    for no in &numbers {
        remove(connection, *no)?;
    }
    connection
        .prepare_cached("DELETE FROM requests WHERE at < ?1 AND child IS NULL")?
        .execute((before.0,))?;
    Ok(numbers.len())
}

/// Removes one delegation with all that belongs to it.
pub(crate) fn remove(connection: &Connection, delegation: i64) -> Result<(), Failure> {
    for sql in DELETIONS {
        connection.prepare_cached(sql)?.execute((delegation,))?;
    }
    Ok(())
}
