//! The seam between scripts and wire formats: one trait, one folder of code per format.
//!
//! A wire format reads a request into the neutral conversation and writes deltas, errors and whole answers in its own
//! shape. It chooses nothing and sends nothing.

use super::act::{Finish, Usage};
use super::conversation::Conversation;
use super::fault::{ProviderError, Trouble};
use super::http::Request;
use super::strict::{Rule, Rules, Violation};

/// How the client wants its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Delivery {
    Whole,
    Stream,
    /// A stream that also reports its token counts.
    StreamWithUsage,
}

/// What the client gets to see of the reasoning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Thinking {
    Shown,
    /// The client learns that there was reasoning, but not what it said.
    Hidden,
    /// There is no reasoning, whatever the script says.
    Off,
}

/// Whether reasoning goes out with the text that lets the client bring it back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seal {
    Given,
    Withheld,
}

/// In which manner a request wants to be answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Manner {
    pub delivery: Delivery,
    pub thinking: Thinking,
    pub seal: Seal,
}

impl Manner {
    /// An answer of this delivery with everything that can be seen of its reasoning.
    pub(super) fn open(delivery: Delivery) -> Self {
        Self { delivery, thinking: Thinking::Shown, seal: Seal::Given }
    }
}

/// A request that was understood.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    pub conversation: Conversation,
    pub manner: Manner,
}

impl Asked {
    /// What stands in for a request that was refused.
    pub(super) fn nothing() -> Self {
        let conversation = Conversation { model: String::new(), messages: Vec::new(), tools: Vec::new() };
        Self { conversation, manner: Manner::open(Delivery::Whole) }
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
    /// A part of the argument text of call number `index`, which is the one begun last.
    Arguments {
        index: usize,
        fragment: &'a str,
    },
}

/// A part of a whole answer. Texts that follow one another are one part.
#[derive(Clone, Debug)]
pub(super) enum Piece {
    Text(String),
    Reasoning(String),
    Call(MadeCall),
}

/// What is the same in all parts of one answer.
#[derive(Clone, Debug)]
pub(super) struct Label {
    /// Unique among the replies of this server.
    pub id: String,
    pub model: String,
    pub manner: Manner,
    /// What the reply reports in the end, and some formats in its beginning.
    pub usage: Option<Usage>,
}

/// A response in one piece.
#[derive(Clone, Debug)]
pub(super) struct Whole {
    pub status: u16,
    pub content_type: String,
    /// Whole header lines beside those that every response has.
    pub headers: Vec<String>,
    pub body: String,
}

impl Whole {
    /// A response of JSON.
    pub(super) fn new(status: u16, body: impl ToString) -> Self {
        let content_type = "application/json".to_owned();
        Self { status, content_type, headers: Vec::new(), body: body.to_string() }
    }

    pub(super) fn header(mut self, line: String) -> Self {
        self.headers.push(line);
        self
    }
}

/// Whether a format's provider answers a request without a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keys {
    Required,
    /// Local servers of this format ask for none.
    Optional,
}

/// One wire format.
pub(super) trait Wire: Send + Sync {
    fn keys(&self) -> Keys;
    /// The key that a request brings in this format's way: most bring it as a bearer token.
    fn key(&self, request: &Request) -> Option<String> {
        request.bearer().map(str::to_owned)
    }
    /// Reads a request, and names the first thing in it that this format does not allow.
    fn read(&self, request: &Request) -> Result<Asked, Violation>;
    /// What this format asks of the order of a conversation.
    fn rules(&self) -> &'static Rules;
    /// A trouble as this provider tells it.
    fn trouble(&self, trouble: Trouble) -> Whole;
    /// An error response of this status.
    fn failure(&self, status: u16, error: &ProviderError) -> Whole;
    /// The name of the response header that carries the request's id, if the provider sends one.
    fn request_id_header(&self) -> Option<&'static str>;
    /// The content type of a streamed answer.
    fn stream_type(&self) -> &'static str;
    /// Begins a streamed answer.
    fn stream(&self, label: Label) -> Box<dyn Encoder>;
    /// An answer that is not streamed.
    fn whole(&self, label: &Label, pieces: &[Piece], finish: Finish) -> Whole;

    /// What a request that breaks a rule is answered with.
    fn refusal(&self, violation: &Violation) -> Whole {
        if violation.rule == Rule::NoKey {
            return self.trouble(Trouble::NoKey);
        }
        if violation.rule == Rule::WrongKey {
            return self.trouble(Trouble::WrongKey);
        }
        let error = ProviderError::new("invalid_request_error", violation.sentence());
        self.failure(400, &ProviderError { param: Some(violation.param.clone()), ..error })
    }
}

/// Writes one streamed answer; each text is one event, or a few that belong together.
pub(super) trait Encoder: Send {
    fn delta(&mut self, delta: Delta<'_>) -> Vec<String>;
    fn error(&mut self, error: &ProviderError) -> Vec<String>;
    fn close(&mut self, finish: Finish) -> Vec<String>;
}
