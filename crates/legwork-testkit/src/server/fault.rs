//! Faults: the ways in which a reply goes wrong, and the constructors of those that stand in place of a stream.
//!
//! Malformed arguments, unknown tools and raw bytes are no faults of the wire; they are ordinary acts.

use super::act::Act;
use super::reply::{Reply, empty};

/// How a reply ends before its time. Nothing can follow it.
#[derive(Clone, Debug)]
pub(super) enum End {
    /// Within the stream: an error object instead of the rest.
    ErrorChunk(ProviderError),
    /// Within the stream: the connection is closed without the end of the body.
    Cut,
    /// Within the stream: nothing more comes, the connection stays open.
    Stall,
    /// Within the stream: the body ends in good order, but the closing events of the provider are missing.
    Truncate,
    /// Instead of a stream: an error response.
    Status(Status),
    /// Instead of a stream: nothing at all, the connection stays open.
    Hang,
    /// Instead of a stream: the connection is closed.
    HangUp,
    /// Instead of a stream: these bytes and nothing else, then the connection is closed.
    RawResponse(Vec<u8>),
}

impl End {
    pub(super) fn comes_before_headers(&self) -> bool {
        match self {
            Self::Status(_) | Self::Hang | Self::HangUp | Self::RawResponse(_) => true,
            Self::ErrorChunk(_) | Self::Cut | Self::Stall | Self::Truncate => false,
        }
    }
}

/// An error response.
#[derive(Clone, Debug)]
pub(super) struct Status {
    pub refusal: Refusal,
    /// The `Retry-After` that the script wrote itself; it takes the place of the provider's own.
    pub retry_after: Option<String>,
}

/// What an error response says.
#[derive(Clone, Debug)]
pub(super) enum Refusal {
    /// A trouble that every provider has, in its own words, status and headers.
    Trouble(Trouble),
    /// The script's own error in the provider's shape.
    Provider { code: u16, error: ProviderError },
    /// Something that is not the provider's JSON.
    Page { code: u16, content_type: String, text: String },
}

/// A trouble that every provider has, and each tells in its own way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    /// There is no key.
    NoKey,
    /// The key is not known.
    WrongKey,
    /// Too many requests; come back after so many seconds.
    RateLimited { retry_after_s: u64 },
    /// The provider has trouble of its own.
    Broken,
    /// The provider has too much to do.
    Overloaded,
}

/// An error in a provider's words; each wire format writes it in its own shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderError {
    pub message: String,
    /// The provider's class of the error, such as `invalid_request_error`.
    pub kind: String,
    pub code: Option<String>,
    /// The part of the request that is at fault.
    pub param: Option<String>,
}

impl ProviderError {
    pub fn new(kind: impl Into<String>, message: impl Into<String>) -> Self {
        Self { message: message.into(), kind: kind.into(), code: None, param: None }
    }

    pub fn code(mut self, code: impl Into<String>) -> Self {
        self.code = Some(code.into());
        self
    }
}

/// The provider does not know the key, in its own words: a 401, or from Gemini a 400 with the reason `API_KEY_INVALID`.
pub fn unauthorized() -> Reply {
    refused(Refusal::Trouble(Trouble::WrongKey))
}

/// A 429 that says when to come back: in `Retry-After`, or from Gemini in the `RetryInfo` of its body alone.
pub fn rate_limited(retry_after_s: u64) -> Reply {
    refused(Refusal::Trouble(Trouble::RateLimited { retry_after_s }))
}

/// A 500 in the words of a provider that has trouble of its own.
pub fn server_error() -> Reply {
    refused(Refusal::Trouble(Trouble::Broken))
}

/// The provider has too much to do: a 529 from Anthropic, a 503 from the others.
pub fn overloaded() -> Reply {
    refused(Refusal::Trouble(Trouble::Overloaded))
}

/// An error response with this status and message in the provider's shape.
pub fn status(code: u16, message: impl Into<String>) -> Reply {
    let kind = if code < 500 { "invalid_request_error" } else { "server_error" };
    status_with(code, ProviderError::new(kind, message))
}

/// An error response with this status and error.
pub fn status_with(code: u16, error: ProviderError) -> Reply {
    refused(Refusal::Provider { code, error })
}

/// An error response of something between client and provider: a page, not the provider's JSON.
pub fn status_page(code: u16, content_type: impl Into<String>, text: impl Into<String>) -> Reply {
    refused(Refusal::Page { code, content_type: content_type.into(), text: text.into() })
}

/// Takes the request and sends nothing at all, until the client leaves.
pub fn hang() -> Reply {
    ended(End::Hang)
}

/// Sends the headers of a stream and then nothing, until the client leaves.
pub fn hang_after_headers() -> Reply {
    ended(End::Stall)
}

/// Takes the request and closes the connection.
pub fn hang_up() -> Reply {
    ended(End::HangUp)
}

/// Sends these bytes in place of an HTTP response and closes the connection.
pub fn raw_response(bytes: impl Into<Vec<u8>>) -> Reply {
    ended(End::RawResponse(bytes.into()))
}

fn refused(refusal: Refusal) -> Reply {
    ended(End::Status(Status { refusal, retry_after: None }))
}

fn ended(end: End) -> Reply {
    empty().act(Act::End(end))
}
