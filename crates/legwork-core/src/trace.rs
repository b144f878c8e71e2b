//! What is kept of a tool call for the result entry: sizes, names and targets, never whole values (ENTRY-9…11). It does
//! not know where the call comes from: a run that goes on, or the journal of one that was lost.

use crate::message::{ToolCall, ToolResult};
use crate::report::{InputSummary, TraceItem, TraceStatus};
use serde_json::Value;

const KEYS_MAX: usize = 64;
const KEY_CHARS_MAX: usize = 128;
const TARGETS_MAX: usize = 16;
const TARGET_CHARS_MAX: usize = 1024;

/// Arguments whose values name what a call is aimed at.
const TARGET_KEYS: [&str; 14] = [
    "cwd",
    "destination_path",
    "directory",
    "dst",
    "endpoint",
    "file_path",
    "new_path",
    "old_path",
    "path",
    "source_path",
    "src",
    "target_path",
    "url",
    "urls",
];

/// Words of a `status` field that mean a failure (ENTRY-10).
const BAD_STATUSES: [&str; 4] = ["error", "failed", "failure", "timeout"];
/// Beginnings of a first line that mean a failure (ENTRY-10).
const BAD_BEGINNINGS: [&str; 4] = ["error:", "failed:", "traceback ", "exception:"];

impl TraceItem {
    /// The trace of a call that has ended.
    pub fn of(call: &ToolCall, result: &ToolResult) -> TraceItem {
        let failed = result.is_error || tells_of_failure(&result.content);
        let arguments_bytes =
            call.malformed.as_ref().map_or_else(|| call.arguments.to_string().len(), String::len);
        TraceItem {
            tool: clipped(&call.name, KEY_CHARS_MAX),
            args_bytes: arguments_bytes as u64,
            input_summary: summary(&call.arguments),
            result_bytes: result.content.len() as u64,
            status: if failed { TraceStatus::Error } else { TraceStatus::Ok },
        }
    }
}

fn summary(arguments: &Value) -> InputSummary {
    let Value::Object(fields) = arguments else { return InputSummary::default() };
    let keys = fields.keys().take(KEYS_MAX);
    let aimed = fields.iter().filter(|(key, _)| TARGET_KEYS.contains(&key.as_str()));
    InputSummary {
        argument_keys: keys.map(|key| clipped(key, KEY_CHARS_MAX)).collect(),
        targets: aimed.flat_map(|(_, value)| texts(value)).take(TARGETS_MAX).map(target).collect(),
    }
}

fn texts(value: &Value) -> Vec<&str> {
    match value {
        Value::String(text) => vec![text],
        Value::Array(items) => items.iter().filter_map(Value::as_str).take(TARGETS_MAX).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => Vec::new(),
    }
}

/// A target without what may be secret in an address: user info, query and fragment.
fn target(text: &str) -> String {
    let Some((scheme, rest)) = text.split_once("://") else { return clipped(text, TARGET_CHARS_MAX) };
    let rest = rest.split(['?', '#']).next().unwrap_or_default();
    let (authority, path) = match rest.find('/') {
        Some(slash) => rest.split_at(slash),
        None => (rest, ""),
    };
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    clipped(&format!("{scheme}://{host}{path}"), TARGET_CHARS_MAX)
}

fn clipped(text: &str, chars_max: usize) -> String {
    text.chars().take(chars_max).collect()
}

fn tells_of_failure(content: &str) -> bool {
    let content = content.trim_start();
    if content.starts_with('{') {
        return serde_json::from_str(content).is_ok_and(|value: Value| is_failure(&value));
    }
    BAD_BEGINNINGS.iter().any(|beginning| begins_with(content, beginning))
}

fn begins_with(content: &str, beginning: &str) -> bool {
    content.get(..beginning.len()).is_some_and(|start| start.eq_ignore_ascii_case(beginning))
}

fn is_failure(value: &Value) -> bool {
    let bad_status = value.get("status").and_then(Value::as_str);
    bad_status.is_some_and(|status| BAD_STATUSES.contains(&status))
        || value.get("error").is_some_and(is_truthy)
}

fn is_truthy(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(truth) => *truth,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn traced(arguments: &Value, content: &str) -> TraceItem {
        let id = "call_1".to_owned();
        let call = ToolCall {
            id: id.clone(),
            name: "fetch".to_owned(),
            arguments: arguments.clone(),
            malformed: None,
        };
        TraceItem::of(&call, &ToolResult { call_id: id, content: content.to_owned(), is_error: false })
    }

    #[test]
    fn entry_11_targets_lose_their_secrets_and_other_values_are_left_out() {
        let arguments = json!({
            "url": "https://me:pw@example.org/a/b?token=1#part",
            "urls": ["http://x/?q", 7, "plain"],
            "path": "src/lib.rs",
            "content": "secret",
        });
        let mut summary = traced(&arguments, "fine").input_summary;
        // Whether a JSON object keeps the order of its keys depends on how the program was built.
        summary.targets.sort_unstable();
        summary.argument_keys.sort_unstable();
        assert_eq!(summary.targets, ["http://x/", "https://example.org/a/b", "plain", "src/lib.rs"]);
        assert_eq!(summary.argument_keys, ["content", "path", "url", "urls"]);
    }

    #[test]
    fn entry_11_names_and_targets_are_bounded() {
        let fields = (0..100).map(|n| (format!("{n:03}{}", "k".repeat(200)), json!(1)));
        let mut arguments = Value::Object(fields.collect());
        arguments["urls"] = json!(vec!["é".repeat(3000); 40]);
        let summary = traced(&arguments, "").input_summary;
        assert_eq!(summary.argument_keys.len(), 64);
        assert!(summary.argument_keys.iter().all(|key| key.chars().count() <= 128));
        assert_eq!(summary.targets.len(), 16);
        assert!(summary.targets.iter().all(|target| target.chars().count() == 1024));
    }

    #[test]
    fn entry_10_what_reads_like_a_failure_is_marked_as_one() {
        let failures = [
            "{\"error\":\"no\"}",
            "{\"status\":\"timeout\"}",
            "Error: no",
            "Traceback (most recent",
            "FAILED: 1",
        ];
        let successes = [
            "{\"error\":null}",
            "{\"error\":\"\"}",
            "{\"status\":\"ok\"}",
            "an error: no",
            "",
            "{broken",
            "é",
        ];
        for content in failures {
            assert_eq!(traced(&json!({}), content).status, TraceStatus::Error, "{content}");
        }
        for content in successes {
            assert_eq!(traced(&json!({}), content).status, TraceStatus::Ok, "{content}");
        }
    }

    #[test]
    fn entry_09_sizes_are_those_of_the_whole_values() {
        let arguments = json!({"path": "é"});
        let item = traced(&arguments, "été");
        assert_eq!((item.args_bytes, item.result_bytes), (13, 5));
    }
}
