//! The answer to a joined call: the results of all children as JSON (OUT-1), cut to what a conversation can take. What is
//! cut stays whole in the store, a summary also in a file, and the answer says how to get it.

use crate::excerpt::{excerpt, excerpt_with_place};
use crate::process::is_group_living;
use crate::spill::kept;
use crate::tools::ToolOutput;
use legwork_core::below::Unread;
use legwork_core::completion::{BatchResult, Entry};
use legwork_core::ids::{ChildId, DelegationId};
use legwork_core::outcome::WireStatus;
use legwork_core::ports::Joined;
use legwork_core::report::TraceItem;
use legwork_core::step::Actor;
use serde_json::{Value, json};
use std::path::PathBuf;

/// Bytes that the summaries of one call take together, however many children it has.
const SUMMARIES_BYTES_MAX: usize = 384 * 1024;
/// Bytes that the lists of tool calls take together.
const TRACES_BYTES_MAX: usize = 192 * 1024;
/// Bytes of what children were told too late, for all of them together. It is shown twice.
const MISSED_BYTES_MAX: usize = 64 * 1024;
/// Bytes of what the children's own subagents have brought and they had not read, for all of them together.
const UNREAD_BYTES_MAX: usize = 64 * 1024;
/// Such results that are shown of one child.
const UNREAD_MAX: usize = 16;
/// Bytes of the goal of one of them.
const UNREAD_GOAL_BYTES_MAX: usize = 256;
/// Bytes of one child's error.
const ERROR_BYTES_MAX: usize = 1024;
/// The share of one child in what is shared is never smaller than this.
const SHARE_BYTES_MIN: usize = 256;

/// How results are shown to one caller.
pub(super) struct Showing {
    /// Bytes of one summary.
    pub(super) summary_bytes_max: usize,
    /// The folder for summaries that are cut; created when needed.
    pub(super) spill: PathBuf,
}

/// The tool's output; the claims are acknowledged when it is stored.
pub(super) async fn output(mut joined: Joined, showing: Showing, notes: Vec<String>) -> ToolOutput {
    let acknowledge = std::mem::take(&mut joined.claims);
    let content = apart(move || {
        joined.record.note_ended_processes(is_group_living);
        let batch = BatchResult::of(&joined.record).with_below(&joined.record, &joined.below);
        let results = Cuts::of(&joined, &showing, batch.results.len()).entries(&batch);
        let mut answer = to_value(&BatchResult { results: Vec::new(), ..batch });
        // The caller's own call names it; only a front door without one shows the id (OUT-1).
        answer.as_object_mut().expect("a result has fields").shift_remove("delegation_id");
        answer["results"] = Value::Array(results);
        if !notes.is_empty() {
            answer["note"] = json!(notes.join("; "));
        }
        answer.to_string()
    });
    ToolOutput { acknowledge, ..ToolOutput::ok(content.await) }
}

/// The entries of some tasks of a delegation, cut alike.
pub(super) async fn entries(mut joined: Joined, wanted: Vec<usize>, showing: Showing) -> Vec<Value> {
    apart(move || {
        joined.record.note_ended_processes(is_group_living);
        let batch = BatchResult::of_tasks(&joined.record, &wanted);
        let batch = batch.with_below(&joined.record, &joined.below);
        Cuts::of(&joined, &showing, batch.results.len()).entries(&batch)
    })
    .await
}

/// The entries of tasks whose results this process could not get (DISP-11).
pub(super) fn unknown<'a>(tasks: &'a [usize], error: &'a str) -> impl Iterator<Item = Value> + 'a {
    tasks.iter().map(move |task_index| {
        json!({
            "task_index": task_index,
            "status": WireStatus::Unknown,
            "summary": null,
            "error": error,
            "api_calls": 0,
            "duration_seconds": 0.0,
        })
    })
}

/// Runs `work`, which may write files, on a thread for such things. A panic inside goes on in the caller.
async fn apart<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        // The runtime goes away, and this future with it.
        Err(_) => std::future::pending().await,
    }
}

/// How much of each entry is shown.
struct Cuts<'a> {
    joined: &'a Joined,
    showing: &'a Showing,
    summary: usize,
    trace: usize,
    missed: usize,
    unread: usize,
    /// The command that shows everything.
    whole: String,
}

