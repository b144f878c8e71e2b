//! The writer's thread and its queue.

use super::command::{Closure, Command};
use super::group::{self, Group};
use crate::busy;
use crate::failure::{self, Failure};
use crate::files::Identity;
use crate::turns::Turns;
use legwork_core::ports::StoreError;
use rusqlite::Connection;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

/// Commands that share one commit at most.
const GROUP_MAX: usize = 512;

/// Commands that may wait for the writer.
const QUEUE_MAX: usize = 2 * GROUP_MAX;

/// Tenths of the wait for a lock that the turn is waited for.
const TURN_TENTHS: u32 = 4;

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
    pub(crate) fn start(
        connection: Connection,
        path: &Path,
        lock_wait: Duration,
    ) -> Result<Self, StoreError> {
        let (queue, commands) = mpsc::channel(QUEUE_MAX);
        let identity = Identity::of(path).map_err(|error| failure::of_io(&error, path))?;
        let path = path.to_owned();
        let commits = Arc::new(Mutex::new(()));
        let run = {
            let commits = Arc::clone(&commits);
            let turns = Turns::new(&path);
            let database = Database { connection, path: path.clone(), identity, turns, lock_wait };
            move || database.serve(commands, &commits)
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

/// The database as the thread has it.
struct Database {
    connection: Connection,
    path: PathBuf,
    identity: Identity,
    turns: Turns,
    /// How long the right to write is waited for.
    lock_wait: Duration,
}

impl Database {
    fn serve(mut self, mut commands: mpsc::Receiver<Box<dyn Command>>, commits: &Mutex<()>) {
        let mut group: Group = Vec::with_capacity(GROUP_MAX);
        let mut last = 0;
        while commands.blocking_recv_many(&mut group, GROUP_MAX) > 0 {
            if group.len() < last {
                gather(&mut group, &mut commands);
            }
            last = group.len();
            let _under_way = locked(commits);
            match self.identity.check(&self.path) {
                Ok(()) => self.commit(&mut group),
                Err(gone) => group::fail_all(&mut group, &gone),
            }
        }
        // Closing the last connection moves the log into the database and removes it.
        self.connection.flush_prepared_statement_cache();
        if let Err((_, error)) = self.connection.close() {
            tracing::warn!(%error, "the state database did not close cleanly; the next start mends it");
        }
    }

    /// Commits a group when it is this process's turn. What was waited for that counts as waiting for the lock.
    fn commit(&mut self, group: &mut Group) {
        let Database { connection, path, turns, lock_wait, .. } = self;
        let (since, share) = (Instant::now(), *lock_wait / 10 * TURN_TENTHS);
        let turn = turns.wait(share);
        // A process that stood still meanwhile has the rest of its time all the same.
        wait_for_locks(connection, lock_wait.saturating_sub(since.elapsed().min(share)));
        group::commit_together(connection, path, group);
        drop(turn);
    }
}

fn wait_for_locks(connection: &mut Connection, longest: Duration) {
    if let Err(error) = busy::install(connection, longest) {
        tracing::warn!(%error, "the state database keeps its former wait for locks");
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
