//! How connections to the file are made: settings that hold for each of them. It keeps none.

use crate::busy::{self, Patience};
use crate::files;
use crate::options::StoreOptions;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

/// Statements that a connection keeps prepared; more than the adapter has.
const STATEMENTS_KEPT: usize = 96;

/// Pages of the write-ahead log after which the writer moves them into the database: 8 MiB.
const CHECKPOINT_PAGES: u32 = 2_000;

/// Opens the one connection that writes.
pub(crate) fn writer(path: &Path, options: StoreOptions) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(path, flags)?;
    settle_in(&mut connection, options.lock_wait)?;
    if let Some(pages) = options.max_pages {
        connection.pragma_update(None, "max_page_count", pages)?;
    }
    Ok(connection)
}

/// Turns a connection whose file was checked into one that stores durably.
pub(crate) fn make_durable(connection: &Connection, lock_wait: Duration) -> rusqlite::Result<()> {
    let mut patience = Patience::new(lock_wait);
    let mut looks = 0;
    loop {
        match write_ahead(connection) {
            // Two processes that create one file at once can be refused here without a word to the busy handler.
            Err(error)
                if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) && patience.wait(looks) =>
            {
                looks += 1;
            }
            other => return other,
        }
    }
}

fn write_ahead(connection: &Connection) -> rusqlite::Result<()> {
    connection.pragma_update_and_check(None, "journal_mode", "wal", |_| Ok(()))?;
    connection.pragma_update(None, "synchronous", "full")?;
    connection.pragma_update(None, "foreign_keys", true)?;
    connection.pragma_update_and_check(None, "wal_autocheckpoint", CHECKPOINT_PAGES, |_| Ok(()))
}

/// How somebody who only looks finds what is in the log beside the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sight {
    /// By the index of the log that all processes share.
    Shared,
    /// By an index of its own, without a lock: the shared one is not there and cannot be made.
    Alone,
    /// There is no log.
    NoLog,
}

impl Sight {
    /// What is fit for a file beside which nothing can be made, the best first.
    pub(crate) fn of_unwritable(path: &Path) -> Vec<Sight> {
        let (index, log) = (files::has_index(path), files::has_log(path));
        let sights = [(Sight::Shared, index), (Sight::Alone, log), (Sight::NoLog, !log)];
        sights.into_iter().filter(|(_, is_fit)| *is_fit).map(|(sight, _)| sight).collect()
    }
}

/// Opens a connection that only looks.
pub(crate) fn reader(path: &Path, sight: Sight, lock_wait: Duration) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = match sight {
        Sight::Shared => Connection::open_with_flags(path, flags)?,
        Sight::Alone => {
            let connection = Connection::open_with_flags_and_vfs(path, flags, c"unix-none")?;
            // An index in memory is only kept by a connection that thinks it is the only one.
            connection.pragma_update_and_check(None, "locking_mode", "exclusive", |_| Ok(()))?;
            connection
        }
        Sight::NoLog => {
            let uri = format!("file:{}?immutable=1", escaped(path));
            Connection::open_with_flags(uri, flags | OpenFlags::SQLITE_OPEN_URI)?
        }
    };
    settle_in(&mut connection, lock_wait)?;
    Ok(connection)
}

/// The path as a URI spells it.
fn escaped(path: &Path) -> String {
    let spelled = |byte: &u8| match byte {
        b'/' | b'.' | b'-' | b'_' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => char::from(*byte).to_string(),
        other => format!("%{other:02X}"),
    };
    path.as_os_str().as_bytes().iter().map(spelled).collect()
}

/// What holds for writers and readers.
fn settle_in(connection: &mut Connection, lock_wait: Duration) -> rusqlite::Result<()> {
    busy::install(connection, lock_wait)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_KEPT);
    // The bundled SQLite would otherwise compile a statement anew whenever its parameters change, to see whether
    // another plan suits them better; that costs more than the statements themselves.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).map(drop)
}
