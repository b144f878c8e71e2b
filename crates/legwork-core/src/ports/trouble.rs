//! What a store says when it cannot do what was asked, and the named states in which it is found then.

use std::time::Duration;
use thiserror::Error;

/// How long a store may take nothing of some work, from the first of it that it did not take on, before that work is given up here
/// and left to the next owner.
pub const TROUBLE_MAX: Duration = Duration::from_secs(60);

/// Why the store could not do what was asked.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum StoreError {
    /// Another process held the store for longer than it may.
    #[error("the state database is locked by another process: {0}; try again")]
    Locked(String),
    /// There is no room.
    #[error("the disk or the database is full: {0}; free some space, then try again")]
    Full(String),
    /// The file may not be written.
    #[error("the state database cannot be written: {0}; check its owner and mode, or set --state-dir")]
    ReadOnly(String),
    /// The file is damaged.
    #[error(
        "the state database is damaged: {0}; it is left as it is, and `legwork doctor` says how to get out of it"
    )]
    Corrupt(String),
    /// The file is not in its place any more, so that what is stored would be lost with it.
    #[error(
        "the state database was removed, moved or replaced while this process works: {0}; nothing is stored any more. Put it back, or start again"
    )]
    Gone(String),
    /// The file was written by a newer legwork.
    #[error(
        "the state database {location} has version {found} and this legwork knows versions up to {known}; update legwork, or set --state-dir to another folder"
    )]
    Newer {
        /// Where it is.
        location: String,
        /// The file's version.
        found: u32,
        /// The newest version that is known here.
        known: u32,
    },
    /// The writer is no longer the owner of what it writes.
    #[error("this process is no longer the owner: {0}")]
    Fenced(String),
    /// What was asked does not fit what is stored.
    #[error("the store refused: {0}")]
    Conflict(String),
    /// Reading or writing failed otherwise.
    #[error("the state database failed: {0}; `legwork doctor` says more, and what to do")]
    Io(String),
    /// The store was closed.
    #[error("the store is closed")]
    Closed,
}

impl StoreError {
    /// Whether the same call may go well later, without anybody asking for something else: a store in trouble, and not one
    /// that refuses. What was running waits for it (K35).
    pub fn may_pass(&self) -> bool {
        match self {
            StoreError::Locked(_)
            | StoreError::Full(_)
            | StoreError::ReadOnly(_)
            | StoreError::Gone(_)
            | StoreError::Io(_) => true,
            StoreError::Corrupt(_)
            | StoreError::Newer { .. }
            | StoreError::Fenced(_)
            | StoreError::Conflict(_)
            | StoreError::Closed => false,
        }
    }

    /// The state in which the store is found; `None` for an error that says nothing of the store itself.
    pub fn fault(&self) -> Option<Fault> {
        match self {
            StoreError::Locked(_) => Some(Fault::Locked),
            StoreError::Full(_) => Some(Fault::Full),
            StoreError::ReadOnly(_) => Some(Fault::ReadOnly),
            StoreError::Corrupt(_) => Some(Fault::Damaged),
            StoreError::Gone(_) => Some(Fault::Gone),
            StoreError::Newer { .. } => Some(Fault::Newer),
            StoreError::Io(_) => Some(Fault::Failing),
            StoreError::Fenced(_) | StoreError::Conflict(_) | StoreError::Closed => None,
        }
    }

    /// The same error with a remark on what it says of the place, such as for how long it was met.
    #[must_use]
    pub fn remarked(self, remark: &str) -> StoreError {
        let with = |text: String| format!("{text}, {remark}");
        match self {
            StoreError::Locked(text) => StoreError::Locked(with(text)),
            StoreError::Full(text) => StoreError::Full(with(text)),
            StoreError::ReadOnly(text) => StoreError::ReadOnly(with(text)),
            StoreError::Corrupt(text) => StoreError::Corrupt(with(text)),
            StoreError::Gone(text) => StoreError::Gone(with(text)),
            StoreError::Io(text) => StoreError::Io(with(text)),
            other @ (StoreError::Newer { .. }
            | StoreError::Fenced(_)
            | StoreError::Conflict(_)
            | StoreError::Closed) => other,
        }
    }
}

/// The states of a store that cannot be used as usual, by the names that `doctor` shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Another process does not let go of it.
    Locked,
    /// There is no room for a write.
    Full,
    /// It can be looked at and not written.
    ReadOnly,
    /// What is stored cannot be read, or does not belong together.
    Damaged,
    /// It is not in its place any more.
    Gone,
    /// A newer legwork wrote it.
    Newer,
    /// The system fails to read or write it.
    Failing,
}

impl Fault {
    /// The name of the state.
    pub fn as_str(self) -> &'static str {
        match self {
            Fault::Locked => "locked",
            Fault::Full => "full",
            Fault::ReadOnly => "read_only",
            Fault::Damaged => "damaged",
            Fault::Gone => "gone",
            Fault::Newer => "newer",
            Fault::Failing => "failing",
        }
    }
}
