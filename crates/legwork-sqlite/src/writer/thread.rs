//! The writer's thread and its queue.

use super::command::{Closure, Command};
use super::group::{self, Group};
use crate::failure::{self, Failure};
use crate::files::Identity;
use legwork_core::ports::StoreError;
use rusqlite::Connection;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use tokio::sync::mpsc;

/// Commands that share one commit at most.
const GROUP_MAX: usize = 512;

/// Commands that may wait for the writer.
const QUEUE_MAX: usize = 2 * GROUP_MAX;

/// The handle of the writer. Dropping it lets the writer finish what waits, and waits for that.
pub(crate) struct Writer {
    /// Callers → writer thread; full: the caller waits. Every group ends within the wait for a lock and one commit,
    /// so that the wait for a place has an end too.
    queue: Option<mpsc::Sender<Box<dyn Command>>>,
    /// Held by the thread while a commit is under way.
    commits: Arc<Mutex<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    /// Starts the thread on a connection that is ready to write.
    pub(crate) fn start(connection: Connection, path: &Path) -> Result<Self, StoreError> {
        let (queue, commands) = mpsc::channel(QUEUE_MAX);
        let identity = Identity::of(path).map_err(|error| failure::of_io(&error, path))?;
        let path = path.to_owned();
        let commits = Arc::new(Mutex::new(()));
        let run = {
            let (path, commits) = (path.clone(), Arc::clone(&commits));
            move || serve(connection, (&path, identity), (commands, &commits))
        };
        let thread = thread::Builder::new().name("store-writer".to_owned()).spawn(run);
        let thread = thread.map_err(|error| failure::of_io(&error, &path))?;
        Ok(Writer { queue: Some(queue), commits, thread: Some(thread) })
    }

    /// Does `work` in a transaction and answers when that is durable. Once the command waits in the queue, dropping
    /// the future does not take it back.
    pub(crate) async fn run<T, F>(&self, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnMut(&Connection) -> Result<T, Failure> + Send + 'static,
    {
        let (closure, answer) = Closure::new(work);
        let queue = self.queue.as_ref().ok_or(StoreError::Closed)?;
        queue.send(Box::new(closure)).await.map_err(|_| StoreError::Closed)?;
        answer.await.map_err(|_| StoreError::Closed)?
    }

    /// Does `act` while no commit is under way, and none begins before it has ended.
    pub(crate) fn between_commits<T>(&self, act: impl FnOnce() -> T) -> T {
        let _none_begins = locked(&self.commits);
        act()
    }
}

/// What it guards is the database, which is whole after a panic too.
fn locked(commits: &Mutex<()>) -> MutexGuard<'_, ()> {
    commits.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.queue = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the writer of the state database panicked");
        }
    }
}

fn serve(
    connection: Connection,
    (path, identity): (&Path, Identity),
    (mut commands, commits): (mpsc::Receiver<Box<dyn Command>>, &Mutex<()>),
) {
    let mut group: Group = Vec::with_capacity(GROUP_MAX);
    let mut last = 0;
    while commands.blocking_recv_many(&mut group, GROUP_MAX) > 0 {
        if group.len() < last {
            gather(&mut group, &mut commands);
        }
        last = group.len();
        let _under_way = locked(commits);
        match identity.check(path) {
            Ok(()) => group::commit_together(&connection, path, &mut group),
            Err(gone) => group::fail_all(&mut group, &gone),
        }
    }
    // Closing the last connection moves the log into the database and removes it.
    connection.flush_prepared_statement_cache();
    if let Err((_, error)) = connection.close() {
        tracing::warn!(%error, "the state database did not close cleanly; the next start mends it");
    }
}

/// Takes in what the callers of the last group ask for next. They were answered a moment ago; letting them run
/// first makes groups about twice as large, and a commit costs more than the turn that is given away.
fn gather(group: &mut Group, commands: &mut mpsc::Receiver<Box<dyn Command>>) {
    thread::yield_now();
    while group.len() < GROUP_MAX
        && let Ok(command) = commands.try_recv()
    {
        group.push(command);
    }
}
