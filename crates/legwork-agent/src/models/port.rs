//! Port `Model`: one request, a stream of parts, one whole reply. Asked by the turn loop, answered by provider adapters,
//! the scripted model and the embedded one.

use futures::Stream;
use legwork_core::message::Message;
use legwork_core::report::{Cost, FailureReason, Usage};
use legwork_core::step::Reply;
use serde_json::Value;
use std::ops::AddAssign;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;

/// A language model behind one route.
pub trait Model: Send + Sync {
    /// What the turn loop must know beforehand.
    fn facts(&self) -> ModelFacts;

    /// Whether it shortens by itself what does not fit into its window. Then nothing is summarised for it: any request
    /// may be sent.
    fn cuts_to_fit(&self) -> bool {
        false
    }

    /// Told before a call, with all its tries, begins.
    fn begin(&self) {}

    /// Told that it could not answer and is not asked again. Where another model stands in for it from now on, this is
    /// what is known of that one, and the same request is asked again.
    fn stand_in(&self, error: &ModelError) -> Option<ModelFacts> {
        let _ = error;
        None
    }

    /// Which model of a chain is asked now; nothing where there is only one.
    fn link(&self) -> Option<Link> {
        None
    }

    /// Goes on with the model that an earlier run had got to. One that is not in the chain any more is not looked for: the
    /// first one is asked then.
    fn take_up(&self, link: &Link) {
        let _ = link;
    }

    /// Whether it takes pictures, as far as that is known. To one that does not they are named in words.
    fn takes_images(&self) -> bool {
        true
    }

    /// Asks for a reply. The stream ends after [`ReplyPart::Done`] or the first error. Nothing is sent before the
    /// stream is polled; dropping it cancels the request. It makes one request and never tries again by itself.
    fn respond(&self, request: ModelRequest) -> ReplyStream;
}

/// The parts of one reply as they arrive.
pub type ReplyStream = Pin<Box<dyn Stream<Item = Result<ReplyPart, ModelError>> + Send>>;

/// What is known of a model without asking it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelFacts {
    /// `provider/name`.
    pub name: String,
    /// Tokens that fit into one request and its reply together, when that is known.
    pub window: Option<u64>,
}

/// A model of a chain, as a journal names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// Its place, from 0.
    pub place: u32,
    /// `provider/name`.
    pub model: String,
}

/// One request.
#[derive(Debug, Clone)]
pub struct ModelRequest {
    /// The conversation, a system message first; the last one is a user's or a tool's.
    pub messages: Vec<Arc<Message>>,
    /// The tools that may be called.
    pub tools: Arc<[ToolSpec]>,
}

/// A tool as a model sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolSpec {
    /// Its name.
    pub name: String,
    /// What it does and when to use it.
    pub description: String,
    /// The JSON Schema of its arguments, an object.
    pub parameters: Value,
}

/// One part of a reply.
#[derive(Debug, Clone, PartialEq)]
pub enum ReplyPart {
    /// A piece of visible text.
    Text(String),
    /// A piece of reasoning.
    Thinking(String),
    /// The model goes on writing the arguments of a call, which are not shown before they are whole. A sign of life.
    Moved,
    /// The whole reply, with usage; always last.
    Done(Box<Reply>),
}

/// Why there is no reply.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{message}")]
pub struct ModelError {
    /// The class of failure.
    pub reason: FailureReason,
    /// The provider's own words, with the HTTP status where there is one; no secret in it.
    pub message: String,
    /// Whether asking again may help. Never true for a refused key.
    pub retryable: bool,
    /// How long the provider asked to wait.
    pub retry_after: Option<Duration>,
    /// What it took all the same, as far as the provider told.
    pub spent: Spent,
}

/// What a call took that came to nothing, as far as its provider told.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Spent {
    /// Its tokens.
    pub usage: Usage,
    /// Its price.
    pub cost: Cost,
}

impl AddAssign for Spent {
    fn add_assign(&mut self, other: Spent) {
        self.usage += other.usage;
        self.cost = self.cost.plus(other.cost);
    }
}
