//! Writes Anthropic's errors: the object in a response or an event, and the words of each trouble.

use serde_json::{Value, json};

use crate::server::fault::{ProviderError, Trouble};
use crate::server::wire::Whole;

/// The object that holds an error.
pub(super) fn error(kind: &str, message: &str) -> Value {
    json!({ "type": "error", "error": { "type": kind, "message": message } })
}

pub(super) fn failure(status: u16, error: &ProviderError) -> Whole {
    Whole::new(status, self::error(kind_of(status, &error.kind), &error.message))
}

pub(super) fn trouble(trouble: Trouble) -> Whole {
    match trouble {
        Trouble::NoKey => Whole::new(401, error("authentication_error", "x-api-key header is required")),
        Trouble::WrongKey => Whole::new(401, error("authentication_error", "invalid x-api-key")),
        Trouble::RateLimited { retry_after_s } => {
            let message = "This request would exceed the rate limit of your organization.";
            let whole = Whole::new(429, error("rate_limit_error", message));
            whole.header(format!("retry-after: {retry_after_s}"))
        }
        Trouble::Broken => Whole::new(500, error("api_error", "Internal server error")),
        Trouble::Overloaded => Whole::new(529, error("overloaded_error", "Overloaded")),
    }
}

/// The class of an error: the script's own word, or for one of the general words the provider's for this status.
fn kind_of(status: u16, kind: &str) -> &str {
    match (status, kind) {
        (401, "invalid_request_error") => "authentication_error",
        (403, "invalid_request_error") => "permission_error",
        (404, "invalid_request_error") => "not_found_error",
        (413, "invalid_request_error") => "request_too_large",
        (429, "invalid_request_error") => "rate_limit_error",
        (529, "server_error") => "overloaded_error",
        (_, "server_error") => "api_error",
        (_, kind) => kind,
    }
}
