//! Gates: places in a script where a request waits until the test says go.
//!
//! Gates replace sleeps. They hold requests only; what passed and when is in the log.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Semaphore;

use super::log::Ledger;

/// All gates of a server. A gate exists from the first time that a test or a request names it.
pub(super) struct Gates {
    doors: Mutex<HashMap<String, Arc<Semaphore>>>,
    ledger: Arc<Ledger>,
}

impl Gates {
    pub(super) fn new(ledger: Arc<Ledger>) -> Self {
        Self { doors: Mutex::default(), ledger }
    }

    /// Waits until the gate lets this request through.
    pub(super) async fn pass(&self, name: &str) {
        let door = self.door(name);
        let _held = self.ledger.hold(name);
        // A closed semaphore is a gate that was opened for good: every wait on it ends at once.
        if let Ok(permit) = door.acquire().await {
            permit.forget();
        }
    }

    pub(super) fn gate(&self, name: &str, patience: Duration) -> Gate {
        Gate { name: name.to_owned(), door: self.door(name), ledger: Arc::clone(&self.ledger), patience }
    }

    fn door(&self, name: &str) -> Arc<Semaphore> {
        let mut doors = self.doors.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(doors.entry(name.to_owned()).or_insert_with(|| Arc::new(Semaphore::new(0))))
    }
}

/// A test's hand on one gate.
#[derive(Clone)]
pub struct Gate {
    name: String,
    door: Arc<Semaphore>,
    ledger: Arc<Ledger>,
    patience: Duration,
}

impl Gate {
    /// Opens the gate for good, for those that wait and those that come later.
    pub fn open(&self) {
        self.door.close();
    }

    /// Lets so many requests through, now or when they come, first come first.
    pub fn let_through(&self, count: usize) {
        self.door.add_permits(count);
    }

    /// Blocks until at least one request has come to the gate since the server's start.
    ///
    /// # Panics
    /// When the server's patience ends, with the requests that came instead.
    pub fn wait_reached(&self) {
        self.wait(&format!("a request to reach the gate `{}`", self.name), |gate| gate.reached >= 1);
    }

    /// Blocks until at least so many requests wait at the gate at once.
    ///
    /// # Panics
    /// When the server's patience ends, with the requests that came instead.
    pub fn wait_waiting(&self, count: usize) {
        self.wait(&format!("{count} requests to wait at the gate `{}`", self.name), |gate| {
            gate.waiting >= count
        });
    }

    /// How many requests wait here now.
    pub fn waiting(&self) -> usize {
        self.ledger.snapshot().gate(&self.name).waiting
    }

    fn wait(&self, what: &str, is_so: impl Fn(super::log::GateCount) -> bool) {
        self.ledger.wait_for(what, self.patience, |log| is_so(log.gate(&self.name)));
    }
}
