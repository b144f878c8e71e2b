//! What is due to a session: settled units whose results have not arrived, in the order in which they became ready.

use super::{delivery, notices};
use crate::encoding::{counter, from_json, name, stored};
use crate::failure::Failure;
use legwork_core::delivery::{DeliveryState, LedgerLine};
use legwork_core::ids::{DelegationId, SessionId, UnitId};
use legwork_core::ports::{Due, Listed, Portion, Undelivered};
use rusqlite::{Connection, Row};

/// Puts a unit that has become ready behind what is due to its session already.
pub(crate) fn enqueue(connection: &Connection, unit: i64) -> Result<(), Failure> {
    let mut statement = connection.prepare_cached(
        "UPDATE units SET due_to = d.session, due_no = 1 + coalesce(\
         (SELECT max(due_no) FROM units AS waiting WHERE waiting.due_to = d.session), 0) \
         FROM delegations d WHERE d.no = units.delegation AND units.no = ?1",
    )?;
    statement.execute((unit,))?;
    Ok(())
}

/// Takes a unit out that has been delivered or dismissed.
pub(crate) fn leave(connection: &Connection, unit: i64) -> Result<(), Failure> {
    let mut statement =
        connection.prepare_cached("UPDATE units SET due_to = NULL, due_no = NULL WHERE no = ?1")?;
    statement.execute((unit,))?;
    Ok(())
}

/// What is due to a session.
pub(crate) fn of(
    connection: &Connection,
    session: &SessionId,
) -> Result<Listed<Undelivered, UnitId>, Failure> {
    let due = portion(connection, session, 0, usize::MAX)?;
    Ok(Listed {
        rows: due.rows.into_iter().map(|due| due.due).collect(),
        unreadable: due.unreadable.into_iter().map(|(_, unit)| unit).collect(),
    })
}

/// What is due to a session behind a place, at most so much of it.
pub(crate) fn portion(
    connection: &Connection,
    session: &SessionId,
    after: u64,
    most: usize,
) -> Result<Portion, Failure> {
    let mut statement = connection.prepare_cached(
        "SELECT u.state, u.tries, u.claim, u.parked, u.ledger, d.id, u.id, d.reach, u.place, u.due_no \
         FROM units u JOIN delegations d ON d.no = u.delegation \
         WHERE u.due_to = ?1 AND u.due_no > ?2 ORDER BY u.due_no LIMIT ?3",
    )?;
    let mut rows = statement.query((session.as_str(), stored(after), stored(most as u64)))?;
    let mut due = Portion::default();
    while let Some(row) = rows.next()? {
        let place = counter(row.get(9)?);
        match undelivered(row) {
            Ok(undelivered) => due.rows.push(Due { place, due: undelivered }),
            Err(failure) if failure.is_damaged_row() => {
                due.unreadable.push((place, UnitId::from_stored(name(row, 6)?)));
            }
            Err(failure) => return Err(failure),
        }
    }
    Ok(due)
}

fn undelivered(row: &Row<'_>) -> Result<Undelivered, Failure> {
    let state = delivery::read(row, 0)?;
    let reach: Option<String> = row.get(7)?;
    let reach = reach.ok_or_else(|| Failure::corrupt("a delegation has lost the way to its session"))?;
    let claimant = match state {
        DeliveryState::Claimed { .. } => {
            let ledger = delivery::read_ledger(&row.get::<_, String>(4)?)?;
            ledger.last().and_then(|line: &LedgerLine| line.claimant.clone())
        }
        DeliveryState::Held
        | DeliveryState::Ready { .. }
        | DeliveryState::Parked(_)
        | DeliveryState::Delivered
        | DeliveryState::Dismissed => None,
    };
    Ok(Undelivered {
        delegation: DelegationId::from_stored(row.get::<_, String>(5)?),
        unit: UnitId::from_stored(row.get::<_, String>(6)?),
        notice: notices::task_of(row.get(8)?),
        reach: from_json(&reach)?,
        state,
        claimant,
    })
}
