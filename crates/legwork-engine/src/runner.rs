//! Runs one child: spawns its work, catches its panics, and drops it when it is aborted. Whatever the end, it comes
//! back as one report.

use crate::salvage::salvage;
use futures::FutureExt;
use legwork_core::ids::ChildId;
use legwork_core::outcome::{Ending, FailureKind, Force};
use legwork_core::ports::{Assignment, Line, StopNotice, Store, Worker};
use legwork_core::pulse::Pulse;
use legwork_core::report::Report;
use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use tokio::sync::watch;

/// What the dispatcher keeps of a running child.
pub(crate) struct Run {
    /// How it is told to stop; an abort drops it.
    pub(crate) stop: watch::Sender<Option<StopNotice>>,
    /// What it last told of itself.
    pub(crate) pulse: watch::Receiver<Pulse>,
}

/// What a run needs.
pub(crate) struct Runner {
    pub(crate) worker: Arc<dyn Worker>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) assignment: Assignment,
    pub(crate) line: Arc<dyn Line>,
    pub(crate) stop: watch::Receiver<Option<StopNotice>>,
    pub(crate) pulse: watch::Receiver<Pulse>,
}

impl Runner {
    /// The whole run.
    pub(crate) async fn run(mut self) -> (ChildId, Report) {
        let child = self.assignment.child.clone();
        let work =
            AssertUnwindSafe(async { self.worker.work(self.assignment, self.line).await }).catch_unwind();
        let ended = tokio::select! {
            biased;
            () = aborted(&mut self.stop) => None,
            ended = work => Some(ended),
        };
        let pulse = self.pulse.borrow().clone();
        let report = match ended {
            Some(Ok(report)) => report,
            Some(Err(panic)) => {
                let ending = Ending::Failed(FailureKind::Panicked);
                let error = Some(format!("the subagent's code panicked: {}", words_of(panic.as_ref())));
                Report { error, ..salvage(self.store.as_ref(), &child, ending, &pulse).await }
            }
            None => salvage(self.store.as_ref(), &child, Ending::Interrupted, &pulse).await,
        };
        (child, report)
    }
}

/// Resolves once the child's run must be dropped where it is.
async fn aborted(stop: &mut watch::Receiver<Option<StopNotice>>) {
    let abort = |notice: &Option<StopNotice>| matches!(notice, Some(StopNotice { force: Force::Abort, .. }));
    // An engine that is gone takes its children with it.
    stop.wait_for(abort).await.ok();
}

fn words_of(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}
