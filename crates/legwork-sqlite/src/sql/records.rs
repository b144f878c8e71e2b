//! Delegations as the port gives them back: rows put together, nothing computed.

use super::{delivery, notices, owners};
use crate::encoding::{counter, from_json, name, stored};
use crate::failure::Failure;
use legwork_core::fact::{Accepted, Fact};
use legwork_core::ids::{ChildId, DelegationId, Epoch};
use legwork_core::ports::{Filter, Listed};
use legwork_core::record::{ChildRecord, DelegationRecord, DeliveryRecord};
use legwork_core::report::Report;
use legwork_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row};

/// One delegation.
pub(crate) fn one(connection: &Connection, id: &DelegationId) -> Result<Option<DelegationRecord>, Failure> {
    let mut statement = connection.prepare_cached("SELECT no FROM delegations WHERE id = ?1")?;
    let no: Option<i64> = statement.query_row((id.as_str(),), |row| row.get(0)).optional()?;
    no.map(|no| record(connection, no).map_err(|failure| failure.reading(id.as_str()))).transpose()
}

/// Whether all that is stored of a delegation can be read.
pub(crate) fn is_readable(connection: &Connection, no: i64) -> Result<bool, Failure> {
    match record(connection, no) {
        Ok(_) => Ok(true),
        Err(failure) if failure.is_damaged_row() => Ok(false),
        Err(failure) => Err(failure),
    }
}

/// Many delegations, newest first, beside those that cannot be read.
pub(crate) fn many(
    connection: &Connection,
    filter: &Filter,
) -> Result<Listed<DelegationRecord, DelegationId>, Failure> {
    let numbers = match filter {
        Filter::Open => numbers(
            connection,
            "SELECT no, id FROM delegations WHERE settled_at IS NULL ORDER BY no DESC",
            (),
        ),
        Filter::Recent(most) => {
            let most = stored(*most as u64);
            numbers(connection, "SELECT no, id FROM delegations ORDER BY no DESC LIMIT ?1", (most,))
        }
        Filter::OpenOf(session) => numbers(
            connection,
            "SELECT no, id FROM delegations WHERE settled_at IS NULL AND session = ?1 ORDER BY no DESC",
            (session.as_str(),),
        ),
        Filter::Of(session) => numbers(
            connection,
            "SELECT no, id FROM delegations WHERE session = ?1 ORDER BY no DESC",
            (session.as_str(),),
        ),
        Filter::Below(id) => numbers(
            connection,
            "SELECT no, id FROM delegations WHERE caller IN (SELECT c.id FROM children c \
             JOIN delegations d ON d.no = c.delegation WHERE d.id = ?1) ORDER BY no DESC",
            (id.as_str(),),
        ),
    };
    let mut listed = Listed::default();
    for (no, id) in numbers? {
        match record(connection, no) {
            Ok(record) => listed.rows.push(record),
            Err(failure) if failure.is_damaged_row() => {
                listed.unreadable.push(DelegationId::from_stored(id));
            }
            Err(failure) => return Err(failure),
        }
    }
    Ok(listed)
}

fn numbers(
    connection: &Connection,
    sql: &str,
    parameters: impl rusqlite::Params,
) -> Result<Vec<(i64, String)>, Failure> {
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query(parameters)?;
    let mut numbers = Vec::new();
    while let Some(row) = rows.next()? {
        numbers.push((row.get(0)?, name(row, 1)?));
    }
    Ok(numbers)
}

fn record(connection: &Connection, no: i64) -> Result<DelegationRecord, Failure> {
    let mut statement = connection.prepare_cached(
        "SELECT o.id, o.boot_id, o.pid, o.start_ticks, o.gone_at IS NOT NULL, d.accepted_at, d.epoch, d.seq, f.body, d.id \
         FROM delegations d JOIN owners o ON o.id = d.owner JOIN facts f ON f.delegation = d.no AND f.seq = 0 \
         WHERE d.no = ?1",
    )?;
    let mut rows = statement.query((no,))?;
    let row = rows.next()?.ok_or_else(|| Failure::corrupt("a delegation has lost its acceptance"))?;
    let record = DelegationRecord {
        accepted: accepted(row)?,
        accepted_at: Timestamp(row.get(5)?),
        owner: owners::record(row, 0)?,
        epoch: Epoch(counter(row.get(6)?)),
        seq: counter(row.get(7)?),
        children: children(connection, no)?,
        deliveries: deliveries(connection, no)?,
        notices: notices::of(connection, no)?,
    };
    let id: String = row.get(9)?;
    if record.accepted.delegation.as_str() != id || !record.is_whole() {
        return Err(Failure::corrupt(format!("the rows of {id} do not belong together")));
    }
    Ok(record)
}

fn accepted(row: &Row<'_>) -> Result<Accepted, Failure> {
    match from_json(&row.get::<_, String>(8)?)? {
        Fact::Accepted(accepted) => Ok(*accepted),
        Fact::Moved { .. } | Fact::Noticed { .. } | Fact::UnitSettled { .. } => {
            Err(Failure::corrupt("the first fact of a delegation is not its acceptance"))
        }
    }
}

fn children(connection: &Connection, no: i64) -> Result<Vec<ChildRecord>, Failure> {
    let mut statement = connection.prepare_cached(
        "SELECT c.id, c.state, c.started_at, c.ended_at, c.pulse, c.pulse_at, f.body \
         FROM children c LEFT JOIN facts f ON f.delegation = c.delegation AND f.seq = c.report \
         WHERE c.delegation = ?1 ORDER BY c.task",
    )?;
    let mut rows = statement.query((no,))?;
    let mut children = Vec::new();
    while let Some(row) = rows.next()? {
        children.push(child(row)?);
    }
    Ok(children)
}

fn child(row: &Row<'_>) -> Result<ChildRecord, Failure> {
    let pulse: Option<String> = row.get(4)?;
    let pulse_at: Option<i64> = row.get(5)?;
    let pulse = pulse.zip(pulse_at).map(|(pulse, at)| Ok::<_, Failure>((from_json(&pulse)?, Timestamp(at))));
    Ok(ChildRecord {
        id: ChildId::from_stored(row.get::<_, String>(0)?),
        state: from_json(&row.get::<_, String>(1)?)?,
        started_at: row.get::<_, Option<i64>>(2)?.map(Timestamp),
        ended_at: row.get::<_, Option<i64>>(3)?.map(Timestamp),
        report: report(row)?,
        pulse: pulse.transpose()?,
    })
}

fn report(row: &Row<'_>) -> Result<Option<Report>, Failure> {
    let Some(body) = row.get::<_, Option<String>>(6)? else { return Ok(None) };
    match from_json(&body)? {
        Fact::Moved { report, .. } => Ok(report.map(|report| *report)),
        Fact::Accepted(_) | Fact::Noticed { .. } | Fact::UnitSettled { .. } => {
            Err(Failure::corrupt("a child's report is not where its row says"))
        }
    }
}

fn deliveries(connection: &Connection, no: i64) -> Result<Vec<DeliveryRecord>, Failure> {
    let mut statement = connection.prepare_cached(
        "SELECT state, tries, claim, parked, ledger FROM units WHERE delegation = ?1 AND place >= 0 ORDER BY place",
    )?;
    let mut rows = statement.query((no,))?;
    let mut deliveries = Vec::new();
    while let Some(row) = rows.next()? {
        deliveries.push(delivery::record(row)?);
    }
    Ok(deliveries)
}
