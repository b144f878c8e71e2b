//! Files that whoever asked for a child had read and that the child has written since (RUN-26): what the asker remembers of
//! them is out of date.
//!
//! It goes by the calls of the file tools, and knows nothing of what commands wrote.

use super::local::Shared;
use legwork_core::message::ToolCall;
use legwork_core::ports::Assignment;
use legwork_core::report::{Report, TraceStatus};
use legwork_core::step::{Actor, StepState};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Tools that write files, and the one that reads them.
const WRITERS: [&str; 2] = ["write_file", "patch"];
const READER: &str = "read_file";
/// Paths that are named.
const NAMED_MAX: usize = 8;

/// The paths, sorted; what is too much is counted. `folder` is where the child worked.
pub(super) async fn stale_paths(
    shared: &Shared,
    assignment: &Assignment,
    report: &Report,
    folder: &Path,
) -> Vec<String> {
    let written = written(report, folder);
    if written.is_empty() {
        return Vec::new();
    }
    let asker = assignment.parent.clone().map(Actor::Child);
    let asker = asker.unwrap_or_else(|| Actor::Session(assignment.session.clone()));
    let steps = match shared.parts.store.steps(&asker).await {
        Ok(steps) => steps,
        Err(error) => {
            tracing::warn!(child = %assignment.child, %error, "it cannot be told which files the asker had read");
            return Vec::new();
        }
    };
    let calls = steps.iter().filter(|step| matches!(step.state, StepState::Done(_)));
    let read: BTreeSet<PathBuf> = calls
        .filter_map(|step| step.action.call())
        .filter_map(|(call, _)| read_by(call, Path::new(&assignment.setting.folder)))
        .collect();
    named(written.intersection(&read).map(|path| path.display().to_string()).collect())
}

fn named(mut paths: Vec<String>) -> Vec<String> {
    let more = paths.len().saturating_sub(NAMED_MAX);
    paths.truncate(NAMED_MAX);
    if more > 0 {
        paths.push(format!("+{more} more"));
    }
    paths
}

fn written(report: &Report, folder: &Path) -> BTreeSet<PathBuf> {
    let wrote = |tool: &str| WRITERS.contains(&tool);
    let items = report.tool_trace.iter().filter(|item| item.status == TraceStatus::Ok && wrote(&item.tool));
    items.flat_map(|item| &item.input_summary.targets).map(|target| resolved(folder, target)).collect()
}

fn read_by(call: &ToolCall, folder: &Path) -> Option<PathBuf> {
    let path = call.arguments.get("path").filter(|_| call.name == READER)?;
    Some(resolved(folder, path.as_str()?))
}

fn resolved(folder: &Path, path: &str) -> PathBuf {
    folder.join(path).components().collect()
}

#[cfg(test)]
mod tests {
    use super::named;

    #[test]
    fn run_26_eight_paths_are_named_and_the_others_counted() {
        let paths: Vec<String> = (0..11).map(|number| format!("/{number:02}")).collect();
        let shown = named(paths);
        assert_eq!((shown.len(), shown[0].as_str(), shown[8].as_str()), (9, "/00", "+3 more"));
        assert_eq!(named(vec!["/a".to_owned()]), ["/a"]);
    }
}
