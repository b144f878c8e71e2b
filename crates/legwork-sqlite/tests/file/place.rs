//! A database file in a folder of its own, removed at the end.

use legwork_core::ports::Store;
use legwork_sqlite::{SqliteStore, StoreOptions};
use legwork_testkit::store_suite::Place;
use std::path::PathBuf;
use std::sync::Arc;
use tempfile::TempDir;

/// The folder.
pub struct FilePlace {
    folder: TempDir,
}

impl FilePlace {
    /// An empty folder.
    pub fn new() -> Self {
        FilePlace { folder: TempDir::new().expect("a folder for the test") }
    }

    /// The database file.
    pub fn path(&self) -> PathBuf {
        self.folder.path().join("state").join("legwork.db")
    }
}

impl Place for FilePlace {
    fn open(&self) -> Arc<dyn Store> {
        Arc::new(SqliteStore::open(&self.path(), StoreOptions::default()).expect("the store opens"))
    }
}
