//! Who may write for an actor: the check that keeps a late owner out (invariant 30). A process that was declared gone
//! writes for nobody, also before its work is taken over.

use crate::encoding::{counter, stored};
use crate::failure::Failure;
use legwork_core::ids::{ChildId, OwnerId, SessionId};
use legwork_core::ports::StoreError;
use legwork_core::step::{Actor, Fence};
use rusqlite::{Connection, OptionalExtension};

/// The number under which an actor's journal is kept: a child's row number, or a session's below zero. Refused when
/// the fence is not the current one.
pub(crate) fn pass(connection: &Connection, actor: &Actor, fence: &Fence) -> Result<i64, Failure> {
    match actor {
        Actor::Child(child) => pass_child(connection, child, fence),
        Actor::Session(session) => pass_session(connection, session, &fence.owner).map(|no| -no),
    }
}

/// The row number of a session that `owner` has open.
pub(crate) fn pass_session(
    connection: &Connection,
    session: &SessionId,
    owner: &OwnerId,
) -> Result<i64, Failure> {
    let mut statement = connection.prepare_cached("SELECT no, holder FROM sessions WHERE id = ?1")?;
    let found = statement.query_row((session.as_str(),), |row| Ok((row.get(0)?, row.get(1)?)));
    let (no, holder): (i64, Option<String>) =
        found.optional()?.ok_or_else(|| Failure::conflict(format!("there is no session {session}")))?;
    match holder {
        Some(holder) if holder == owner.as_str() => known_owner(connection, owner).map(|()| no),
        Some(holder) => {
            Err(StoreError::Fenced(format!("{session} is open in {holder}, not in {owner}")).into())
        }
        None => Err(StoreError::Fenced(format!("{session} is open nowhere, and not in {owner}")).into()),
    }
}

/// The row number of a child that `fence` may write for.
pub(crate) fn pass_child(connection: &Connection, child: &ChildId, fence: &Fence) -> Result<i64, Failure> {
    let mut owned = connection.prepare_cached(
        "SELECT c.no, d.owner = ?2 AND d.epoch = ?3 FROM children c JOIN delegations d ON d.no = c.delegation \
         WHERE c.id = ?1",
    )?;
    let found = owned.query_row((child.as_str(), fence.owner.as_str(), stored(fence.epoch.0)), |row| {
        Ok((row.get(0)?, row.get(1)?))
    });
    match found.optional()? {
        Some((no, true)) => known_owner(connection, &fence.owner).map(|()| no),
        Some((_, false)) => Err(fenced(connection, child, fence)?),
        None => Err(Failure::conflict(format!("there is no child {child}"))),
    }
}

/// The number under which an actor's journal is kept, for readers; `None` for an actor that is not known.
pub(crate) fn number(connection: &Connection, actor: &Actor) -> Result<Option<i64>, Failure> {
    match actor {
        Actor::Child(child) => {
            let mut statement = connection.prepare_cached("SELECT no FROM children WHERE id = ?1")?;
            Ok(statement.query_row((child.as_str(),), |row| row.get(0)).optional()?)
        }
        Actor::Session(session) => Ok(number_of_session(connection, session)?.map(|no| -no)),
    }
}

/// The row number of a session.
pub(crate) fn number_of_session(
    connection: &Connection,
    session: &SessionId,
) -> Result<Option<i64>, Failure> {
    let mut statement = connection.prepare_cached("SELECT no FROM sessions WHERE id = ?1")?;
    Ok(statement.query_row((session.as_str(),), |row| row.get(0)).optional()?)
}

/// Refuses a process that never entered or was declared gone.
pub(crate) fn known_owner(connection: &Connection, owner: &OwnerId) -> Result<(), Failure> {
    if is_owner(connection, owner)? {
        return Ok(());
    }
    let gone = "is not in this store, or was declared gone when its lease had run out";
    Err(StoreError::Fenced(format!("{owner} {gone}")).into())
}

/// Whether the process entered and was not declared gone.
pub(crate) fn is_owner(connection: &Connection, owner: &OwnerId) -> Result<bool, Failure> {
    let sql = "SELECT 1 FROM owners WHERE id = ?1 AND gone_at IS NULL";
    Ok(connection.prepare_cached(sql)?.exists((owner.as_str(),))?)
}

fn fenced(connection: &Connection, child: &ChildId, fence: &Fence) -> Result<Failure, Failure> {
    let mut statement = connection.prepare_cached(
        "SELECT d.owner, d.epoch FROM children c JOIN delegations d ON d.no = c.delegation WHERE c.id = ?1",
    )?;
    let (owner, epoch): (String, i64) =
        statement.query_row((child.as_str(),), |row| Ok((row.get(0)?, row.get(1)?)))?;
    let text = format!(
        "{child} belongs to {owner} in generation {}, not to {} in generation {}",
        counter(epoch),
        fence.owner,
        fence.epoch.0
    );
    Ok(StoreError::Fenced(text).into())
}
