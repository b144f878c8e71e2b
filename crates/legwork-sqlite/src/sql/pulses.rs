//! The last pulses of running children, for other processes to see.

use super::fence;
use crate::failure::Failure;
use legwork_core::ids::ChildId;
use legwork_core::step::Fence;
use legwork_core::time::Timestamp;
use rusqlite::Connection;

/// Stores pulses: all of them, or none when one child belongs to another owner or generation.
pub(crate) fn note(
    connection: &Connection,
    fence: &Fence,
    at: Timestamp,
    pulses: &[(ChildId, String)],
) -> Result<(), Failure> {
    let numbers = pulses.iter().map(|(child, _)| fence::pass_child(connection, child, fence));
    let numbers = numbers.collect::<Result<Vec<i64>, _>>()?;
    let mut statement =
        connection.prepare_cached("UPDATE children SET pulse = ?2, pulse_at = ?3 WHERE no = ?1")?;
    for (no, (_, pulse)) in numbers.into_iter().zip(pulses) {
        statement.execute((no, pulse.as_str(), at.0))?;
    }
    Ok(())
}

/// Stores those of the pulses whose children are of the delegation with this number and that know how a later attempt ended than
/// the stored ones. Whoever calls has it.
pub(crate) fn note_of(
    connection: &Connection,
    delegation: i64,
    at: Timestamp,
    pulses: &[(ChildId, String)],
) -> Result<(), Failure> {
    let mut statement = connection.prepare_cached(
        "UPDATE children SET pulse = ?3, pulse_at = ?4 WHERE id = ?1 AND delegation = ?2 \
         AND coalesce(json_extract(?3, '$.deaths.attempt'), 0) > \
             CASE WHEN json_valid(pulse) THEN coalesce(json_extract(pulse, '$.deaths.attempt'), 0) ELSE 0 END",
    )?;
    for (child, pulse) in pulses {
        statement.execute((child.as_str(), delegation, pulse.as_str(), at.0))?;
    }
    Ok(())
}
