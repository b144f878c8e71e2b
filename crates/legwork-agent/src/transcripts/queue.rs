//! What waits to be written: bounded in bytes, taken out as a whole and not more often than readers notice, so that
//! many small events cost few wake-ups.

use super::writer::Told;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Bytes that may wait; whoever tells more waits for the disk.
const BYTES_MAX: usize = 8 * 1024 * 1024;
/// What an event weighs besides its text.
const EVENT_BYTES: usize = 128;
/// How long events are gathered before they are written together.
const GATHER: Duration = Duration::from_millis(50);
/// How long somebody waits for a disk that does not answer before an event is given up.
const PATIENCE: Duration = Duration::from_secs(5);

/// Tellers to the one writer.
#[derive(Default)]
pub(super) struct Queue {
    inside: Mutex<Inside>,
    /// Something has come, or there is no need to gather any longer.
    came: Condvar,
    /// There is room again, or everything is written.
    room: Condvar,
}

#[derive(Default)]
struct Inside {
    waiting: Vec<Told>,
    bytes: usize,
    /// Something is waiting that readers are waiting for.
    urgent: bool,
    /// Nothing more will come.
    closed: bool,
    /// The writer has written everything and is gone.
    done: bool,
    /// Events that were given up.
    lost: u64,
}

impl Queue {
    /// Puts something in; waits when too much is waiting already.
    pub(super) fn tell(&self, told: Told) {
        let bytes = told.weight() + EVENT_BYTES;
        let full = |inside: &mut Inside| inside.bytes > BYTES_MAX && !inside.done;
        let waited = self.room.wait_timeout_while(self.lock(), PATIENCE, full);
        let (mut inside, waited) = waited.unwrap_or_else(PoisonError::into_inner);
        if waited.timed_out() || inside.done {
            inside.lost += 1;
            if inside.lost == 1 {
                tracing::warn!("transcripts cannot be written fast enough; lines of them are missing");
            }
            return;
        }
        let was_empty = inside.waiting.is_empty();
        inside.urgent |= told.is_urgent();
        inside.waiting.push(told);
        inside.bytes += bytes;
        if was_empty || !inside.may_gather() {
            self.came.notify_one();
        }
    }

    /// Waits until there is something, gathers a little more, and takes all of it. When nothing comes for `idle_max`
    /// it takes nothing. `None` at the end.
    pub(super) fn take(&self, idle_max: Duration) -> Option<Vec<Told>> {
        let idle = |inside: &mut Inside| inside.waiting.is_empty() && !inside.closed;
        let waited = self.came.wait_timeout_while(self.lock(), idle_max, idle);
        let (inside, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if inside.waiting.is_empty() {
            return if inside.closed { None } else { Some(Vec::new()) };
        }
        // Deadline: readers see what was told within this time.
        let gathered = self.came.wait_timeout_while(inside, GATHER, |inside| inside.may_gather());
        let (mut inside, _) = gathered.unwrap_or_else(PoisonError::into_inner);
        inside.bytes = 0;
        inside.urgent = false;
        self.room.notify_all();
        Some(std::mem::take(&mut inside.waiting))
    }

    /// Nothing more will come. Waits until everything is written, but not longer than `limit`; says whether it is.
    pub(super) fn close(&self, limit: Duration) -> bool {
        let mut inside = self.lock();
        inside.closed = true;
        self.came.notify_one();
        let ended = self.room.wait_timeout_while(inside, limit, |inside| !inside.done);
        ended.unwrap_or_else(PoisonError::into_inner).0.done
    }

    /// The writer says that it is gone.
    pub(super) fn ended(&self) {
        self.lock().done = true;
        self.room.notify_all();
    }

    /// A teller that panicked has left the queue whole: each change is made in one go.
    fn lock(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inside {
    /// Whether what is waiting may wait for more.
    fn may_gather(&self) -> bool {
        self.bytes <= BYTES_MAX / 2 && !self.urgent && !self.closed
    }
}
