//! The files of the store on disk: who may read them, where the backups and the transcripts lie. It does not look into them.

use crate::failure;
use legwork_core::fact::Accepted;
use legwork_core::ports::StoreError;
use std::ffi::OsString;
use std::fs::{DirBuilder, File, Metadata, OpenOptions, Permissions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::{fs, io};

/// Rights of a file: the user's alone. SQLite gives its side files the rights of the database.
const FILE_MODE: u32 = 0o600;

/// Rights of a folder that we create.
const FOLDER_MODE: u32 = 0o700;

/// Creates the folder and the empty file where they are missing, and takes rights of others off the file.
pub(crate) fn prepare(path: &Path) -> Result<(), StoreError> {
    if let Some(folder) = path.parent() {
        let made = DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(folder);
        made.map_err(|error| failure::of_io(&error, folder))?;
    }
    let told = |error: io::Error| failure::of_io(&error, path);
    match fs::metadata(path) {
        Ok(found) if found.is_dir() => Err(told(io::ErrorKind::IsADirectory.into())),
        Ok(found) if found.permissions().mode() & 0o077 == 0 => Ok(()),
        Ok(_) => fs::set_permissions(path, Permissions::from_mode(FILE_MODE)).map_err(told),
        Err(error) if error.kind() == io::ErrorKind::NotFound => create(path).map_err(told),
        Err(error) => Err(told(error)),
    }
}

/// Creates the empty file. One that is there is never opened and closed beside SQLite: by that a process would lose every lock
/// that it holds on it through other connections.
fn create(path: &Path) -> io::Result<()> {
    match OpenOptions::new().write(true).create_new(true).mode(FILE_MODE).open(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => match fs::metadata(path) {
            // A link to a file that is not there: that is the one to create. A ring of links is another error.
            Err(error) if error.kind() == io::ErrorKind::NotFound => create(&linked(path)?),
            // Another process was faster, with the same rights.
            found => found.map(drop),
        },
        made => made.map(drop),
    }
}

/// Where the link at `path` leads.
fn linked(path: &Path) -> io::Result<PathBuf> {
    let target = fs::read_link(path)?;
    Ok(path.parent().map_or_else(|| target.clone(), |folder| folder.join(&target)))
}

/// Which file stands at a path: two paths with one identity are one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Identity {
    device: u64,
    inode: u64,
}

impl Identity {
    /// That of the file at `path`, links followed.
    pub(crate) fn of(path: &Path) -> io::Result<Identity> {
        fs::metadata(path).map(|found| Identity::from(&found))
    }

    /// That of the file still stands at `path`. An open file whose name is gone takes every write, and loses it when it is
    /// closed.
    ///
    /// # Errors
    /// [`StoreError::Gone`] when another file stands there, or none.
    pub(crate) fn check(self, path: &Path) -> Result<(), StoreError> {
        match Identity::of(path) {
            Ok(found) if found == self => Ok(()),
            Ok(_) => Err(StoreError::Gone(format!("{} is another file now", path.display()))),
            Err(error) => Err(StoreError::Gone(format!("{} ({error})", path.display()))),
        }
    }
}

impl From<&Metadata> for Identity {
    fn from(found: &Metadata) -> Identity {
        Identity { device: found.dev(), inode: found.ino() }
    }
}

/// The folder of the transcripts beside a database.
const TRANSCRIPTS: &str = "live";

/// Transcripts that were beside the database when they were begun are beside it wherever its folder is now: it may have been
/// moved, or this is a copy. `database` is as it was named: where that is a link, they are beside the link. Others stay where
/// they are.
pub(crate) fn bring_along(accepted: &mut Accepted, database: &Path) {
    let Some(folder) = database.parent() else { return };
    let theirs = Path::new(TRANSCRIPTS).join(accepted.delegation.as_str());
    for stored in &mut accepted.transcripts {
        let path = Path::new(stored.as_str());
        let is_beside = path.parent().is_some_and(|parent| parent.ends_with(&theirs));
        if let Some(name) = path.file_name().filter(|_| is_beside) {
            *stored = folder.join(&theirs).join(name).display().to_string();
        }
    }
}

/// Creates an empty file for a backup, the user's alone; an older one of the same name is replaced.
pub(crate) fn prepare_backup(path: &Path) -> Result<(), StoreError> {
    let told = |error: io::Error| failure::of_io(&error, path);
    match fs::remove_file(path) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(told(error)),
    }
    OpenOptions::new().write(true).create_new(true).mode(FILE_MODE).open(path).map_err(told)?;
    Ok(())
}

/// Where the database is kept as it was at version `version`.
pub(crate) fn backup_path(path: &Path, version: u32) -> PathBuf {
    beside(path, &format!(".v{version}.bak"))
}

/// The bytes of the database and its side files.
pub(crate) fn bytes(path: &Path) -> u64 {
    let side = [log_path(path), index_path(path)];
    // A side file that is not there holds nothing.
    side.iter()
        .map(PathBuf::as_path)
        .chain([path])
        .filter_map(|file| fs::metadata(file).ok())
        .map(|file| file.len())
        .sum()
}

/// The log beside the database.
pub(crate) fn log_path(path: &Path) -> PathBuf {
    beside(path, "-wal")
}

/// The index of that log.
pub(crate) fn index_path(path: &Path) -> PathBuf {
    beside(path, "-shm")
}

/// The files whose locks are the queue of those that want to write: of the one that is next, and of the one whose turn it is.
pub(crate) fn turn_paths(path: &Path) -> [PathBuf; 2] {
    ["-next", "-turn"].map(|suffix| beside(path, suffix))
}

/// Opens a file that is only locked, and creates it where it is missing.
pub(crate) fn open_to_lock(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(false).mode(FILE_MODE).open(path)
}

/// Whether there is anything in the database. Beside an empty one SQLite takes a log away unread.
pub(crate) fn has_content(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|database| database.len() > 0)
}

/// Whether commits may lie in a log beside the database.
pub(crate) fn has_log(path: &Path) -> bool {
    fs::metadata(log_path(path)).is_ok_and(|log| log.len() > 0)
}

/// Whether the index of that log is there.
pub(crate) fn has_index(path: &Path) -> bool {
    fs::metadata(index_path(path)).is_ok_and(|index| index.len() > 0)
}

/// Writes so many bytes beside the database and takes them away again. The file has no name by the time it grows, so that
/// nothing of it is left whenever that is cut off.
///
/// # Errors
/// What the file system says: `Full` when there is no room for it.
pub(crate) fn try_room(path: &Path, bytes: usize) -> Result<(), StoreError> {
    let trial = beside(path, &format!("-room-{}", std::process::id()));
    let told = |error: io::Error| failure::of_io(&error, &trial);
    let mut file =
        OpenOptions::new().write(true).create_new(true).mode(FILE_MODE).open(&trial).map_err(told)?;
    fs::remove_file(&trial).map_err(told)?;
    // Not zeros: some file systems store none.
    file.write_all(&vec![0xa5; bytes]).and_then(|()| file.sync_all()).map_err(told)
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    PathBuf::from(name)
}
