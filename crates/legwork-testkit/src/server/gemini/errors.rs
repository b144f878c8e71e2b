//! Writes Gemini's errors: the status object in a response or a stream, and the words of each trouble.

use serde_json::{Value, json};

use crate::server::fault::{ProviderError, Trouble};
use crate::server::wire::Whole;

/// The object that holds an error.
pub(super) fn error(code: u16, status: &str, message: &str) -> Value {
    json!({ "error": { "code": code, "message": message, "status": status } })
}

/// An error that ends a stream, which has only its class to go by.
pub(super) fn in_stream(error: &ProviderError) -> Value {
    let (code, status) = match error.kind.as_str() {
        "invalid_request_error" => (400, "INVALID_ARGUMENT"),
        "authentication_error" => (401, "UNAUTHENTICATED"),
        "rate_limit_error" | "requests" => (429, "RESOURCE_EXHAUSTED"),
        "overloaded_error" => (503, "UNAVAILABLE"),
        _ => (500, "INTERNAL"),
    };
    self::error(code, status, &error.message)
}

pub(super) fn failure(code: u16, failed: &ProviderError) -> Whole {
    let mut body = error(code, status(code), &failed.message);
    if let Some(param) = &failed.param {
        body["error"]["details"] = json!([{
            "@type": "type.googleapis.com/google.rpc.BadRequest",
            "fieldViolations": [{ "field": param, "description": failed.message }],
        }]);
    }
    Whole::new(code, body)
}

/// This provider has no `Retry-After`: how long to wait stands in the body alone, with a fraction of a second.
pub(super) fn trouble(trouble: Trouble) -> Whole {
    match trouble {
        Trouble::NoKey => {
            let message = "Method doesn't allow unregistered callers. Please use an API key.";
            Whole::new(403, error(403, "PERMISSION_DENIED", message))
        }
        Trouble::WrongKey => {
            let message = "API key not valid. Please pass a valid API key.";
            let mut body = error(400, "INVALID_ARGUMENT", message);
            body["error"]["details"] = json!([{
                "@type": "type.googleapis.com/google.rpc.ErrorInfo",
                "reason": "API_KEY_INVALID",
                "domain": "googleapis.com",
                "metadata": { "service": "generativelanguage.googleapis.com" },
            }]);
            Whole::new(400, body)
        }
        Trouble::RateLimited { retry_after_s } => {
            let message = "You exceeded your current quota, please check your plan and billing details.";
            let mut body = error(429, "RESOURCE_EXHAUSTED", message);
            body["error"]["details"] = json!([{
                "@type": "type.googleapis.com/google.rpc.RetryInfo",
                "retryDelay": format!("{retry_after_s}.000000001s"),
            }]);
            Whole::new(429, body)
        }
        Trouble::Broken => Whole::new(500, error(500, "INTERNAL", "An internal error has occurred.")),
        Trouble::Overloaded => {
            let message = "The model is overloaded. Please try again later.";
            Whole::new(503, error(503, "UNAVAILABLE", message))
        }
    }
}

/// The word for an HTTP status.
fn status(code: u16) -> &'static str {
    match code {
        400 => "INVALID_ARGUMENT",
        401 => "UNAUTHENTICATED",
        403 => "PERMISSION_DENIED",
        404 => "NOT_FOUND",
        409 => "ABORTED",
        429 => "RESOURCE_EXHAUSTED",
        499 => "CANCELLED",
        500 => "INTERNAL",
        501 => "UNIMPLEMENTED",
        503 => "UNAVAILABLE",
        504 => "DEADLINE_EXCEEDED",
        _ => "UNKNOWN",
    }
}
