//! One background process of an agent: what is known of it while it runs and after its end.
//!
//! It does not know whose it is, and it words nothing.

use crate::process::{Capture, Captured, End, Finished, Gated, Leftover, Order, Recent, Whole, time_limit};
use crate::tools::groups::Noted;
use legwork_core::ports::Pending;
use legwork_core::record::ProcessGroup;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, watch};

/// A background process.
pub(super) struct Entry {
    /// How its agent calls it; it gets a new name with a new agent.
    id: Mutex<String>,
    /// What it runs, on one line.
    pub(super) command: String,
    /// The beginning of its output.
    pub(super) file: PathBuf,
    /// The end of its output.
    pub(super) recent: Arc<Recent>,
    /// Everything that it starts, unless that leaves the group.
    pub(super) group: ProcessGroup,
    begun: Instant,
    /// Tells the task that runs it to end it.
    stop: Notify,
    /// Written once, by the task that runs it.
    ended: watch::Sender<Option<Arc<Ended>>>,
    /// How far its agent has read its output.
    read_to: AtomicU64,
    /// Whether its agent was shown how it ended.
    end_shown: AtomicBool,
}

/// How a background process ended.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) end: End,
    pub(super) took: Duration,
    /// What still ran when its shell had ended.
    pub(super) leftovers: Vec<Leftover>,
    pub(super) whole: Whole,
}

/// A shell behind its gate, with all that its run needs.
pub(super) struct Ready {
    pub(super) gated: Gated,
    pub(super) noted: Noted,
    pub(super) capture: Capture,
    pub(super) recent: Arc<Recent>,
    pub(super) file: PathBuf,
}

/// Says that a process has ended when its task is dropped before it could.
struct CutOff<'a>(&'a Entry);

impl Drop for CutOff<'_> {
    fn drop(&mut self) {
        let entry = self.0;
        entry.settle(Ended {
            end: End::Untold,
            took: entry.begun.elapsed(),
            leftovers: Vec::new(),
            whole: Whole::Filed(entry.file.clone()),
        });
    }
}

impl Entry {
    pub(super) fn new(id: String, command: String, ready: &Ready) -> Self {
        Entry {
            id: Mutex::new(id),
            command,
            file: ready.file.clone(),
            recent: Arc::clone(&ready.recent),
            group: ready.gated.group().clone(),
            begun: Instant::now(),
            stop: Notify::new(),
            ended: watch::Sender::new(None),
            read_to: AtomicU64::new(0),
            end_shown: AtomicBool::new(false),
        }
    }

    /// Sends the script and follows it to its end. Dropping the future kills everything at once.
    pub(super) async fn run(self: Arc<Self>, ready: Ready, script: String, limit: Option<Duration>) {
        let Ready { gated, noted, mut capture, .. } = ready;
        let _cut_off = CutOff(&self);
        let order = Order { script: &script, until: self.until(limit), capture: &mut capture, moved: &|| {} };
        let finished = gated.run(order).await;
        let captured = capture.finish().await;
        // Whoever hears of the end may look whether the group is forgotten.
        drop(noted);
        self.settle(Ended::of(finished, captured));
    }

    /// How its agent calls it.
    pub(super) fn id(&self) -> String {
        self.id.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn rename(&self, id: String) {
        *self.id.lock().unwrap_or_else(PoisonError::into_inner) = id;
    }

    fn until(&self, limit: Option<Duration>) -> Pending<'_, End> {
        let limit = limit.map_or_else(|| Box::pin(std::future::pending()) as Pending<'_, End>, time_limit);
        Box::pin(async move {
            tokio::select! {
                () = self.stop.notified() => End::Stopped,
                end = limit => end,
            }
        })
    }

    fn settle(&self, ended: Ended) {
        self.ended.send_if_modified(|known| {
            let first = known.is_none();
            if first {
                *known = Some(Arc::new(ended));
            }
            first
        });
    }

    /// Asks it to end. It is killed when it does not.
    pub(super) fn stop(&self) {
        self.stop.notify_one();
    }

    /// How it ended, if it has.
    pub(super) fn ended(&self) -> Option<Arc<Ended>> {
        self.ended.borrow().clone()
    }

    /// Waits for its end. Dropping the future leaves it running.
    pub(super) async fn wait(&self) {
        let mut ended = self.ended.subscribe();
        if ended.wait_for(Option::is_some).await.is_err() {
            tracing::error!(id = self.id(), "BUG: a background process has lost its own end");
        }
    }

    /// How long it has run, or ran.
    pub(super) fn age(&self) -> Duration {
        self.ended().map_or_else(|| self.begun.elapsed(), |ended| ended.took)
    }

    /// Its agent has read its output up to here, and seen how it ended if it has.
    pub(super) fn note_read(&self, to: u64, end_shown: bool) {
        self.read_to.fetch_max(to, Ordering::Relaxed);
        self.end_shown.fetch_or(end_shown, Ordering::Relaxed);
    }

    /// Bytes of output that its agent has not read.
    pub(super) fn unread_bytes(&self) -> u64 {
        self.recent.total().saturating_sub(self.read_to.load(Ordering::Relaxed))
    }

    /// Whether its agent knows how it ended.
    pub(super) fn is_end_shown(&self) -> bool {
        self.end_shown.load(Ordering::Relaxed)
    }
}

impl Ended {
    fn of(finished: Finished, captured: Captured) -> Self {
        let Finished { end, leftovers, took } = finished;
        Ended { end, took, leftovers, whole: captured.whole }
    }
}
