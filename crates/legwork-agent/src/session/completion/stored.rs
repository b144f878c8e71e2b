//! What can be told of a completion that was stored before: which unit it is of, by its first line, and its title,
//! computed anew from the unit's record.

use super::{Arrival, Task, tasks, title};
use legwork_core::below::Below;
use legwork_core::ids::UnitId;
use legwork_core::record::DelegationRecord;
use legwork_core::time::Timestamp;

/// The unit whose results a message brings, by its first line; `None` for a text that is no completion.
pub fn unit_of_completion(text: &str) -> Option<UnitId> {
    let head = text.lines().next()?.strip_prefix('[')?.strip_suffix(']')?;
    let (_, named) = head.split_once(": ")?;
    let id = match named.strip_prefix("unit ") {
        Some(unit) => unit.split(' ').next()?,
        None => named.strip_prefix("delegation ")?,
    };
    Some(UnitId::from_stored(id))
}

/// What came back with a unit, in one line for people (EVT-15).
pub fn title_of_completion(record: &DelegationRecord, unit: usize) -> String {
    let (missed, below, remains, now) = (Vec::new(), Below::default(), Vec::new(), Timestamp(0));
    let arrival = Arrival { record: record.clone(), unit, missed, below, remains, now };
    let tasks = tasks(&arrival);
    let lines: Vec<title::Line<'_>> = tasks.iter().map(Task::title_line).collect();
    let group = record.accepted.units.get(unit).and_then(|unit| unit.group.as_deref());
    title::title(group, &lines)
}
