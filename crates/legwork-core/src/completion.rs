//! The results of settled children as the outside reads them: one [`Entry`] for each task, one [`BatchResult`] for each
//! joined call. Every field is computed from typed facts, never from a child's prose (invariant 19).

mod cut;
mod handle;
mod notes;

pub use cut::{Aside, StallKeys, TimeoutKeys};
pub use handle::{BackgroundHandle, HandleWords};
pub use notes::{process_notes, told_to_go_on};

use crate::batch::Unit;
use crate::below::{Below, Unread};
use crate::fact::Accepted;
use crate::ids::{ChildId, DelegationId, UnitId};
use crate::outcome::{FailureKind, Limit, Outcome, StopReason, WireStatus};
use crate::record::{ChildRecord, DelegationRecord};
use crate::report::{Conformance, TraceItem};
use crate::spending::Spending;
use serde::{Deserialize, Serialize};

/// The result of one task (ENTRY-1, ENTRY-2).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// The task's position in the call.
    pub task_index: usize,
    /// How it ended.
    pub status: WireStatus,
    /// The answer, or what is left of it.
    pub summary: Option<String>,
    /// Model calls made.
    pub api_calls: u32,
    /// Seconds from the first run's start to the end, two decimals.
    pub duration_seconds: f64,
    /// The model that answered.
    pub model: Option<String>,
    /// Why it ended.
    pub exit_reason: String,
    /// Whether a limit cut it off: that of its steps, or the provider's of output.
    pub truncated: bool,
    /// Tokens used.
    pub tokens: Tokens,
    /// Its tool calls.
    pub tool_trace: Vec<TraceItem>,
    /// US dollars, six decimals, zero when unknown.
    pub cost_usd: f64,
    /// `estimated` or `unknown`.
    pub cost_status: String,
    /// What it took together with the subagents that it sent out, if it did; tokens and cost above are its own (FIN-7).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subtree: Option<Subtree>,
    /// What went wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The class of a provider's failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_reason: Option<String>,
    /// Whether the answer meets the task's schema, where it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema_valid: Option<bool>,
    /// What does not fit, when it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema_errors: Option<Vec<String>>,
    /// How often a correction was asked for, when it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema_retries: Option<u32>,
    /// How to take an answer that does not meet its schema.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema_note: Option<String>,
    /// What was said to it too late for it to read (CTRL-11).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missed_steer: Option<String>,
    /// What its own subagents have brought that it had not read when it ended.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unread_results: Vec<Unread>,
    /// Those of its tool calls that were cut off and whose effect is not known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub in_doubt: Vec<TraceItem>,
    /// The path of its transcript.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub live_transcript: Option<String>,
    /// What else applies to it.
    #[serde(flatten)]
    pub aside: Aside,
}

/// What an answer lacks although its task counts as completed: it never stands without its mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flaw {
    /// The step limit cut the work short.
    StepLimit,
    /// The provider's limit of output cut the answer off.
    OutputLimit,
    /// The answer does not meet its schema.
    SchemaMissed,
}

impl Flaw {
    /// The flaw of a child that ended like this, if it completed and has one.
    pub fn of(outcome: Outcome, conformance: Option<&Conformance>) -> Option<Flaw> {
        let misses = conformance.is_some_and(|known| !known.is_met());
        match outcome {
            Outcome::Partial(Limit::Steps) => Some(Flaw::StepLimit),
            Outcome::Partial(Limit::Output) => Some(Flaw::OutputLimit),
            Outcome::Succeeded => misses.then_some(Flaw::SchemaMissed),
            Outcome::Partial(Limit::Spend) | Outcome::Failed(_) | Outcome::Stopped(_) | Outcome::Lost => None,
        }
    }

    /// What people read of it, behind the name of the task.
    pub fn words(self) -> &'static str {
        match self {
            Flaw::StepLimit => "cut short by the step limit",
            Flaw::OutputLimit => "cut off at the provider's limit of output tokens",
            Flaw::SchemaMissed => "the schema was not met; its raw text came back",
        }
    }
}

