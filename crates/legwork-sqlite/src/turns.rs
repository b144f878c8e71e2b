//! The queue of all processes for the right to write to one database. SQLite only lets each look again and again whether the right
//! is free: of many that look, chance decides who gets it, and looking takes the time from the one that writes.
//!
//! The queue is for order alone. What keeps two from writing at once is SQLite's own lock; who does not get its turn in time, or
//! cannot queue, writes without one as soon as SQLite lets it ([050](../../../docs/design/050-turns-to-write.md)).

use crate::files;
use std::fs::{File, TryLockError};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// The place of one writer in the queue.
pub(crate) struct Turns {
    path: PathBuf,
    place: Option<Arc<Place>>,
    /// Waits where the writer cannot: a lock of the system is waited for without an end.
    waiter: Option<JoinHandle<()>>,
}

/// What the writer and its waiter share.
struct Place {
    locks: Locks,
    standing: Mutex<Standing>,
    changed: Condvar,
}

/// How the writer stands to the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// It asks for nothing, or has taken its turn.
    Away,
    /// It waits.
    Waiting,
    /// It is its turn.
    Called,
    /// It waits no more. When its turn comes it is given on.
    Gone,
    /// It has ended.
    Over,
}

/// A turn; it is over when this is dropped.
pub(crate) struct Turn<'a>(&'a Place);

impl Turns {
    /// Nothing is opened before the first wait.
    pub(crate) fn new(path: &Path) -> Turns {
        Turns { path: path.to_owned(), place: None, waiter: None }
    }

    /// Waits for the turn of this writer, for so long at most; `None` when it did not come or there is no queue. While an
    /// earlier turn that was not waited for has not come, nothing is waited for: whoever is at the head may stand still.
    pub(crate) fn wait(&mut self, longest: Duration) -> Option<Turn<'_>> {
        match self.called_within(longest) {
            Ok(called) => self.place.as_deref().filter(|_| called).map(Turn),
            Err(error) => {
                tracing::debug!(%error, "no turn to write; SQLite alone decides");
                if let Some(place) = &self.place {
                    place.locks.give_on();
                }
                None
            }
        }
    }

    fn called_within(&mut self, longest: Duration) -> io::Result<bool> {
        let place = match &self.place {
            Some(place) => place,
            None => self.place.insert(Arc::new(Place::new(&self.path)?)),
        };
        if *place.standing() == Standing::Gone {
            return Ok(false);
        }
        if place.locks.try_take()? {
            return Ok(true);
        }
        if self.waiter.is_none() {
            let at = Arc::clone(place);
            let named = thread::Builder::new().name("store-turns".to_owned());
            self.waiter = Some(named.spawn(move || at.serve())?);
        }
        Ok(place.called_within(longest))
    }
}

impl Drop for Turns {
    fn drop(&mut self) {
        let Some(place) = &self.place else { return };
        let before = place.enter(Standing::Over);
        // One that waits for the system ends with its turn, or with the process.
        if let (Some(waiter), Standing::Away) = (self.waiter.take(), before)
            && waiter.join().is_err()
        {
            tracing::error!("the queue for the state database panicked");
        }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.locks.give_on();
        self.0.enter(Standing::Away);
    }
}

impl Place {
    fn new(path: &Path) -> io::Result<Place> {
        Ok(Place { locks: Locks::open(path)?, standing: Mutex::new(Standing::Away), changed: Condvar::new() })
    }

    fn standing(&self) -> MutexGuard<'_, Standing> {
        self.standing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was before.
    fn enter(&self, next: Standing) -> Standing {
        let before = std::mem::replace(&mut *self.standing(), next);
        self.changed.notify_all();
        before
    }

    /// The writer's part of a wait.
    fn called_within(&self, longest: Duration) -> bool {
        self.enter(Standing::Waiting);
        let waits = |standing: &mut Standing| *standing == Standing::Waiting;
        // Deadline: who is at the head may stand still for ever; the writer then goes on without a turn.
        let waited = self.changed.wait_timeout_while(self.standing(), longest, waits);
        let (mut standing, _) = waited.unwrap_or_else(PoisonError::into_inner);
        match *standing {
            Standing::Called => true,
            Standing::Waiting => {
                *standing = Standing::Gone;
                false
            }
            Standing::Away | Standing::Gone | Standing::Over => false,
        }
    }

    /// The waiter's part, until the writer has ended.
    fn serve(&self) {
        loop {
            let idles = |standing: &mut Standing| matches!(standing, Standing::Away | Standing::Called);
            let woken = self.changed.wait_while(self.standing(), idles);
            if *woken.unwrap_or_else(PoisonError::into_inner) == Standing::Over {
                return self.locks.give_on();
            }
            let taken = self.locks.take();
            let mut standing = self.standing();
            *standing = match (*standing, taken) {
                (Standing::Waiting, Ok(())) => Standing::Called,
                (Standing::Over, _) => return self.locks.give_on(),
                (Standing::Away | Standing::Called | Standing::Gone, Ok(())) => {
                    self.locks.give_on();
                    Standing::Away
                }
                (_, Err(error)) => {
                    tracing::debug!(%error, "no turn to write; SQLite alone decides");
                    self.locks.give_on();
                    Standing::Away
                }
            };
            self.changed.notify_all();
        }
    }
}

/// Two files that are only locked. Who wants to write first gets `next` and with it waits for `turn`: so whoever gives its turn on
/// and wants the next one at once stands behind somebody who waits, although a lock that is free goes to the first who asks.
/// What a process holds of them the system takes back when it dies.
struct Locks {
    next: File,
    turn: File,
}

impl Locks {
    fn open(path: &Path) -> io::Result<Locks> {
        let [next, turn] = files::turn_paths(path);
        Ok(Locks { next: files::open_to_lock(&next)?, turn: files::open_to_lock(&turn)? })
    }

    /// Takes the turn if nobody has it; otherwise perhaps the place of the next one, which [`Locks::take`] goes on from.
    fn try_take(&self) -> io::Result<bool> {
        if !is_taken(&self.next)? || !is_taken(&self.turn)? {
            return Ok(false);
        }
        self.next.unlock().map(|()| true)
    }

    /// Waits until it is this writer's turn. A lock that this file holds already is had at once (`flock`).
    fn take(&self) -> io::Result<()> {
        wait_for(&self.next)?;
        wait_for(&self.turn)?;
        self.next.unlock()
    }

    fn give_on(&self) {
        for file in [&self.turn, &self.next] {
            if let Err(error) = file.unlock() {
                tracing::debug!(%error, "a turn to write could not be given on; the end of this process does");
            }
        }
    }
}

fn is_taken(file: &File) -> io::Result<bool> {
    match file.try_lock() {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

fn wait_for(file: &File) -> io::Result<()> {
    loop {
        match file.lock() {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

#[cfg(test)]
#[path = "turns_tests.rs"]
mod tests;
