//! Chooses how progress is shown.

use std::io::{IsTerminal, stderr};

use legwork_core::ports::ChildView;

use super::lines;
use super::live::Live;
use super::sets::Notice;
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

    /// Something happened to a child.
    pub fn show(&mut self, notice: &Notice) {
        match (notice, &mut *self) {
            (Notice::Head { set, tasks }, _) => self.line(&lines::head(*set, *tasks)),
            (Notice::Began { place, goal }, Screen::Lines) => self.below(&lines::began(*place, goal)),
            (Notice::Ended(ended), _) => self.below(&lines::ended(ended)),
            (Notice::Failed(ended), _) => self.line(&lines::failed(ended)),
            (Notice::Left { set, tasks }, Screen::Live(live)) => live.left(lines::left(*set, *tasks)),
            (Notice::Lost(lost), _) => self.line(&format!("({lost} lines of progress were lost)")),
            (
                Notice::Began { .. } | Notice::Left { .. },
                Screen::Silent | Screen::Lines | Screen::Live(_),
            ) => {}
        }
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

    /// A line of one child: above what changes in place, else set in below the head (PROG-8).
    fn below(&self, text: &str) {
        match self {
            Screen::Silent => {}
            Screen::Lines => stderr::tell(&format!("  {text}")),
            Screen::Live(live) => live.line(text),
        }
    }
}
