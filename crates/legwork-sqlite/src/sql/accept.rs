//! Accepts a delegation: its row, units, children and held deliveries in one go.

use super::append::{self, Prepared};
use super::delivery::{self, Columns, Entry};
use super::draft::{Draft, DraftChild, DraftUnit, Unfit};
use super::fence;
use crate::encoding::{stored, to_json};
use crate::failure::Failure;
use legwork_core::delivery::DeliveryState;
use legwork_core::fact::{Accepted, Append};
use legwork_core::ids::{CallKey, DelegationId};
use legwork_core::ports::AppendError;
use legwork_core::record::ChildRecord;
use rusqlite::{Connection, OptionalExtension};

/// Accepts `accepted`, which is the first fact of the append, and applies the facts that follow it.
pub(crate) fn accept(connection: &Connection, prepared: &Prepared, accepted: &Accepted) -> Result<(), Unfit> {
    let append = &prepared.append;
    check(connection, append, accepted)?;
    let unsettled = stored(accepted.children.len() as u64);
    let mut draft = Draft::new(connection, next_number(connection, "delegations")?, unsettled);
    fill(&mut draft, append, accepted)?;
    append::apply_facts(&mut draft, append, 1)?;
    insert_delegation(connection, &draft, prepared, accepted)?;
    append::write_facts(connection, draft.no, prepared)?;
    insert_units(connection, &draft)?;
    draft.enqueue_ready()?;
    Ok(insert_children(connection, &draft, accepted)?)
}

/// The delegation that was accepted under `key`.
pub(crate) fn by_call_key(connection: &Connection, key: &CallKey) -> Result<Option<DelegationId>, Failure> {
    let mut statement =
        connection.prepare_cached("SELECT id FROM delegations WHERE caller = ?1 AND call = ?2")?;
    let id = statement.query_row((key.caller.as_str(), key.call.as_str()), |row| row.get::<_, String>(0));
    Ok(id.optional()?.map(DelegationId::from_stored))
}

fn check(connection: &Connection, append: &Append, accepted: &Accepted) -> Result<(), Unfit> {
    if let Some(key) = &accepted.call_key
        && let Some(first) = by_call_key(connection, key)?
    {
        return Err(Unfit::Append(AppendError::Repeated(first)));
    }
    if is_taken(connection, accepted)? {
        return Err(Unfit::Append(AppendError::IdTaken(append.delegation.clone())));
    }
    if append.expected_seq != 0 {
        return Err(Unfit::Append(AppendError::Stale(append.delegation.clone())));
    }
    if !fence::is_owner(connection, &append.owner)? {
        return Err(Unfit::illegal(format!("{} is not in this store, or was declared gone", append.owner)));
    }
    if accepted.delegation != append.delegation {
        return Err(Unfit::illegal(format!("{} is accepted under another id", append.delegation)));
    }
    let session = &accepted.lineage.session;
    if accepted.reach.needs_session() && fence::number_of_session(connection, session)?.is_none() {
        return Err(Unfit::Append(AppendError::NoSession(session.clone())));
    }
    if !accepted.has_sound_shape() {
        return Err(Unfit::illegal("the units do not hold each task once, with one child of its own"));
    }
    Ok(())
}

/// Whether one of the ids is in use: they are drawn at random, so that any of them may be.
fn is_taken(connection: &Connection, accepted: &Accepted) -> Result<bool, Failure> {
    let mut delegation = connection.prepare_cached("SELECT 1 FROM delegations WHERE id = ?1")?;
    if delegation.exists((accepted.delegation.as_str(),))? {
        return Ok(true);
    }
    let mut unit_of = connection.prepare_cached("SELECT 1 FROM units WHERE id = ?1")?;
    for unit in &accepted.units {
        if unit_of.exists((unit.id.as_str(),))? {
            return Ok(true);
        }
    }
    let mut child_of = connection.prepare_cached("SELECT 1 FROM children WHERE id = ?1")?;
    for child in &accepted.children {
        if child_of.exists((child.as_str(),))? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn fill(draft: &mut Draft<'_>, append: &Append, accepted: &Accepted) -> Result<(), Unfit> {
    let first_unit = next_number(draft.connection(), "units")?;
    let first_child = next_number(draft.connection(), "children")?;
    let entry = Entry { at: append.at, claimant: None, reason: "accepted; waits for its subagents" };
    for (unit_no, unit) in (first_unit..).zip(&accepted.units) {
        let state = DeliveryState::Held;
        let ledger = entry.line(&state)?;
        let unsettled = stored(unit.task_indexes.len() as u64);
        draft.put_unit(unit_no, DraftUnit { id: unit.id.clone(), unsettled, state, ledger });
        for index in &unit.task_indexes {
            let id = accepted.children[*index].clone();
            let no = first_child + stored(*index as u64);
            draft.put_child(DraftChild { no, unit: unit_no, record: ChildRecord::new(id), report_seq: None });
        }
    }
    Ok(())
}

/// A number that no row of the table has.
pub(crate) fn next_number(connection: &Connection, table: &str) -> Result<i64, Failure> {
    let mut statement =
        connection.prepare_cached(&format!("SELECT coalesce(max(no), 0) + 1 FROM {table}"))?;
    Ok(statement.query_row((), |row| row.get(0))?)
}

fn insert_delegation(
    connection: &Connection,
    draft: &Draft<'_>,
    prepared: &Prepared,
    accepted: &Accepted,
) -> Result<(), Failure> {
    let append = &prepared.append;
    let mut statement = connection.prepare_cached(
        "INSERT INTO delegations (no, id, session, caller, call, owner, epoch, seq, unsettled, accepted_at, settled_at, reach) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
    )?;
    let key = accepted.call_key.as_ref();
    statement.execute((
        draft.no,
        accepted.delegation.as_str(),
        accepted.lineage.session.as_str(),
        key.map(|key| key.caller.as_str()),
        key.map(|key| key.call.as_str()),
        append.owner.as_str(),
        stored(append.epoch.0),
        stored(append.facts.len() as u64),
        draft.unsettled,
        append.at.0,
        (draft.unsettled == 0).then_some(append.at.0),
        to_json(&accepted.reach)?,
    ))?;
    Ok(())
}

fn insert_units(connection: &Connection, draft: &Draft<'_>) -> Result<(), Failure> {
    let mut statement = connection.prepare_cached(
        "INSERT INTO units (no, id, delegation, place, unsettled, state, tries, ledger) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
    )?;
    for (place, (no, unit)) in (0i64..).zip(draft.units()) {
        let Columns { state, tries, .. } = delivery::columns(&unit.state)?;
        let id = unit.id.as_str();
        statement.execute((no, id, draft.no, place, unit.unsettled, state, tries, unit.ledger.as_str()))?;
    }
    Ok(())
}

fn insert_children(connection: &Connection, draft: &Draft<'_>, accepted: &Accepted) -> Result<(), Failure> {
    let mut statement = connection.prepare_cached(
        "INSERT INTO children (no, id, delegation, task, unit, state, started_at, ended_at, report) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
    )?;
    for (task, id) in (0i64..).zip(&accepted.children) {
        let child = draft.known_child(id)?;
        let record = &child.record;
        statement.execute((
            child.no,
            id.as_str(),
            draft.no,
            task,
            child.unit,
            to_json(&record.state)?,
            record.started_at.map(|at| at.0),
            record.ended_at.map(|at| at.0),
            child.report_seq,
        ))?;
    }
    Ok(())
}
