//! The process groups that commands run in. They stay stored until somebody has seen that they are gone, also when
//! their child's rows are pruned.

use super::fence;
use crate::encoding::{counter, small, stored};
use crate::failure::Failure;
use legwork_core::ids::{ChildId, OwnerId, SessionId};
use legwork_core::record::ProcessGroup;
use legwork_core::step::{Actor, Fence};
use rusqlite::{Connection, Row};

/// Stores a group before its command runs. The same group again is harmless.
pub(crate) fn note(
    connection: &Connection,
    fence: &Fence,
    actor: &Actor,
    group: &ProcessGroup,
) -> Result<(), Failure> {
    fence::pass(connection, actor, fence)?;
    let mut statement = connection.prepare_cached(
        "INSERT INTO process_groups (actor, kind, pgid, start_ticks, boot_id, owner) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT DO NOTHING",
    )?;
    let (ticks, boot) = (stored(group.start_ticks), group.boot_id.as_str());
    statement.execute((actor.as_str(), kind(actor), group.pgid, ticks, boot, fence.owner.as_str()))?;
    Ok(())
}

/// Forgets a group; one that is not stored is forgotten already.
pub(crate) fn forget(connection: &Connection, actor: &Actor, group: &ProcessGroup) -> Result<(), Failure> {
    let mut statement = connection.prepare_cached(
        "DELETE FROM process_groups WHERE actor = ?1 AND pgid = ?2 AND start_ticks = ?3 AND boot_id = ?4",
    )?;
    statement.execute((actor.as_str(), group.pgid, stored(group.start_ticks), group.boot_id.as_str()))?;
    Ok(())
}

/// The groups of `owner`, by actor.
pub(crate) fn of(connection: &Connection, owner: &OwnerId) -> Result<Vec<(Actor, ProcessGroup)>, Failure> {
    let mut statement = connection.prepare_cached(
        "SELECT actor, kind, pgid, start_ticks, boot_id FROM process_groups WHERE owner = ?1 \
         ORDER BY actor, pgid, start_ticks",
    )?;
    let mut rows = statement.query((owner.as_str(),))?;
    let mut groups = Vec::new();
    while let Some(row) = rows.next()? {
        groups.push((actor(row)?, group(row)?));
    }
    Ok(groups)
}

fn kind(actor: &Actor) -> &'static str {
    match actor {
        Actor::Child(_) => "child",
        Actor::Session(_) => "session",
    }
}

fn actor(row: &Row<'_>) -> Result<Actor, Failure> {
    let id: String = row.get(0)?;
    match row.get::<_, String>(1)?.as_str() {
        "child" => Ok(Actor::Child(ChildId::from_stored(id))),
        "session" => Ok(Actor::Session(SessionId::from_stored(id))),
        other => Err(Failure::corrupt(format!("a process group belongs to a {other}"))),
    }
}

fn group(row: &Row<'_>) -> rusqlite::Result<ProcessGroup> {
    Ok(ProcessGroup { pgid: small(row.get(2)?), start_ticks: counter(row.get(3)?), boot_id: row.get(4)? })
}
