//! How a child ended: what the worker says ([`Ending`]), what legwork concludes ([`Outcome`]), and the closed set of
//! words that the outside sees ([`WireStatus`]). The reason is a field apart from the state (invariant 19).

use serde::{Deserialize, Serialize};

/// What a worker says of its own run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// The model gave a final answer.
    Answered,
    /// A limit ended the run; what was produced until then is kept.
    CutShort(Limit),
    /// The run could not be carried to an answer.
    Failed(FailureKind),
    /// The run ended because it was told to stop.
    Interrupted,
}

/// What legwork concludes of a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// A final answer.
    Succeeded,
    /// Work that a limit cut short.
    Partial(Limit),
    /// No answer.
    Failed(FailureKind),
    /// Ended by a stop; the first cause is kept.
    Stopped(StopReason),
    /// The owner died and the end is not known.
    Lost,
}

/// The limits that can cut a run short.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// `delegation.max_iterations` model calls were made.
    Steps,
    /// The spending limit was reached.
    Spend,
    /// The provider's limit of output tokens cut the last reply off: there is an answer, and it is not whole.
    Output,
}

/// Why a run failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// The child could not be set up: a missing folder, an unusable model route.
    Setup,
    /// The model's provider refused or kept failing.
    Model,
    /// A tool failed in a way the run cannot survive.
    Tool,
    /// The answer was blank.
    EmptyAnswer,
    /// The store refused what the child had to record.
    Store,
    /// The code of the child panicked; the panic was caught.
    Panicked,
}

/// Why somebody or something ended a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// A person or an agent asked for it.
    Cancelled,
    /// The delegation or the child above it was stopped.
    ParentStopped,
    /// No progress for longer than the patience of its phase.
    Stalled,
    /// The inactivity limit of the child was reached.
    TimedOut,
    /// Its session ended.
    SessionEnded,
    /// The process that owned it died before the child had begun, or again and again at the same step of it.
    OwnerLost,
    /// The process was told to end.
    Shutdown,
}

/// How hard a stop is pressed. It may only rise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Force {
    /// End at the next boundary.
    Ask,
    /// End now; the run is dropped where it is.
    Abort,
}

/// The closed set of status words at the wire (docs/invariants.md, invariant 19).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WireStatus {
    /// An answer, possibly with a mark (`truncated`).
    Completed,
    /// The spending limit ended it.
    BudgetExhausted,
    /// It could not be set up, or its code panicked.
    Error,
    /// It ended without an answer.
    Failed,
    /// It was stopped.
    Interrupted,
    /// It was stopped because it made no progress.
    Stalled,
    /// It was stopped at its inactivity limit.
    Timeout,
    /// Its end is not known.
    Unknown,
}

impl WireStatus {
    /// The word itself.
    pub const fn as_str(self) -> &'static str {
        match self {
            WireStatus::Completed => "completed",
            WireStatus::BudgetExhausted => "budget_exhausted",
            WireStatus::Error => "error",
            WireStatus::Failed => "failed",
            WireStatus::Interrupted => "interrupted",
            WireStatus::Stalled => "stalled",
            WireStatus::Timeout => "timeout",
            WireStatus::Unknown => "unknown",
        }
    }
}

impl Outcome {
    /// The status word of this outcome.
    pub const fn status(self) -> WireStatus {
        match self {
            Outcome::Succeeded | Outcome::Partial(Limit::Steps | Limit::Output) => WireStatus::Completed,
            Outcome::Partial(Limit::Spend) => WireStatus::BudgetExhausted,
            Outcome::Failed(FailureKind::Setup | FailureKind::Panicked) => WireStatus::Error,
            Outcome::Failed(
                FailureKind::Model | FailureKind::Tool | FailureKind::EmptyAnswer | FailureKind::Store,
            ) => WireStatus::Failed,
            Outcome::Stopped(StopReason::Stalled) => WireStatus::Stalled,
            Outcome::Stopped(StopReason::TimedOut) => WireStatus::Timeout,
            Outcome::Stopped(
                StopReason::Cancelled
                | StopReason::ParentStopped
                | StopReason::SessionEnded
                | StopReason::OwnerLost
                | StopReason::Shutdown,
            ) => WireStatus::Interrupted,
            Outcome::Lost => WireStatus::Unknown,
        }
    }

