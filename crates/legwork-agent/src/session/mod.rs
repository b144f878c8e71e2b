//! The conversation of a session: its stored history, the line of its agent, the loop that answers what comes in, the
//! message in which results come back, and the one-shot prompt.
//!
//! It does not read the terminal and prints nothing.

mod arrivals;
pub(crate) mod completion;
mod conversation;
mod ends;
mod event;
mod history;
mod line;
mod open;
mod run;
mod setup;

pub use completion::{title_of_completion, unit_of_completion};
pub use conversation::{
    Conversation, ConversationHandle, ConversationParts, Farewell, GAP_FIRST, GAP_LONGEST, MESSAGE_BYTES_MAX,
    SessionListener, TRIES_MAX, WAITING_MAX,
};
pub use ends::tells_of_processes;
pub use event::{Cause, SayError, SessionEvent};
pub use line::{SessionLine, SessionStop};
pub use open::could_be_opened;
pub use run::{NOT_ASKED, RunOutcome, RunSetup, run_prompt};
pub use setup::{OpenError, SessionSetup, Which};

pub(crate) use history::History;
