//! How values become columns and come back: JSON for what is only carried, whole numbers for counters.

use crate::failure::Failure;
use legwork_core::ports::StoreError;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A value as the text of a column.
pub(crate) fn to_json<T: Serialize>(value: &T) -> Result<String, StoreError> {
    serde_json::to_string(value)
        .map_err(|error| StoreError::Conflict(format!("a value cannot be written as JSON: {error}")))
}

/// The value of a text column. A text that does not parse means that the file is damaged.
pub(crate) fn from_json<T: DeserializeOwned>(text: &str) -> Result<T, Failure> {
    serde_json::from_str(text)
        .map_err(|error| Failure::corrupt(format!("a stored value is unreadable: {error}")))
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