impl WireStatus {
    /// The mark of a result: whole, with a flaw, or not what was asked for (PROG-5, EVT-11).
    pub fn icon(self, flaw: Option<Flaw>) -> &'static str {
        match (self, flaw) {
            (WireStatus::Completed, None) => "✓",
            (WireStatus::Completed, Some(_)) => "⚠",
            (
                WireStatus::BudgetExhausted
                | WireStatus::Error
                | WireStatus::Failed
                | WireStatus::Interrupted
                | WireStatus::Stalled
                | WireStatus::Timeout
                | WireStatus::Unknown,
                _,
            ) => "✗",
        }
    }
}

/// The tokens of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tokens {
    /// Prompt tokens.
    pub input: u64,
    /// Reply tokens.
    pub output: u64,
}

/// What a subagent took together with all below it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Subtree {
    /// How many subagents that are, itself among them.
    pub subagents: usize,
    /// Their tokens.
    pub tokens: Tokens,
    /// US dollars, six decimals; what has no price is skipped.
    pub cost_usd: f64,
    /// `estimated` or `unknown`.
    pub cost_status: String,
}

impl From<Spending> for Subtree {
    fn from(spent: Spending) -> Subtree {
        Subtree {
            subagents: spent.subagents,
            tokens: Tokens { input: spent.usage.input, output: spent.usage.output },
            cost_usd: rounded(spent.cost.usd(), 6),
            cost_status: spent.cost.status().to_owned(),
        }
    }
}

/// The result of a joined call (OUT-1, OUT-2).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BatchResult {
    /// The delegation.
    pub delegation_id: DelegationId,
    /// The entries of the tasks that have settled, in task order.
    pub results: Vec<Entry>,
    /// Seconds from acceptance to the last end, two decimals.
    pub total_duration_seconds: f64,
    /// The transcripts of the children that ran.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub live_transcripts: Vec<String>,
    /// What became of the children's background processes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub process_notes: Vec<String>,
    /// What the tasks have in common, when they are one unit with a group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// The units of the tasks, when there are several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub units: Vec<UnitResult>,
}

/// One of several units of a call (OUT-4).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnitResult {
    /// The unit.
    pub delegation_id: UnitId,
    /// What its tasks have in common; null for a task without group.
    pub group: Option<String>,
    /// Its tasks.
    pub task_indexes: Vec<usize>,
}

impl UnitResult {
    /// What is shown of `units`: nothing when the call came back whole.
    pub fn of_several<'a>(units: impl ExactSizeIterator<Item = &'a Unit>) -> Vec<UnitResult> {
        if units.len() < 2 {
            return Vec::new();
        }
        let shown = units.map(|unit| UnitResult {
            delegation_id: unit.id.clone(),
            group: unit.group.clone(),
            task_indexes: unit.task_indexes.clone(),
        });
        shown.collect()
    }
}

impl BatchResult {
    /// The results so far of a stored delegation. Children that have not settled have no entry.
    pub fn of(record: &DelegationRecord) -> BatchResult {
        let all: Vec<usize> = (0..record.children.len()).collect();
        BatchResult::of_tasks(record, &all)
    }

    /// The results so far of some of its tasks.
    pub fn of_tasks(record: &DelegationRecord, wanted: &[usize]) -> BatchResult {
        let accepted = &record.accepted;
        let children = record.children.iter().enumerate().filter(|(index, _)| wanted.contains(index));
        let results: Vec<Entry> =
            children.filter_map(|(index, child)| entry(accepted, index, child)).collect();
        let total = record.took(wanted.iter().copied()).as_secs_f64();
        let live_transcripts = results.iter().filter_map(|entry| entry.live_transcript.clone()).collect();
        let noted = |entry: &Entry| process_notes(&record.children[entry.task_index].id, entry);
        let process_notes = results.iter().flat_map(noted).collect();
        let touched = |unit: &&Unit| unit.task_indexes.iter().any(|task| wanted.contains(task));
        let units: Vec<&Unit> = accepted.units.iter().filter(touched).collect();
        BatchResult {
            delegation_id: accepted.delegation.clone(),
            results,
            total_duration_seconds: rounded(total, 2),
            live_transcripts,
            process_notes,
            group: if let [unit] = units.as_slice() { unit.group.clone() } else { None },
            units: UnitResult::of_several(units.into_iter()),
        }
    }

