//! Tells a damaged database from a disk that did not give it: where the system fails to read a page, SQLite says that
//! the file is malformed, as it does where the page is wrong (`SQLITE_IOERR_CORRUPTFS` becomes `SQLITE_CORRUPT`). It
//! does not decide what either means for the work.

use crate::files::{self, Identity};
use rusqlite::{Connection, ErrorCode, OpenFlags};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Bytes that are read at a time.
const PIECE: usize = 256 * 1024;
/// Files that are kept open at most; beyond that what SQLite says stands.
const KEPT_MAX: usize = 16;
/// How long what was found stands: where one page is wrong every look at it fails, and a large file takes seconds to read.
const STANDS: Duration = Duration::from_secs(60);
/// How long a database that others use is waited for.
const LOCK_WAIT: Duration = Duration::from_secs(1);

/// What was read through. It is never closed: with a file of a database that is closed beside its connections a process
/// loses all its locks on it.
static KEPT: Mutex<Vec<Kept>> = Mutex::new(Vec::new());

/// A file that was read through.
struct Kept {
    identity: Identity,
    file: File,
    /// What the database was like, and when.
    found: Option<(Instant, Second)>,
}

/// What the file is like when it is looked at again.
#[derive(Debug, Clone)]
pub(crate) enum Second {
    /// It cannot be read, for this reason.
    Unreadable(String),
    /// Nothing is wrong with it now.
    Sound,
    /// It is wrong indeed.
    Damaged,
}

/// Looks again at a database that SQLite called malformed. It reads all of it, at most once in [`STANDS`].
pub(crate) fn look_again(path: &Path) -> Second {
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    let place = match opened(&mut kept, path) {
        Ok(Some(place)) => place,
        Ok(None) => return Second::Damaged,
        Err(error) => return Second::Unreadable(error.to_string()),
    };
    if let Some((at, second)) = &kept[place].found
        && at.elapsed() < STANDS
    {
        return second.clone();
    }
    let second = look(&mut kept, place, path);
    kept[place].found = Some((Instant::now(), second.clone()));
    second
}

fn look(kept: &mut Vec<Kept>, place: usize, path: &Path) -> Second {
    let log = match opened(kept, &files::log_path(path)) {
        Ok(log) => log,
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Second::Unreadable(error.to_string()),
    };
    for place in [Some(place), log].into_iter().flatten() {
        if let Err(error) = read_through(&kept[place].file) {
            return Second::Unreadable(error.to_string());
        }
    }
    match is_sound(path) {
        Ok(true) => Second::Sound,
        Ok(false) => Second::Damaged,
        Err(error) => match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => Second::Damaged,
            Some(_) | None => Second::Unreadable(error.to_string()),
        },
    }
}

/// The place of the file among those that are kept open; `None` where there are too many.
fn opened(kept: &mut Vec<Kept>, path: &Path) -> io::Result<Option<usize>> {
    let identity = Identity::of(path)?;
    if let Some(place) = kept.iter().position(|known| known.identity == identity) {
        return Ok(Some(place));
    }
    if kept.len() >= KEPT_MAX {
        return Ok(None);
    }
    kept.push(Kept { identity, file: File::open(path)?, found: None });
    Ok(Some(kept.len() - 1))
}

fn read_through(file: &File) -> io::Result<()> {
    let (mut piece, mut at) = (vec![0; PIECE], 0);
    loop {
        match file.read_at(&mut piece, at)? {
            0 => return Ok(()),
            read => at += read as u64,
        }
    }
}

fn is_sound(path: &Path) -> rusqlite::Result<bool> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(LOCK_WAIT)?;
    connection.query_row("PRAGMA quick_check(1)", (), |row| Ok(row.get_ref(0)?.as_str()? == "ok"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::of_sqlite;
    use legwork_core::ports::StoreError;
    use legwork_testkit::locks;
    use rusqlite::ffi;
    use std::fs;

    fn malformed() -> rusqlite::Error {
        rusqlite::Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_CORRUPT), None)
    }

    fn database(path: &Path) {
        let connection = Connection::open(path).expect("it opens");
        let rows =
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5000) SELECT i FROM n";
        connection.execute_batch(&format!("CREATE TABLE t AS {rows}")).expect("it is written");
    }

    #[test]
    fn k35_a_read_that_the_system_failed_is_not_called_damage() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("sound.db");
        database(&path);
        let told = of_sqlite(&malformed(), &path);
        assert!(matches!(told, StoreError::Io(_)), "by now it can be read: {told:?}");
        // The system refuses to read the first bytes of it, with EIO.
        let told = of_sqlite(&malformed(), Path::new("/proc/self/mem"));
        assert!(matches!(told, StoreError::Io(_)), "{told:?}");
    }

    /// Whoever closes the last connection takes the log away: nobody may be taken for that one.
    #[test]
    fn k35_a_look_at_what_seems_damaged_takes_no_lock_of_this_process_away() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("locked.db");
        database(&path);
        let connection = Connection::open(&path).expect("it opens");
        connection.execute_batch("PRAGMA journal_mode = WAL; BEGIN IMMEDIATE").expect("it may write");
        let own = || {
            let held = [locks::held(&path), locks::held(&files::index_path(&path))];
            held.concat()
        };
        let before = own();
        assert!(before.len() >= 2, "it has locks: {before:?}");
        assert!(matches!(look_again(&path), Second::Sound));
        assert_eq!(own(), before);
    }

    #[test]
    fn k35_a_page_that_is_wrong_is_damage() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("damaged.db");
        database(&path);
        let mut bytes = fs::read(&path).expect("it reads");
        bytes[4096..8192].fill(0xa5);
        fs::write(&path, bytes).expect("it is written");
        let told = of_sqlite(&malformed(), &path);
        assert!(matches!(told, StoreError::Corrupt(_)), "{told:?}");
    }
}
