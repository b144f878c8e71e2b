//! The folder of converted weights.
//!
//! Owns its files: a model, beside it a stamp that says what the model must look like, and a lock that lets one
//! process prepare at a time. A model without a true stamp does not count, so a torn or changed file is made anew.

use super::WeightsError;
use super::digest::file_digest;
use super::error::cache_error;
use super::progress::{Progress, Watch, tell};
use serde::{Deserialize, Serialize};
use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;

/// The format of the stamp. A reader that meets another version makes the model anew.
const STAMP_VERSION: u32 = 1;
const SCRATCH_PREFIX: &str = "making-";
const TICK: Duration = Duration::from_millis(200);

/// The cache folder.
pub(super) struct WeightsStore {
    folder: PathBuf,
}

/// What the model beside it must look like.
#[derive(Serialize, Deserialize)]
struct Stamp {
    version: u32,
    bytes: u64,
    sha256: String,
}

/// The right to change the folder; given back when dropped, also by a crash.
pub(super) struct StoreLock {
    _file: File,
}

impl WeightsStore {
    /// Opens the folder and makes it when it is missing.
    pub(super) fn open(folder: &Path) -> Result<Self, WeightsError> {
        std::fs::create_dir_all(folder).map_err(cache_error(folder))?;
        Ok(Self { folder: folder.to_owned() })
    }

    /// The model of that name, when it is there and as its stamp says.
    pub(super) fn intact(&self, name: &str, watch: &mut Watch<'_>) -> Result<Option<PathBuf>, WeightsError> {
        let path = self.model(name);
        let stamp = std::fs::read(self.stamp(name))
            .ok()
            .and_then(|bytes| serde_json::from_slice::<Stamp>(&bytes).ok());
        let Some(stamp) = stamp.filter(|stamp| stamp.version == STAMP_VERSION) else { return Ok(None) };
        let same_size = std::fs::metadata(&path).is_ok_and(|metadata| metadata.len() == stamp.bytes);
        if same_size
            && file_digest(&path, watch, |cause| WeightsError::Cache { path: path.clone(), cause })?
                == stamp.sha256
        {
            return Ok(Some(path));
        }
        Ok(None)
    }

