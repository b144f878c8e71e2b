//! The notices of early failures. They are rows among the units, with a place below zero, so that they are claimed, given
//! back and delivered by the same statements; nothing that asks for units sees them (NOTE-4).

use super::delivery::{self, Columns, Entry};
use super::{accept, due};
use crate::failure::Failure;
use legwork_core::delivery::{DeliveryEvent, DeliveryState, NOTICE_LATE};
use legwork_core::ids::{ChildId, UnitId};
use legwork_core::record::NoticeRecord;
use legwork_core::time::Timestamp;
use rusqlite::Connection;

/// What the ledger says of a new one.
const FAILED_EARLY: &str = "the subagent has failed and others of its unit go on";

/// The position of the task that a row tells of, or nothing when it is a unit.
pub(crate) fn task_of(place: i64) -> Option<usize> {
    usize::try_from(-1 - place).ok()
}

/// Makes the notice of a child ready.
pub(crate) fn insert(
    connection: &Connection,
    delegation: i64,
    child: &ChildId,
    at: Timestamp,
) -> Result<(), Failure> {
    let mut statement = connection.prepare_cached("SELECT task FROM children WHERE id = ?1")?;
    let task: i64 = statement.query_row((child.as_str(),), |row| row.get(0))?;
    let no = accept::next_number(connection, "units")?;
    let ready = DeliveryState::Ready { tries: 0 };
    let ledger = Entry { at, claimant: None, reason: FAILED_EARLY }.line(&ready)?;
    let Columns { state, tries, .. } = delivery::columns(&ready)?;
    let mut statement = connection.prepare_cached(
        "INSERT INTO units (no, id, delegation, place, unsettled, state, tries, ledger) VALUES (?1, ?2, ?3, ?4, 0, ?5, ?6, ?7)",
    )?;
    let id = UnitId::notice(child);
    statement.execute((no, id.as_str(), delegation, -1 - task, state, tries, ledger))?;
    due::enqueue(connection, no)
}

/// Dismisses what nobody has taken of the notices of a unit that has settled.
pub(crate) fn withdraw(connection: &Connection, unit: i64, at: Timestamp) -> Result<(), Failure> {
    let mut statement = connection.prepare_cached(
        "SELECT n.state, n.tries, n.claim, n.parked, n.no FROM units u \
         JOIN units n ON n.delegation = u.delegation AND n.place < 0 \
         JOIN children c ON c.delegation = u.delegation AND c.task = -1 - n.place AND c.unit = u.no \
         WHERE u.no = ?1",
    )?;
    let mut rows = statement.query((unit,))?;
    let mut late = Vec::new();
    while let Some(row) = rows.next()? {
        let state = match delivery::read(row, 0) {
            Ok(state) => state,
            // It stays as it is; the unit does not depend on it.
            Err(failure) if failure.is_damaged_row() => continue,
            Err(failure) => return Err(failure),
        };
        // One that is taken goes its way.
        if let Ok(next) = state.apply(DeliveryEvent::Dismissed) {
            late.push((row.get::<_, i64>(4)?, next));
        }
    }
    for (no, next) in late {
        let line = Entry { at, claimant: None, reason: NOTICE_LATE }.line(&next)?;
        let Columns { state, tries, claim, parked } = delivery::columns(&next)?;
        let mut statement = connection.prepare_cached(
            "UPDATE units SET state = ?2, tries = ?3, claim = ?4, parked = ?5, ledger = ledger || ?6 WHERE no = ?1",
        )?;
        statement.execute((no, state, tries, claim, parked, line))?;
        due::leave(connection, no)?;
    }
    Ok(())
}

/// The notices of a delegation, in the order of their tasks.
pub(crate) fn of(connection: &Connection, delegation: i64) -> Result<Vec<NoticeRecord>, Failure> {
    let mut statement = connection.prepare_cached(
        "SELECT state, tries, claim, parked, ledger, place FROM units WHERE delegation = ?1 AND place < 0 ORDER BY place DESC",
    )?;
    let mut rows = statement.query((delegation,))?;
    let mut notices = Vec::new();
    while let Some(row) = rows.next()? {
        let task_index = task_of(row.get(5)?);
        let task_index = task_index.ok_or_else(|| Failure::corrupt("a notice tells of no task"))?;
        notices.push(NoticeRecord { task_index, delivery: delivery::record(row)? });
    }
    Ok(notices)
}