impl<'a> Cuts<'a> {
    fn of(joined: &'a Joined, showing: &'a Showing, children: usize) -> Cuts<'a> {
        let share = |bytes: usize| (bytes / children.max(1)).max(SHARE_BYTES_MIN);
        Cuts {
            joined,
            showing,
            summary: share(SUMMARIES_BYTES_MAX).min(showing.summary_bytes_max.max(SHARE_BYTES_MIN)),
            trace: share(TRACES_BYTES_MAX),
            missed: share(MISSED_BYTES_MAX),
            unread: share(UNREAD_BYTES_MAX),
            whole: format!("legwork results {}", joined.record.accepted.delegation),
        }
    }

    fn entries(&self, batch: &BatchResult) -> Vec<Value> {
        batch.results.iter().map(|entry| self.entry(entry)).collect()
    }

    fn entry(&self, entry: &Entry) -> Value {
        let child = &self.joined.record.children[entry.task_index].id;
        let mut shown = entry.clone();
        shown.tool_trace.truncate(self.traced(&entry.tool_trace));
        let cut = entry.summary.as_deref().and_then(|summary| self.summary(child, summary));
        if let Some((summary, _)) = &cut {
            shown.summary = Some(summary.clone());
        }
        if let Some(error) = entry.error.as_deref().and_then(|error| self.error(error)) {
            shown.error = Some(error);
        }
        shown.unread_results = self.unread(&entry.unread_results);
        let missed = self.missed(child);
        let shown = shown.with_missed(&missed.iter().map(String::as_str).collect::<Vec<_>>());
        let omitted = entry.tool_trace.len() - shown.tool_trace.len();
        let mut value = to_value(&shown);
        if let Some((_, path)) = cut {
            value["summary_truncated"] = json!(true);
            if let Some(path) = path {
                value["summary_full_path"] = json!(path);
            }
        }
        if omitted > 0 {
            value["tool_trace_omitted"] = json!(omitted);
        }
        let unread_omitted = entry.unread_results.len() - shown.unread_results.len();
        if unread_omitted > 0 {
            value["unread_results_omitted"] = json!(unread_omitted);
        }
        value
    }

    /// A summary that is too long, cut, and the file that has the whole, if it could be written (FIN-3, FIN-4).
    fn summary(&self, child: &ChildId, summary: &str) -> Option<(String, Option<String>)> {
        if summary.len() <= self.summary {
            return None;
        }
        let path = kept(&self.showing.spill, &Actor::Child(child.clone()), "summary", summary);
        let cut = excerpt_with_place(summary, self.summary, |left_out, place| {
            let file = path.as_ref().map(|path| format!(", or {path} from byte {place} on"));
            format!("{left_out} bytes left out; whole: {}{}", self.whole, file.unwrap_or_default())
        });
        cut.map(|cut| (cut, path))
    }

    fn error(&self, error: &str) -> Option<String> {
        excerpt(error, ERROR_BYTES_MAX, |left_out| {
            format!("{left_out} bytes left out; whole: {}", self.whole)
        })
    }

    /// What the child was told too late, cut as a whole.
    fn missed(&self, child: &ChildId) -> Option<String> {
        let texts = self.joined.missed_by(child);
        if texts.is_empty() {
            return None;
        }
        let text = texts.join("\n");
        let note = |left_out| format!("{left_out} bytes left out; whole: legwork show {child}");
        Some(excerpt(&text, self.missed, note).unwrap_or(text))
    }

    /// What its own subagents have brought and it had not read, cut to its share.
    fn unread(&self, unread: &[Unread]) -> Vec<Unread> {
        let share = (self.unread / unread.len().clamp(1, UNREAD_MAX)).max(SHARE_BYTES_MIN);
        let cut = |text: &str, bytes_max: usize, whole: &DelegationId| {
            let note = |left_out| format!("{left_out} bytes left out; whole: legwork results {whole}");
            excerpt(text, bytes_max, note).unwrap_or_else(|| text.to_owned())
        };
        let shown = unread.iter().take(UNREAD_MAX).map(|one| Unread {
            goal: cut(&one.goal, UNREAD_GOAL_BYTES_MAX, &one.delegation_id),
            summary: one.summary.as_deref().map(|text| cut(text, share, &one.delegation_id)),
            error: one.error.as_deref().map(|text| cut(text, ERROR_BYTES_MAX, &one.delegation_id)),
            ..one.clone()
        });
        shown.collect()
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
