//! Files for outputs that are too long for a conversation. Each is new, belongs to the user alone, and is named by
//! an id of ours and random digits.
//!
//! It does not decide what is too long, and it removes nothing.

use legwork_core::step::Actor;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Names are random, so a few tries are enough unless something is wrong.
const TRIES: usize = 8;

/// Where a file goes if it is needed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpillPlace {
    folder: PathBuf,
    stem: String,
}

impl SpillPlace {
    /// A file in `folder` for an output of `tool`, called by `actor`.
    pub fn new(folder: &Path, actor: &Actor, tool: &str) -> Self {
        SpillPlace { folder: folder.to_owned(), stem: format!("{}-{tool}", actor.as_str()) }
    }

    /// Makes the folder if it is missing and a file in it that was not there before; no link is followed.
    ///
    /// # Errors
    /// What the system said.
    pub fn create(&self) -> io::Result<(PathBuf, File)> {
        make_folder(&self.folder)?;
        for _ in 0..TRIES {
            let path = self.folder.join(format!("{}-{:08x}.txt", self.stem, random()?));
            match create_new(&path) {
                Ok(file) => return Ok((path, file)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }
}

/// A new file with mode 0600. Where anything is at `path`, be it a dangling link, the answer is `AlreadyExists`.
pub(crate) fn create_new(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

/// Makes a folder and those above it with mode 0700. A link in its place is refused.
pub(crate) fn make_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    if path.symlink_metadata()?.is_dir() {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::NotADirectory, format!("{} is a link, not a folder", path.display())))
}

/// Something that is no folder, where one above the wanted one is to be: that does not mean that the wanted one is there.
fn not_taken(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::AlreadyExists => io::Error::new(io::ErrorKind::NotADirectory, error),
        _ => error,
    }
}

/// As [`make_folder`], where nothing may be at `path` yet: it is `AlreadyExists` then.
pub(crate) fn make_new_folder(path: &Path) -> io::Result<()> {
    if let Some(above) = path.parent() {
        make_folder(above).map_err(not_taken)?;
    }
    DirBuilder::new().mode(0o700).create(path)
}

/// Puts a text into a file, and says where. Without a file the store still has it.
pub(crate) fn kept(spill: &Path, actor: &Actor, what: &str, text: &str) -> Option<String> {
    let written = || -> io::Result<String> {
        let (path, mut file) = SpillPlace::new(spill, actor, what).create()?;
        file.write_all(text.as_bytes())?;
        Ok(path.display().to_string())
    };
    written()
        .inspect_err(|error| tracing::warn!(%error, "a result that was cut could not be written into a file"))
        .ok()
}

/// Random digits for a name.
pub(crate) fn random() -> io::Result<u32> {
    getrandom::u32().map_err(|error| io::Error::other(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use legwork_core::ids::ChildId;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn mode(path: &Path) -> u32 {
        path.metadata().expect("it is there").permissions().mode() & 0o777
    }

    /// Proves SEC-7, SEC-11.
    #[test]
    fn inv_26_an_output_is_for_its_user_alone_and_never_replaces_anything() {
        let root = tempfile::tempdir().expect("a folder");
        let folder = root.path().join("state/spill");
        let place = SpillPlace::new(&folder, &Actor::Child(ChildId::from_bits(2, 1)), "terminal");
        let (first, _) = place.create().expect("a file");
        let (second, _) = place.create().expect("a file");
        assert_ne!(first, second);
        assert!(
            first.display().to_string().contains("/spill/sa-2-00000001-terminal-"),
            "{}",
            first.display()
        );
        assert_eq!((mode(&first), mode(&folder)), (0o600, 0o700));
    }

    /// Proves SEC-7.
    #[test]
    fn a_link_in_the_way_is_not_followed() {
        let root = tempfile::tempdir().expect("a folder");
        let (link, target) = (root.path().join("link"), root.path().join("target"));
        symlink(&target, &link).expect("a link");
        assert_eq!(create_new(&link).expect_err("a dangling link").kind(), io::ErrorKind::AlreadyExists);
        std::fs::create_dir(&target).expect("a folder");
        assert_eq!(make_folder(&link).expect_err("a link to a folder").kind(), io::ErrorKind::NotADirectory);
        assert_eq!(target.read_dir().expect("the folder").count(), 0);
    }
}
