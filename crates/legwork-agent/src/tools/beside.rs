//! A file that is written beside its place and then put there in one move, so that nobody ever finds half of it.
//!
//! It does not know what is written, and it does not make folders.

use crate::spill::random;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Where the bytes go: behind links, to the file that they lead to. What is no file is refused.
pub(super) fn target(path: &Path) -> Result<PathBuf, String> {
    let shown = path.display();
    let is_link = path.symlink_metadata().is_ok_and(|facts| facts.is_symlink());
    let target = if is_link {
        fs::canonicalize(path).map_err(|_| format!("{shown} is a link to something that does not exist"))?
    } else {
        path.to_owned()
    };
    match target.metadata() {
        Ok(facts) if facts.is_dir() => Err(format!("{shown} is a folder; name a file in it")),
        Ok(facts) if !facts.is_file() => Err(format!("{shown} is not a regular file")),
        Ok(_) | Err(_) => Ok(target),
    }
}

/// The new content, not yet in its place. Dropping it removes it.
pub(super) struct Beside {
    path: PathBuf,
    file: File,
    placed: bool,
}

impl Beside {
    /// A new file in `folder`, empty and for nobody else to find.
    pub(super) fn create(folder: &Path) -> io::Result<Self> {
        let path = free_name(folder)?;
        let file = OpenOptions::new().write(true).create_new(true).open(&path)?;
        Ok(Beside { path, file, placed: false })
    }

    /// Writes all of it. A file that is replaced keeps its mode, which is `mode` then.
    pub(super) fn fill(&self, content: &str, mode: Option<Permissions>) -> io::Result<()> {
        if let Some(mode) = mode {
            self.file.set_permissions(mode)?;
        }
        (&self.file).write_all(content.as_bytes())
    }

    /// Moves it to its place.
    pub(super) fn put(mut self, target: &Path) -> io::Result<()> {
        fs::rename(&self.path, target)?;
        self.placed = true;
        Ok(())
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        if !self.placed
            && let Err(error) = fs::remove_file(&self.path)
        {
            tracing::warn!(path = %self.path.display(), %error, "a temporary file could not be removed");
        }
    }
}

/// A file that was moved out of its place and can be moved back. Dropping it moves it back.
pub(super) struct Aside {
    place: PathBuf,
    path: PathBuf,
    /// Whether it is gone for good, or back.
    settled: bool,
}

impl Aside {
    /// Moves the file or the link at `place` away.
    pub(super) fn take(place: &Path) -> io::Result<Self> {
        let path = free_name(place.parent().unwrap_or(place))?;
        fs::rename(place, &path)?;
        Ok(Aside { place: place.to_owned(), path, settled: false })
    }

    /// Removes it.
    pub(super) fn remove(mut self) -> io::Result<()> {
        self.settled = true;
        fs::remove_file(&self.path)
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        if !self.settled
            && let Err(error) = fs::rename(&self.path, &self.place)
        {
            tracing::error!(path = %self.path.display(), place = %self.place.display(), %error, "a file could not be moved back");
        }
    }
}

/// A name that nobody uses, because it is random.
fn free_name(folder: &Path) -> io::Result<PathBuf> {
    Ok(folder.join(format!(".legwork-{:08x}.tmp", random()?)))
}
