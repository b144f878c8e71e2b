//! What comes to its end with the results of a unit: those that children of it had asked for and not read when they ended.

use super::delivery::{self, Entry};
use super::{claims, records};
use crate::failure::Failure;
use legwork_core::delivery::{DeliveryEvent, DeliveryState, Lead};
use legwork_core::ids::UnitId;
use legwork_core::time::Timestamp;
use rusqlite::Connection;
use std::collections::BTreeSet;

/// Units below ended children of a unit that are settled and not delivered or dismissed, at whatever depth.
const UNREAD: &str = "WITH RECURSIVE below (no) AS (\
     SELECT d.no FROM units w JOIN children c ON c.delegation = w.delegation AND c.unit = w.no \
       JOIN delegations d ON d.caller = c.id WHERE w.no = ?1 AND c.ended_at IS NOT NULL \
     UNION \
     SELECT d.no FROM below b JOIN children c ON c.delegation = b.no \
       JOIN delegations d ON d.caller = c.id WHERE c.ended_at IS NOT NULL\
   ) SELECT u.no, u.delegation FROM below b JOIN units u ON u.delegation = b.no \
     WHERE u.place >= 0 AND u.state IN ('ready', 'claimed', 'parked') ORDER BY u.no";

/// Delegations that ended children of a unit have made.
const CALLED: &str = "SELECT d.no FROM units w JOIN children c ON c.delegation = w.delegation AND c.unit = w.no \
     JOIN delegations d ON d.caller = c.id WHERE w.no = ?1 AND c.ended_at IS NOT NULL";

/// Delegations that ended children of a delegation have made.
const BELOW: &str = "SELECT d.no FROM children c JOIN delegations d ON d.caller = c.id \
     WHERE c.delegation = ?1 AND c.ended_at IS NOT NULL";

/// Lets what nobody has read below the unit with this number come to its end like it.
pub(super) fn follow(connection: &Connection, unit: i64, lead: Lead, at: Timestamp) -> Result<(), Failure> {
    let unread = unread(connection, unit)?;
    if unread.is_empty() {
        return Ok(());
    }
    let mut statement = connection.prepare_cached("SELECT id FROM units WHERE no = ?1")?;
    let id: String = statement.query_row((unit,), |row| row.get(0))?;
    let reason = lead.reason(&UnitId::from_stored(id));
    let entry = Entry { at, claimant: None, reason: &reason };
    for (no, state) in unread {
        let next = state.apply(DeliveryEvent::Followed(lead));
        let next = next.map_err(|error| Failure::corrupt(error.to_string()))?;
        claims::write(connection, no, &next, &entry)?;
    }
    Ok(())
}

/// What cannot be read was told to nobody, and neither was what is below it.
fn unread(connection: &Connection, unit: i64) -> Result<Vec<(i64, DeliveryState)>, Failure> {
    let mut statement = connection.prepare_cached(UNREAD)?;
    let units = statement.query_map((unit,), |row| Ok((row.get(0)?, row.get(1)?)))?;
    let units = units.collect::<Result<Vec<(i64, i64)>, _>>()?;
    if units.is_empty() {
        return Ok(Vec::new());
    }
    let told = told(connection, unit)?;
    let units = units.into_iter().filter(|(_, delegation)| told.contains(delegation));
    units.map(|(no, _)| Ok((no, state(connection, no)?))).collect()
}

/// The delegations below ended children of a unit that whoever reads its results reads too.
fn told(connection: &Connection, unit: i64) -> Result<BTreeSet<i64>, Failure> {
    let mut told = BTreeSet::new();
    let mut next = numbers(connection, CALLED, unit)?;
    while let Some(no) = next.pop() {
        if !told.contains(&no) && records::is_readable(connection, no)? {
            told.insert(no);
            next.extend(numbers(connection, BELOW, no)?);
        }
    }
    Ok(told)
}

fn numbers(connection: &Connection, sql: &str, of: i64) -> Result<Vec<i64>, Failure> {
    let mut statement = connection.prepare_cached(sql)?;
    let numbers = statement.query_map((of,), |row| row.get(0))?;
    Ok(numbers.collect::<Result<_, _>>()?)
}

fn state(connection: &Connection, unit: i64) -> Result<DeliveryState, Failure> {
    let mut statement =
        connection.prepare_cached("SELECT state, tries, claim, parked FROM units WHERE no = ?1")?;
    let mut rows = statement.query((unit,))?;
    let row = rows.next()?.ok_or_else(|| Failure::corrupt("a unit is gone that was there"))?;
    delivery::read(row, 0)
}
