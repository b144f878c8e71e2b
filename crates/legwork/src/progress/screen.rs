//! Chooses how progress is shown.

use std::io::{IsTerminal, stderr};

use legwork_core::outcome::Outcome;
use legwork_core::ports::ChildView;
use std::time::Duration;

use super::lines;
use super::live::Live;
use crate::invocation::Invocation;
use crate::stderr;

/// How progress is shown.
pub enum Screen {
    /// Not at all.
    Silent,
    /// One line for each thing that happens.
    Lines,
    /// A line a running child that changes in place, and one line for each that ended.
    Live(Live),
}

/// A child that has ended.
pub struct Ended<'a> {
    /// Its task's position in the call.
    pub task_index: usize,
    /// Tasks of the call.
    pub of: usize,
    /// Its goal.
    pub goal: &'a str,
    /// How it ended.
    pub outcome: Outcome,
    /// What it says went wrong.
    pub error: Option<&'a str>,
    /// How long it ran.
    pub elapsed: Duration,
}

impl Screen {
    /// The screen that fits this start of the program.
    pub fn of(invocation: &Invocation) -> Screen {
        let colours = invocation.common.color.applies_to(&stderr(), &invocation.environment);
        if invocation.common.quiet {
            Screen::Silent
        } else if stderr().is_terminal() {
            Screen::Live(Live::new(colours))
        } else {
            Screen::Lines
        }
    }

    /// Whether [`Screen::refresh`] shows anything.
    pub fn is_live(&self) -> bool {
        matches!(self, Screen::Live(_))
    }

    /// The work begins.
    pub fn head(&self, text: &str) {
        self.line(text);
    }

    /// A child began to run.
    pub fn started(&self, task_index: usize, of: usize, goal: &str) {
        if let Screen::Lines = self {
            self.line(&lines::started(task_index, of, goal));
        }
    }

    /// A child has ended.
    pub fn ended(&self, ended: &Ended<'_>) {
        self.line(&lines::ended(ended));
    }

    /// What runs now.
    pub fn refresh(&mut self, views: &[ChildView]) {
        match self {
            Screen::Live(live) => live.refresh(views),
            Screen::Silent | Screen::Lines => {}
        }
    }

    /// Takes everything that changes in place off the terminal.
    pub fn clear(&mut self) {
        match self {
            Screen::Live(live) => live.clear(),
            Screen::Silent | Screen::Lines => {}
        }
    }

    fn line(&self, text: &str) {
        match self {
            Screen::Silent => {}
            Screen::Lines => stderr::tell(text),
            Screen::Live(live) => live.line(text),
        }
    }
}
