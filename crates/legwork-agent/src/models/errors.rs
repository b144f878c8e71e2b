//! What a provider's failure means: from status and body, from a broken connection, from an error inside a reply, to
//! one [`ModelError`]. It decides whether asking again may help; whether and when that happens is decided in `retry`.

use super::link::{Fault, fault_in};
use super::port::{ModelError, Spent};
use super::retry_after;
use super::words::{Words, reason, words_of_text};
use legwork_core::report::{FailureReason, NetworkFault};
use rig_core::error::ProviderError;
use serde_json::Value;

/// The failure that this error of the library stands for. Its text is the provider's and may hold the key.
pub(super) fn model_error(error: &ProviderError) -> ModelError {
    match fault_in(error) {
        Some(fault) => of_fault(fault),
        None => of_library(error),
    }
}

/// A failure that the provider did not word.
pub(super) fn plain(reason: FailureReason, message: impl Into<String>) -> ModelError {
    let retryable = reason.may_pass();
    ModelError { reason, message: message.into(), retryable, retry_after: None, spent: Spent::default() }
}

/// What a failure says about a call that the provider could not read, if that is all it says: Ollama reads the arguments
/// of its models' calls itself.
pub(super) fn unreadable_call(error: &ModelError) -> Option<&str> {
    let (_, call) = error.message.split_once("error parsing tool call: ")?;
    let raw = call.strip_prefix("raw='").and_then(|raw| raw.split_once("', err="));
    Some(raw.map_or(call, |(raw, _)| raw))
}

/// The failure that an error object inside a reply stands for.
pub(super) fn of_error_object(body: &Value) -> ModelError {
    let words = Words::of(body);
    let status = words.status.unwrap_or(0);
    let reason = reason(status, &words).unwrap_or(FailureReason::ServerError);
    let message = format!("the provider reported an error within its reply: {}", words.message);
    ModelError { retry_after: words.retry_after(), ..plain(reason, message) }
}

fn of_fault(fault: &Fault) -> ModelError {
    let reason = match fault {
        Fault::Status { status, headers, body } => return of_status(*status, headers, body),
        Fault::NoStream { body, .. } => return of_no_stream(fault, body),
        Fault::NoClient(_) => FailureReason::BadRequest,
        Fault::Connect { .. } | Fault::Broken { .. } | Fault::CutOff { .. } => FailureReason::Network,
        Fault::Silent { .. } => FailureReason::Timeout,
        // The same question would get an answer of the same size.
        Fault::TooLarge { .. } => {
            return ModelError { retryable: false, ..plain(FailureReason::ServerError, fault.to_string()) };
        }
    };
    plain(reason, fault.to_string())
}

fn of_status(status: u16, headers: &reqwest::header::HeaderMap, body: &str) -> ModelError {
    let words = Words::read(body);
    let reason = reason(status, &words).unwrap_or(FailureReason::BadRequest);
    let mut message = format!("HTTP {status}: {}", words.message);
    if (300..400).contains(&status) {
        message.push_str(" (redirects are not followed, since the key belongs to one address: set the base URL to the new one)");
    }
    // An error inside the server that another request cannot change stays.
    let retryable = reason.may_pass() && status != 501;
    ModelError {
        reason,
        message,
        retryable,
        retry_after: retry_after::read(headers).or_else(|| words.retry_after()),
        spent: Spent::default(),
    }
}

/// A 200 whose body is a JSON error object, as some gateways send it, or no reply at all.
fn of_no_stream(fault: &Fault, body: &str) -> ModelError {
    match serde_json::from_str::<Value>(body) {
        Ok(value) if value.get("error").is_some_and(|error| !error.is_null()) => of_error_object(&value),
        Ok(_) | Err(_) => {
            let message = format!("{fault}: {}", Words::read(body).message);
            ModelError { retryable: false, ..plain(FailureReason::ServerError, message) }
        }
    }
}

fn of_library(error: &ProviderError) -> ModelError {
    match error {
        ProviderError::Truncated => {
            let cut_off = NetworkFault::CutOff.words();
            plain(FailureReason::Network, format!("{cut_off}: it ended before the provider finished it"))
        }
        ProviderError::Json(cause) => {
            plain(FailureReason::ServerError, format!("the reply holds invalid JSON: {cause}"))
        }
        ProviderError::ProviderResponse(response) | ProviderError::InvalidAuthentication(response) => {
            match serde_json::from_str(&response.body) {
                Ok(body) => of_error_object(&body),
                Err(_) if response.refusal => {
                    plain(FailureReason::ContentPolicy, words_of_text(&response.body))
                }
                Err(_) => plain(FailureReason::ServerError, words_of_text(&response.body)),
            }
        }
        ProviderError::Request(cause) => {
            plain(FailureReason::BadRequest, format!("the request cannot be made: {cause}"))
        }
        other => plain(FailureReason::ServerError, format!("the reply cannot be read: {other}")),
    }
}

#[cfg(test)]
#[path = "errors_tests.rs"]
mod tests;
