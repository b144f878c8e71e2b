//! A database file in a folder of its own, removed at the end.

use legwork_core::ports::Store;
use legwork_sqlite::{SqliteStore, StoreOptions};
use legwork_testkit::memory::Damage;
use legwork_testkit::store_suite::Place;
use rusqlite::Connection;
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

    fn damage(&self, damage: Damage) {
        let connection = Connection::open(self.path()).expect("SQLite works");
        let (sql, id): (&[&str], String) = match damage {
            Damage::Delegation(id) => (
                &[
                    "UPDATE facts SET body = 'no JSON' WHERE seq = 0 AND delegation = (SELECT no FROM delegations WHERE id = ?1)",
                    "UPDATE children SET state = 'no JSON' WHERE delegation = (SELECT no FROM delegations WHERE id = ?1)",
                ],
                id.to_string(),
            ),
            Damage::Unit(id) => {
                (&["UPDATE units SET state = 'elsewhere', ledger = 'no JSON' WHERE id = ?1"], id.to_string())
            }
            Damage::Request(id) => (&["UPDATE requests SET body = 'no JSON' WHERE id = ?1"], id.to_string()),
            Damage::Journal(actor) => (
                &[
                    "UPDATE steps SET body = 'no JSON' WHERE seq = 0 AND actor IN (SELECT no FROM children WHERE id = ?1 \
                   UNION SELECT -no FROM sessions WHERE id = ?1)",
                ],
                actor.as_str().to_owned(),
            ),
        };
        for sql in sql {
            assert!(connection.execute(sql, (&id,)).expect("SQLite works") > 0, "{sql} of {id}");
        }
    }
}
