//! What an entry tells of the end of a child besides its answer: limits that fired, its worktree, its processes.
//!
//! It computes keys from stored facts, and words the errors of children that the supervisor ended.

use crate::aftermath::{HandedOff, Inactivity, Orphaned, QuietPhase, UnreadCompletion, Worktree, seconds};
use crate::outcome::{Outcome, StopReason, WireStatus};
use crate::report::Report;
use serde::{Deserialize, Serialize};

/// The keys of an entry that stand there only where they apply (ENTRY-2).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Aside {
    /// The limit that ended it; null for an error that no limit had to do with (RUN-14).
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<TimeoutKeys>,
    /// Why it was taken for stuck (STALL-6).
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub stall: Option<StallKeys>,
    /// Its worktree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worktree: Option<Worktree>,
    /// Files that whoever asked for it had read and that others wrote meanwhile; here when there is no answer to say so.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stale_paths: Vec<String>,
    /// Processes that were given to whoever asked for it, and whether they still run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub handed_off_processes: Vec<HandedOff>,
    /// Processes that were ended with it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub orphaned_processes: Vec<Orphaned>,
    /// Processes whose end it has not looked at.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unread_completions: Vec<UnreadCompletion>,
}

/// The keys of a child that its inactivity limit ended.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TimeoutKeys {
    /// The limit that fired.
    pub timeout_seconds: Option<f64>,
    /// How long the child had run when it fired.
    pub timed_out_after_seconds: Option<f64>,
    /// `before_first_llm_call` or `after_llm_calls`.
    pub timeout_phase: Option<String>,
    /// Seconds since the last sign of life.
    pub last_event_age: Option<f64>,
    /// A file with what was known of it, when it had not even asked its model.
    pub diagnostic_path: Option<String>,
}

/// The keys of a child that was taken for stuck.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StallKeys {
    /// How long nothing had moved.
    pub stalled_after_quiet_seconds: f64,
    /// How long that may be.
    pub stall_threshold_seconds: f64,
    /// `idle` or `in_tool`.
    pub stall_phase: String,
    /// From the request to stop to the abort.
    pub stall_grace_seconds: f64,
}

impl Aside {
    pub(super) fn of(outcome: Outcome, report: Option<&Report>) -> Aside {
        let mut aside = Aside { timeout: timeout(outcome, report), ..Aside::default() };
        let Some(report) = report else { return aside };
        if outcome == Outcome::Stopped(StopReason::Stalled) {
            aside.stall = report.inactivity.as_ref().map(stall);
        }
        aside.worktree.clone_from(&report.worktree);
        aside.stale_paths.clone_from(&report.stale_paths);
        let processes = report.processes.clone();
        aside.handed_off_processes = processes.handed_off;
        aside.orphaned_processes = processes.orphaned;
        aside.unread_completions = processes.unread;
        aside
    }
}

fn timeout(outcome: Outcome, report: Option<&Report>) -> Option<TimeoutKeys> {
    if outcome.status() == WireStatus::Error {
        return Some(TimeoutKeys::default());
    }
    if outcome != Outcome::Stopped(StopReason::TimedOut) {
        return None;
    }
    let Some(facts) = report.and_then(|report| report.inactivity.as_ref()) else {
        return Some(TimeoutKeys::default());
    };
    Some(TimeoutKeys {
        timeout_seconds: Some(seconds(facts.limit_ms)),
        timed_out_after_seconds: Some(seconds(facts.ran_ms)),
        timeout_phase: Some(facts.timeout_phase().to_owned()),
        last_event_age: Some(seconds(facts.quiet_ms)),
        diagnostic_path: report.and_then(|report| report.diagnostics.clone()),
    })
}

fn stall(facts: &Inactivity) -> StallKeys {
    StallKeys {
        stalled_after_quiet_seconds: seconds(facts.quiet_ms),
        stall_threshold_seconds: seconds(facts.limit_ms),
        stall_phase: facts.stall_phase().to_owned(),
        stall_grace_seconds: seconds(facts.grace_ms),
    }
}

