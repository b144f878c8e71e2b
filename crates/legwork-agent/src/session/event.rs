//! What a front door hears of a conversation, and how its person's words get in.

use legwork_core::ids::UnitId;
use legwork_core::pulse::LineEvent;
use legwork_core::report::Report;
use std::time::Duration;
use thiserror::Error;

/// Something that happened in a conversation. The events of one conversation come in order.
#[derive(Debug, Clone, PartialEq)]
pub enum SessionEvent {
    /// A turn begins.
    TurnBegan(Cause),
    /// Results came in that wake nobody: they are stored with the message whose turn begins next (MODE-6).
    CameIn {
        /// Of which unit.
        unit: UnitId,
        /// What came back, in one line for people (EVT-15).
        title: String,
        /// All that the model reads.
        text: String,
    },
    /// The agent told something during the turn: text as it arrives, tool calls, retries.
    Told(LineEvent),
    /// Earlier messages were summarised to make room; nothing was removed from the store.
    Compacted {
        /// Messages that the summary stands for.
        messages: usize,
        /// Estimated tokens of a request before.
        tokens_before: u64,
        /// Estimated tokens of a request after.
        tokens_after: u64,
    },
    /// The turn has ended, and all it said is stored.
    TurnEnded(Box<Report>),
    /// The turn failed in a way that may pass; it is tried again by itself after a pause, or at once with the next
    /// message.
    TryingAgain {
        /// Until then.
        pause: Duration,
        /// Which try failed, from 1.
        tries: u32,
    },
    /// No turn runs and no message waits.
    Idle,
}

impl From<LineEvent> for SessionEvent {
    fn from(event: LineEvent) -> Self {
        match event {
            LineEvent::Compacted { messages, tokens_before, tokens_after, .. } => {
                SessionEvent::Compacted { messages, tokens_before, tokens_after }
            }
            told @ (LineEvent::ModelCalled
            | LineEvent::Text(_)
            | LineEvent::Thinking(_)
            | LineEvent::Replied { .. }
            | LineEvent::Retrying { .. }
            | LineEvent::ToolStarted { .. }
            | LineEvent::ToolMoved
            | LineEvent::ToolEnded { .. }
            | LineEvent::Note(_)) => SessionEvent::Told(told),
        }
    }
}

/// Why a turn begins.
#[derive(Debug, Clone, PartialEq)]
pub enum Cause {
    /// Somebody wrote this.
    User(String),
    /// The results of a unit came back.
    Completion {
        /// Which.
        unit: UnitId,
        /// What came back, in one line for people (EVT-15).
        title: String,
        /// All that the model reads.
        text: String,
    },
    /// Background processes that were handed over to the agent have ended (PROC-3).
    ProcessEnded {
        /// Which and how, in one line for people.
        title: String,
        /// All that the model reads.
        text: String,
    },
    /// What was left unanswered when the session was closed, or failed before, is answered now.
    Unanswered,
}

/// Why a message was not taken.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SayError {
    /// There is nothing in it.
    #[error("the message is empty")]
    Blank,
    /// It is too long.
    #[error(
        "the message has {bytes} bytes and at most {bytes_max} are taken; put long material into a file and name that"
    )]
    TooLong {
        /// Its length.
        bytes: usize,
        /// The limit.
        bytes_max: usize,
    },
    /// Too many wait already.
    #[error("{waiting} messages wait already, which is the limit; wait for an answer, or stop the turn")]
    Full {
        /// How many wait.
        waiting: usize,
    },
    /// The conversation was closed.
    #[error("the conversation is closed")]
    Closed,
}
