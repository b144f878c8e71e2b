//! The acts of a reply: what the model says, calls and counts.
//!
//! Faults that end a reply early are in `fault`; how acts are put together is in `reply`.

use std::time::Duration;

use serde_json::Value;

use super::fault::End;

/// One thing that a reply does.
#[derive(Clone, Debug)]
pub(super) enum Act {
    Gate(String),
    Reason(String),
    Say(String),
    Drip { text: String, every: Duration },
    Call(Call),
    Raw(Vec<u8>),
    End(End),
}

/// A tool call that the model makes.
#[derive(Clone, Debug)]
pub struct Call {
    pub(super) name: String,
    pub(super) arguments: String,
    pub(super) id: Option<String>,
}

impl Call {
    /// A call with well-formed arguments. Its id is made by the server, unique among its replies.
    pub fn new(name: impl Into<String>, arguments: Value) -> Self {
        Self::malformed(name, arguments.to_string())
    }

    /// A call whose argument text is sent as it is written here, JSON or not.
    pub fn malformed(name: impl Into<String>, arguments: impl Into<String>) -> Self {
        Self { name: name.into(), arguments: arguments.into(), id: None }
    }

    /// Gives the call this id, for instance the same one in two conversations.
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = Some(id.into());
        self
    }
}

/// Token counts reported with a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    pub prompt: u64,
    pub completion: u64,
    /// Part of `prompt` that came from the provider's cache.
    pub cached: u64,
    /// Part of `prompt` that was written to the provider's cache.
    pub cache_written: u64,
    /// Part of `completion` that was reasoning.
    pub reasoning: u64,
}

impl Usage {
    pub fn new(prompt: u64, completion: u64) -> Self {
        Self { prompt, completion, cached: 0, cache_written: 0, reasoning: 0 }
    }

    pub fn cached(self, cached: u64) -> Self {
        Self { cached, ..self }
    }

    pub fn cache_written(self, cache_written: u64) -> Self {
        Self { cache_written, ..self }
    }

    pub fn reasoning(self, reasoning: u64) -> Self {
        Self { reasoning, ..self }
    }
}

/// Why the model says it stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    Stop,
    Calls,
    Length,
    Filtered,
}
