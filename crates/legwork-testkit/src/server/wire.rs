//! The seam between scripts and wire formats: one trait, one file of code per format.
//!
//! A wire format reads a request into the neutral conversation and writes deltas, errors and whole answers in its own
//! shape. It chooses nothing and sends nothing.

use super::act::{Finish, Usage};
use super::chat::Chat;
use super::conversation::Conversation;
use super::fault::ProviderError;
use super::http::Request;
use super::strict::Violation;

/// How the client wants its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Delivery {
    Whole,
    Stream,
    /// A stream that also reports its token counts.
    StreamWithUsage,
}

/// A request that was understood.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    pub conversation: Conversation,
    pub delivery: Delivery,
}

impl Asked {
    /// What stands in for a request that was refused.
    pub(super) fn nothing() -> Self {
        let conversation = Conversation { model: String::new(), messages: Vec::new(), tools: Vec::new() };
        Self { conversation, delivery: Delivery::Whole }
    }
}

/// A call as it goes out, with its id.
#[derive(Clone, Debug)]
pub(super) struct MadeCall {
    pub id: String,
    pub name: String,
    pub arguments: String,
}

/// A piece of a streamed answer.
#[derive(Clone, Copy, Debug)]
pub(super) enum Delta<'a> {
    Text(&'a str),
    Reasoning(&'a str),
    /// The beginning of call number `index`, without its arguments.
    Call {
        index: usize,
        id: &'a str,
        name: &'a str,
    },
    /// A part of that call's argument text.
    Arguments {
        index: usize,
        fragment: &'a str,
    },
}

/// A whole answer.
#[derive(Clone, Debug, Default)]
pub(super) struct Answer {
    pub text: String,
    pub reasoning: String,
    pub calls: Vec<MadeCall>,
}

/// How an answer ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Closing {
    pub finish: Finish,
    pub usage: Option<Usage>,
}

/// What is the same in all parts of one answer.
#[derive(Clone, Debug)]
pub(super) struct Label {
    /// Unique among the replies of this server.
    pub id: String,
    pub model: String,
}

/// One wire format.
pub(super) trait Wire: Send + Sync {
    /// Reads a request, and names the first thing in it that this format does not allow.
    fn read(&self, request: &Request) -> Result<Asked, Violation>;
    /// The body of an error response.
    fn error_body(&self, error: &ProviderError) -> String;
    /// The content type of a streamed answer.
    fn stream_type(&self) -> &'static str;
    /// Begins a streamed answer.
    fn stream(&self, label: Label, delivery: Delivery) -> Box<dyn Encoder>;
    /// The body of an answer that is not streamed.
    fn whole(&self, label: &Label, answer: &Answer, closing: Closing) -> String;
}

/// Writes one streamed answer, event by event.
pub(super) trait Encoder: Send {
    fn delta(&mut self, delta: Delta<'_>) -> String;
    fn error(&mut self, error: &ProviderError) -> String;
    fn close(&mut self, closing: Closing) -> Vec<String>;
}

/// The wire format that is spoken at a path.
pub(super) fn at_path(path: &str) -> Option<&'static dyn Wire> {
    match path {
        "/v1/chat/completions" => Some(&Chat),
        _ => None,
    }
}
