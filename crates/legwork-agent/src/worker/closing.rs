//! The end of a run, whatever it was: what is left of the child is looked at, put into its report, and removed where that
//! is harmless.
//!
//! It ends no processes; the sweeper does that with the run itself.

use super::diagnostics;
use super::local::Shared;
use legwork_core::ports::{Assignment, RunEnd};
use legwork_core::report::Report;

/// Completes the report of a run.
pub(super) async fn close(shared: &Shared, assignment: Assignment, end: RunEnd) -> Report {
    let mut report = end.report.clone();
    report.diagnostics = explained(shared, assignment, end).await;
    report
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
