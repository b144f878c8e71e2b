//! What a call has changed, as a model reads it: a line for each file and one short diff.

use super::commit::Change;
use crate::excerpt::excerpt;
use similar::{ChangeTag, TextDiff};
use std::fmt::Write;
use std::time::Duration;

/// Bytes of the diff that are shown.
const DIFF_BYTES_MAX: usize = 12 * 1024;
/// How long the finest diff of one file is looked for; a coarser one is shown then.
const DIFF_TIME_MAX: Duration = Duration::from_millis(500);
/// Lines around a change.
const AROUND: usize = 3;

/// The answer to a call.
pub(super) fn text(changes: &[Change]) -> String {
    let (mut heads, mut diffs) = (String::new(), String::new());
    for change in changes {
        let (word, before, after) = match change {
            Change::Write { before: None, after, .. } => ("new", "", after.as_str()),
            Change::Write { before: Some(before), after, .. } => {
                ("changed", before.text.as_str(), after.as_str())
            }
            Change::Remove { before, .. } => ("deleted", before.text.as_str(), ""),
        };
        let path = change.path().display();
        // Deadline: a diff of two long texts that share little takes long, and nobody needs the best one.
        let diff = TextDiff::configure().timeout(DIFF_TIME_MAX).diff_lines(before, after);
        let count = |tag| diff.iter_all_changes().filter(|change| change.tag() == tag).count();
        let (added, removed) = (count(ChangeTag::Insert), count(ChangeTag::Delete));
        // Writing to a String cannot fail.
        writeln!(heads, "{word} {path} (+{added} -{removed} lines)").ok();
        if !matches!(change, Change::Remove { .. }) {
            writeln!(diffs, "--- {path}").ok();
            write!(diffs, "{}", diff.unified_diff().context_radius(AROUND)).ok();
        }
    }
    let cut =
        excerpt(&diffs, DIFF_BYTES_MAX, |left_out| format!("{left_out} bytes of the diff are left out"));
    heads + cut.as_deref().unwrap_or(&diffs)
}
