//! What comes to its end with the results of a unit: those that children of it had asked for and not read when they ended.

use super::claims;
use super::delivery::{self, Entry};
use crate::failure::Failure;
use legwork_core::delivery::{DeliveryEvent, DeliveryState, Lead};
use legwork_core::ids::UnitId;
use legwork_core::time::Timestamp;
use rusqlite::Connection;

/// Units below ended children of a unit that are settled and not delivered or dismissed, at whatever depth.
const UNREAD: &str = "WITH RECURSIVE below (no) AS (\
     SELECT d.no FROM units w JOIN children c ON c.delegation = w.delegation AND c.unit = w.no \
       JOIN delegations d ON d.caller = c.id WHERE w.no = ?1 AND c.ended_at IS NOT NULL \
     UNION \
     SELECT d.no FROM below b JOIN children c ON c.delegation = b.no \
       JOIN delegations d ON d.caller = c.id WHERE c.ended_at IS NOT NULL\
   ) SELECT u.state, u.tries, u.claim, u.parked, u.no FROM below b JOIN units u ON u.delegation = b.no \
     WHERE u.place >= 0 AND u.state IN ('ready', 'claimed', 'parked') ORDER BY u.no";

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

fn unread(connection: &Connection, unit: i64) -> Result<Vec<(i64, DeliveryState)>, Failure> {
    let mut statement = connection.prepare_cached(UNREAD)?;
    let mut rows = statement.query((unit,))?;
    let mut unread = Vec::new();
    while let Some(row) = rows.next()? {
        unread.push((row.get(4)?, delivery::read(row, 0)?));
    }
    Ok(unread)
}
