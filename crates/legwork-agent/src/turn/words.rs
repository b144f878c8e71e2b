//! What the model reads about things that were cut off. It reads each of them as the result of the call, or as the end of
//! its own reply.

use crate::tools::Effect;
use legwork_core::message::{ToolCall, ToolResult};
use legwork_core::outcome::StopReason;
use serde_json::json;

/// Stands in the journal for what was begun when a process died.
pub(super) const CRASHED: &str = "the process died before this had ended";

/// Who or what ended it.
pub(super) fn why(reason: StopReason) -> &'static str {
    match reason {
        StopReason::Cancelled => "it was stopped on request",
        StopReason::ParentStopped => "it was stopped together with what it was part of",
        StopReason::Stalled => "it was stopped because nothing had moved for too long",
        StopReason::TimedOut => "it was stopped at its inactivity limit",
        StopReason::SessionEnded => "it was stopped because the session ended",
        StopReason::OwnerLost => "it was stopped because the process that owned it had died",
        StopReason::Shutdown => "it was stopped because legwork was told to end",
    }
}

/// The end of a reply that was broken off.
pub(crate) fn broken_off(reason: StopReason) -> String {
    format!("[the turn ended here without an answer: {}]", why(reason))
}

/// The result of a call that was stopped while it ran.
pub(super) fn cut_off(call: &ToolCall, effect: Effect, reason: StopReason) -> ToolResult {
    let effect = match effect {
        Effect::ReadOnly => "It changes nothing, so it may be made again.",
        Effect::Changes => "Whether it had an effect is not known: check before you make it again.",
        Effect::Rejoins => "What it had started goes on, unless that was stopped too.",
    };
    error(call, format!("{} was cut off while it ran: {}. {effect}", call.name, why(reason)))
}

/// The result of a call whose turn had not come when the reply was cut off.
pub(super) fn never_begun(call: &ToolCall, reason: StopReason) -> ToolResult {
    error(call, format!("{} was not carried out: before its turn came {}.", call.name, why(reason)))
}

/// The result of a call that was under way when the process died, and that may have changed something.
pub(super) fn in_doubt(call: &ToolCall) -> String {
    format!(
        "this call of {} was cut off when the process that ran it died. Whether it had an effect is not known, and it was \
         not made again: look at what it was to change before you go on or repeat it",
        call.name,
    )
}

fn error(call: &ToolCall, text: String) -> ToolResult {
    let content = json!({ "error": text }).to_string();
    ToolResult { call_id: call.id.clone(), content, is_error: true }
}
