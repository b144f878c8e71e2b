//! How the end of a command is put into words for a model.

use crate::process::{Captured, End, Finished, Leftover, Whole};
use crate::tools::ToolOutput;

/// Leftovers that are named; more of them are counted.
const NAMED_MAX: usize = 10;

/// The result of a call.
pub(super) fn output(finished: &Finished, captured: &Captured, limit_seconds: u64) -> ToolOutput {
    let mut text = format!("[{}]\n", end(finished.end, limit_seconds));
    push_block(&mut text, &captured.head);
    if captured.left_out_bytes > 0 {
        push_block(&mut text, &format!("[… {} bytes are left out here …]", captured.left_out_bytes));
    }
    push_block(&mut text, &captured.tail);
    for note in notes(finished, captured) {
        push_block(&mut text, &format!("[{note}]"));
    }
    let is_error = finished.end != End::Exited(0);
    ToolOutput { content: text, is_error, ..ToolOutput::default() }
}

fn push_block(text: &mut String, block: &str) {
    text.push_str(block);
    if !block.is_empty() && !block.ends_with('\n') {
        text.push('\n');
    }
}

fn end(end: End, limit_seconds: u64) -> String {
    match end {
        End::Exited(code) => format!("exit code {code}"),
        End::Signalled(signal) => format!("ended by signal {signal}"),
        End::Stopped => "ended because it was asked to".to_owned(),
        End::Untold => "ended, but the system did not tell how".to_owned(),
        End::TimedOut => format!(
            "ended at its time limit of {limit_seconds} s; do less at once, or send a larger timeout_seconds (at most 1200)"
        ),
    }
}

fn notes(finished: &Finished, captured: &Captured) -> Vec<String> {
    let mut notes = Vec::new();
    if captured.total_bytes == 0 {
        notes.push("no output".to_owned());
    }
    match &captured.whole {
        Whole::Here => {}
        Whole::Filed(path) => notes.push(format!(
            "the whole output, {} bytes, is in {}: use read_file or search_files on it",
            captured.total_bytes,
            path.display()
        )),
        Whole::Cut { path, bytes } => notes.push(format!(
            "the output has {} bytes; the first {bytes} are in {}, the others were dropped",
            captured.total_bytes,
            path.display()
        )),
        Whole::Lost(error) => notes.push(format!("the whole output could not be stored: {error}")),
    }
    if captured.invalid > 0 {
        notes.push(format!("{} places of the output are not UTF-8 and show as \u{fffd}", captured.invalid));
    }
    notes.extend(leftovers(&finished.leftovers));
    notes
}

/// What is told of processes that a command left behind.
pub(in crate::tools) fn leftovers(leftovers: &[Leftover]) -> Option<String> {
    let named: Vec<&str> =
        leftovers.iter().take(NAMED_MAX).map(|leftover| leftover.command.as_str()).collect();
    let more = leftovers.len() - named.len();
    let names = named.join("; ");
    let rest = if more > 0 { format!("; and {more} more") } else { String::new() };
    match leftovers.len() {
        0 => None,
        1 => Some(format!("1 process that was still running was ended: {names}")),
        count => Some(format!("{count} processes that were still running were ended: {names}{rest}")),
    }
}
