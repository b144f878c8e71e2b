//! The processes that own work, and the hand-over from a dead one.

use super::{fence, pulses};
use crate::encoding::{counter, small, stored};
use crate::failure::Failure;
use legwork_core::ids::{ChildId, DelegationId, Epoch, OwnerId};
use legwork_core::ports::Takeover;
use legwork_core::record::{Lease, OwnerRecord, Process};
use legwork_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row};
use std::time::Duration;

/// Records a process. Entering again is harmless.
pub(crate) fn enter(connection: &Connection, owner: &OwnerRecord, at: Timestamp) -> Result<(), Failure> {
    let mut statement = connection.prepare_cached(
        "INSERT INTO owners (id, boot_id, pid, start_ticks, entered_at) VALUES (?1, ?2, ?3, ?4, ?5) \
         ON CONFLICT (id) DO NOTHING",
    )?;
    let process = &owner.process;
    statement.execute((
        owner.id.as_str(),
        process.boot_id.as_str(),
        process.pid,
        stored(process.start_ticks),
        at.0,
    ))?;
    Ok(())
}

/// One process that entered.
pub(crate) fn find(connection: &Connection, id: &OwnerId) -> Result<Option<OwnerRecord>, Failure> {
    let mut statement = connection.prepare_cached(
        "SELECT id, boot_id, pid, start_ticks, gone_at IS NOT NULL FROM owners WHERE id = ?1",
    )?;
    Ok(statement.query_row((id.as_str(),), |row| record(row, 0)).optional()?)
}

/// The processes that own a delegation with a child that has not settled, or a process group that is stored.
pub(crate) fn of_open(connection: &Connection) -> Result<Vec<OwnerRecord>, Failure> {
    let mut statement = connection.prepare_cached(
        "SELECT id, boot_id, pid, start_ticks, gone_at IS NOT NULL FROM owners \
         WHERE id IN (SELECT owner FROM delegations WHERE settled_at IS NULL) \
            OR id IN (SELECT owner FROM process_groups) ORDER BY id",
    )?;
    let mut rows = statement.query(())?;
    let mut owners = Vec::new();
    while let Some(row) = rows.next()? {
        match record(row, 0).map_err(Failure::from) {
            Ok(owner) => owners.push(owner),
            // Its work cannot be read either, and is named there.
            Err(failure) if failure.is_damaged_row() => {}
            Err(failure) => return Err(failure),
        }
    }
    Ok(owners)
}

/// An owner from five columns that begin at `first`.
pub(crate) fn record(row: &Row<'_>, first: usize) -> rusqlite::Result<OwnerRecord> {
    let process = Process {
        boot_id: row.get(first + 1)?,
        pid: small(row.get(first + 2)?),
        start_ticks: counter(row.get(first + 3)?),
    };
    let (id, gone) = (OwnerId::from_stored(row.get::<_, String>(first)?), row.get(first + 4)?);
    Ok(OwnerRecord { id, process, gone })
}

/// Moves the open delegations of the one owner to the other under raised epochs, with the pulses of their children.
pub(crate) fn take_over(
    connection: &Connection,
    Takeover { from, to, delegations, at, .. }: &Takeover,
    pulses: &[(ChildId, String)],
) -> Result<Vec<(DelegationId, Epoch)>, Failure> {
    fence::known_owner(connection, to)?;
    let mut statement = connection.prepare_cached(
        "UPDATE delegations SET owner = ?2, epoch = epoch + 1 \
         WHERE id = ?3 AND owner = ?1 AND settled_at IS NULL RETURNING epoch, no",
    )?;
    let mut taken = Vec::new();
    for id in delegations {
        let moved = statement.query_row((from.as_str(), to.as_str(), id.as_str()), |row| {
            Ok((Epoch(counter(row.get(0)?)), row.get::<_, i64>(1)?))
        });
        if let Some((epoch, no)) = moved.optional()? {
            pulses::note_of(connection, no, *at, pulses)?;
            taken.push((id.clone(), epoch));
        }
    }
    Ok(taken)
}

/// Renews the lease of a process, unless it was declared gone.
pub(crate) fn renew(
    connection: &Connection,
    owner: &OwnerId,
    (period, at): (Duration, Timestamp),
) -> Result<(), Failure> {
    let period = u64::try_from(period.as_millis()).unwrap_or(u64::MAX);
    let mut statement = connection.prepare_cached(
        "UPDATE owners SET beats = beats + 1, period_ms = ?2, renewed_at = ?3 WHERE id = ?1 AND gone_at IS NULL",
    )?;
    if statement.execute((owner.as_str(), stored(period), at.0))? == 0 {
        fence::known_owner(connection, owner)?;
    }
    Ok(())
}

/// The lease of a process that has one.
pub(crate) fn lease(connection: &Connection, owner: &OwnerId) -> Result<Option<Lease>, Failure> {
    let mut statement = connection.prepare_cached(
        "SELECT beats, period_ms, renewed_at FROM owners WHERE id = ?1 AND period_ms IS NOT NULL",
    )?;
    let lease = statement.query_row((owner.as_str(),), |row| {
        let period = Duration::from_millis(counter(row.get(1)?));
        Ok(Lease { beats: counter(row.get(0)?), period, renewed_at: Timestamp(row.get(2)?) })
    });
    Ok(lease.optional()?)
}

/// Declares a process gone that did not renew its lease since it was seen.
pub(crate) fn declare_gone(
    connection: &Connection,
    owner: &OwnerId,
    (beats, at): (u64, Timestamp),
) -> Result<bool, Failure> {
    let mut statement = connection
        .prepare_cached("UPDATE owners SET gone_at = coalesce(gone_at, ?3) WHERE id = ?1 AND beats = ?2")?;
    Ok(statement.execute((owner.as_str(), stored(beats), at.0))? > 0)
}
