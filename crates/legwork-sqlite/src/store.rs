//! The store as its users hold it: one writer, some readers.

use crate::failure::{self, Failure};
use crate::log::Opened;
use crate::opening::{self, Sight};
use crate::options::StoreOptions;
use crate::readers::Readers;
use crate::writer::Writer;
use crate::{files, room, schema};
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
    /// Or why nothing can be written.
    writer: Result<Writer, StoreError>,
    readers: Arc<Readers>,
    options: StoreOptions,
    /// The last to go.
    _opened: Opened,
}

impl SqliteStore {
    /// Opens the database file at `path`; creates it and its folder where they are missing, and brings an older
    /// file to the present schema after keeping a copy of it beside it.
    ///
    /// It blocks, for at most a few seconds when another process holds the file.
    ///
    /// # Errors
    /// `ReadOnly` for a place that cannot be written, `Corrupt` for a file that is no database of ours or whose log lacks
    /// what was committed, `Newer` for one of a later legwork, `Full`, `Locked`, or `Io`. The file is unchanged then.
    pub fn open(path: &Path, options: StoreOptions) -> Result<SqliteStore, StoreError> {
        let path = path::absolute(path).map_err(|error| failure::of_io(&error, path))?;
        files::prepare(&path)?;
        let opened = Opened::after_a_look(&path)?;
        let connection = ready(&path, options).map_err(|failure| failure.told(&path))?;
        let writer = Writer::start(connection, &path, options.lock_wait)?;
        let readers = Arc::new(Readers::new(&path, Sight::Shared, options.lock_wait));
        Ok(SqliteStore { path, writer: Ok(writer), readers, options, _opened: opened })
    }

    /// Opens the database file at `path` for someone who only wants to look; `None` when there is none, and none
    /// is created then. One that cannot be written, or not now for want of room, is opened all the same:
    /// [`SqliteStore::only_looks`] tells why, and every write is refused with that.
    ///
    /// # Errors
    /// As [`SqliteStore::open`], when it cannot be read either.
    pub fn open_existing(path: &Path, options: StoreOptions) -> Result<Option<SqliteStore>, StoreError> {
        match path.try_exists() {
            Ok(true) => {}
            Ok(false) => return Ok(None),
            Err(error) => return Err(failure::of_io(&error, path)),
        }
        match SqliteStore::open(path, options) {
            Err(why @ (StoreError::ReadOnly(_) | StoreError::Full(_))) => {
                SqliteStore::open_unwritable(path, options, why).map(Some)
            }
            opened => opened.map(Some),
        }
    }

    fn open_unwritable(
        path: &Path,
        options: StoreOptions,
        why: StoreError,
    ) -> Result<SqliteStore, StoreError> {
        let path = path::absolute(path).map_err(|error| failure::of_io(&error, path))?;
        let opened = Opened::after_a_look(&path)?;
        let mut answer = Err(why.clone());
        for sight in Sight::of_unwritable(&path) {
            answer = look(&path, sight, options, &why).map(|()| sight);
            // Somebody else's lock or log may have come or gone in between: what can be seen otherwise is seen otherwise.
            if !matches!(&answer, Err(error) if *error == why) {
                break;
            }
        }
        let readers = Arc::new(Readers::new(&path, answer?, options.lock_wait));
        Ok(SqliteStore { path, writer: Err(why), readers, options, _opened: opened })
    }

    /// Why nothing can be written, if that is so: the store can be looked at and every write is refused with this.
    pub fn only_looks(&self) -> Option<&StoreError> {
        self.writer.as_ref().err()
    }

    /// Tries whether a write that needs room would be taken, and leaves nothing of it behind.
    ///
    /// # Errors
    /// What a write would be refused with: `Full`, `ReadOnly`, `Locked`, `Io`.
    pub async fn try_room(&self) -> Result<(), StoreError> {
        if let Err(why) = &self.writer {
            return Err(why.clone());
        }
        let (path, options) = (self.path.clone(), self.options);
        let tried = tokio::task::spawn_blocking(move || room::try_room(&path, options));
        tried.await.map_err(|error| StoreError::Io(format!("a trial of the store was cut off: {error}")))?
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
        self.writer.as_ref().map_err(StoreError::clone)?.run(work).await
    }

    /// Does `act` while no commit of this store is under way; none begins before it has ended. It blocks, at most for
    /// one wait for a lock and one commit.
    pub fn between_commits<T>(&self, act: impl FnOnce() -> T) -> T {
        match &self.writer {
            Ok(writer) => writer.between_commits(act),
            Err(_only_looks) => act(),
        }
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
    if connection.is_readonly("main")? {
        // SQLite opens what may not be written all the same.
        return Err(StoreError::ReadOnly(format!("{} (permission denied)", path.display())).into());
    }
    schema::check(&connection)?;
    opening::make_durable(&connection, options.lock_wait)?;
    schema::bring_up(&connection, path)?;
    Ok(connection)
}

/// Whether a file that cannot be written for `why` can be looked at so.
///
/// # Errors
/// `why` itself when it cannot be read either; what is wrong with it when that can be seen.
fn look(path: &Path, sight: Sight, options: StoreOptions, why: &StoreError) -> Result<(), StoreError> {
    let connection = opening::reader(path, sight, options.lock_wait).map_err(|_| why.clone())?;
    match schema::check_present(&connection, why) {
        Ok(()) => Ok(()),
        Err(Failure::Refused(error)) => Err(error),
        Err(Failure::Sqlite(error)) => match failure::of_sqlite(&error, path) {
            damaged @ StoreError::Corrupt(_) => Err(damaged),
            _ => Err(why.clone()),
        },
    }
}