/// What a child that was ended for want of progress is said to have died of (RUN-17); `None` for any other end.
pub(super) fn error_of_quiet(outcome: Outcome, report: Option<&Report>) -> Option<String> {
    let report = report?;
    let facts = report.inactivity.as_ref()?;
    let (limit, quiet) = (seconds(facts.limit_ms), seconds(facts.quiet_ms));
    let calls = match facts.model_calls {
        0 => "before its first model call".to_owned(),
        1 => "after 1 model call".to_owned(),
        more => format!("after {more} model calls"),
    };
    let mut text = match outcome {
        Outcome::Stopped(StopReason::Stalled) => {
            let key = match facts.phase {
                QuietPhase::Idle => "outside a tool (delegation.stall_idle_seconds)",
                QuietPhase::InTool => "inside a tool (delegation.stall_tool_seconds)",
            };
            format!(
                "stopped as stalled {calls}: nothing had moved for {quiet} s, and {limit} s is the limit {key}; nothing \
                 else was stopped with it"
            )
        }
        Outcome::Stopped(StopReason::TimedOut) => format!(
            "timed out {calls}: nothing had moved for {quiet} s, and {limit} s is the inactivity limit \
             (delegation.child_timeout_seconds)"
        ),
        Outcome::Succeeded
        | Outcome::Partial(_)
        | Outcome::Failed(_)
        | Outcome::Stopped(
            StopReason::Cancelled
            | StopReason::ParentStopped
            | StopReason::SessionEnded
            | StopReason::OwnerLost
            | StopReason::Shutdown,
        )
        | Outcome::Lost => return None,
    };
    if let Some(path) = &report.diagnostics {
        text.push_str(&format!("; what was known of it is in {path}"));
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::{Ending, FailureKind};
    use serde_json::json;

    fn quiet(model_calls: u32, phase: QuietPhase) -> Report {
        let inactivity = Inactivity {
            limit_ms: 30_000,
            quiet_ms: 30_004,
            ran_ms: 95_500,
            phase,
            model_calls,
            grace_ms: 1500,
        };
        Report { inactivity: Some(inactivity), ..Report::bare(Ending::Interrupted) }
    }

    /// Proves RUN-14, RUN-15, RUN-16.
    #[test]
    fn run_14_a_timeout_tells_its_limit_and_a_plain_error_tells_that_there_was_none() {
        let timed_out = Outcome::Stopped(StopReason::TimedOut);
        let mut report = quiet(0, QuietPhase::Idle);
        report.diagnostics = Some("/state/diagnostics/x.log".to_owned());
        let keys = serde_json::to_value(Aside::of(timed_out, Some(&report))).expect("it is JSON");
        let expected = json!({
            "timeout_seconds": 30.0, "timed_out_after_seconds": 95.5, "timeout_phase": "before_first_llm_call",
            "last_event_age": 30.0, "diagnostic_path": "/state/diagnostics/x.log",
        });
        assert_eq!(keys, expected);
        let after = Aside::of(timed_out, Some(&quiet(3, QuietPhase::InTool))).timeout.expect("keys");
        assert_eq!(after.timeout_phase.as_deref(), Some("after_llm_calls"));
        let plain = Report::bare(Ending::Failed(FailureKind::Setup));
        let keys = serde_json::to_value(Aside::of(Outcome::Failed(FailureKind::Setup), Some(&plain)));
        let expected = json!({
            "timeout_seconds": null, "timed_out_after_seconds": null, "timeout_phase": null,
            "last_event_age": null, "diagnostic_path": null,
        });
        assert_eq!(keys.expect("it is JSON"), expected);
        let other = Aside::of(Outcome::Failed(FailureKind::Model), Some(&plain));
        assert_eq!(serde_json::to_value(other).expect("it is JSON"), json!({}));
    }

    #[test]
    fn stall_06_a_stalled_child_tells_how_quiet_it_was_and_where() {
        let stalled = Outcome::Stopped(StopReason::Stalled);
        let keys = serde_json::to_value(Aside::of(stalled, Some(&quiet(2, QuietPhase::InTool))))
            .expect("it is JSON");
        let expected = json!({
            "stalled_after_quiet_seconds": 30.0, "stall_threshold_seconds": 30.0, "stall_phase": "in_tool",
            "stall_grace_seconds": 1.5,
        });
        assert_eq!(keys, expected);
    }

    #[test]
    fn run_17_the_error_says_which_limit_fired_and_ends_with_the_diagnostics() {
        let (stalled, timed_out) =
            (Outcome::Stopped(StopReason::Stalled), Outcome::Stopped(StopReason::TimedOut));
        let mut report = quiet(0, QuietPhase::Idle);
        report.diagnostics = Some("/d/x.log".to_owned());
        let before = error_of_quiet(timed_out, Some(&report)).expect("a text");
        assert!(before.starts_with("timed out before its first model call"), "{before}");
        assert!(before.contains("child_timeout_seconds") && before.ends_with("/d/x.log"), "{before}");
        let after = error_of_quiet(timed_out, Some(&quiet(3, QuietPhase::InTool))).expect("a text");
        assert!(after.starts_with("timed out after 3 model calls"), "{after}");
        let stall = error_of_quiet(stalled, Some(&quiet(1, QuietPhase::InTool))).expect("a text");
        assert!(stall.starts_with("stopped as stalled after 1 model call"), "{stall}");
        assert!(
            stall.contains("stall_tool_seconds") && stall.contains("nothing else was stopped"),
            "{stall}"
        );
        assert_eq!(error_of_quiet(Outcome::Succeeded, Some(&report)), None);
    }
}
