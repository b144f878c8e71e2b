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
    pub code: u16,
    pub retry_after: Option<String>,
    pub body: ErrorBody,
}

/// What an error response carries.
#[derive(Clone, Debug)]
pub(super) enum ErrorBody {
    Provider(ProviderError),
    Page { content_type: String, text: String },
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

/// A 401 in the words of a provider that does not know the key.
pub fn unauthorized() -> Reply {
    let error = ProviderError::new("invalid_request_error", "Incorrect API key provided.");
    status_with(401, error.code("invalid_api_key"))
}

/// A 429 with a `Retry-After` of so many seconds.
pub fn rate_limited(retry_after_s: u64) -> Reply {
    let error = ProviderError::new("requests", "Rate limit reached for requests.");
    status_with(429, error.code("rate_limit_exceeded")).retry_after(retry_after_s.to_string())
}

/// A 500 in the words of a provider that has trouble of its own.
pub fn server_error() -> Reply {
    let message = "The server had an error while processing your request.";
    status_with(500, ProviderError::new("server_error", message))
}

/// An error response with this status and message in the provider's shape.
pub fn status(code: u16, message: impl Into<String>) -> Reply {
    let kind = if code < 500 { "invalid_request_error" } else { "server_error" };
    status_with(code, ProviderError::new(kind, message))
}

/// An error response with this status and error.
pub fn status_with(code: u16, error: ProviderError) -> Reply {
    ended(End::Status(Status { code, retry_after: None, body: ErrorBody::Provider(error) }))
}

/// An error response of something between client and provider: a page, not the provider's JSON.
pub fn status_page(code: u16, content_type: impl Into<String>, text: impl Into<String>) -> Reply {
    let body = ErrorBody::Page { content_type: content_type.into(), text: text.into() };
    ended(End::Status(Status { code, retry_after: None, body }))
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

fn ended(end: End) -> Reply {
    empty().act(Act::End(end))
}
