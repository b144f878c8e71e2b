//! One journalled action of an agent: a model call or a tool call. Intent is stored before, the result after.

use crate::ids::{ChildId, Epoch, OwnerId, RequestId, SessionId};
use crate::message::{Message, ToolCall, ToolResult};
use crate::report::{Cost, Usage};
use serde::{Deserialize, Serialize};

/// Whose journal a step belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Actor {
    /// A child.
    Child(ChildId),
    /// The agent of a conversation itself.
    Session(SessionId),
}

impl Actor {
    /// The id as text, unique over both kinds.
    pub fn as_str(&self) -> &str {
        match self {
            Actor::Child(id) => id.as_str(),
            Actor::Session(id) => id.as_str(),
        }
    }
}

/// Who may write a journal: the owner of that generation and nobody else (invariant 30).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fence {
    /// The process.
    pub owner: OwnerId,
    /// Its generation for this work.
    pub epoch: Epoch,
}

/// What a step is about to do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// Fixes the first messages, so that a resumed run reads them instead of computing them anew.
    Open,
    /// Asks the model.
    Model,
    /// Summarises earlier messages so that the next request fits into the window.
    Compact,
    /// Takes in what was said to the running agent meanwhile. It ends in the commit in which it begins.
    Steer {
        /// The requests, in the order in which they were made.
        requests: Vec<RequestId>,
    },
    /// Asks an agent once to correct an answer that does not meet its schema. It ends in the commit in which it begins.
    Correct {
        /// What does not fit, as the agent is told.
        errors: Vec<String>,
    },
    /// Another model of the agent's chain is asked from here on, so that a resumed run goes on with it (CRED-14). It ends in
    /// the commit in which it begins, beside the model call that is under way.
    Switch {
        /// Its place in the chain, from 0.
        place: u32,
        /// Its name, by which it is found when the chain has changed.
        model: String,
    },
    /// Runs a tool.
    Tool {
        /// The call as the model made it.
        call: ToolCall,
        /// Whether repeating it is harmless.
        read_only: bool,
    },
}

impl Action {
    /// The call of a tool that this is, and whether repeating it is harmless; nothing where it is no call of a tool.
    #[must_use]
    pub const fn call(&self) -> Option<(&ToolCall, Repeat)> {
        match self {
            Action::Tool { call, read_only: true } => Some((call, Repeat::Harmless)),
            Action::Tool { call, read_only: false } => Some((call, Repeat::InDoubt)),
            Action::Open
            | Action::Model
            | Action::Compact
            | Action::Steer { .. }
            | Action::Correct { .. }
            | Action::Switch { .. } => None,
        }
    }
}

/// What it would mean to carry out a call again of which nobody knows whether it had its effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repeat {
    /// It only reads.
    Harmless,
    /// Its effect would be there twice: the agent is told that it is in doubt, and it is not repeated.
    InDoubt,
}

/// What a step brought.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Product {
    /// The first messages. For a session's agent it is empty: its messages are in the history.
    Opened(Vec<Message>),
    /// The summary, as a message of its own after the messages so far.
    Compacted(Summarised),
    /// What was said, as a message of its own.
    Steered(Message),
    /// The model's reply.
    Reply(Reply),
    /// The tool's result.
    Output(ToolResult),
    /// Nothing: another model is asked.
    Switched,
}

/// A summary of earlier messages, with what it took. It counts like a reply (invariant 28).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Summarised {
    /// The summary.
    #[serde(flatten)]
    pub message: Message,
    /// The tokens of the reply that it was made of. Summaries that were stored before this was told count as none.
    #[serde(default)]
    pub usage: Usage,
    /// Their price.
    #[serde(default)]
    pub cost: Cost,
}

/// A model's whole reply.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reply {
    /// What it said and which tools it wants.
    pub message: Message,
    /// Its tokens.
    pub usage: Usage,
    /// Its price.
    pub cost: Cost,
    /// The model that answered, as the provider names it.
    pub model: Option<String>,
    /// Why it ended. Replies that were stored before this was told count as ended by the model.
    #[serde(default)]
    pub finish: Finish,
}

/// Why a whole reply ended. A reply that the provider broke off, refused or filtered is a failed call and not a reply.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Finish {
    /// The model had said what it wanted to say.
    #[default]
    Stop,
    /// It waits for the results of its calls.
    ToolUse,
    /// The provider's limit of output tokens cut it; its last part may be half a sentence or half a call.
    Length,
}

/// Where a step stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepState {
    /// Begun; the result is not stored.
    Intended,
    /// Ended with this.
    Done(Product),
    /// Ended without a result.
    Failed(String),
}

/// One step as the journal holds it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepRecord {
    /// Its place in the journal, from 0.
    pub seq: u32,
    /// What it does.
    pub action: Action,
    /// Where it stands.
    pub state: StepState,
}

/// One change of a journal. All changes of one write are committed together or not at all.
#[derive(Debug, Clone, PartialEq)]
pub enum StepChange {
    /// A step begins.
    Intend {
        /// Its place; must be the next free one.
        seq: u32,
        /// What it will do.
        action: Action,
    },
    /// A begun step has ended with a result.
    Finish {
        /// Its place.
        seq: u32,
        /// The result.
        product: Product,
    },
    /// A begun step has ended without a result.
    Fail {
        /// Its place.
        seq: u32,
        /// Why.
        error: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Author, Part, Summary};
    use serde_json::json;

    #[test]
    fn a_reply_stored_without_its_finish_can_be_read() {
        let stored = json!({"message": {"author": "assistant", "parts": []}, "usage": Usage::default(),
            "cost": "unknown", "model": null});
        let reply: Reply = serde_json::from_value(stored).expect("an old row");
        assert_eq!(reply.finish, Finish::Stop);
    }

    fn summary() -> Message {
        let summary = Summary { text: "short".to_owned(), from: 7 };
        Message { author: Author::Summary, parts: vec![Part::Summary(summary)] }
    }

    /// Proves K32.
    #[test]
    fn inv_28_a_summary_stored_without_its_usage_can_be_read_and_one_with_it_by_older_programs() {
        let before = json!({ "compacted": summary() });
        let product: Product = serde_json::from_value(before).expect("an old row");
        let bare = Summarised { message: summary(), usage: Usage::default(), cost: Cost::Unknown };
        assert_eq!(product, Product::Compacted(bare.clone()));
        let usage = Usage { input: 40, output: 3, cached: 2, reasoning: 1 };
        let stored = Product::Compacted(Summarised { usage, cost: Cost::MicroUsd(9), ..bare });
        let text = serde_json::to_string(&stored).expect("it is written");
        assert_eq!(serde_json::from_str::<Product>(&text).expect("a new row"), stored);
        let row: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        let older: Message =
            serde_json::from_value(row["compacted"].clone()).expect("a new row for an old program");
        assert_eq!(older, summary());
    }
}
