//! The store as its users hold it: one writer, some readers.

use crate::failure::{self, Failure};
use crate::options::StoreOptions;
use crate::readers::Readers;
use crate::writer::Writer;
use crate::{files, opening, schema};
use legwork_core::ports::StoreError;
use rusqlite::Connection;
use std::path::{self, Path, PathBuf};
use std::sync::Arc;

/// Everything that must survive, in one SQLite file. Several processes may have the same file open.
///
/// It is asked through the ports [`Facts`](legwork_core::ports::Facts), [`Steps`](legwork_core::ports::Steps) and
/// [`Conversations`](legwork_core::ports::Conversations), inside a tokio runtime. Dropping the store first writes
/// what was already handed to it; that blocks for as long as those commits take.
pub struct SqliteStore {
    path: PathBuf,
    writer: Writer,
    readers: Arc<Readers>,
}

impl SqliteStore {
    /// Opens the database file at `path`; creates it and its folder where they are missing, and brings an older
    /// file to the present schema after keeping a copy of it beside it.
    ///
    /// It blocks, for at most a few seconds when another process holds the file.
    ///
    /// # Errors
    /// `ReadOnly` for a place that cannot be written, `Corrupt` for a file that is no database of ours, `Newer` for
    /// one of a later legwork, `Full`, `Locked`, or `Io`. The file is unchanged then.
    pub fn open(path: &Path, options: StoreOptions) -> Result<SqliteStore, StoreError> {
        let path = path::absolute(path).map_err(|error| failure::of_io(&error, path))?;
        files::prepare(&path)?;
        let connection = ready(&path, options).map_err(|failure| failure.told(&path))?;
        let writer = Writer::start(connection, &path)?;
        let readers = Arc::new(Readers::new(&path, options.lock_wait));
        Ok(SqliteStore { path, writer, readers })
    }

    /// Opens the database file at `path` for someone who only wants to look; `None` when there is none, and none
    /// is created then.
    ///
    /// # Errors
    /// As [`SqliteStore::open`].
    pub fn open_existing(path: &Path) -> Result<Option<SqliteStore>, StoreError> {
        match path.try_exists() {
            Ok(true) => SqliteStore::open(path, StoreOptions::default()).map(Some),
            Ok(false) => Ok(None),
            Err(error) => Err(failure::of_io(&error, path)),
        }
    }

    /// The database file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) async fn write<T, F>(&self, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnMut(&Connection) -> Result<T, Failure> + Send + 'static,
    {
        self.writer.run(work).await
    }

    pub(crate) async fn read<T, F>(&self, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, Failure> + Send + 'static,
    {
        Arc::clone(&self.readers).look(work).await
    }
}

impl Drop for SqliteStore {
    fn drop(&mut self) {
        // The writer closes last, because the last connection to close tidies the log away.
        self.readers.close();
    }
}

fn ready(path: &Path, options: StoreOptions) -> Result<Connection, Failure> {
    let connection = opening::writer(path, options)?;
    schema::check(&connection)?;
    opening::make_durable(&connection, options.lock_wait)?;
    schema::bring_up(&connection, path)?;
    Ok(connection)
}
