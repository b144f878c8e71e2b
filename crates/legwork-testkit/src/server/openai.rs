//! What the two formats of OpenAI have in common: the error object, the words of each trouble, the headers.

use serde_json::{Value, json};

use super::fault::{ProviderError, Trouble};
use super::wire::Whole;

pub(super) const REQUEST_ID: &str = "x-request-id";
pub(super) const STREAM_TYPE: &str = "text/event-stream; charset=utf-8";

/// The object that holds an error, in a response or in a stream of chat chunks.
pub(super) fn error(error: &ProviderError) -> Value {
    let ProviderError { message, kind, code, param } = error;
    json!({ "error": { "message": message, "type": kind, "param": param, "code": code } })
}

pub(super) fn failure(status: u16, error: &ProviderError) -> Whole {
    Whole::new(status, self::error(error))
}

pub(super) fn trouble(trouble: Trouble) -> Whole {
    match trouble {
        Trouble::NoKey => {
            let message =
                "You didn't provide an API key. Send it in an Authorization header with the scheme Bearer.";
            failure(401, &ProviderError::new("invalid_request_error", message))
        }
        Trouble::WrongKey => {
            let error = ProviderError::new("invalid_request_error", "Incorrect API key provided.");
            failure(401, &error.code("invalid_api_key"))
        }
        Trouble::RateLimited { retry_after_s } => {
            let error = ProviderError::new("requests", "Rate limit reached for requests.");
            let whole = failure(429, &error.code("rate_limit_exceeded"));
            whole.header(format!("retry-after: {retry_after_s}"))
        }
        Trouble::Broken => {
            let message = "The server had an error while processing your request.";
            failure(500, &ProviderError::new("server_error", message))
        }
        Trouble::Overloaded => {
            let message = "The engine is currently overloaded, please try again later.";
            failure(
                503,
                &ProviderError::new("service_unavailable_error", message).code("server_is_overloaded"),
            )
        }
    }
}
