//! Which database this process works with, named so that a copy of it has another name: by its file's device and inode. A
//! file that is renamed or moved within its file system keeps them; a copy, a restored backup and a file that has crossed to
//! another file system have others. Ids are copied with a database, so they do not tell whose a command is where there are two
//! (invariant 30).
//!
//! It does not look into the database.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::OnceLock;

/// How the name of a database begins.
pub(super) const PREFIX: &str = "st-";

/// That of this process. Its commands belong to all of it, so there is one, as there is one state folder.
static MINE: OnceLock<String> = OnceLock::new();

/// From now on the commands of this process are those of this database, and only what belongs to it is ended after others.
/// To be called when the database has been opened, because on some file systems a file becomes another one then. The first
/// one stays.
///
/// # Errors
/// When the file cannot be looked at; nothing that names a database is ended then.
pub fn work_with(database: &Path) -> io::Result<()> {
    let file = fs::metadata(database)?;
    MINE.get_or_init(|| format!("{PREFIX}{:x}-{:x}", file.dev(), file.ino()));
    Ok(())
}

/// The name of the database, where one was told.
pub(super) fn mine() -> Option<&'static str> {
    MINE.get().map(String::as_str)
}

/// The database in what is stored as the boot of a group, `boot/namespace/database`. Groups that an older legwork stored have
/// none.
pub(super) fn of_group(boot_id: &str) -> Option<&str> {
    boot_id.rsplit('/').next().filter(|part| part.starts_with(PREFIX))
}

/// The rest of it.
pub(super) fn boot_of_group(boot_id: &str) -> &str {
    match of_group(boot_id) {
        Some(store) => boot_id.strip_suffix(store).map_or(boot_id, |rest| rest.trim_end_matches('/')),
        None => boot_id,
    }
}

/// What is stored as the boot of a group of this process, which runs under `boot_id`.
pub(super) fn for_group(boot_id: &str) -> String {
    match mine() {
        Some(store) if !boot_id.is_empty() => format!("{boot_id}/{store}"),
        Some(_) | None => boot_id.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_of_an_older_legwork_names_no_database() {
        for (stored, boot, store) in
            [("b1/1/st-10-2a", "b1/1", Some("st-10-2a")), ("b1/1", "b1/1", None), ("", "", None)]
        {
            assert_eq!((boot_of_group(stored), of_group(stored)), (boot, store), "{stored}");
        }
    }
}
