//! What went wrong inside the adapter, and how it reads at the port. It does not decide what happens next.

use crate::damage::{self, Second};
use crate::files;
use crate::holder;
use legwork_core::ports::StoreError;
use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit};
use rusqlite::ErrorCode;
use rusqlite::ffi;
use std::io;
use std::path::Path;

/// Bytes of a page of the index of the log.
const PAGE: usize = 32 * 1024;

/// Why a piece of work on a connection gave nothing.
#[derive(Debug)]
pub(crate) enum Failure {
    /// SQLite could not do it.
    Sqlite(rusqlite::Error),
    /// It does not fit what is stored, or what is stored cannot be read.
    Refused(StoreError),
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Self {
        Failure::Sqlite(error)
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Failure::Refused(error)
    }
}

impl Failure {
    /// The refusal of something that does not fit.
    pub(crate) fn conflict(text: impl Into<String>) -> Failure {
        Failure::Refused(StoreError::Conflict(text.into()))
    }

    /// A row that cannot be right.
    pub(crate) fn corrupt(text: impl Into<String>) -> Failure {
        Failure::Refused(StoreError::Corrupt(text.into()))
    }

    /// Whether a row cannot be read while the file is whole: everything else in it can be.
    pub(crate) fn is_damaged_row(&self) -> bool {
        match self {
            Failure::Sqlite(error) => is_misshapen(error),
            Failure::Refused(error) => matches!(error, StoreError::Corrupt(_)),
        }
    }

    /// The same failure with the name of what could not be read.
    pub(crate) fn reading(self, what: &str) -> Failure {
        match self {
            Failure::Sqlite(error) if is_misshapen(&error) => Failure::corrupt(format!("{what}: {error}")),
            Failure::Refused(StoreError::Corrupt(why)) => Failure::corrupt(format!("{what}: {why}")),
            other @ (Failure::Sqlite(_) | Failure::Refused(_)) => other,
        }
    }

    /// The failure as the port tells it; `path` is the database file.
    pub(crate) fn told(self, path: &Path) -> StoreError {
        match self {
            Failure::Sqlite(error) => of_sqlite(&error, path),
            Failure::Refused(error) => error,
        }
    }
}

/// Whether a column holds another kind of value than it is written with, or a text that is none.
fn is_misshapen(error: &rusqlite::Error) -> bool {
    matches!(
        error,
        rusqlite::Error::FromSqlConversionFailure(..)
            | rusqlite::Error::IntegralValueOutOfRange(..)
            | rusqlite::Error::InvalidColumnType(..)
            | rusqlite::Error::Utf8Error(..)
    )
}

/// An error of SQLite as the port tells it.
pub(crate) fn of_sqlite(error: &rusqlite::Error, path: &Path) -> StoreError {
    let text = format!("{} ({})", path.display(), words(error));
    if is_misshapen(error) {
        return StoreError::Corrupt(text);
    }
    match error.sqlite_extended_error_code() {
        // The index of the log could not grow. On a full memory file system nothing else can either.
        Some(ffi::SQLITE_IOERR_SHMSIZE)
            if matches!(files::try_room(path, PAGE), Err(StoreError::Full(_))) =>
        {
            return StoreError::Full(text);
        }
        // Where files may only have so many bytes, SQLite calls that a failure of the disk.
        Some(ffi::SQLITE_IOERR_WRITE | ffi::SQLITE_IOERR_SHMOPEN) if are_files_limited() => {
            return StoreError::Full(text);
        }
        // An index that does not fit its table: no read has failed, and no quick look would see it.
        Some(ffi::SQLITE_CORRUPT_INDEX) => return StoreError::Corrupt(text),
        Some(_) | None => {}
    }
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => StoreError::Full(text),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            StoreError::Locked(match holder::of(path) {
                Some(holder) => format!("{text}; {holder}"),
                None => text,
            })
        }
        Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => {
            StoreError::ReadOnly(text)
        }
        Some(ErrorCode::DatabaseCorrupt) => match damage::look_again(path) {
            Second::Damaged => StoreError::Corrupt(text),
            Second::Sound => {
                StoreError::Io(format!("{text}; the file itself is sound: the system failed to read it"))
            }
            Second::Unreadable(why) => StoreError::Io(format!("{text}; {why}")),
        },
        Some(ErrorCode::NotADatabase) => StoreError::Corrupt(text),
        // It has our mark and our version, and a part of our tables is not there.
        Some(ErrorCode::Unknown) if text.contains("no such table") || text.contains("no such column") => {
            StoreError::Corrupt(text)
        }
        Some(_) | None => StoreError::Io(text),
    }
}

/// What an error says, without the statement that met it: that is of use to nobody who reads it.
fn words(error: &rusqlite::Error) -> String {
    match error {
        rusqlite::Error::SqlInputError { msg, .. } => msg.clone(),
        other => other.to_string(),
    }
}

/// Whether this process may not let a file grow beyond some size.
fn are_files_limited() -> bool {
    getrlimit(Resource::RLIMIT_FSIZE).is_ok_and(|(most, _)| most != RLIM_INFINITY)
}

/// An error of the file system as the port tells it.
pub(crate) fn of_io(error: &io::Error, path: &Path) -> StoreError {
    let text = format!("{} ({error})", path.display());
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
            StoreError::Full(text)
        }
        io::ErrorKind::PermissionDenied
        | io::ErrorKind::ReadOnlyFilesystem
        | io::ErrorKind::NotADirectory
        | io::ErrorKind::IsADirectory
        | io::ErrorKind::AlreadyExists => StoreError::ReadOnly(text),
        _ => StoreError::Io(text),
    }
}
