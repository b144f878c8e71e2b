//! Tells a damaged database from a disk that did not give it: where the system fails to read a page, SQLite says that the file is
//! malformed, as it does where the page is wrong (`SQLITE_IOERR_CORRUPTFS` becomes `SQLITE_CORRUPT`). It does not decide what
//! either means for the work.

use crate::files::{self, Identity};
use rusqlite::{Connection, OpenFlags};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// Bytes that are read at a time.
const PIECE: usize = 256 * 1024;
/// Files that are kept open at most; beyond that what SQLite says stands.
const KEPT_MAX: usize = 16;

/// What was read through. It is never closed: with a file of a database that is closed beside its connections a process loses all
/// its locks on it.
static KEPT: Mutex<Vec<(Identity, File)>> = Mutex::new(Vec::new());

/// What the file is like when it is looked at again.
#[derive(Debug)]
pub(crate) enum Second {
    /// The system does not give it.
    Unreadable(io::Error),
    /// Nothing is wrong with it now.
    Sound,
    /// It is wrong indeed.
    Damaged,
}

/// Looks again at a database that SQLite called malformed. It reads all of it, which only happens where something is wrong.
pub(crate) fn look_again(path: &Path) -> Second {
    for file in [path, &files::log_path(path)] {
        match read_through(file) {
            Ok(Read::Whole) => {}
            Ok(Read::NotTried) => return Second::Damaged,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Second::Unreadable(error),
        }
    }
    match is_sound(path) {
        Ok(true) => Second::Sound,
        Ok(false) | Err(_) => Second::Damaged,
    }
}

/// Whether a file was read.
enum Read {
    Whole,
    /// Too many were looked at before.
    NotTried,
}

fn read_through(path: &Path) -> io::Result<Read> {
    let identity = Identity::of(path)?;
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    let place = match kept.iter().position(|(known, _)| *known == identity) {
        Some(place) => place,
        None if kept.len() >= KEPT_MAX => return Ok(Read::NotTried),
        None => {
            kept.push((identity, File::open(path)?));
            kept.len() - 1
        }
    };
    let (mut piece, mut at) = (vec![0; PIECE], 0);
    loop {
        match kept[place].1.read_at(&mut piece, at)? {
            0 => break,
            read => at += read as u64,
        }
    }
    Ok(Read::Whole)
}

fn is_sound(path: &Path) -> rusqlite::Result<bool> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.query_row("PRAGMA quick_check(1)", (), |row| Ok(row.get_ref(0)?.as_str()? == "ok"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::of_sqlite;
    use legwork_core::ports::StoreError;
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
            let locks = fs::read_to_string("/proc/locks").expect("it reads");
            let inode = |path: &Path| Identity::of(path).expect("it is there").inode().to_string();
            let files = [inode(&path), inode(&files::index_path(&path))];
            locks
                .lines()
                .filter(|line| files.iter().any(|inode| line.contains(&format!(":{inode} "))))
                .count()
        };
        let before = own();
        assert!(before > 0, "it has locks");
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
