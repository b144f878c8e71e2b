//! Port `Watch`: what happens to children, told while it happens. Asked by every place that shows running work, answered by the
//! engine. It carries beginnings of texts only: who wants the whole reads the store or the transcript.

use super::Pending;
use crate::batch::Unit;
use crate::completion::Flaw;
use crate::fact::Accepted;
use crate::ids::{ChildId, DelegationId, SessionId, UnitId};
use crate::outcome::Outcome;
use crate::pulse::LineEvent;
use crate::report::{Conformance, Cost, FailureReason, Report, TraceItem, Usage};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// Characters of a goal, of an answer and of an error that events carry.
const TEXT_CHARS_MAX: usize = 500;
/// Files that an end names at most, of those read and of those written.
const FILES_MAX: usize = 40;
/// Tools whose targets were read, and tools whose targets were written.
const READ: [&str; 1] = ["read_file"];
const WRITTEN: [&str; 2] = ["write_file", "patch"];

/// A stream of live events.
pub trait Watch: Send {
    /// The next event, or `None` when the engine has ended. Dropping the future loses nothing.
    fn next(&mut self) -> Pending<'_, Option<LiveEvent>>;
}

/// Something that a watcher may want to show at once.
#[derive(Debug, Clone, PartialEq)]
pub enum LiveEvent {
    /// A child exists and waits for its turn; that is stored.
    Queued(Arc<Identity>),
    /// A child's run began.
    Started {
        /// The child.
        child: Arc<Identity>,
        /// Which of its runs, from 1; the earlier ones ended with their processes.
        attempt: u32,
    },
    /// A child told something.
    Told {
        /// The child.
        child: Arc<Identity>,
        /// What.
        event: LineEvent,
    },
    /// A child has settled, and that is stored.
    Settled {
        /// The child.
        child: Arc<Identity>,
        /// How it ended.
        outcome: Outcome,
        /// How long it ran.
        elapsed: Duration,
        /// What was counted of it.
        facts: Arc<EndFacts>,
        /// Whether it is the last of its unit to be told of.
        ends_unit: bool,
    },
    /// Events were lost because the watcher was too slow.
    Lagged(u64),
}

/// Who a child is: what does not change from its acceptance to its end (EVTC-2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The delegation.
    pub delegation: DelegationId,
    /// The conversation that owns its results.
    pub session: SessionId,
    /// The child that delegated to it, when that was not the conversation's own agent.
    pub parent: Option<ChildId>,
    /// The child.
    pub child: ChildId,
    /// How many children are above it, and one: 1 for those of a conversation.
    pub depth: u32,
    /// Its task's position in the call.
    pub task_index: usize,
    /// How many tasks the call has.
    pub task_count: usize,
    /// Its unit.
    pub unit: UnitId,
    /// How many tasks come back together with it, itself included.
    pub unit_count: usize,
    /// The beginning of its goal.
    pub goal: String,
    /// The model it was given.
    pub model: String,
    /// The tools it may call.
    pub tools: BTreeSet<String>,
}

/// What was counted of a child that has settled, bounded.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct EndFacts {
    /// The beginning of its answer.
    pub answer: Option<String>,
    /// The beginning of what it says went wrong.
    pub error: Option<String>,
    /// The class of a provider's failure.
    pub failure_reason: Option<FailureReason>,
    /// Tokens of all its model calls.
    pub usage: Usage,
    /// The price of them.
    pub cost: Cost,
    /// Model calls made.
    pub model_calls: u32,
    /// Files that it read, the first ones.
    pub files_read: Vec<String>,
    /// Files that it wrote, the first ones.
    pub files_written: Vec<String>,
    /// How its answer stands to its schema, if it has one.
    pub conformance: Option<Conformance>,
}

impl Identity {
    /// The child that is to do the task at `task_index`. `None` when there is no such task.
    pub fn of(accepted: &Accepted, task_index: usize) -> Option<Identity> {
        let (task, child) = (accepted.tasks.get(task_index)?, accepted.children.get(task_index)?);
        let is_its = |unit: &&Unit| unit.task_indexes.contains(&task_index);
        let unit = accepted.units.iter().find(is_its)?;
        Some(Identity {
            delegation: accepted.delegation.clone(),
            session: accepted.lineage.session.clone(),
            parent: accepted.lineage.parent.clone(),
            child: child.clone(),
            depth: accepted.lineage.depth + 1,
            task_index,
            task_count: accepted.tasks.len(),
            unit: unit.id.clone(),
            unit_count: unit.task_indexes.len(),
            goal: beginning(&task.goal),
            model: accepted.model_of(task_index).to_owned(),
            tools: accepted.setting.rights.tools.clone(),
        })
    }
}

impl EndFacts {
    /// What a report says, bounded.
    pub fn of(report: &Report) -> EndFacts {
        EndFacts {
            answer: report.answer.as_deref().map(beginning),
            error: report.error.as_deref().map(beginning),
            failure_reason: report.failure_reason,
            usage: report.usage,
            cost: report.cost,
            model_calls: report.model_calls,
            files_read: files(&report.tool_trace, &READ),
            files_written: files(&report.tool_trace, &WRITTEN),
            conformance: report.conformance.clone(),
        }
    }

    /// What the answer of a child that ended like this lacks, when it counts as completed all the same.
    pub fn flaw(&self, outcome: Outcome) -> Option<Flaw> {
        Flaw::of(outcome, self.conformance.as_ref())
    }
}

fn files(trace: &[TraceItem], tools: &[&str]) -> Vec<String> {
    let mut files: Vec<String> = Vec::new();
    for item in trace.iter().filter(|item| tools.contains(&item.tool.as_str())) {
        for target in &item.input_summary.targets {
            if files.len() < FILES_MAX && !files.contains(target) {
                files.push(target.clone());
            }
        }
    }
    files
}

fn beginning(text: &str) -> String {
    text.chars().take(TEXT_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::Ending;
    use crate::report::{InputSummary, TraceStatus};

    /// Proves EVTC-8.
    #[test]
    fn evtc_08_an_end_names_forty_files_and_those_that_were_written_by_what_writes() {
        let item = |tool: &str, target: String| TraceItem {
            tool: tool.to_owned(),
            args_bytes: 1,
            input_summary: InputSummary { argument_keys: Vec::new(), targets: vec![target] },
            result_bytes: 1,
            status: TraceStatus::Ok,
        };
        let mut trace: Vec<TraceItem> = (0..50).map(|n| item("read_file", format!("r{n}"))).collect();
        trace.extend(
            (0..30).flat_map(|n| [item("write_file", format!("w{n}")), item("patch", format!("p{n}"))]),
        );
        trace.push(item("read_file", "r0".to_owned()));
        trace.push(item("terminal", "t".to_owned()));
        let facts = EndFacts::of(&Report { tool_trace: trace, ..Report::bare(Ending::Answered) });
        let read: Vec<String> = (0..40).map(|n| format!("r{n}")).collect();
        let written: Vec<String> = (0..20).flat_map(|n| [format!("w{n}"), format!("p{n}")]).collect();
        assert_eq!((facts.files_read, facts.files_written), (read, written));
    }
}
