//! Patience with a store that takes nothing for a while: what was to be stored is offered again after growing pauses, until a
//! stop comes or the store was in trouble for too long (K35).
//!
//! It does not know what is stored, and does not decide what becomes of it when patience is over.

use futures::FutureExt;
use legwork_core::ports::{Line, StoreError};
use legwork_core::pulse::LineEvent;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Pauses between two tries: doubled each time, up to the last.
const PAUSE_FIRST: Duration = Duration::from_millis(100);
const PAUSE_LAST: Duration = Duration::from_secs(5);

/// How patient somebody is who stores something.
#[derive(Clone)]
pub(crate) struct Patience {
    /// How long the store may take nothing.
    limit: Duration,
    /// Hears a stop, and tells whoever watches.
    line: Option<Arc<dyn Line>>,
    /// Where those of a process who wait are counted.
    trouble: Option<Arc<Trouble>>,
}

/// How many of those who share it wait for the store, so that the trouble is told once.
#[derive(Debug, Default)]
pub(crate) struct Trouble {
    waiting: AtomicUsize,
}

/// Something that is stored, with the tries that failed.
pub(crate) struct Trial<'a> {
    patience: &'a Patience,
    /// Since when the store has been in trouble.
    since: Option<Instant>,
    pause: Duration,
    /// The next try is the last.
    is_last: bool,
}

impl Patience {
    /// One try.
    pub(crate) fn none() -> Self {
        Patience { limit: Duration::ZERO, line: None, trouble: None }
    }

    /// Nobody hears of it, and no stop is heard.
    pub(crate) fn in_silence(limit: Duration) -> Self {
        Patience { limit, ..Patience::none() }
    }

    /// The agent at that line hears of it.
    pub(crate) fn on(line: Arc<dyn Line>, limit: Duration) -> Self {
        Patience { line: Some(line), ..Patience::in_silence(limit) }
    }

    /// Whoever runs the program hears of it too, once for all who share `trouble`.
    pub(crate) fn telling(self, trouble: Arc<Trouble>) -> Self {
        Patience { trouble: Some(trouble), ..self }
    }

    pub(crate) fn begin(&self) -> Trial<'_> {
        Trial { patience: self, since: None, pause: PAUSE_FIRST, is_last: false }
    }

    /// Whether a stop has come.
    fn is_stopped(&self) -> bool {
        self.line.as_ref().is_some_and(|line| line.stopped().now_or_never().is_some())
    }

    async fn stopped(&self) {
        match &self.line {
            Some(line) => {
                line.stopped().await;
            }
            None => std::future::pending().await,
        }
    }

    /// Write, then tell: nothing is told here of what is not stored, but that it is not.
    fn tell(&self, error: &StoreError) {
        if let Some(line) = &self.line {
            line.tell(LineEvent::Note(format!("what was done is kept and offered again: {error}")));
        }
        if let Some(trouble) = &self.trouble
            && trouble.waiting.fetch_add(1, Ordering::SeqCst) == 0
        {
            tracing::warn!(%error, "what subagents did could not be recorded; it is kept and offered again");
        }
    }
}

impl Trial<'_> {
    /// Whether a try has failed. It may have been carried out all the same.
    pub(crate) fn has_failed(&self) -> bool {
        self.since.is_some()
    }

    /// A try failed: waits until the next one is due. A stop that comes meanwhile leaves one more, at once.
    ///
    /// # Errors
    /// The failure, when there is no next try: it will not pass, a stop came before it, or it has lasted too long.
    pub(crate) async fn failed(&mut self, error: StoreError) -> Result<(), StoreError> {
        if !error.may_pass() || self.is_last || self.patience.is_stopped() {
            return Err(error);
        }
        if self.since.is_none() {
            self.patience.tell(&error);
        }
        let since = *self.since.get_or_insert_with(Instant::now);
        if since.elapsed() >= self.patience.limit {
            return Err(error);
        }
        tokio::select! {
            biased;
            () = self.patience.stopped() => self.is_last = true,
            // Deadline: a store in trouble is given time before the same is offered again.
            () = sleep(self.pause) => self.pause = (self.pause * 2).min(PAUSE_LAST),
        }
        Ok(())
    }
}

impl Drop for Trial<'_> {
    fn drop(&mut self) {
        if let (Some(_), Some(trouble)) = (self.since, &self.patience.trouble) {
            trouble.waiting.fetch_sub(1, Ordering::SeqCst);
        }
    }
}
