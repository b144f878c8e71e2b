//! What the server says to one request: the acts of a reply in order, and the builders that tests write them with.
//!
//! A reply knows nothing of wire formats; `play` performs it and the wire files encode it.

use std::time::Duration;

use serde_json::Value;

use super::act::{Act, Call, Finish, Usage};
use super::fault::{End, ProviderError};

/// What the server does with one request, act by act.
///
/// Acts are played in the order in which they are written. A gate before everything else holds the reply before its
/// headers; a later one holds it in the middle of the stream. Every builder panics where a script makes no sense,
/// such as words after a fault.
#[derive(Clone, Debug)]
pub struct Reply {
    pub(super) acts: Vec<Act>,
    pub(super) finish: Option<Finish>,
    pub(super) usage: Option<Usage>,
}

impl Default for Reply {
    /// An empty answer that reports 100 prompt tokens and 20 completion tokens.
    fn default() -> Self {
        Self { acts: Vec::new(), finish: None, usage: Some(Usage::new(100, 20)) }
    }
}

impl Reply {
    /// Waits until the test opens the gate of this name.
    pub fn gate(self, name: impl Into<String>) -> Self {
        self.act(Act::Gate(name.into()))
    }

    /// Says a text, in several pieces.
    pub fn say(self, text: impl Into<String>) -> Self {
        self.act(Act::Say(text.into()))
    }

    /// Thinks aloud, in several pieces.
    pub fn reason(self, text: impl Into<String>) -> Self {
        self.act(Act::Reason(text.into()))
    }

    /// Says a text word by word, with this pause before each word.
    pub fn drip(self, text: impl Into<String>, every: Duration) -> Self {
        self.act(Act::Drip { text: text.into(), every })
    }

    /// Calls a tool; its arguments come in several pieces.
    pub fn call(self, name: impl Into<String>, arguments: Value) -> Self {
        self.calls([Call::new(name, arguments)])
    }

    /// Calls several tools in one reply.
    pub fn calls(self, calls: impl IntoIterator<Item = Call>) -> Self {
        calls.into_iter().fold(self, |reply, call| reply.act(Act::Call(call)))
    }

    /// Writes these bytes into the body as they are. A reply that is not streamed becomes these bytes.
    pub fn raw(self, bytes: impl Into<Vec<u8>>) -> Self {
        self.act(Act::Raw(bytes.into()))
    }

    /// Sends an error object in place of the rest of the stream, then ends the body.
    pub fn error_chunk(self, error: ProviderError) -> Self {
        self.end(End::ErrorChunk(error))
    }

    /// Closes the connection in the middle of the stream.
    pub fn cut(self) -> Self {
        self.end(End::Cut)
    }

    /// Sends nothing more and keeps the connection open until the client leaves.
    pub fn stall(self) -> Self {
        self.end(End::Stall)
    }

    /// Ends the body in good order, but without the closing events of the provider.
    pub fn truncate(self) -> Self {
        self.end(End::Truncate)
    }

    /// Adds a `Retry-After` header (seconds or a date) to an error response.
    ///
    /// # Panics
    /// If the reply is no error response.
    pub fn retry_after(mut self, value: impl Into<String>) -> Self {
        let Some(Act::End(End::Status(status))) = self.acts.last_mut() else {
            panic!("BUG: only an error response can carry Retry-After");
        };
        status.retry_after = Some(value.into());
        self
    }

    /// Reports these token counts.
    pub fn usage(mut self, usage: Usage) -> Self {
        self.usage = Some(usage);
        self
    }

    /// Reports no token counts, as some providers do.
    pub fn without_usage(mut self) -> Self {
        self.usage = None;
        self
    }

    /// Gives this reason for the end instead of the one that follows from the acts.
    pub fn finish(mut self, finish: Finish) -> Self {
        self.finish = Some(finish);
        self
    }

    /// Answers the first attempt at this step so, and the next one with `next`.
    pub fn on_retry(self, next: Reply) -> Step {
        Step::from(self).on_retry(next)
    }

    /// Goes on with the acts of `next`, which also brings its usage and its finish: `gate("g").then(unauthorized())`.
    pub fn then(self, next: Reply) -> Self {
        let Reply { acts, finish, usage } = next;
        Self { finish, usage, ..acts.into_iter().fold(self, Self::act) }
    }

    pub(super) fn act(mut self, act: Act) -> Self {
        if let Some(Act::End(end)) = self.acts.last() {
            panic!("BUG: nothing can follow {end:?} in a reply, but {act:?} was added");
        }
        if let Act::End(end) = &act {
            let only_gates = self.acts.iter().all(|act| matches!(act, Act::Gate(_)));
            assert!(only_gates || !end.comes_before_headers(), "BUG: {end:?} comes before anything is said");
        }
        self.acts.push(act);
        self
    }

    fn end(self, end: End) -> Self {
        self.act(Act::End(end))
    }
}

/// One step of a script: the replies to its attempts. The last one also answers all later attempts.
#[derive(Clone, Debug)]
pub struct Step {
    pub(super) attempts: Vec<Reply>,
}

impl From<Reply> for Step {
    fn from(reply: Reply) -> Self {
        Self { attempts: vec![reply] }
    }
}

impl Step {
    /// Answers the attempt after those named so far with `next`.
    pub fn on_retry(mut self, next: Reply) -> Self {
        self.attempts.push(next);
        self
    }
}

/// An answer without a word and without a call.
pub fn empty() -> Reply {
    Reply::default()
}

/// A reply that says this.
pub fn say(text: impl Into<String>) -> Reply {
    empty().say(text)
}

/// A reply that begins with reasoning.
pub fn reason(text: impl Into<String>) -> Reply {
    empty().reason(text)
}

/// A reply that calls one tool.
pub fn call(name: impl Into<String>, arguments: Value) -> Reply {
    empty().call(name, arguments)
}

/// A reply that calls several tools.
pub fn calls(calls: impl IntoIterator<Item = Call>) -> Reply {
    empty().calls(calls)
}

/// A reply that waits at a gate before it sends anything. A fault may follow: `gate("g").then(unauthorized())`.
pub fn gate(name: impl Into<String>) -> Reply {
    empty().gate(name)
}
