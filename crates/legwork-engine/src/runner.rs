//! Runs one child: spawns its work, catches its panics, and drops it when it is aborted. Whatever the end, its worker
//! tidies up after it, and it comes back as one report.

use crate::options::Patience;
use crate::salvage::salvage;
use futures::FutureExt;
use legwork_core::ids::{ChildId, DelegationId};
use legwork_core::outcome::{Ending, FailureKind, Force, StopReason};
use legwork_core::ports::{Assignment, Line, RunEnd, StopNotice, Store, Unrecorded, Worker};
use legwork_core::pulse::{Phase, Pulse};
use legwork_core::report::Report;
use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

/// What a run came to, with its child. One that could not be recorded has no report.
pub(crate) type Returned = (ChildId, Result<Report, Unrecorded>);

/// What the dispatcher keeps of a running child.
pub(crate) struct Run {
    /// What it is part of, also when that was taken away meanwhile.
    pub(crate) delegation: DelegationId,
    /// How it is told to stop; an abort drops it.
    pub(crate) stop: watch::Sender<Option<StopNotice>>,
    /// What it last told of itself.
    pub(crate) pulse: watch::Receiver<Pulse>,
}

/// What a run needs.
pub(crate) struct Runner {
    pub(crate) worker: Arc<dyn Worker>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) patience: Patience,
    pub(crate) assignment: Assignment,
    pub(crate) line: Arc<dyn Line>,
    pub(crate) stop: watch::Receiver<Option<StopNotice>>,
    pub(crate) pulse: watch::Receiver<Pulse>,
}

impl Runner {
    /// The whole run.
    pub(crate) async fn run(mut self) -> Returned {
        let child = self.assignment.child.clone();
        let begun = Instant::now();
        let ended = self.work().await;
        let pulse = self.pulse.borrow().clone();
        let mut unrecorded = None;
        let report = match ended {
            Some(Ok(Ok(report))) => report,
            Some(Ok(Err(why))) => {
                let error = Some(why.to_string());
                unrecorded = Some(why);
                Report { error, ..Report::bare(Ending::Failed(FailureKind::Store)) }
            }
            Some(Err(panic)) => {
                let ending = Ending::Failed(FailureKind::Panicked);
                let error = Some(format!("the subagent's code panicked: {}", words_of(panic.as_ref())));
                Report { error, ..salvage(self.store.as_ref(), &child, ending, &pulse).await }
            }
            None => salvage(self.store.as_ref(), &child, Ending::Interrupted, &pulse).await,
        };
        let stop = *self.stop.borrow();
        let limit = stop.and_then(|stop| limit(stop.reason, &pulse.phase, &self.patience));
        let end = RunEnd { report, stop, pulse, ran: begun.elapsed(), limit };
        let report = self.close(end).await;
        (child, unrecorded.map_or(Ok(report), Err))
    }

    /// The work itself; `None` when it was aborted. It is gone when this comes back.
    async fn work(&mut self) -> Option<Result<Result<Report, Unrecorded>, Box<dyn Any + Send>>> {
        let (worker, assignment, line) =
            (Arc::clone(&self.worker), self.assignment.clone(), Arc::clone(&self.line));
        let work = AssertUnwindSafe(async move { worker.work(assignment, line).await }).catch_unwind();
        tokio::select! {
            biased;
            () = aborted(&mut self.stop) => None,
            ended = work => Some(ended),
        }
    }

    /// Has the worker tidy up. What the run handed in stands, whatever becomes of that.
    async fn close(self, end: RunEnd) -> Report {
        let report = end.report.clone();
        let child = self.assignment.child.clone();
        let closing = async move { self.worker.close(self.assignment, end, self.line).await };
        AssertUnwindSafe(closing).catch_unwind().await.unwrap_or_else(|panic| {
            tracing::error!(%child, reason = words_of(panic.as_ref()), "BUG: the end of a run panicked");
            report
        })
    }
}

/// The limit that ended a run for want of progress.
fn limit(reason: StopReason, phase: &Phase, patience: &Patience) -> Option<Duration> {
    match (reason, phase) {
        (StopReason::TimedOut, _) => patience.inactivity,
        (StopReason::Stalled, Phase::Tool(_)) => Some(patience.tool),
        (StopReason::Stalled, Phase::Starting | Phase::Model | Phase::Children) => Some(patience.idle),
        (
            StopReason::Cancelled
            | StopReason::ParentStopped
            | StopReason::SessionEnded
            | StopReason::OwnerLost
            | StopReason::Shutdown,
            _,
        ) => None,
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
