//! Removes what is settled, told and old. Nothing undelivered is ever removed (invariant 5).

use crate::failure::Failure;
use legwork_core::time::Timestamp;
use rusqlite::Connection;

const DELETIONS: [&str; 5] = [
    "DELETE FROM steps WHERE actor IN (SELECT no FROM children WHERE delegation = ?1)",
    "DELETE FROM children WHERE delegation = ?1",
    "DELETE FROM units WHERE delegation = ?1",
    "DELETE FROM facts WHERE delegation = ?1",
    "DELETE FROM delegations WHERE no = ?1",
];

/// Removes delegations that settled before `before` and are delivered or dismissed in all their units, and requests
/// that were made before it. Says how many delegations that were.
pub(crate) fn prune(connection: &Connection, before: Timestamp) -> Result<usize, Failure> {
    let mut statement = connection.prepare_cached(
        "SELECT no FROM delegations d WHERE settled_at < ?1 AND NOT EXISTS \
         (SELECT 1 FROM units WHERE delegation = d.no AND state NOT IN ('delivered', 'dismissed'))",
    )?;
    let numbers = statement.query_map((before.0,), |row| row.get::<_, i64>(0))?;
    let numbers = numbers.collect::<Result<Vec<_>, _>>()?;
    for no in &numbers {
        for sql in DELETIONS {
            connection.prepare_cached(sql)?.execute((no,))?;
        }
    }
    connection.prepare_cached("DELETE FROM requests WHERE at < ?1")?.execute((before.0,))?;
    Ok(numbers.len())
}
