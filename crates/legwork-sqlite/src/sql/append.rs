//! Appends facts to delegations: each append is applied whole or refused whole.

use super::draft::{Draft, Unfit, place};
use super::requests::By;
use super::{accept, fence};
use crate::encoding::{counter, stored, to_json};
use crate::failure::Failure;
use legwork_core::fact::{Append, Fact};
use legwork_core::ports::{AppendError, StoreError};
use rusqlite::{Connection, OptionalExtension};

/// An append with the text of its facts, made before the writer is asked.
pub(crate) struct Prepared {
    pub(crate) append: Append,
    pub(crate) bodies: Vec<String>,
}

impl Prepared {
    pub(crate) fn new(append: Append) -> Result<Self, StoreError> {
        let bodies = append.facts.iter().map(to_json).collect::<Result<_, _>>()?;
        Ok(Prepared { append, bodies })
    }
}

/// The row of a delegation, as far as appends need it.
struct Head {
    no: i64,
    owner: String,
    epoch: u64,
    seq: u64,
    unsettled: i64,
}

/// Applies each append, or says why not.
pub(crate) fn append_all(
    connection: &Connection,
    appends: &[Prepared],
) -> Result<Vec<Result<(), AppendError>>, Failure> {
    appends.iter().map(|prepared| settle(append_one(connection, prepared))).collect()
}

fn settle(answer: Result<(), Unfit>) -> Result<Result<(), AppendError>, Failure> {
    match answer {
        Ok(()) => Ok(Ok(())),
        Err(Unfit::Append(refusal)) => Ok(Err(refusal)),
        Err(Unfit::Store(failure)) => Err(failure),
    }
}

fn append_one(connection: &Connection, prepared: &Prepared) -> Result<(), Unfit> {
    let append = &prepared.append;
    if let Some(Fact::Accepted(accepted)) = append.facts.first() {
        return accept::accept(connection, prepared, accepted);
    }
    let stale = || Unfit::Append(AppendError::Stale(append.delegation.clone()));
    let head = head(connection, append.delegation.as_str())?.ok_or_else(stale)?;
    let is_current = head.seq == append.expected_seq
        && head.epoch == append.epoch.0
        && head.owner == append.owner.as_str();
    if !is_current || !fence::is_owner(connection, &append.owner)? {
        return Err(stale());
    }
    let mut draft = Draft::new(connection, head.no, head.unsettled);
    // Nothing of it is written yet, and the other appends have nothing to do with it.
    apply_facts(&mut draft, append, 0).map_err(|unfit| unfit.of_its_own(append.delegation.as_str()))?;
    draft.update_rows(By { owner: &append.owner, at: append.at })?;
    write_facts(connection, draft.no, prepared)?;
    Ok(update_head(connection, &draft, append)?)
}

/// Applies the facts from the `first` on to the draft.
pub(crate) fn apply_facts(draft: &mut Draft<'_>, append: &Append, first: usize) -> Result<(), Unfit> {
    for (index, fact) in (0u64..).zip(&append.facts).skip(first) {
        match fact {
            Fact::Accepted(_) => {
                return Err(Unfit::illegal("a delegation can only be accepted as its first fact"));
            }
            Fact::Moved { child, event, report } => {
                let report_seq = report.is_some().then(|| place(append.expected_seq + index));
                draft.move_child(child, *event, report_seq, append.at)?;
            }
            Fact::Noticed { child } => draft.notice(child)?,
            Fact::UnitSettled { unit } => draft.settle_unit(unit, append.at)?,
        }
    }
    Ok(())
}

/// Writes the facts themselves.
pub(crate) fn write_facts(connection: &Connection, no: i64, prepared: &Prepared) -> Result<(), Failure> {
    let append = &prepared.append;
    let mut statement = connection.prepare_cached(
        "INSERT INTO facts (delegation, seq, at, owner, epoch, body) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    )?;
    for (seq, body) in (append.expected_seq..).zip(&prepared.bodies) {
        let writer = (append.owner.as_str(), stored(append.epoch.0));
        statement.execute((no, place(seq), append.at.0, writer.0, writer.1, body.as_str()))?;
    }
    Ok(())
}

fn head(connection: &Connection, id: &str) -> Result<Option<Head>, Failure> {
    let mut statement = connection
        .prepare_cached("SELECT no, owner, epoch, seq, unsettled FROM delegations WHERE id = ?1")?;
    let head = statement.query_row((id,), |row| {
        Ok(Head {
            no: row.get(0)?,
            owner: row.get(1)?,
            epoch: counter(row.get(2)?),
            seq: counter(row.get(3)?),
            unsettled: row.get(4)?,
        })
    });
    Ok(head.optional()?)
}

/// The end of the last child is written by a statement of its own: only that one has an index to keep.
fn update_head(connection: &Connection, draft: &Draft<'_>, append: &Append) -> Result<(), Failure> {
    let seq = stored(append.expected_seq + append.facts.len() as u64);
    let mut statement =
        connection.prepare_cached("UPDATE delegations SET seq = ?2, unsettled = ?3 WHERE no = ?1")?;
    statement.execute((draft.no, seq, draft.unsettled))?;
    if draft.unsettled == 0 {
        let mut statement = connection
            .prepare_cached("UPDATE delegations SET settled_at = ?2 WHERE no = ?1 AND settled_at IS NULL")?;
        statement.execute((draft.no, append.at.0))?;
    }
    Ok(())
}
