//! What readers of a live world are shown of results, child by child, so that the laws can tell who was told of whom and
//! how often.

use legwork_core::below::Below;
use legwork_core::record::DelegationRecord;

/// The children of these tasks, and those below them whose results nobody had read.
pub(super) fn of_tasks(record: &DelegationRecord, tasks: &[usize], below: &Below) -> Vec<String> {
    let children = tasks.iter().map(|task| record.accepted.children[*task].to_string());
    children.chain(unread(tasks, below)).collect()
}

/// The same of a whole delegation.
pub(super) fn of_all(record: &DelegationRecord, below: &Below) -> Vec<String> {
    let tasks: Vec<usize> = (0..record.accepted.children.len()).collect();
    of_tasks(record, &tasks, below)
}

/// The subagents below these tasks whose results nobody had read.
pub(super) fn unread(tasks: &[usize], below: &Below) -> Vec<String> {
    let unread = below.unread().into_iter().filter(|(task, _)| tasks.contains(task));
    unread.map(|(_, unread)| unread.subagent_id.to_string()).collect()
}
