//! The answer to a joined call: the results of all children as JSON (OUT-1), cut to what a conversation can take. What is
//! cut stays whole in the store, and the answer says how to get it.

use crate::excerpt::excerpt;
use crate::tools::ToolOutput;
use legwork_core::completion::{BatchResult, Entry};
use legwork_core::ports::Joined;
use legwork_core::record::DelegationRecord;
use legwork_core::report::TraceItem;
use serde_json::{Value, json};

/// Bytes that the summaries of one call take together, however many children it has.
const SUMMARIES_BYTES_MAX: usize = 384 * 1024;
/// Bytes that the lists of tool calls take together.
const TRACES_BYTES_MAX: usize = 192 * 1024;
/// Bytes of one child's error.
const ERROR_BYTES_MAX: usize = 1024;
/// The share of one child in what is shared is never smaller than this.
const SHARE_BYTES_MIN: usize = 256;

/// The tool's output; the claims are acknowledged when it is stored.
pub(super) fn output(joined: Joined, summary_bytes_max: usize, notes: &[String]) -> ToolOutput {
    let batch = BatchResult::of(&joined.record);
    let cuts = Cuts::of(&batch, summary_bytes_max);
    let results: Vec<Value> = batch.results.iter().map(|entry| cuts.entry(entry)).collect();
    let mut answer = to_value(&BatchResult { results: Vec::new(), ..batch });
    // The caller's own call names it; only a front door without one shows the id (OUT-1).
    answer.as_object_mut().expect("a result has fields").shift_remove("delegation_id");
    answer["results"] = Value::Array(results);
    if !notes.is_empty() {
        answer["note"] = json!(notes.join("; "));
    }
    ToolOutput { acknowledge: joined.claims, ..ToolOutput::ok(answer.to_string()) }
}

/// The entries of some tasks of a delegation, cut alike.
pub(super) fn entries(
    record: &DelegationRecord,
    (wanted, summary_bytes_max): (&[usize], usize),
) -> Vec<Value> {
    let batch = BatchResult::of_tasks(record, wanted);
    let cuts = Cuts::of(&batch, summary_bytes_max);
    batch.results.iter().map(|entry| cuts.entry(entry)).collect()
}

/// How much of each entry is shown.
struct Cuts {
    summary: usize,
    trace: usize,
    /// The command that shows everything.
    whole: String,
}

impl Cuts {
    fn of(batch: &BatchResult, summary_bytes_max: usize) -> Cuts {
        let children = batch.results.len().max(1);
        Cuts {
            summary: (SUMMARIES_BYTES_MAX / children)
                .clamp(SHARE_BYTES_MIN, summary_bytes_max.max(SHARE_BYTES_MIN)),
            trace: (TRACES_BYTES_MAX / children).max(SHARE_BYTES_MIN),
            whole: format!("legwork results {}", batch.delegation_id),
        }
    }

    fn entry(&self, entry: &Entry) -> Value {
        let traced = self.traced(&entry.tool_trace);
        let summary = entry.summary.as_deref().and_then(|summary| self.cut(summary, self.summary));
        let error = entry.error.as_deref().and_then(|error| self.cut(error, ERROR_BYTES_MAX));
        let mut value = to_value(entry);
        if let Some(summary) = summary {
            value["summary"] = json!(summary);
            value["summary_truncated"] = json!(true);
        }
        if let Some(error) = error {
            value["error"] = json!(error);
        }
        if traced < entry.tool_trace.len() {
            value["tool_trace"] = to_value(&entry.tool_trace[..traced]);
            value["tool_trace_omitted"] = json!(entry.tool_trace.len() - traced);
        }
        value
    }

    fn cut(&self, text: &str, bytes_max: usize) -> Option<String> {
        excerpt(text, bytes_max, |left_out| format!("{left_out} bytes left out; whole: {}", self.whole))
    }

    /// How many items of a trace fit.
    fn traced(&self, trace: &[TraceItem]) -> usize {
        let sizes = trace.iter().map(|item| to_value(item).to_string().len());
        let totals = sizes.scan(0, |total, size| {
            *total += size;
            Some(*total)
        });
        totals.take_while(|total| *total <= self.trace).count()
    }
}

fn to_value(value: &(impl serde::Serialize + ?Sized)) -> Value {
    serde_json::to_value(value).expect("results have text keys and finite numbers")
}