    /// The `exit_reason` of this outcome (ENTRY-3).
    pub const fn exit_reason(self) -> &'static str {
        match self {
            Outcome::Partial(Limit::Steps) => "max_iterations",
            Outcome::Partial(Limit::Output) => "max_output_tokens",
            Outcome::Failed(_) => "error",
            Outcome::Succeeded | Outcome::Partial(Limit::Spend) | Outcome::Stopped(_) | Outcome::Lost => {
                self.status().as_str()
            }
        }
    }

    /// Whether it is one of `failed`, `error` and `timeout`: the ends that are told before the siblings have ended (NOTE-1).
    pub fn is_failure(self) -> bool {
        match self {
            Outcome::Failed(_) | Outcome::Stopped(StopReason::TimedOut) => true,
            Outcome::Succeeded | Outcome::Partial(_) | Outcome::Lost => false,
            Outcome::Stopped(
                StopReason::Cancelled
                | StopReason::ParentStopped
                | StopReason::Stalled
                | StopReason::SessionEnded
                | StopReason::OwnerLost
                | StopReason::Shutdown,
            ) => false,
        }
    }

    /// Whether a limit cut the work off although its status reads `completed` (ENTRY-5): that of its steps, or the
    /// provider's of output.
    pub fn is_truncated(self) -> bool {
        matches!(self, Outcome::Partial(Limit::Steps | Limit::Output))
    }

    /// Whether this is a whole answer: the only outcome that lets a command exit with 0.
    pub fn is_success(self) -> bool {
        matches!(self, Outcome::Succeeded)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entry_05_step_limit_reads_completed_but_is_marked() {
        let outcome = Outcome::Partial(Limit::Steps);
        assert_eq!(outcome.status(), WireStatus::Completed);
        assert_eq!(outcome.exit_reason(), "max_iterations");
        assert!(outcome.is_truncated() && !outcome.is_success());
    }

    #[test]
    fn entry_05_a_reply_that_the_provider_cut_off_reads_completed_but_is_marked() {
        let outcome = Outcome::Partial(Limit::Output);
        assert_eq!((outcome.status().as_str(), outcome.exit_reason()), ("completed", "max_output_tokens"));
        assert!(outcome.is_truncated() && !outcome.is_success());
    }

    #[test]
    fn note_01_an_early_word_is_due_for_what_reads_failed_error_or_timeout() {
        let early = [
            Outcome::Failed(FailureKind::Setup),
            Outcome::Failed(FailureKind::Model),
            Outcome::Failed(FailureKind::Tool),
            Outcome::Failed(FailureKind::EmptyAnswer),
            Outcome::Failed(FailureKind::Store),
            Outcome::Failed(FailureKind::Panicked),
            Outcome::Stopped(StopReason::TimedOut),
        ];
        let other = [
            Outcome::Succeeded,
            Outcome::Partial(Limit::Steps),
            Outcome::Partial(Limit::Spend),
            Outcome::Partial(Limit::Output),
            Outcome::Stopped(StopReason::Cancelled),
            Outcome::Stopped(StopReason::ParentStopped),
            Outcome::Stopped(StopReason::Stalled),
            Outcome::Stopped(StopReason::SessionEnded),
            Outcome::Stopped(StopReason::OwnerLost),
            Outcome::Stopped(StopReason::Shutdown),
            Outcome::Lost,
        ];
        for outcome in early {
            let status = outcome.status().as_str();
            assert!(["failed", "error", "timeout"].contains(&status) && outcome.is_failure(), "{outcome:?}");
        }
        for outcome in other {
            let status = outcome.status().as_str();
            assert!(
                !["failed", "error", "timeout"].contains(&status) && !outcome.is_failure(),
                "{outcome:?}"
            );
        }
    }

    #[test]
    fn entry_06_a_provider_failure_never_reads_max_iterations() {
        let outcome = Outcome::Failed(FailureKind::Model);
        assert_eq!((outcome.status().as_str(), outcome.exit_reason()), ("failed", "error"));
    }
}
