//! What waits to be written: bounded in bytes, taken out as a whole and not more often than readers notice, so that
//! many small events cost few wake-ups.
//!
//! Nobody who tells something waits for the disk: tellers are tasks of the runtime, and one that stood still would keep
//! others from their models. What finds no room leaves a gap, and the transcript says where and how large it is.

use super::writer::Told;
use legwork_core::ids::ChildId;
use legwork_core::time::Timestamp;
use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Bytes of events that may wait; what comes then leaves a gap.
pub(super) const BYTES_MAX: usize = 32 * 1024 * 1024;
/// Bytes that may wait with beginnings and ends of transcripts, which no gap stands for.
const BYTES_MAX_OF_ALL: usize = 2 * BYTES_MAX;
/// What an event weighs besides its text.
pub(super) const EVENT_BYTES: usize = 128;
/// How long events are gathered before they are written together.
const GATHER: Duration = Duration::from_millis(50);

/// Tellers to the one writer.
#[derive(Default)]
pub(super) struct Queue {
    inside: Mutex<Inside>,
    /// Something has come, or there is no need to gather any longer.
    came: Condvar,
    /// Everything is written.
    written: Condvar,
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
    /// Events that found no room behind what waits, with the time of the last one.
    gaps: BTreeMap<ChildId, (Timestamp, usize)>,
    /// Whether it was told that something found no room.
    warned: bool,
    /// Why the folder that was to be made last could not be.
    trouble: Option<String>,
}

impl Queue {
    /// Puts something in. It never waits: what finds no room leaves a gap.
    pub(super) fn tell(&self, told: Told) {
        let mut inside = self.lock();
        if !inside.has_room_for(&told) {
            inside.leave_out(told);
            return;
        }
        let was_empty = inside.waiting.is_empty();
        // An end is the last line of its transcript.
        if let Told::Ended { child, .. } = &told
            && let Some((at, events)) = inside.gaps.remove(child)
        {
            let child = child.clone();
            inside.push(Told::Gap { child, at, events });
        }
        inside.push(told);
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
        Some(inside.take())
    }

    /// Nothing more will come. Waits until everything is written, but not longer than `limit`; says whether it is.
    pub(super) fn close(&self, limit: Duration) -> bool {
        let mut inside = self.lock();
        inside.closed = true;
        self.came.notify_one();
        let ended = self.written.wait_timeout_while(inside, limit, |inside| !inside.done);
        ended.unwrap_or_else(PoisonError::into_inner).0.done
    }

    /// The writer says why the folder that was to be made last could not be, or that it was.
    pub(super) fn note_trouble(&self, trouble: Option<String>) {
        self.lock().trouble = trouble;
    }

    /// Why no folder can be made, as far as the writer knows.
    pub(super) fn trouble(&self) -> Option<String> {
        self.lock().trouble.clone()
    }

    /// The writer says that it is gone.
    pub(super) fn ended(&self) {
        self.lock().done = true;
        self.written.notify_all();
    }

    /// A teller that panicked has left the queue whole: each change is made in one go.
    fn lock(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inside {
    fn has_room_for(&self, told: &Told) -> bool {
        let bytes_max = match told {
            Told::Event { .. } => BYTES_MAX,
            Told::Created { .. } | Told::Reopened { .. } | Told::Gap { .. } => BYTES_MAX_OF_ALL,
            // There is one for each child or delegation, it is short, and whoever follows a transcript waits for its end.
            Told::Ended { .. } | Told::Discarded { .. } => usize::MAX,
        };
        self.bytes <= bytes_max && !self.done
    }

    fn push(&mut self, told: Told) {
        self.urgent |= told.is_urgent();
        self.bytes += told.weight() + EVENT_BYTES;
        self.waiting.push(told);
    }

    fn leave_out(&mut self, told: Told) {
        if !std::mem::replace(&mut self.warned, true) {
            tracing::warn!(
                "transcripts cannot be written fast enough; what is missing in them is said there"
            );
        }
        match told {
            Told::Event { child, at, .. } => {
                let (last, events) = self.gaps.entry(child).or_insert((at, 0));
                (*last, *events) = (at, *events + 1);
            }
            Told::Created { .. }
            | Told::Discarded { .. }
            | Told::Reopened { .. }
            | Told::Gap { .. }
            | Told::Ended { .. } => {}
        }
    }

    /// Everything that waits, and the gaps behind it.
    fn take(&mut self) -> Vec<Told> {
        let mut taken = std::mem::take(&mut self.waiting);
        let gaps = std::mem::take(&mut self.gaps).into_iter();
        taken.extend(gaps.map(|(child, (at, events))| Told::Gap { child, at, events }));
        (self.bytes, self.urgent) = (0, false);
        taken
    }

    /// Whether what is waiting may wait for more.
    fn may_gather(&self) -> bool {
        self.bytes <= BYTES_MAX / 2 && !self.urgent && !self.closed
    }
}

#[cfg(test)]
mod tests {
    use super::super::entry::{Cut, Entry};
    use super::*;
    use legwork_core::outcome::Outcome;

    fn event(child: &ChildId, at: i64) -> Told {
        let text = "x".repeat(4000);
        let entry = Entry::Text(Cut { text, omitted: 0 });
        Told::Event { child: child.clone(), at: Timestamp(at), entry }
    }

    /// What was taken, in short: events of a child that follow each other as their number.
    fn short(taken: &[Told]) -> Vec<(String, usize)> {
        let mut short: Vec<(String, usize)> = Vec::new();
        for told in taken {
            let (what, count) = match told {
                Told::Event { child, .. } => (format!("{child}"), 1),
                Told::Gap { child, events, .. } => (format!("gap of {child}"), *events),
                Told::Ended { child, .. } => (format!("end of {child}"), 1),
                Told::Created { .. } | Told::Reopened { .. } => ("beginning".to_owned(), 1),
                Told::Discarded { .. } => ("end of all".to_owned(), 1),
            };
            match short.last_mut().filter(|last| last.0 == what) {
                Some(last) => last.1 += count,
                None => short.push((what, count)),
            }
        }
        short
    }

    /// The one thread of the runtime tells far more than there is room for while nobody writes: had it waited, the other task
    /// would never have come to its turn.
    #[tokio::test]
    async fn k27_whoever_tells_does_not_wait_for_a_disk_that_stands_still_and_the_gap_is_counted() {
        let queue = std::sync::Arc::new(Queue::default());
        let [one, other] = [0, 1].map(|index| ChildId::from_bits(index, 7));
        let room = BYTES_MAX / (4000 + EVENT_BYTES) + 1;
        let mut tellers = tokio::task::JoinSet::new();
        let (into, teller, last) = (queue.clone(), one.clone(), other.clone());
        tellers.spawn(async move {
            for at in (0..).take(room + 5000) {
                into.tell(event(&teller, at));
            }
            into.tell(event(&last, 1));
            let outcome = Outcome::Succeeded;
            into.tell(Told::Ended { child: teller, at: Timestamp(2), outcome, error: None });
        });
        tellers.join_next().await.expect("there is one").expect("it tells");
        let taken = queue.take(Duration::ZERO).expect("it is open");
        let word = |what: &str, child: &ChildId, count| (format!("{what}{child}"), count);
        let expected = [
            word("", &one, room),
            word("gap of ", &one, 5000),
            word("end of ", &one, 1),
            word("gap of ", &other, 1),
        ];
        assert_eq!(short(&taken), expected);
        queue.tell(event(&other, 3));
        let again = queue.take(Duration::ZERO).expect("it is open");
        assert_eq!(short(&again), [word("", &other, 1)], "there is room again, and no gap is told twice");
    }
}
