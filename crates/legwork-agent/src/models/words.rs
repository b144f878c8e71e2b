//! What providers say about a failure, in the many shapes in which they say it, and which class of failure it is.

use super::retry_after;
use crate::quoted::one_line;
use legwork_core::report::FailureReason;
use serde_json::Value;
use std::time::Duration;

/// The longest text of a provider that goes into a message, in characters.
pub(super) const WORDS_MAX_CHARS: usize = 1000;

/// The class of a failure: what the provider names wins over the status, since one status stands for several things.
pub(super) fn reason(status: u16, words: &Words) -> Option<FailureReason> {
    words.named_reason().or(match status {
        401 => Some(FailureReason::Auth),
        402 => Some(FailureReason::Billing),
        400 | 403 if words.speaks_of(NO_CREDIT) => Some(FailureReason::Billing),
        403 if words.speaks_of(MODERATION) => Some(FailureReason::ContentPolicy),
        403 => Some(FailureReason::Auth),
        404 => Some(FailureReason::ModelNotFound),
        408 | 504 | 524 => Some(FailureReason::Timeout),
        413 => Some(FailureReason::ContextOverflow),
        425 | 503 | 529 => Some(FailureReason::Overloaded),
        429 => Some(FailureReason::RateLimit),
        409 | 500..=599 => Some(FailureReason::ServerError),
        300..=499 if words.speaks_of(TOO_LONG) => Some(FailureReason::ContextOverflow),
        300..=499 => Some(FailureReason::BadRequest),
        _ => None,
    })
}

/// How providers say that a conversation does not fit.
const TOO_LONG: &[&str] = &[
    "context length",
    "context window",
    "context size",
    "maximum context",
    "prompt is too long",
    "prompt too long",
    "input is too long",
    "too many input tokens",
    "exceed context limit",
    "exceeds the maximum number of tokens",
];

/// How they say that the account is empty, where neither status nor name says it.
const NO_CREDIT: &[&str] = &["credit balance is too low"];

/// How they say that they do not want to answer it.
const MODERATION: &[&str] = &["moderation", "content policy", "content_policy", "flagged", "safety"];

/// What a provider said about a failure.
pub(super) struct Words {
    pub message: String,
    /// Its own names for the failure, the most telling first, in lower case.
    names: Vec<String>,
    pub status: Option<u16>,
    wait_seconds: Option<f64>,
}

impl Words {
    pub fn read(body: &str) -> Self {
        match serde_json::from_str::<Value>(body) {
            Ok(value @ (Value::Object(_) | Value::Array(_))) => Words::of(&value),
            Ok(_) | Err(_) => {
                Words { message: words_of_text(body), names: Vec::new(), status: None, wait_seconds: None }
            }
        }
    }

    /// Reads the shapes that providers have in use: an `error` object or text, also within a `response`, `message`,
    /// `detail`, or a list of one of these.
    pub fn of(body: &Value) -> Self {
        let body = body.as_array().and_then(|list| list.first()).unwrap_or(body);
        let nested = ["/error", "/response/error"].iter().find_map(|place| body.pointer(place));
        let error = nested.filter(|error| error.is_object()).unwrap_or(body);
        let text = ["message", "error", "detail", "error_message", "msg"]
            .iter()
            .find_map(|key| error.get(key)?.as_str());
        let message = text.map_or_else(|| words_of_text(&body.to_string()), words_of_text);
        let fields = ["code", "type", "status"].iter().filter_map(|key| error.get(key));
        let reasons = details(error).filter_map(|detail| detail.get("reason"));
        let names = reasons.chain(fields.clone()).filter_map(Value::as_str);
        let names: Vec<String> = names.map(str::to_ascii_lowercase).collect();
        let number = fields.filter_map(|field| field.as_u64().or_else(|| field.as_str()?.parse().ok()));
        let status =
            number.filter(|number| (300..600).contains(number)).find_map(|number| u16::try_from(number).ok());
        let status =
            status.or_else(|| names.iter().any(|name| REFUSED.contains(&name.as_str())).then_some(400));
        let wait = error.get("retry_after").or_else(|| body.get("retry_after")).and_then(Value::as_f64);
        Words { message, names, status, wait_seconds: wait.or_else(|| details(error).find_map(retry_delay)) }
    }

    fn named_reason(&self) -> Option<FailureReason> {
        self.names.iter().find_map(|name| {
            Some(match name.as_str() {
                "insufficient_quota"
                | "billing_hard_limit_reached"
                | "billing_not_active"
                | "insufficient_credits"
                | "insufficient_balance"
                | "payment_required"
                | "billing_error" => FailureReason::Billing,
                "context_length_exceeded" | "exceed_context_size_error" | "request_too_large" => {
                    FailureReason::ContextOverflow
                }
                "model_not_found" | "model_not_available" => FailureReason::ModelNotFound,
                "content_policy_violation"
                | "content_filter"
                | "content_filtered"
                | "moderation_blocked"
                | "invalid_prompt" => FailureReason::ContentPolicy,
                "rate_limit_exceeded" | "rate_limit_error" | "too_many_requests" | "resource_exhausted" => {
                    FailureReason::RateLimit
                }
                "overloaded_error" | "overloaded" | "engine_overloaded" | "server_overloaded"
                | "unavailable" => FailureReason::Overloaded,
                "timeout_error" | "deadline_exceeded" => FailureReason::Timeout,
                "invalid_api_key"
                | "api_key_invalid"
                | "authentication_error"
                | "permission_error"
                | "permission_denied"
                | "unauthorized" => FailureReason::Auth,
                _ => return None,
            })
        })
    }

    fn speaks_of(&self, phrases: &[&str]) -> bool {
        let message = self.message.to_lowercase();
        phrases
            .iter()
            .any(|phrase| message.contains(phrase) || self.names.iter().any(|name| name.contains(phrase)))
    }

    pub fn retry_after(&self) -> Option<Duration> {
        retry_after::seconds(self.wait_seconds?)
    }
}

/// Names for a request that is refused as it is, in errors that carry no status.
const REFUSED: &[&str] = &["invalid_request_error", "invalid_argument", "bad_request"];

/// The details that Google's servers add to an error.
fn details(error: &Value) -> impl Iterator<Item = &Value> {
    error.get("details").and_then(Value::as_array).into_iter().flatten()
}

/// The wait that such a detail asks for, written as `34.5s`.
fn retry_delay(detail: &Value) -> Option<f64> {
    detail.get("retryDelay")?.as_str()?.strip_suffix('s')?.parse().ok()
}

/// A provider's text on one line, without control characters and of bearable length.
pub(super) fn words_of_text(text: &str) -> String {
    let line = one_line(text);
    match line.char_indices().nth(WORDS_MAX_CHARS) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None if line.is_empty() => "no explanation".to_owned(),
        None => line,
    }
}