    /// Waits until no other process prepares. The watcher can end the wait.
    pub(super) fn lock(&self, watch: &mut Watch<'_>) -> Result<StoreLock, WeightsError> {
        let path = self.folder.join("lock");
        let file = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .map_err(cache_error(&path))?;
        loop {
            match file.try_lock() {
                Ok(()) => break,
                Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(cause)) => return Err(WeightsError::Cache { path, cause }),
            }
            tell(watch, Progress::Waiting)?;
            // Nothing announces the end of another process's lock, so this looks again after a while.
            std::thread::park_timeout(TICK);
        }
        self.sweep();
        Ok(StoreLock { _file: file })
    }

    /// A folder for half-done work, on the same disk as the cache. It goes away when dropped.
    pub(super) fn scratch(&self, _lock: &StoreLock) -> Result<TempDir, WeightsError> {
        tempfile::Builder::new()
            .prefix(SCRATCH_PREFIX)
            .tempdir_in(&self.folder)
            .map_err(cache_error(&self.folder))
    }

    /// Moves a finished model, safely on the disk already, to its place.
    pub(super) fn install(
        &self,
        made: &Path,
        name: &str,
        watch: &mut Watch<'_>,
    ) -> Result<PathBuf, WeightsError> {
        let bytes = std::fs::metadata(made).map_err(cache_error(made))?.len();
        let sha256 = file_digest(made, watch, |cause| WeightsError::Cache { path: made.to_owned(), cause })?;
        let stamp = Stamp { version: STAMP_VERSION, bytes, sha256 };
        let path = self.model(name);
        std::fs::rename(made, &path).map_err(cache_error(&path))?;
        // The stamp comes second: a crash in between leaves a model that does not count.
        let text = serde_json::to_string_pretty(&stamp).map_err(|error| cache_error(&path)(error.into()))?;
        let draft = made.with_extension("stamp");
        std::fs::write(&draft, text).map_err(cache_error(&draft))?;
        std::fs::rename(&draft, self.stamp(name)).map_err(cache_error(&draft))?;
        File::open(&self.folder).and_then(|folder| folder.sync_all()).map_err(cache_error(&self.folder))?;
        Ok(path)
    }

    /// Removes what processes left behind that were killed while preparing. Only the holder of the lock may do so.
    fn sweep(&self) {
        let Ok(entries) = std::fs::read_dir(&self.folder) else { return };
        let abandoned =
            entries.flatten().filter(|entry| entry.file_name().to_string_lossy().starts_with(SCRATCH_PREFIX));
        for entry in abandoned {
            // What cannot be removed only takes up space, and the next process tries again.
            drop(std::fs::remove_dir_all(entry.path()));
        }
    }

    fn model(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.gguf"))
    }

    fn stamp(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.json"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ops::ControlFlow;

    fn quiet(_: Progress) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    fn store_with(name: &str, content: &[u8]) -> (TempDir, WeightsStore, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let store = WeightsStore::open(folder.path()).unwrap();
        let lock = store.lock(&mut quiet).unwrap();
        let scratch = store.scratch(&lock).unwrap();
        let made = scratch.path().join("made.gguf");
        std::fs::write(&made, content).unwrap();
        let path = store.install(&made, name, &mut quiet).unwrap();
        (folder, store, path)
    }

    #[test]
    fn an_installed_model_is_intact() {
        let (_folder, store, path) = store_with("toy", b"weights");
        assert_eq!(store.intact("toy", &mut quiet).unwrap(), Some(path));
        assert_eq!(store.intact("other", &mut quiet).unwrap(), None);
    }

    #[test]
    fn a_torn_model_does_not_count() {
        let (_folder, store, path) = store_with("toy", b"weights");
        std::fs::write(&path, b"weig").unwrap();
        assert_eq!(store.intact("toy", &mut quiet).unwrap(), None);
    }

    #[test]
    fn a_model_that_changed_in_place_does_not_count() {
        let (_folder, store, path) = store_with("toy", b"weights");
        std::fs::write(&path, b"wEights").unwrap();
        assert_eq!(store.intact("toy", &mut quiet).unwrap(), None);
    }

    #[test]
    fn a_model_without_its_stamp_does_not_count() {
        let (_folder, store, _) = store_with("toy", b"weights");
        std::fs::remove_file(store.stamp("toy")).unwrap();
        assert_eq!(store.intact("toy", &mut quiet).unwrap(), None);
    }

    #[test]
    fn a_stamp_of_another_version_does_not_count() {
        let (_folder, store, _) = store_with("toy", b"weights");
        let stamp =
            std::fs::read_to_string(store.stamp("toy")).unwrap().replace("\"version\": 1", "\"version\": 2");
        std::fs::write(store.stamp("toy"), stamp).unwrap();
        assert_eq!(store.intact("toy", &mut quiet).unwrap(), None);
    }

    #[test]
    fn one_process_prepares_at_a_time_and_the_wait_can_be_ended() {
        let (_folder, store, _) = store_with("toy", b"weights");
        let held = store.lock(&mut quiet).unwrap();
        let mut waits = 0;
        let ended = store.lock(&mut |progress| {
            waits += u32::from(progress == Progress::Waiting);
            ControlFlow::Break(())
        });
        assert!(matches!(ended, Err(WeightsError::Cancelled)));
        assert_eq!(waits, 1);
        drop(held);
        assert!(store.lock(&mut quiet).is_ok());
    }

    #[test]
    fn what_a_killed_process_left_is_swept_away() {
        let (folder, store, _) = store_with("toy", b"weights");
        std::fs::create_dir(folder.path().join("making-abc")).unwrap();
        let _lock = store.lock(&mut quiet).unwrap();
        assert!(!folder.path().join("making-abc").exists());
        assert!(store.model("toy").exists());
    }
}
