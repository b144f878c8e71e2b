//! The end of a run, whatever it was: what is left of the child is looked at, put into its report, and removed where that
//! is harmless.
//!
//! It ends no processes; the sweeper does that with the run itself.

use super::diagnostics;
use super::local::Shared;
use super::stale::stale_paths;
use crate::worktree::{self, GIT_LIMIT, Tenant, Worktree};
use legwork_core::aftermath::{self, ChildProcesses, HandedOff};
use legwork_core::batch::Isolation;
use legwork_core::handover;
use legwork_core::outcome::{Ending, FailureKind, StopReason};
use legwork_core::ports::{Assignment, RunEnd};
use legwork_core::report::Report;
use legwork_core::step::Actor;
use std::path::Path;
use std::time::Duration;

/// How long git may look into the worktree of a child that was stopped: whoever stopped it waits.
const STOP_LIMIT: Duration = Duration::from_secs(5);
/// The same for a process that is ending.
const SHUTDOWN_LIMIT: Duration = Duration::from_millis(300);

/// Completes the report of a run.
pub(super) async fn close(shared: &Shared, assignment: Assignment, end: RunEnd) -> Report {
    let mut report = end.report.clone();
    report.processes = shared.finds.take(&assignment.child);
    if assignment.attempt > 1 && !goes_on(&end) {
        handed_before(shared, &assignment, &mut report.processes).await;
    }
    let worktree = shared.worktrees.leave(&assignment.child);
    let folder = worktree.as_ref().map_or(Path::new(&assignment.setting.folder), |worktree| &worktree.folder);
    // Where its worktree is gone, nothing of what it wrote is anywhere else.
    if worktree.is_some() || assignment.setting.isolation == Isolation::Shared {
        report.stale_paths = stale_paths(shared, &assignment, &report, folder).await;
    }
    if let Some(worktree) = worktree {
        report.worktree = left(shared, &assignment, &end, &worktree).await;
    }
    report.diagnostics = explained(shared, assignment, end).await;
    report
}

/// Whether the run goes on in another process, or has an end that could not be recorded here.
fn goes_on(end: &RunEnd) -> bool {
    let is_left = end.stop.is_some_and(|stop| stop.reason == StopReason::Shutdown)
        && matches!(end.report.ending, Ending::Interrupted | Ending::Failed(_));
    is_left || end.report.ending == Ending::Failed(FailureKind::Store)
}

/// Adds what earlier attempts of the child had handed over. It has ended with the process of legwork that ran it, unless that is
/// this one.
async fn handed_before(shared: &Shared, assignment: &Assignment, found: &mut ChildProcesses) {
    let Assignment { child, parent, session, .. } = assignment;
    let journal = match shared.parts.store.steps(&Actor::Child(child.clone())).await {
        Ok(journal) => journal,
        Err(error) => {
            tracing::warn!(%child, %error, "what it had handed over before cannot be read");
            return;
        }
    };
    let heir = parent.clone().map_or_else(|| Actor::Session(session.clone()), Actor::Child);
    let mut lost = Vec::new();
    for process in handover::handed_over(child, &journal) {
        if found.handed_off.iter().any(|known| known.session_id == process.session_id) {
            continue;
        }
        match shared.parts.commands.background.running_group(&heir, &process.session_id) {
            Some(group) => {
                found.handed_groups.push(group);
                found.handed_off.push(process);
            }
            None => lost.push(HandedOff { ended: true, ..process }),
        }
    }
    // Groups are in the order of those that have one.
    found.handed_off.append(&mut lost);
}

/// What is in the child's worktree. It is gone when it is proved to hold nothing.
async fn left(
    shared: &Shared,
    assignment: &Assignment,
    end: &RunEnd,
    worktree: &Worktree,
) -> Option<aftermath::Worktree> {
    let tenant = Tenant {
        child: &assignment.child,
        fence: &assignment.fence,
        folder: Path::new(&assignment.setting.folder),
    };
    let limit = match end.stop.map(|stop| stop.reason) {
        None => GIT_LIMIT,
        Some(StopReason::Shutdown) => SHUTDOWN_LIMIT,
        Some(
            StopReason::Cancelled
            | StopReason::ParentStopped
            | StopReason::Stalled
            | StopReason::TimedOut
            | StopReason::SessionEnded
            | StopReason::OwnerLost,
        ) => STOP_LIMIT,
    };
    // A run that goes on in another process goes on in its worktree.
    if goes_on(end) {
        return None;
    }
    Some(worktree::inspect(&shared.worktrees, &tenant, worktree, limit).await)
}

/// The file that tells what was known of a run that stood still before it had asked its model.
async fn explained(shared: &Shared, assignment: Assignment, end: RunEnd) -> Option<String> {
    if !diagnostics::is_due(&end) {
        return None;
    }
    let folder = shared.parts.diagnostics.clone();
    let writing = tokio::task::spawn_blocking(move || diagnostics::write(&folder, &assignment, &end));
    let path =
        writing.await.inspect_err(|error| tracing::error!(%error, "BUG: writing diagnostics panicked"));
    path.ok().flatten().map(|path| path.display().to_string())
}
