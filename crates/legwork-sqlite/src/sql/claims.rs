//! The moves of deliveries after their unit has settled. A claim that is not the current one moves nothing.

use super::delivery::{self, Columns, Entry};
use super::{due, follow};
use crate::failure::Failure;
use legwork_core::delivery::{DeliveryEvent, DeliveryState, Lead, LedgerLine, ParkReason};
use legwork_core::ids::{ClaimId, UnitId};
use legwork_core::time::Timestamp;
use rusqlite::Connection;

/// A unit's delivery as it is stored.
struct Unit {
    no: i64,
    state: DeliveryState,
}

/// How a taker ends its claim.
#[derive(Debug, Clone)]
pub(crate) enum End {
    /// The results arrived.
    Acknowledge,
    /// It gives the claim back.
    Release(String),
    /// It found no way.
    Park(ParkReason),
}

impl End {
    fn event(&self, claim: &ClaimId) -> DeliveryEvent {
        match self {
            End::Acknowledge => DeliveryEvent::Acked(claim.clone()),
            End::Release(_) => DeliveryEvent::Released(claim.clone()),
            End::Park(reason) => DeliveryEvent::Parked(claim.clone(), *reason),
        }
    }

    fn reason(&self) -> String {
        match self {
            End::Acknowledge => "the taker has stored it or written it out".to_owned(),
            End::Release(reason) => format!("given back: {reason}"),
            End::Park(reason) => reason.as_str().to_owned(),
        }
    }
}

/// Claims a unit if it is ready.
pub(crate) fn claim(
    connection: &Connection,
    unit: &UnitId,
    (claim, claimant): (&ClaimId, &str),
    at: Timestamp,
) -> Result<Option<ClaimId>, Failure> {
    let entry = Entry { at, claimant: Some(claimant), reason: "taken" };
    let event = DeliveryEvent::Claimed(claim.clone());
    Ok(move_by_name(connection, unit, event, &entry)?.then(|| claim.clone()))
}

/// Makes a parked unit ready.
pub(crate) fn unpark(connection: &Connection, unit: &UnitId, at: Timestamp) -> Result<bool, Failure> {
    let entry = Entry { at, claimant: None, reason: "asked for again" };
    move_by_name(connection, unit, DeliveryEvent::Unparked, &entry)
}

/// Gives a unit up.
pub(crate) fn dismiss(
    connection: &Connection,
    unit: &UnitId,
    at: Timestamp,
    reason: &str,
) -> Result<bool, Failure> {
    let entry = Entry { at, claimant: None, reason };
    let given_up = move_by_name(connection, unit, DeliveryEvent::Dismissed, &entry)?;
    if given_up && let Some(Unit { no, .. }) = load(connection, unit)? {
        follow::follow(connection, no, Lead::GivenUp, at)?;
    }
    Ok(given_up)
}

/// Ends claims: all of them, or none when one is not current.
pub(crate) fn end_all(
    connection: &Connection,
    claims: &[ClaimId],
    end: &End,
    at: Timestamp,
) -> Result<(), Failure> {
    let moves = check_all(connection, claims, end)?;
    write_all(connection, &moves, end, at)
}

/// A claim that was found current, with what its end makes of the unit.
pub(crate) struct Ending {
    no: i64,
    next: DeliveryState,
    claimant: Option<String>,
}

/// Looks up the units of `claims` and what becomes of them, without writing.
pub(crate) fn check_all(
    connection: &Connection,
    claims: &[ClaimId],
    end: &End,
) -> Result<Vec<Ending>, Failure> {
    let mut endings: Vec<Ending> = Vec::with_capacity(claims.len());
    for claim in claims {
        let ending = ending(connection, claim, end)?;
        let is_twice = endings.iter().any(|other| other.no == ending.no);
        if is_twice {
            return Err(not_current(claim));
        }
        endings.push(ending);
    }
    Ok(endings)
}

/// Writes what [`check_all`] found.
pub(crate) fn write_all(
    connection: &Connection,
    endings: &[Ending],
    end: &End,
    at: Timestamp,
) -> Result<(), Failure> {
    for ending in endings {
        let entry = Entry { at, claimant: ending.claimant.as_deref(), reason: &end.reason() };
        write(connection, ending.no, &ending.next, &entry)?;
    }
    match end {
        End::Acknowledge => {
            endings.iter().try_for_each(|ending| follow::follow(connection, ending.no, Lead::Told, at))
        }
        End::Release(_) | End::Park(_) => Ok(()),
    }
}

fn ending(connection: &Connection, claim: &ClaimId, end: &End) -> Result<Ending, Failure> {
    let mut statement = connection
        .prepare_cached("SELECT state, tries, claim, parked, no, ledger FROM units WHERE claim = ?1")?;
    let mut rows = statement.query((claim.as_str(),))?;
    let row = rows.next()?.ok_or_else(|| not_current(claim))?;
    let state = delivery::read(row, 0)?;
    let next = state.apply(end.event(claim)).map_err(|_| not_current(claim))?;
    let ledger = delivery::read_ledger(&row.get::<_, String>(5)?)?;
    let claimant = ledger.last().and_then(|line: &LedgerLine| line.claimant.clone());
    Ok(Ending { no: row.get(4)?, next, claimant })
}

fn not_current(claim: &ClaimId) -> Failure {
    Failure::conflict(format!("{claim} is not a current claim"))
}

/// Moves the delivery of a unit; `false` when it is unknown or its state does not have the move.
fn move_by_name(
    connection: &Connection,
    unit: &UnitId,
    event: DeliveryEvent,
    entry: &Entry<'_>,
) -> Result<bool, Failure> {
    let Some(found) = load(connection, unit)? else { return Ok(false) };
    match found.state.apply(event) {
        Ok(next) => write(connection, found.no, &next, entry).map(|()| true),
        Err(_) => Ok(false),
    }
}

fn load(connection: &Connection, unit: &UnitId) -> Result<Option<Unit>, Failure> {
    let mut statement =
        connection.prepare_cached("SELECT state, tries, claim, parked, no FROM units WHERE id = ?1")?;
    let mut rows = statement.query((unit.as_str(),))?;
    let Some(row) = rows.next()? else { return Ok(None) };
    Ok(Some(Unit { no: row.get(4)?, state: delivery::read(row, 0)? }))
}

pub(super) fn write(
    connection: &Connection,
    no: i64,
    next: &DeliveryState,
    entry: &Entry<'_>,
) -> Result<(), Failure> {
    let Columns { state, tries, claim, parked } = delivery::columns(next)?;
    let mut statement = connection.prepare_cached(
        "UPDATE units SET state = ?2, tries = ?3, claim = ?4, parked = ?5, ledger = ledger || ?6 WHERE no = ?1",
    )?;
    statement.execute((no, state, tries, claim, parked, entry.line(next)?))?;
    if next.is_final() { due::leave(connection, no) } else { Ok(()) }
}
