//! Journals of steps, kept as a log: one row when a step begins, one when it ends.

use super::claims::{self, End};
use super::requests::{self, By};
use super::{fence, history};
use crate::encoding::{from_json, small, to_json};
use crate::failure::Failure;
use legwork_core::ids::{ClaimId, RequestId};
use legwork_core::ports::{StoreError, WriteSteps};
use legwork_core::step::{Actor, Fence, StepChange, StepRecord, StepState};
use legwork_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension};
use std::collections::BTreeSet;

const INTENDED: i64 = 0;
const DONE: i64 = 1;
const FAILED: i64 = 2;

/// A write with the text of its changes, made before the writer is asked.
pub(crate) struct Prepared {
    actor: Actor,
    fence: Fence,
    at: Timestamp,
    /// Those of the turn too.
    acknowledge: Vec<ClaimId>,
    turn: Option<history::Prepared>,
    seen: Vec<(RequestId, u32)>,
    rows: Vec<StepRow>,
}

struct StepRow {
    seq: u32,
    phase: i64,
    body: String,
}

impl Prepared {
    pub(crate) fn new(write: WriteSteps) -> Result<Self, StoreError> {
        let rows = write.changes.iter().map(row).collect::<Result<_, _>>()?;
        let WriteSteps { actor, fence, at, mut acknowledge, turn, seen, .. } = write;
        let turn = turn.map(history::Prepared::new).transpose()?;
        acknowledge.extend(turn.iter().flat_map(history::Prepared::claims).cloned());
        Ok(Prepared { actor, fence, at, acknowledge, turn, seen, rows })
    }
}

fn row(change: &StepChange) -> Result<StepRow, StoreError> {
    Ok(match change {
        StepChange::Intend { seq, action } => StepRow { seq: *seq, phase: INTENDED, body: to_json(action)? },
        StepChange::Finish { seq, product } => StepRow { seq: *seq, phase: DONE, body: to_json(product)? },
        StepChange::Fail { seq, error } => StepRow { seq: *seq, phase: FAILED, body: to_json(error)? },
    })
}

/// Writes the changes with all that is committed with them, all or nothing.
pub(crate) fn write(connection: &Connection, write: &Prepared) -> Result<(), Failure> {
    let actor = fence::pass(connection, &write.actor, &write.fence)?;
    check_order(connection, actor, &write.rows)?;
    let session = write.turn.as_ref().map(|turn| check_turn(connection, write, turn)).transpose()?;
    check_seen(connection, write)?;
    let endings = claims::check_all(connection, &write.acknowledge, &End::Acknowledge)?;
    let mut statement = connection
        .prepare_cached("INSERT INTO steps (actor, seq, phase, at, body) VALUES (?1, ?2, ?3, ?4, ?5)")?;
    for row in &write.rows {
        statement.execute((actor, row.seq, row.phase, write.at.0, row.body.as_str()))?;
    }
    if let Some((no, turn)) = session.zip(write.turn.as_ref()) {
        history::write(connection, no, turn)?;
    }
    requests::mark_seen(connection, &write.seen, By { owner: &write.fence.owner, at: write.at })?;
    claims::write_all(connection, &endings, &End::Acknowledge, write.at)
}

/// The number of the session whose history grows: the one whose journal it is.
fn check_turn(
    connection: &Connection,
    write: &Prepared,
    prepared: &history::Prepared,
) -> Result<i64, Failure> {
    let session = &prepared.turn().session;
    if write.actor != Actor::Session(session.clone()) {
        let actor = write.actor.as_str();
        return Err(Failure::conflict(format!(
            "a turn of {session} cannot be written with {actor}'s journal"
        )));
    }
    history::check(connection, prepared)
}

/// Steers are taken in by a step that begins in the same write.
fn check_seen(connection: &Connection, write: &Prepared) -> Result<(), Failure> {
    for (request, step) in &write.seen {
        if !write.rows.iter().any(|row| row.phase == INTENDED && row.seq == *step) {
            return Err(Failure::conflict(format!(
                "step {step}, which takes {request} in, does not begin here"
            )));
        }
    }
    requests::check_seen(connection, &write.actor, &write.seen)
}

/// A step begins at the next free place, and only a step that has begun and not ended can end.
fn check_order(connection: &Connection, actor: i64, rows: &[StepRow]) -> Result<(), Failure> {
    let mut next = None;
    let mut ended = BTreeSet::new();
    let first_here = rows.iter().filter(|row| row.phase == INTENDED).map(|row| row.seq).min();
    for row in rows {
        if row.phase == INTENDED {
            let free = next.map_or_else(|| next_free(connection, actor), Ok)?;
            if row.seq != free {
                return Err(Failure::conflict(format!(
                    "step {} cannot begin: the next one is {free}",
                    row.seq
                )));
            }
            next = Some(free + 1);
            continue;
        }
        let begun_here =
            first_here.is_some_and(|first| row.seq >= first) && next.is_some_and(|next| row.seq < next);
        let is_open = ended.insert(row.seq) && (begun_here || is_open(connection, actor, row.seq)?);
        if !is_open {
            return Err(Failure::conflict(format!(
                "step {} cannot end: it has not begun, or has ended",
                row.seq
            )));
        }
    }
    Ok(())
}

fn next_free(connection: &Connection, actor: i64) -> Result<u32, Failure> {
    let mut statement = connection.prepare_cached("SELECT max(seq) FROM steps WHERE actor = ?1")?;
    let last: Option<i64> = statement.query_row((actor,), |row| row.get(0))?;
    Ok(last.map_or(0, |last| small(last) + 1))
}

fn is_open(connection: &Connection, actor: i64, seq: u32) -> Result<bool, Failure> {
    let mut statement =
        connection.prepare_cached("SELECT max(phase) FROM steps WHERE actor = ?1 AND seq = ?2")?;
    let phase: Option<i64> = statement.query_row((actor, seq), |row| row.get(0)).optional()?.flatten();
    Ok(phase == Some(INTENDED))
}

/// A journal in order.
pub(crate) fn read(connection: &Connection, actor: &Actor) -> Result<Vec<StepRecord>, Failure> {
    let Some(no) = fence::number(connection, actor)? else { return Ok(Vec::new()) };
    of(connection, no).map_err(|failure| failure.reading(actor.as_str()))
}

/// The journal that is kept under a number.
pub(crate) fn of(connection: &Connection, actor: i64) -> Result<Vec<StepRecord>, Failure> {
    let mut statement = connection
        .prepare_cached("SELECT seq, phase, body FROM steps WHERE actor = ?1 ORDER BY seq, phase")?;
    let mut rows = statement.query((actor,))?;
    let mut steps: Vec<StepRecord> = Vec::new();
    while let Some(row) = rows.next()? {
        let (seq, phase, body): (i64, i64, String) = (row.get(0)?, row.get(1)?, row.get(2)?);
        if phase == INTENDED {
            steps.push(StepRecord { seq: small(seq), action: from_json(&body)?, state: StepState::Intended });
            continue;
        }
        let step = steps.last_mut().filter(|step| step.seq == small(seq));
        let step = step.ok_or_else(|| Failure::corrupt(format!("step {seq} of a journal ended unbegun")))?;
        step.state = if phase == DONE {
            StepState::Done(from_json(&body)?)
        } else {
            StepState::Failed(from_json(&body)?)
        };
    }
    Ok(steps)
}
