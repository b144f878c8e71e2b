//! The message in which the results of a unit come to the conversation that asked: self-contained, with our header, with
//! facts that were counted and never taken from a child's prose, and with everything that others wrote quoted as data.
//!
//! It takes at most a share of the model's window. What is cut is in a file before the message is stored, and in the
//! store. It does not decide when the message is said.

mod head;
pub(crate) mod notice;
mod quoted;
mod remains;
#[cfg(test)]
mod single_tests;
mod stored;
mod task;
#[cfg(test)]
pub(crate) mod tests;
mod title;
mod unknown_model;

pub(crate) use remains::{Remains, gather};
pub use stored::{title_of_completion, unit_of_completion};

use crate::shares::fair;
use crate::spill::kept;
use legwork_core::below::Below;
use legwork_core::completion;
use legwork_core::ids::{ChildId, DelegationId};
use legwork_core::record::DelegationRecord;
use legwork_core::step::Actor;
use legwork_core::time::Timestamp;
use std::path::Path;
use task::Task;

/// Bounds of what one message takes, in bytes.
const BYTES_MIN: usize = 4 * 1024;
const BYTES_MAX: usize = 64 * 1024;
/// The share of the window that one message takes: one token in so many.
const WINDOW_SHARE: u64 = 8;
/// Bytes that a token stands for at least, in most texts.
const BYTES_PER_TOKEN: u64 = 3;
/// With less than this for each task they are only listed.
const TASK_BYTES_MIN: usize = 512;
/// What is kept free for the last lines of a list.
const LIST_END_BYTES: usize = 160;

/// A unit whose children have all settled.
pub(crate) struct Arrival {
    /// Its delegation.
    pub(crate) record: DelegationRecord,
    /// Which of the delegation's units it is.
    pub(crate) unit: usize,
    /// What was said to its children too late for them to read.
    pub(crate) missed: Vec<(ChildId, String)>,
    /// What its children have sent out themselves.
    pub(crate) below: Below,
    /// What is left to tell of children whose end is not known.
    pub(crate) remains: Vec<Remains>,
    /// When the message is written.
    pub(crate) now: Timestamp,
}

/// What is said about an arrival.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Completion {
    /// One line for people.
    pub(crate) title: String,
    /// What the model reads.
    pub(crate) text: String,
}

/// Bytes that a message may take of a window of so many tokens; one of unknown size is taken for large.
pub(crate) fn bytes_max(window: Option<u64>) -> usize {
    let share = window.map_or(u64::MAX, |tokens| tokens / WINDOW_SHARE * BYTES_PER_TOKEN);
    usize::try_from(share).unwrap_or(usize::MAX).clamp(BYTES_MIN, BYTES_MAX)
}

/// Writes the message. What does not fit is written into files of the folder `spill` first; it blocks on that.
pub(crate) fn write(arrival: &Arrival, bytes_max: usize, spill: &Path) -> Completion {
    let tasks = tasks(arrival);
    let mut text = head::head(arrival, &tasks);
    text.extend(unknown_model::notice(arrival, &tasks));
    let places = spill.as_os_str().len();
    let fixed: usize = tasks.iter().map(|task| task.fixed_bytes(places)).sum();
    match bytes_max.checked_sub(text.len() + fixed) {
        Some(room) if room / tasks.len().max(1) >= TASK_BYTES_MIN => {
            let wants: Vec<usize> = tasks.iter().map(Task::wants).collect();
            for (task, share) in tasks.iter().zip(fair(room, &wants)) {
                text.push_str(&task.within(share, |answer| {
                    kept(spill, &Actor::Child(task.child.clone()), "answer", answer)
                }));
            }
        }
        Some(_) | None => text.push_str(&list(arrival, &tasks, bytes_max.saturating_sub(text.len()), spill)),
    }
    let lines: Vec<title::Line<'_>> = tasks.iter().map(Task::title_line).collect();
    let unit = arrival.record.accepted.units.get(arrival.unit);
    let group = unit.and_then(|unit| unit.group.as_deref());
    Completion { title: title::title(group, &lines), text }
}

fn tasks(arrival: &Arrival) -> Vec<Task<'_>> {
    let Arrival { record, unit, missed, below, remains, .. } = arrival;
    let unread = below.unread();
    let indexes =
        record.accepted.units.get(*unit).map(|unit| unit.task_indexes.as_slice()).unwrap_or_default();
    let came = indexes.iter().filter_map(|index| {
        let (task, child) = (record.accepted.tasks.get(*index)?, record.children.get(*index)?);
        let entry = completion::entry(&record.accepted, *index, child)?;
        let missed: Vec<&str> =
            missed.iter().filter(|(id, _)| *id == child.id).map(|(_, text)| text.as_str()).collect();
        Some(Task {
            entry,
            outcome: child.outcome()?,
            child: &child.id,
            delegation: &record.accepted.delegation,
            of: record.accepted.tasks.len(),
            goal: &task.goal,
            context: record.accepted.context_of(*index),
            missed: missed.join("\n"),
            unread: unread.iter().filter(|(place, _)| place == index).map(|(_, one)| one.clone()).collect(),
            remains: remains.iter().find(|remains| remains.child == child.id),
            sections: Vec::new(),
        })
    });
    let came = came.map(Task::quoted);
    came.collect()
}

/// So many tasks that each of them gets one line: those that did not complete first.
fn list(arrival: &Arrival, tasks: &[Task<'_>], room: usize, spill: &Path) -> String {
    let record = &arrival.record;
    let whole: String = tasks.iter().map(Task::whole).collect();
    let actor = Actor::Session(record.accepted.lineage.session.clone());
    let file = kept(spill, &actor, record.accepted.delegation.as_str(), &whole);
    let mut text = format!(
        "These are too many tasks for one message, so they are only listed, those first that did not complete. {}\n",
        whereabouts(file.as_deref(), &record.accepted.delegation),
    );
    let (completed, others): (Vec<&Task<'_>>, Vec<&Task<'_>>) =
        tasks.iter().partition(|task| task.entry.is_whole());
    let mut left = others.into_iter().chain(completed).peekable();
    while let Some(line) = left.peek().map(|task| task.header())
        && text.len() + line.len() + LIST_END_BYTES <= room
    {
        text.push_str(&line);
        left.next();
    }
    match left.count() {
        0 => {}
        more => text.push_str(&format!("and {more} more tasks, for which there is no room here\n")),
    }
    text
}

/// Where the whole of something is.
fn whereabouts(file: Option<&str>, delegation: &DelegationId) -> String {
    match file {
        Some(file) => format!("Whole: {file}, or `legwork results {delegation}`"),
        None => format!("Whole: `legwork results {delegation}`"),
    }
}
