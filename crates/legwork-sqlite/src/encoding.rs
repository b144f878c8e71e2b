//! How values become columns and come back: JSON for what is only carried, whole numbers for counters.

use crate::failure::Failure;
use legwork_core::ports::StoreError;
use rusqlite::Row;
use rusqlite::types::ValueRef;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::error::Category;

/// A value as the text of a column.
pub(crate) fn to_json<T: Serialize>(value: &T) -> Result<String, StoreError> {
    serde_json::to_string(value)
        .map_err(|error| StoreError::Conflict(format!("a value cannot be written as JSON: {error}")))
}

/// The value of a text column. A text that does not parse means that the file is damaged. What stands in it is not told: it
/// may be anything that a model or a person said.
pub(crate) fn from_json<T: DeserializeOwned>(text: &str) -> Result<T, Failure> {
    serde_json::from_str(text).map_err(|error| {
        let why = match error.classify() {
            Category::Syntax | Category::Io => "is no JSON",
            Category::Eof => "breaks off",
            Category::Data => "has another shape than what is stored there",
        };
        Failure::corrupt(format!("a stored value is unreadable: it {why}, at character {}", error.column()))
    })
}

/// An id for a person to find a row by, also where it is not stored as a text.
pub(crate) fn name(row: &Row<'_>, column: usize) -> Result<String, Failure> {
    Ok(match row.get_ref(column)? {
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        ValueRef::Integer(number) => number.to_string(),
        ValueRef::Real(number) => number.to_string(),
        ValueRef::Null => "(without an id)".to_owned(),
    })
}

/// A counter as SQLite keeps it. No counter of ours comes near the limit of 2^63.
pub(crate) fn stored(counter: u64) -> i64 {
    i64::try_from(counter).unwrap_or(i64::MAX)
}

/// A counter as it was stored.
pub(crate) fn counter(stored: i64) -> u64 {
    stored.max(0).unsigned_abs()
}

/// A small counter as it was stored.
pub(crate) fn small(stored: i64) -> u32 {
    u32::try_from(stored.max(0)).unwrap_or(u32::MAX)
}