    /// The results with what was said to the children of `record` too late for them to read (CTRL-11).
    #[must_use]
    pub fn with_missed(mut self, record: &DelegationRecord, missed: &[(ChildId, String)]) -> BatchResult {
        let entries = self.results.into_iter().map(|entry| {
            let child = &record.children[entry.task_index].id;
            let texts: Vec<&str> =
                missed.iter().filter(|(id, _)| id == child).map(|(_, text)| text.as_str()).collect();
            entry.with_missed(&texts)
        });
        self.results = entries.collect();
        self
    }

    /// The results with what the children of `record` have sent out themselves: what they took together with it, and what of
    /// it they had not read.
    #[must_use]
    pub fn with_below(mut self, record: &DelegationRecord, below: &Below) -> BatchResult {
        let subtrees = below.subtrees(record);
        let unread = below.unread();
        for entry in &mut self.results {
            let child = &record.children[entry.task_index].id;
            let spent = subtrees.iter().find(|(id, _)| id == child);
            entry.subtree = spent.map(|(_, spent)| Subtree::from(*spent));
            let of_child = unread.iter().filter(|(place, _)| *place == entry.task_index);
            entry.unread_results = of_child.map(|(_, unread)| unread.clone()).collect();
        }
        self
    }

    /// Whether all tasks ended with a whole answer: the condition of exit code 0.
    pub fn is_success(&self, tasks: usize) -> bool {
        self.results.len() == tasks && self.results.iter().all(Entry::is_whole)
    }
}

impl Entry {
    /// Whether the task ended with a whole answer, which meets its schema where it has one.
    pub fn is_whole(&self) -> bool {
        self.status == WireStatus::Completed && !self.truncated && self.schema_valid != Some(false)
    }

    /// What the answer lacks although the task counts as completed.
    pub fn flaw(&self) -> Option<Flaw> {
        match (self.status, self.truncated) {
            (WireStatus::Completed, true) if self.exit_reason == OUTPUT_LIMIT => Some(Flaw::OutputLimit),
            (WireStatus::Completed, true) => Some(Flaw::StepLimit),
            (WireStatus::Completed, false) if self.schema_valid == Some(false) => Some(Flaw::SchemaMissed),
            (
                WireStatus::Completed
                | WireStatus::BudgetExhausted
                | WireStatus::Error
                | WireStatus::Failed
                | WireStatus::Interrupted
                | WireStatus::Stalled
                | WireStatus::Timeout
                | WireStatus::Unknown,
                _,
            ) => None,
        }
    }

    /// The entry with what was said to its child too late, in a key of its own and as a remark where it is read: behind the
    /// answer of a normal end, else behind the error (CTRL-11).
    #[must_use]
    pub fn with_missed(mut self, texts: &[&str]) -> Entry {
        if texts.is_empty() {
            return self;
        }
        let missed = texts.join("\n");
        let remark = format!("[said to it too late, so it has not read this: {missed}]");
        let into = if self.status == WireStatus::Completed { &mut self.summary } else { &mut self.error };
        *into = Some(match into.take() {
            Some(text) => format!("{}\n\n{remark}", text.trim_end()),
            None => remark,
        });
        self.missed_steer = Some(missed);
        self
    }
}

/// How a schema that was missed is to be taken.
const RAW: &str = "the summary is the raw text of the subagent, which does not meet the schema: use it as it is instead of running the task again";

/// The exit reason of an answer that the provider cut off.
const OUTPUT_LIMIT: &str = Outcome::Partial(Limit::Output).exit_reason();

