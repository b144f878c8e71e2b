//! The conversation of a session: its stored history, the line of its agent, and the one-shot prompt.
//!
//! It does not read the terminal and prints nothing.

mod event;
mod history;
mod line;
mod run;

pub use event::{Cause, SayError, SessionEvent};
pub use line::{SessionLine, SessionStop};
pub use run::{RunError, RunOutcome, RunSetup, run_prompt};

pub(crate) use history::History;
