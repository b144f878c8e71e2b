//! What was known of a child that was ended for want of progress before it had asked its model (RUN-18), as a file for
//! people.
//!
//! It looks at nothing that could hang, and holds no key: a route knows only the name of a key's source.

use crate::excerpt::head_of;
use crate::redact::redact;
use crate::spill::{create_new, make_folder};
use jiff::tz::TimeZone;
use legwork_core::outcome::StopReason;
use legwork_core::ports::{Assignment, RunEnd};
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// Bytes of a goal that are shown.
const GOAL_BYTES_MAX: usize = 1000;
/// Files that there may be; beyond that none is written, until old ones were removed with what they belong to.
const FILES_MAX: usize = 500;

/// Whether a run ended in a way that nobody can explain from its conversation.
pub(super) fn is_due(end: &RunEnd) -> bool {
    let stuck =
        end.stop.is_some_and(|stop| matches!(stop.reason, StopReason::TimedOut | StopReason::Stalled));
    stuck && end.pulse.model_calls == 0
}

/// Writes the file, and gives its path; it blocks. A folder that cannot be written costs only the path.
pub(super) fn write(folder: &Path, assignment: &Assignment, end: &RunEnd) -> Option<PathBuf> {
    let written = into(folder, assignment, end);
    let child = &assignment.child;
    written.inspect_err(|error| tracing::warn!(%child, %error, "no diagnostics could be written")).ok()
}

fn into(folder: &Path, assignment: &Assignment, end: &RunEnd) -> io::Result<PathBuf> {
    make_folder(folder)?;
    if folder.read_dir()?.count() >= FILES_MAX {
        return Err(io::Error::other(format!("{} holds {FILES_MAX} files already", folder.display())));
    }
    let now = jiff::Timestamp::now().to_zoned(TimeZone::UTC).strftime("%Y%m%d_%H%M%S");
    let path = folder.join(format!("{}-timeout-{now}.log", assignment.child));
    create_new(&path)?.write_all(text(assignment, end).as_bytes())?;
    Ok(path)
}

fn text(assignment: &Assignment, end: &RunEnd) -> String {
    let (setting, pulse) = (&assignment.setting, &end.pulse);
    let role = if setting.rights.allow(crate::tools::DELEGATE_TASK) { "orchestrator" } else { "leaf" };
    let tools: Vec<&str> = setting.rights.tools.iter().map(String::as_str).collect();
    let seconds = |span: Option<std::time::Duration>| {
        span.map_or_else(|| "unknown".to_owned(), |span| format!("{:.2}", span.as_secs_f64()))
    };
    let lines = [
        ("subagent", assignment.child.to_string()),
        ("delegation", assignment.delegation.to_string()),
        ("session", assignment.session.to_string()),
        ("task index", assignment.task_index.to_string()),
        ("attempt", assignment.attempt.to_string()),
        ("limit in seconds", seconds(end.limit)),
        ("ran for seconds", seconds(Some(end.ran))),
        ("phase", pulse.phase_text()),
        ("signs of life", pulse.beat.to_string()),
        ("model calls", pulse.model_calls.to_string()),
        ("tool calls", pulse.tool_calls.to_string()),
        ("folder", setting.folder.clone()),
        ("model", setting.route.model.clone()),
        ("protocol", setting.route.api_mode.clone()),
        ("address", setting.route.base_url.as_deref().map_or("the usual one".to_owned(), bare)),
        ("key from", setting.route.key_source.clone().unwrap_or_else(|| "nowhere".to_owned())),
        ("step limit", setting.allowance.steps_max.to_string()),
        ("role", role.to_owned()),
        ("depth", assignment.depth.to_string()),
        ("tools", tools.join(", ")),
        ("context in bytes", assignment.task.context.as_deref().unwrap_or_default().len().to_string()),
        ("goal in bytes", assignment.task.goal.len().to_string()),
    ];
    let mut text =
        String::from("A subagent was ended for want of progress before it had asked its model.\n\n");
    for (name, value) in lines {
        // Writing into a text cannot fail.
        writeln!(text, "{name}: {}", redact(&value)).ok();
    }
    writeln!(text, "\ngoal:\n{}", redact(head_of(&assignment.task.goal, GOAL_BYTES_MAX))).ok();
    text
}

/// An address without user, query and fragment.
fn bare(address: &str) -> String {
    let end = address.find(['?', '#']).unwrap_or(address.len());
    let address = &address[..end];
    match address.split_once("://") {
        Some((scheme, rest)) => {
            let host = rest.split_once('/').map_or(rest, |(host, _)| host);
            let shown = host.rsplit_once('@').map_or(rest, |(user, _)| &rest[user.len() + 1..]);
            format!("{scheme}://{shown}")
        }
        None => address.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::bare;

    #[test]
    fn inv_26_an_address_is_shown_without_what_may_be_secret() {
        for (address, shown) in [
            ("https://user:word@host/v1?key=1#x", "https://host/v1"),
            ("http://127.0.0.1:8080/v1", "http://127.0.0.1:8080/v1"),
            ("http://host/a@b", "http://host/a@b"),
            ("host?key=1", "host"),
        ] {
            assert_eq!(bare(address), shown);
        }
    }
}
