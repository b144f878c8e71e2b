//! A small pool of connections that only look, used on the runtime's blocking threads. It never writes.

use crate::failure::{self, Failure};
use crate::files::Identity;
use crate::opening::{self, Sight};
use legwork_core::ports::StoreError;
use rusqlite::Connection;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Semaphore;

/// Looks that may go on at once; the next one waits for its turn.
const READERS_MAX: usize = 4;

/// The pool. Connections are opened when they are first needed.
pub(crate) struct Readers {
    path: PathBuf,
    /// The file that was opened: what an open connection still reads of one that is gone is nobody's any more, and
    /// another one in its place is another store.
    identity: Option<Identity>,
    sight: Sight,
    lock_wait: Duration,
    idle: Mutex<Vec<Connection>>,
    turns: Arc<Semaphore>,
}

impl Readers {
    pub(crate) fn new(path: &Path, sight: Sight, lock_wait: Duration) -> Self {
        Readers {
            path: path.to_owned(),
            // Where that cannot be told the first look says why.
            identity: Identity::of(path).ok(),
            sight,
            lock_wait,
            idle: Mutex::new(Vec::new()),
            turns: Arc::new(Semaphore::new(READERS_MAX)),
        }
    }

    /// Looks at one consistent state of the store.
    pub(crate) async fn look<T, F>(self: Arc<Self>, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, Failure> + Send + 'static,
    {
        let turn = Arc::clone(&self.turns).acquire_owned().await.map_err(|_| StoreError::Closed)?;
        let looked = tokio::task::spawn_blocking(move || {
            let answer = self.look_now(work);
            drop(turn);
            answer
        });
        looked.await.map_err(|error| StoreError::Io(format!("a look at the store was cut off: {error}")))?
    }

    fn look_now<T, F>(&self, work: F) -> Result<T, StoreError>
    where
        F: FnOnce(&Connection) -> Result<T, Failure>,
    {
        if let Some(identity) = self.identity {
            identity.check(&self.path)?;
        }
        let connection = self.take().map_err(|error| failure::of_sqlite(&error, &self.path))?;
        // A connection whose look failed is closed, so that no half-open transaction comes back into the pool.
        let answer = within_snapshot(&connection, work).map_err(|failure| failure.told(&self.path))?;
        self.give_back(connection);
        Ok(answer)
    }

    fn take(&self) -> rusqlite::Result<Connection> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        idle.map_or_else(|| opening::reader(&self.path, self.sight, self.lock_wait), Ok)
    }

    fn give_back(&self, connection: Connection) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
    }

    /// Closes the connections that nobody uses.
    pub(crate) fn close(&self) {
        self.turns.close();
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

fn within_snapshot<T, F>(connection: &Connection, work: F) -> Result<T, Failure>
where
    F: FnOnce(&Connection) -> Result<T, Failure>,
{
    connection.prepare_cached("BEGIN")?.execute(())?;
    let answer = work(connection)?;
    connection.prepare_cached("COMMIT")?.execute(())?;
    Ok(answer)
}
