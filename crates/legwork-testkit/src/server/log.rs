//! The log: every request in the order of its arrival, how its reply ended, and how many were open at once.
//!
//! `Ledger` is the live side, written by connections and waited on by tests; `Log` is what a test reads.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::protocol::Protocol;
use super::strict::Violation;

/// How the reply to a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It has not ended yet.
    Open,
    /// The whole reply was sent.
    Answered,
    /// The script closed the connection.
    HungUp,
    /// The client left before the reply ended.
    ClientGone,
}

/// One request.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The order of arrival, from 0.
    pub number: usize,
    pub method: String,
    /// The path with its query.
    pub path: String,
    /// The wire format that is spoken at this path.
    pub protocol: Option<Protocol>,
    pub host: Option<String>,
    pub authorization: Option<String>,
    /// The key, brought in the way of the wire format.
    pub key: Option<String>,
    /// All headers in their order, with their names in lower case.
    pub headers: Vec<(String, String)>,
    /// The parsed body; null where it is no JSON.
    pub body: Arc<Value>,
    pub body_bytes: usize,
    /// The marker of the agent; none for the script of all others, or for a request that was not understood.
    pub agent: Option<String>,
    /// The 0-based step of the script.
    pub step: usize,
    /// The 0-based attempt at that step.
    pub attempt: usize,
    /// The rule that the request broke, if any.
    pub violation: Option<Violation>,
    /// When it had arrived whole, on the monotonic clock since the server's start.
    pub arrived: Duration,
    /// When its reply ended, on the same clock.
    pub ended: Option<Duration>,
    pub ending: Ending,
}

impl Entry {
    /// A header's value; the name is given in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// What happened at one gate.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct GateCount {
    pub reached: usize,
    pub waiting: usize,
}

/// Everything that reached the server so far.
#[derive(Clone, Debug, Default)]
pub struct Log {
    entries: Vec<Entry>,
    gates: BTreeMap<String, GateCount>,
    in_flight: usize,
    peak_in_flight: usize,
    held: usize,
    peak_held: usize,
}

impl Log {
    /// All requests in the order of arrival.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The requests of one agent, in the order of arrival.
    pub fn of(&self, marker: &str) -> Vec<&Entry> {
        self.entries.iter().filter(|entry| entry.agent.as_deref() == Some(marker)).collect()
    }

    /// All broken rules, in the order of arrival. A test of good behaviour asserts that there are none.
    pub fn violations(&self) -> Vec<&Violation> {
        self.entries.iter().filter_map(|entry| entry.violation.as_ref()).collect()
    }

    /// How many requests have arrived and have no ended reply.
    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// The most requests that were in flight at once.
    pub fn peak_in_flight(&self) -> usize {
        self.peak_in_flight
    }

    /// How many requests wait at gates.
    pub fn held(&self) -> usize {
        self.held
    }

    /// The most requests that waited at gates at once.
    pub fn peak_held(&self) -> usize {
        self.peak_held
    }

    pub(super) fn gate(&self, name: &str) -> GateCount {
        self.gates.get(name).copied().unwrap_or_default()
    }

    /// One line per request, for the message of a failed test.
    pub fn summary(&self) -> String {
        let mut text =
            format!("{} requests, {} in flight, {} held\n", self.entries.len(), self.in_flight, self.held);
        for entry in &self.entries {
            let agent = entry.agent.as_deref().unwrap_or("-");
            write!(text, "#{} {} {} {agent} step {}", entry.number, entry.method, entry.path, entry.step)
                .and_then(|()| write!(text, " attempt {} {:?}", entry.attempt, entry.ending))
                .and_then(|()| entry.violation.iter().try_for_each(|broken| write!(text, " {broken:?}")))
                .and_then(|()| writeln!(text))
                .expect("writing to a string does not fail");
        }
        text
    }
}

/// The live log of a running server.
pub(super) struct Ledger {
    log: Mutex<Log>,
    changed: Condvar,
    started: Instant,
}

impl Ledger {
    pub(super) fn new() -> Self {
        Self { log: Mutex::default(), changed: Condvar::new(), started: Instant::now() }
    }

    /// Enters a request, fills in its number and the time, and returns the guard that records its end.
    pub(super) fn arrive(self: &Arc<Self>, mut entry: Entry) -> InFlight {
        entry.arrived = self.started.elapsed();
        let number = self.change(|log| {
            entry.number = log.entries.len();
            log.entries.push(entry);
            log.in_flight += 1;
            log.peak_in_flight = log.peak_in_flight.max(log.in_flight);
            log.entries.len() - 1
        });
        InFlight { ledger: Arc::clone(self), number, ended: false }
    }

    /// Counts a request that comes to a gate; the guard counts it as waiting while it lives.
    pub(super) fn hold(self: &Arc<Self>, gate: &str) -> Held {
        self.change(|log| {
            let count = log.gates.entry(gate.to_owned()).or_default();
            count.reached += 1;
            count.waiting += 1;
            log.held += 1;
            log.peak_held = log.peak_held.max(log.held);
        });
        Held { ledger: Arc::clone(self), gate: gate.to_owned() }
    }

    /// A copy of the log as it is now.
    pub(super) fn snapshot(&self) -> Log {
        self.lock().clone()
    }

    /// Blocks until the log is as the test wants it, and returns that log.
    ///
    /// # Panics
    /// After `timeout`, naming what was waited for and what came instead.
    pub(super) fn wait_for(&self, what: &str, timeout: Duration, is_so: impl Fn(&Log) -> bool) -> Log {
        let guard = self.lock();
        let waited = self.changed.wait_timeout_while(guard, timeout, |log| !is_so(log));
        let (log, result) = waited.unwrap_or_else(PoisonError::into_inner);
        let log = log.clone();
        assert!(
            !result.timed_out(),
            "waited {timeout:?} for {what} in vain; the server saw {}",
            log.summary()
        );
        log
    }

    fn change<T>(&self, change: impl FnOnce(&mut Log) -> T) -> T {
        let value = change(&mut self.lock());
        self.changed.notify_all();
        value
    }

    /// A test's predicate may panic under the lock. The log is still whole then, because only `change` writes to it.
    fn lock(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request whose reply has not ended. Dropped without a word, it says that the client left.
pub(super) struct InFlight {
    ledger: Arc<Ledger>,
    number: usize,
    ended: bool,
}

impl InFlight {
    pub(super) fn number(&self) -> usize {
        self.number
    }

    /// Notes the end. It is called before the last byte leaves, so that a client which has the whole reply finds it
    /// ended in the log; where that byte cannot be sent, a second call corrects the first.
    pub(super) fn end(&mut self, ending: Ending) {
        let ended = self.ledger.started.elapsed();
        let first = !std::mem::replace(&mut self.ended, true);
        self.ledger.change(|log| {
            let entry = &mut log.entries[self.number];
            if entry.ending != ending {
                entry.ending = ending;
                entry.ended = Some(ended);
            }
            log.in_flight -= usize::from(first);
        });
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        if !self.ended {
            self.end(Ending::ClientGone);
        }
    }
}

/// A request that waits at a gate.
pub(super) struct Held {
    ledger: Arc<Ledger>,
    gate: String,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.ledger.change(|log| {
            if let Some(count) = log.gates.get_mut(&self.gate) {
                count.waiting -= 1;
            }
            log.held -= 1;
        });
    }
}
