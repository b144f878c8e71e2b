//! One child's transcript while it is written: what was told becomes lines, streamed text is held until it makes a line.

use super::line::{self, Role};
use legwork_core::outcome::Outcome;
use legwork_core::ports::Heading;
use legwork_core::pulse::LineEvent;
use legwork_core::time::Timestamp;
use std::path::PathBuf;

/// Streamed text that makes a line of its own however long the reply goes on (LIVE-4).
const HELD_MAX: usize = 4000;

/// A transcript.
pub(super) struct Transcript {
    /// Its file.
    pub(super) path: PathBuf,
    /// Lines that are not written yet.
    pub(super) lines: String,
    text: String,
    thought: String,
    /// Whether the first model call was told.
    begun: bool,
    /// A failing file is given up after one warning.
    pub(super) given_up: bool,
}

impl Transcript {
    /// A transcript that begins with its head.
    pub(super) fn new(path: PathBuf, heading: &Heading) -> Self {
        let goal = line::one_line(&crate::redact::redact(&heading.goal), 500);
        let mut lines = format!(
            "# delegation {}, task {}, subagent {}\n# goal: {goal}\n# model {}, accepted {}\n# one line an event; this file only grows\n",
            heading.delegation,
            heading.task_index,
            heading.child,
            heading.model,
            line::date(heading.at),
        );
        let context = heading.context.as_deref().map(|context| format!(" — context: {context}"));
        let kickoff = format!("{}{}", heading.goal, context.unwrap_or_default());
        line::push(&mut lines, heading.at, Role::User, &kickoff);
        Transcript { path, lines, text: String::new(), thought: String::new(), begun: false, given_up: false }
    }

    /// Takes in what the child told.
    pub(super) fn told(&mut self, at: Timestamp, event: &LineEvent) {
        match event {
            LineEvent::Text(piece) => {
                self.end_thought(at);
                self.text.push_str(piece);
                if self.text.len() >= HELD_MAX {
                    self.end_text(at);
                }
            }
            LineEvent::Thinking(piece) => {
                self.end_text(at);
                self.thought.push_str(piece);
                if self.thought.len() >= HELD_MAX {
                    self.end_thought(at);
                }
            }
            LineEvent::ModelCalled => {
                self.end_held(at);
                if !std::mem::replace(&mut self.begun, true) {
                    line::push(&mut self.lines, at, Role::Start, "the subagent began");
                }
            }
            LineEvent::Replied { .. } => self.end_held(at),
            LineEvent::ToolMoved => {}
            LineEvent::Retrying { error, pause_ms } => {
                let pause = *pause_ms as f64 / 1000.0;
                self.line(at, Role::Note, &format!("trying again in {pause:.1}s: {error}"));
            }
            LineEvent::ToolStarted { tool, arguments } => {
                self.line(at, Role::Tool, &format!("{tool} {arguments}"));
            }
            LineEvent::ToolEnded { tool, result, is_error, took_ms } => {
                let word = if *is_error { "ERROR" } else { "ok" };
                let took = *took_ms as f64 / 1000.0;
                self.line(at, Role::Result, &format!("{tool} {word} {took:.1}s {result}"));
            }
            LineEvent::Note(note) => self.line(at, Role::Note, note),
        }
    }

    /// Writes the end mark.
    pub(super) fn ended(&mut self, at: Timestamp, outcome: Outcome, error: Option<&str>) {
        let cut = if outcome.is_truncated() { ", cut short by the step limit" } else { "" };
        let error = error.map(|error| format!(": {error}")).unwrap_or_default();
        let status = outcome.status().as_str();
        self.line(at, Role::Final, &format!("{status} ({}){cut}{error}", outcome.exit_reason()));
    }

    fn line(&mut self, at: Timestamp, role: Role, text: &str) {
        self.end_held(at);
        line::push(&mut self.lines, at, role, text);
    }

    fn end_held(&mut self, at: Timestamp) {
        self.end_thought(at);
        self.end_text(at);
    }

    fn end_text(&mut self, at: Timestamp) {
        let text = std::mem::take(&mut self.text);
        if !text.trim().is_empty() {
            line::push(&mut self.lines, at, Role::Assistant, &text);
        }
    }

    fn end_thought(&mut self, at: Timestamp) {
        let thought = std::mem::take(&mut self.thought);
        if !thought.trim().is_empty() {
            line::push(&mut self.lines, at, Role::Think, &thought);
        }
    }
}
