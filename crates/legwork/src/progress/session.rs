//! Shows what a conversation's own agent does and how its subagents fare, as plain lines.

use std::sync::atomic::{AtomicBool, Ordering};

use legwork_agent::session::{Cause, SessionEvent};
use legwork_core::ports::Watch;
use legwork_core::pulse::LineEvent;

use super::screen::Screen;
use super::sets::Sets;
use crate::{call_label, stderr, wording};

const ARGUMENTS_WIDTH: usize = 100;
const REASON_WIDTH: usize = 160;
const TOOL_WIDTH: usize = 64;
/// Where the subagents of a running call are seen from outside.
const MONITOR: &str = "`legwork ps`";

/// Shows one thing that the conversation's agent told; called from within its turn, so it only writes a line.
pub fn told(event: &LineEvent) {
    match event {
        LineEvent::ToolStarted { tool, arguments, .. } => {
            let label = call_label::running(tool, arguments, MONITOR);
            let label = label.unwrap_or_else(|| wording::one_line(arguments, ARGUMENTS_WIDTH));
            stderr::tell(&format!("· {} {label}", named(tool)));
        }
        LineEvent::Retrying { error, pause_ms, .. } => {
            let error = wording::one_line(error, REASON_WIDTH);
            stderr::tell(&format!("· trying again in {:.1}s: {error}", *pause_ms as f64 / 1000.0));
        }
        LineEvent::ToolEnded { tool, result, is_error: true, .. } => {
            stderr::tell(&format!("· {} failed: {}", named(tool), wording::one_line(result, REASON_WIDTH)));
        }
        LineEvent::Compacted { messages, .. } => {
            stderr::tell(&format!("· summarised {messages} earlier messages to make room"));
        }
        LineEvent::Note(note) => stderr::tell(&format!("· {}", wording::one_line(note, REASON_WIDTH))),
        LineEvent::ToolEnded { tool, result, is_error: false, .. } => {
            if let Some(goes_on) = call_label::handed_off(tool, result) {
                stderr::tell(&format!("· {goes_on}"));
            }
        }
        LineEvent::ModelCalled
        | LineEvent::Text(_)
        | LineEvent::Thinking(_)
        | LineEvent::Replied { .. }
        | LineEvent::ToolMoved => {}
    }
}

/// Shows what a stored conversation catches up on before its prompt is asked: stdout has only the answer to that.
#[derive(Debug, Default)]
pub struct Before {
    /// Whether the turn that runs is one of those.
    is_before: AtomicBool,
}

impl Before {
    /// Shows what comes in, and what the agent says to it.
    pub fn heard(&self, event: &SessionEvent) {
        match event {
            SessionEvent::TurnBegan(Cause::User(_)) => self.is_before.store(false, Ordering::Relaxed),
            SessionEvent::TurnBegan(Cause::Completion { title, .. } | Cause::ProcessEnded { title, .. }) => {
                self.is_before.store(true, Ordering::Relaxed);
                stderr::tell(&format!("◂ {}", wording::one_line(title, REASON_WIDTH)));
            }
            SessionEvent::TurnBegan(Cause::Unanswered) => {
                self.is_before.store(true, Ordering::Relaxed);
                stderr::tell("◂ the turn that was cut off is finished first");
            }
            SessionEvent::TurnEnded(report) if self.is_before.load(Ordering::Relaxed) => {
                let said = report.answer.iter().chain(&report.error);
                said.for_each(|text| stderr::tell(text.trim_end()));
            }
            SessionEvent::TurnEnded(_)
            | SessionEvent::CameIn { .. }
            | SessionEvent::Told(_)
            | SessionEvent::Compacted { .. }
            | SessionEvent::TryingAgain { .. }
            | SessionEvent::Idle => {}
        }
    }
}

/// The model may have made the name up.
fn named(tool: &str) -> String {
    wording::one_line(tool, TOOL_WIDTH)
}

/// Shows every subagent's beginning and end. It ends with the engine.
pub async fn follow_all(watch: &mut dyn Watch, screen: &mut Screen) {
    let mut sets = Sets::default();
    while let Some(event) = watch.next().await {
        sets.take(&event).iter().for_each(|notice| screen.show(notice));
    }
}