/// The entry of one child; `None` while it has not settled.
pub fn entry(accepted: &Accepted, task_index: usize, child: &ChildRecord) -> Option<Entry> {
    let outcome = child.outcome()?;
    let report = child.report.as_ref();
    let pulse = child.pulse.as_ref().map(|(pulse, _)| pulse.clone()).unwrap_or_default();
    let usage = report.map_or(pulse.usage, |report| report.usage);
    let cost = report.map_or(pulse.cost, |report| report.cost);
    let ran = child.started_at.is_some();
    // A run that was stopped or failed has no answer that could meet a schema.
    let completed = outcome.status() == WireStatus::Completed;
    let conformance = report.and_then(|report| report.conformance.as_ref()).filter(|_| completed);
    let missed = conformance.filter(|known| !known.is_met());
    let transcript = accepted.transcripts.get(task_index).filter(|path| ran && !path.is_empty());
    Some(Entry {
        task_index,
        status: outcome.status(),
        summary: report.and_then(|report| report.answer.clone()),
        api_calls: report.map_or(pulse.model_calls, |report| report.model_calls),
        duration_seconds: rounded(child.took().as_secs_f64(), 2),
        model: report.and_then(|report| report.model.clone()),
        exit_reason: outcome.exit_reason().to_owned(),
        truncated: outcome.is_truncated(),
        tokens: Tokens { input: usage.input, output: usage.output },
        tool_trace: report.map(|report| report.tool_trace.clone()).unwrap_or_default(),
        cost_usd: rounded(cost.usd(), 6),
        cost_status: cost.status().to_owned(),
        subtree: None,
        error: cut::error_of_quiet(outcome, report)
            .or_else(|| error_text(outcome, report.and_then(|report| report.error.clone()))),
        failure_reason: report
            .and_then(|report| report.failure_reason)
            .map(|reason| reason.as_str().to_owned()),
        schema_valid: conformance.map(Conformance::is_met),
        schema_errors: missed.map(|known| known.errors.clone()),
        schema_retries: conformance.map(|known| known.retries).filter(|retries| *retries > 0),
        schema_note: missed.map(note),
        missed_steer: None,
        unread_results: Vec::new(),
        in_doubt: report.map(|report| report.in_doubt.clone()).unwrap_or_default(),
        live_transcript: transcript.cloned(),
        aside: Aside::of(outcome, report),
    })
}

fn note(missed: &Conformance) -> String {
    match &missed.remark {
        Some(remark) => format!("{RAW}; {remark}"),
        None => RAW.to_owned(),
    }
}

/// The child's own error where it gave one, else a sentence that says what the outcome means.
fn error_text(outcome: Outcome, reported: Option<String>) -> Option<String> {
    let own = match outcome {
        Outcome::Succeeded | Outcome::Partial(_) => return reported,
        Outcome::Failed(FailureKind::EmptyAnswer) => "the subagent gave no answer",
        Outcome::Failed(FailureKind::Panicked) => "the subagent's code panicked",
        Outcome::Failed(FailureKind::Setup | FailureKind::Model | FailureKind::Tool | FailureKind::Store) => {
            "the subagent failed"
        }
        Outcome::Stopped(StopReason::Cancelled) => "stopped on request",
        Outcome::Stopped(StopReason::ParentStopped) => "stopped because its parent was stopped",
        Outcome::Stopped(StopReason::Stalled) => "stopped because it made no progress",
        Outcome::Stopped(StopReason::TimedOut) => "stopped at its inactivity limit",
        Outcome::Stopped(StopReason::SessionEnded) => "stopped because its session ended",
        Outcome::Stopped(StopReason::OwnerLost) => {
            "never started: the process that owned it died before its turn came; ask for it again"
        }
        Outcome::Stopped(StopReason::Shutdown) => "stopped because the process was told to end",
        Outcome::Lost => {
            "the process that ran it died before it ended; what it did until then is in its transcript"
        }
    };
    Some(reported.unwrap_or_else(|| own.to_owned()))
}

fn rounded(value: f64, decimals: i32) -> f64 {
    let scale = 10f64.powi(decimals);
    (value * scale).round() / scale
}
