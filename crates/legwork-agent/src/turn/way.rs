//! The ways out of the turn loop before an answer, and what each of them means in the report.

use super::{Agent, CUT_SHORT, words};
use crate::excerpt::head_of;
use crate::models::ModelError;
use legwork_core::batch::Setting;
use legwork_core::outcome::{Ending, FailureKind, Limit, StopReason};
use legwork_core::ports::{StopNotice, StoreError};
use legwork_core::report::FailureReason;

/// Bytes of a failing call that the report repeats.
const FAILURE_BYTES_MAX: usize = 500;

/// A way out of the loop before an answer.
pub(super) enum Way {
    /// The run was told to stop.
    Stopped(StopNotice),
    /// A limit of its allowance is reached.
    Exhausted(Limit),
    /// The model did not answer.
    Model(ModelError),
    /// The store refused a write; nothing more may be done.
    Store(StoreError),
    /// The model repeats a call that fails in the same way.
    SameFailure(String),
    /// Summary after summary left no room to go on in a window of so many tokens.
    NoProgress(u64),
    /// What must be sent does not fit into a window of so many tokens, and nothing is left to summarise.
    NoRoom(u64),
}

/// What is said of a run that a limit has ended.
pub(super) fn exhausted(limit: Limit, setting: &Setting) -> String {
    match limit {
        Limit::Steps => format!(
            "cut off after {} model calls, the limit set by delegation.max_iterations",
            setting.allowance.steps_max,
        ),
        Limit::Spend => "cut off at the spending limit".to_owned(),
        Limit::Output => CUT_SHORT.to_owned(),
    }
}

impl From<StoreError> for Way {
    fn from(error: StoreError) -> Self {
        Way::Store(error)
    }
}

impl Way {
    pub(super) fn ending(&self) -> Ending {
        match self {
            Way::Stopped(_) => Ending::Interrupted,
            Way::Exhausted(limit) => Ending::CutShort(*limit),
            Way::Model(_) | Way::NoProgress(_) | Way::NoRoom(_) => Ending::Failed(FailureKind::Model),
            Way::Store(_) => Ending::Failed(FailureKind::Store),
            Way::SameFailure(_) => Ending::Failed(FailureKind::Tool),
        }
    }

    pub(super) fn error(&self, agent: &Agent) -> Option<String> {
        match self {
            Way::Stopped(_) => None,
            Way::Exhausted(limit) => Some(exhausted(*limit, &agent.site.setting)),
            Way::Model(error) => Some(error.message.clone()),
            Way::NoProgress(window) => Some(format!(
                "the work does not fit into the model's window of {window} tokens: it was summarised again and again without getting on; use a model with a larger window, or ask for smaller pieces",
            )),
            Way::NoRoom(window) => Some(format!(
                "what must be sent does not fit into the model's window of {window} tokens, and nothing is left to summarise; use a model with a larger window, or ask for less at once",
            )),
            Way::Store(error) => Some(error.to_string()),
            Way::SameFailure(failure) => Some(format!(
                "the model made the same failing call {} times in a row: {}",
                agent.limits.same_failure_max,
                head_of(failure, FAILURE_BYTES_MAX),
            )),
        }
    }

    /// What a conversation is closed with when its turn ended this way; nothing when the turn is to be tried again.
    pub(super) fn remark(&self, agent: &Agent) -> Option<String> {
        match self {
            Way::Stopped(notice) if notice.reason == StopReason::Shutdown => None,
            Way::Stopped(notice) => Some(words::broken_off(notice.reason)),
            Way::Exhausted(_) | Way::SameFailure(_) | Way::NoProgress(_) | Way::NoRoom(_) => {
                self.error(agent).map(|error| format!("[the turn ended without an answer: {error}]"))
            }
            Way::Model(_) | Way::Store(_) => None,
        }
    }

    pub(super) fn failure_reason(&self) -> Option<FailureReason> {
        match self {
            Way::Model(error) => Some(error.reason),
            Way::NoProgress(_) | Way::NoRoom(_) => Some(FailureReason::ContextOverflow),
            Way::Stopped(_) | Way::Exhausted(_) | Way::Store(_) | Way::SameFailure(_) => None,
        }
    }
}
