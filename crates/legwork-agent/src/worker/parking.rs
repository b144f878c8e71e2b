//! One agent, one slot: calls of one reply that wait for subagents side by side give the slot back once, and take it
//! again when the last of them has what it waited for.
//!
//! Everything else passes straight through to the agent's line.

use legwork_core::ports::{Line, Pending, Steer, StopNotice};
use legwork_core::pulse::LineEvent;
use std::sync::Arc;
use tokio::sync::Mutex;

/// A line that counts how many calls are parked.
pub(super) struct SharedParking {
    line: Arc<dyn Line>,
    /// It is held while the slot is given back or taken, so that neither overtakes the other. Only the calls of one
    /// reply meet here.
    parked: Mutex<usize>,
}

impl SharedParking {
    /// Wraps an agent's line.
    pub(super) fn over(line: Arc<dyn Line>) -> Arc<dyn Line> {
        Arc::new(SharedParking { line, parked: Mutex::new(0) })
    }
}

impl Line for SharedParking {
    fn tell(&self, event: LineEvent) {
        self.line.tell(event);
    }

    fn stopped(&self) -> Pending<'_, StopNotice> {
        self.line.stopped()
    }

    fn steered(&self) -> Vec<Steer> {
        self.line.steered()
    }

    fn park(&self) -> Pending<'_, ()> {
        Box::pin(async move {
            let mut parked = self.parked.lock().await;
            if *parked == 0 {
                self.line.park().await;
            }
            *parked += 1;
        })
    }

    fn unpark(&self) -> Pending<'_, Result<(), StopNotice>> {
        Box::pin(async move {
            let mut parked = self.parked.lock().await;
            *parked = parked.saturating_sub(1);
            if *parked == 0 { self.line.unpark().await } else { Ok(()) }
        })
    }
}
