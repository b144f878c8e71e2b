//! One child's transcript while it is written: what was told becomes lines, streamed text is held until it makes a line.

use super::entry::{Cut, Entry};
use super::line::{self, Role};
use super::logs::{End, Head, Tail};
use crate::redact::redact;
use legwork_core::outcome::Outcome;
use legwork_core::ports::Heading;
use legwork_core::time::Timestamp;
use std::path::PathBuf;

/// Streamed text that makes a line of its own however long the reply goes on (LIVE-4).
const HELD_MAX: usize = 4000;

/// The last line of a head.
pub(super) const HEAD_END: &str = "# one line an event; this file only grows";

/// A transcript.
pub(super) struct Transcript {
    /// Its file.
    pub(super) path: PathBuf,
    /// Lines that are not written yet.
    pub(super) lines: String,
    text: Held,
    thought: Held,
    /// Whether the first model call was told.
    begun: bool,
    /// Whether the file was made.
    pub(super) made: bool,
    /// A failing file is given up after one warning.
    pub(super) given_up: bool,
}

impl Transcript {
    /// A transcript that begins with its head.
    pub(super) fn new(path: PathBuf, heading: &Heading) -> Self {
        let mut transcript = Transcript::empty(path);
        transcript.begin(heading);
        transcript
    }

    /// A transcript of which the beginning is in its file already: another process goes on with its child. What is there stays
    /// as it is; a line that was cut off is ended, and said to have been. A head that is not whole is written again.
    pub(super) fn gone_on(path: PathBuf, tail: Tail, heading: &Heading, at: Timestamp) -> Self {
        let mut transcript = Transcript { begun: true, made: true, ..Transcript::empty(path) };
        let cut_off = match tail.end {
            End::Whole => "",
            End::Torn => "the line above was cut off; ",
        };
        if tail.end == End::Torn {
            transcript.lines.push('\n');
        }
        if tail.head == Head::Lacking {
            transcript.begin(heading);
        }
        let text = format!("{cut_off}from here on another process runs it, from its last finished step on");
        transcript.line(at, Role::Note, &Cut { text, omitted: 0 });
        transcript
    }

    fn empty(path: PathBuf) -> Self {
        Transcript {
            path,
            lines: String::new(),
            text: Held::new(Role::Assistant),
            thought: Held::new(Role::Think),
            begun: false,
            made: false,
            given_up: false,
        }
    }

    fn begin(&mut self, heading: &Heading) {
        self.lines.push_str(&head(heading));
        let context = heading.context.as_deref().map(|context| format!(" — context: {context}"));
        let kickoff = format!("{}{}", heading.goal, context.unwrap_or_default());
        self.line(heading.at, Role::User, &Cut { text: kickoff, omitted: 0 });
    }

    /// Takes in what the child told.
    pub(super) fn told(&mut self, at: Timestamp, entry: &Entry) {
        match entry {
            Entry::Text(piece) => {
                self.thought.flush(at, &mut self.lines);
                self.text.take(at, piece, &mut self.lines);
            }
            Entry::Thinking(piece) => {
                self.text.flush(at, &mut self.lines);
                self.thought.take(at, piece, &mut self.lines);
            }
            Entry::Called => {
                self.flush(at);
                if !std::mem::replace(&mut self.begun, true) {
                    let text = "the subagent began".to_owned();
                    self.line(at, Role::Start, &Cut { text, omitted: 0 });
                }
            }
            Entry::Replied => self.flush(at),
            Entry::Line(role, text) => self.line(at, *role, text),
        }
    }

    /// Says that something is missing.
    pub(super) fn lacks(&mut self, at: Timestamp, events: usize) {
        let text = format!("{events} events are missing here: they came faster than the disk took them");
        self.line(at, Role::Note, &Cut { text, omitted: 0 });
    }

    /// Writes the end mark.
    pub(super) fn ended(&mut self, at: Timestamp, outcome: Outcome, error: Option<&Cut>) {
        let cut = if outcome.is_truncated() { ", cut short by the step limit" } else { "" };
        let status = outcome.status().as_str();
        let mut text = format!("{status} ({}){cut}", outcome.exit_reason());
        if let Some(error) = error {
            text.push_str(": ");
            text.push_str(&error.text);
        }
        let omitted = error.map_or(0, |error| error.omitted);
        self.line(at, Role::Final, &Cut { text, omitted });
    }

    fn line(&mut self, at: Timestamp, role: Role, text: &Cut) {
        self.flush(at);
        line::push(&mut self.lines, at, role, text);
    }

    fn flush(&mut self, at: Timestamp) {
        self.thought.flush(at, &mut self.lines);
        self.text.flush(at, &mut self.lines);
    }
}

fn head(heading: &Heading) -> String {
    format!(
        "# delegation {}, task {}, subagent {}\n# goal: {}\n# model {}, accepted {}\n{HEAD_END}\n",
        heading.delegation,
        heading.task_index,
        heading.child,
        line::one_line(&redact(&heading.goal), Role::User.width(), 0),
        line::one_line(&heading.model, Role::User.width(), 0),
        line::date(heading.at),
    )
}

/// Streamed text that is not a line yet.
struct Held {
    role: Role,
    text: String,
    omitted: usize,
}

impl Held {
    fn new(role: Role) -> Self {
        Held { role, text: String::new(), omitted: 0 }
    }

    fn take(&mut self, at: Timestamp, piece: &Cut, lines: &mut String) {
        self.text.push_str(&piece.text);
        self.omitted += piece.omitted;
        if self.text.len() < HELD_MAX {
            return;
        }
        // The last word may go on in the next piece, and it may be a credential.
        let end = self.text.rfind(char::is_whitespace).filter(|_| piece.omitted == 0);
        let rest = end.map(|end| self.text.split_off(end)).filter(|rest| rest.len() < HELD_MAX);
        self.flush(at, lines);
        self.text = rest.unwrap_or_default();
    }

    fn flush(&mut self, at: Timestamp, lines: &mut String) {
        let cut = Cut { text: std::mem::take(&mut self.text), omitted: std::mem::take(&mut self.omitted) };
        if !cut.text.trim().is_empty() {
            line::push(lines, at, self.role, &cut);
        }
    }
}
