//! What an agent reads about its background processes.

use super::background::{self, FILE_BYTES_MAX, Known, RECENT_BYTES_MAX};
use super::entry::{Ended, Entry};
use crate::process::{End, Part, Whole};
use crate::quoted::{one_line, quote};
use crate::tools::terminal::wording::leftovers;
use legwork_core::aftermath::HandedOff;
use legwork_core::handover;
use std::sync::Arc;

/// How a notice begins.
const NOTICE: &str = "[legwork: ";
/// What stands behind the id of a process that runs.
const RUNS: &str = "has been running for";
/// Characters of a goal in a notice.
const GOAL_CHARS_MAX: usize = 120;

/// The answer to a start.
pub(super) fn started(entry: &Entry) -> String {
    let id = entry.id();
    format!(
        "{}\n\
         [look after it with the tool `process`: actions list, log, wait, kill and hand_off, with id {id}]\n\
         [its output goes to {}, as far as the first {FILE_BYTES_MAX} bytes of it; the last {RECENT_BYTES_MAX} bytes \
         are shown by log]\n",
        handover::started_line(&id),
        entry.file.display()
    )
}

/// All processes, one a line.
pub(super) fn list(entries: &[Arc<Entry>]) -> String {
    if entries.is_empty() {
        return "[no background processes; `terminal` with background: true starts one]\n".to_owned();
    }
    let line = |entry: &Arc<Entry>| {
        let total = entry.recent.total();
        format!(
            "{}; {total} bytes of output, {} unread: {}\n",
            state(entry),
            entry.unread_bytes(),
            entry.command
        )
    };
    entries.iter().map(line).collect()
}

/// One process with a part of its output. `asked` is the offset that was asked for.
pub(super) fn shown(entry: &Entry, part: &Part, asked: Option<u64>) -> String {
    let mut text = format!("[{}]\n", state(entry));
    if let Some(asked) = asked.filter(|asked| *asked < part.start) {
        text.push_str(&format!(
            "[bytes {asked} to {} are no longer at hand; use read_file or search_files on {}]\n",
            part.start,
            entry.file.display()
        ));
    }
    text.push_str(&part.text);
    if !part.text.is_empty() && !part.text.ends_with('\n') {
        text.push('\n');
    }
    text.push_str(&place(part));
    if let Some(ended) = entry.ended() {
        notes(&ended, part.total).iter().for_each(|note| text.push_str(&format!("[{note}]\n")));
    }
    text
}

/// The end of a process in one line for people.
pub(super) fn end_title(entry: &Entry) -> String {
    format!("Background process: {} · {}", state(entry), one_line(&entry.command))
}

/// What the new owner of a process is told of its end (PROC-3).
pub(super) fn ended_for_heir(entry: &Entry, child: &str) -> String {
    format!("{NOTICE}{}. Your subagent {child} had handed it over to you.]\n{}", state(entry), tail(entry))
}

/// What is told of a process that went with the process of legwork which it ran under, in one line for people.
pub(super) fn lost_title(lost: &HandedOff) -> String {
    format!("Background process: {} runs no longer · {}", lost.session_id, one_line(&lost.command))
}

/// What its owner is told of it, where it goes on in another process of legwork.
pub(super) fn lost(lost: &HandedOff) -> String {
    let giver = handover::giver(&lost.session_id);
    let giver = giver.map_or_else(String::new, |child| format!(" {child}"));
    format!(
        "{NOTICE}{} runs no longer. It has ended with the process of legwork that it ran under, or before that, and how is not \
         known. Your subagent{giver} had handed it over to you.]\n{}",
        lost.session_id,
        quote(&lost.command)
    )
}

/// Whether a message of ours tells of the end of a process.
pub(super) fn notice_tells_end(text: &str, id: &str) -> bool {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix(NOTICE));
    lines.any(|line| line.strip_prefix(id).is_some_and(|rest| rest.starts_with([' ', '.'])))
}

/// Whether an answer of the tool does.
pub(super) fn answer_tells_end(text: &str, id: &str) -> bool {
    let first = text.lines().next().unwrap_or_default();
    let state = first.strip_prefix('[').and_then(|state| state.strip_prefix(id)?.strip_prefix(' '));
    state.is_some_and(|state| !state.starts_with(RUNS))
}

/// What is told of the end of a process of a subagent (PROC-7).
pub(super) fn ended_below(entry: &Entry, child: &str, known: &Known) -> String {
    format!(
        "[legwork: a background process of your subagent {child}, delegation {}: {}. The subagent works on what is quoted \
         first; then comes the end of the output.]\n{}\n{}",
        known.delegation,
        state(entry),
        quote(head_of_chars(&known.goal, GOAL_CHARS_MAX)),
        tail(entry),
    )
}

fn tail(entry: &Entry) -> String {
    format!("{}\n{}", quote(&entry.command), quote(&background::tail(entry)))
}

fn head_of_chars(text: &str, chars_max: usize) -> &str {
    text.char_indices().nth(chars_max).map_or(text, |(end, _)| &text[..end])
}

fn place(part: &Part) -> String {
    let (start, total) = (part.start, part.total);
    let end = start + part.text.len() as u64;
    match (total, start == end) {
        (0, _) => "[no output]\n".to_owned(),
        (_, true) => format!("[no output after byte {end}]\n"),
        (_, false) => {
            format!("[bytes {start} to {end} of {total}; offset {end} shows what comes after them]\n")
        }
    }
}

/// Where a process stands, in a few words.
pub(super) fn state(entry: &Entry) -> String {
    let (id, seconds) = (entry.id(), entry.age().as_secs_f32());
    let Some(ended) = entry.ended() else { return format!("{id} {RUNS} {seconds:.1} s") };
    let how = match ended.end {
        End::Exited(code) => format!("ended with exit code {code}"),
        End::Signalled(signal) => format!("was ended by signal {signal}"),
        End::TimedOut => "was ended at its time limit".to_owned(),
        End::Stopped => "was ended because you asked for it".to_owned(),
        End::Untold => "ended, but the system did not tell how".to_owned(),
    };
    format!("{id} {how} after {seconds:.1} s")
}

fn notes(ended: &Ended, total: u64) -> Vec<String> {
    let whole = match &ended.whole {
        Whole::Here => None,
        Whole::Filed(path) => (total > 0).then(|| format!("the whole output is in {}", path.display())),
        Whole::Cut { path, bytes } => Some(format!(
            "the output has {total} bytes; the first {bytes} are in {}, of the others only the end is kept",
            path.display()
        )),
        Whole::Lost(error) => Some(format!("the whole output could not be stored: {error}")),
    };
    whole.into_iter().chain(leftovers(&ended.leftovers)).collect()
}
