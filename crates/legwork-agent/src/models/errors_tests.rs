//! Statuses, bodies and headers of failures, as data, and what they must mean.

use super::*;
use crate::models::words::WORDS_MAX_CHARS;
use reqwest::header::{HeaderMap, HeaderValue, RETRY_AFTER};
use serde_json::json;
use std::time::Duration;

fn response(status: u16, body: &str) -> ModelError {
    of_status(status, &HeaderMap::new(), body)
}

fn check(status: u16, body: &str, reason: FailureReason, retryable: bool) {
    let error = response(status, body);
    assert_eq!((error.reason, error.retryable), (reason, retryable), "{status} {body}: {error:?}");
}

#[test]
fn a_status_alone_tells_the_reason() {
    check(400, "", FailureReason::BadRequest, false);
    check(401, "", FailureReason::Auth, false);
    check(402, "", FailureReason::Billing, false);
    check(403, "", FailureReason::Auth, false);
    check(404, "", FailureReason::ModelNotFound, false);
    check(408, "", FailureReason::Timeout, true);
    check(409, "", FailureReason::ServerError, true);
    check(413, "", FailureReason::ContextOverflow, false);
    check(418, "", FailureReason::BadRequest, false);
    check(422, "", FailureReason::BadRequest, false);
    check(429, "", FailureReason::RateLimit, true);
    check(500, "", FailureReason::ServerError, true);
    check(501, "", FailureReason::ServerError, false);
    check(502, "", FailureReason::ServerError, true);
    check(503, "", FailureReason::Overloaded, true);
    check(504, "", FailureReason::Timeout, true);
    check(529, "", FailureReason::Overloaded, true);
    check(204, "", FailureReason::BadRequest, false);
}

#[test]
fn what_the_provider_names_wins_over_the_status() {
    let named = |code: &str| format!(r#"{{"error": {{"message": "no", "code": "{code}"}}}}"#);
    check(429, &named("insufficient_quota"), FailureReason::Billing, false);
    check(400, &named("context_length_exceeded"), FailureReason::ContextOverflow, false);
    check(400, &named("model_not_found"), FailureReason::ModelNotFound, false);
    check(400, &named("content_policy_violation"), FailureReason::ContentPolicy, false);
    check(500, &named("overloaded_error"), FailureReason::Overloaded, true);
    check(400, &named("invalid_api_key"), FailureReason::Auth, false);
}

#[test]
fn k28_a_throttle_is_never_taken_for_a_conversation_that_is_too_long() {
    let body = r#"{"error": {"message": "Too many tokens per minute; maximum context is not the matter"}}"#;
    check(429, body, FailureReason::RateLimit, true);
}

#[test]
fn a_conversation_that_is_too_long_is_told_by_its_text() {
    let body = r#"{"error": {"message": "This model's maximum context length is 8192 tokens."}}"#;
    check(400, body, FailureReason::ContextOverflow, false);
    check(403, r#"{"error": {"message": "Your input was flagged"}}"#, FailureReason::ContentPolicy, false);
}

#[test]
fn every_shape_of_error_body_gives_the_providers_words() {
    let shapes = [
        (r#"{"error": {"message": "no way", "type": "x"}}"#, "HTTP 400: no way"),
        (r#"{"error": "no way"}"#, "HTTP 400: no way"),
        (r#"{"message": "no way"}"#, "HTTP 400: no way"),
        (r#"{"detail": "no way"}"#, "HTTP 400: no way"),
        (r#"{"detail": [{"msg": "no way"}]}"#, r#"HTTP 400: {"detail":[{"msg":"no way"}]}"#),
        (r#"[{"error": {"message": "no way"}}]"#, "HTTP 400: no way"),
        ("no\n\u{1b}[31m way\r\n", "HTTP 400: no [31m way"),
        ("\"no way\"", "HTTP 400: \"no way\""),
        ("", "HTTP 400: no explanation"),
    ];
    for (body, message) in shapes {
        assert_eq!(response(400, body).message, message);
    }
}

#[test]
fn a_provider_that_talks_without_end_is_cut() {
    let message = response(500, &"ä".repeat(5000)).message;
    assert_eq!(message.chars().count(), "HTTP 500: ".len() + WORDS_MAX_CHARS + 1);
}

#[test]
fn the_wait_comes_from_the_header_or_the_body() {
    let mut headers = HeaderMap::new();
    headers.insert(RETRY_AFTER, HeaderValue::from_static("7"));
    let body = r#"{"error": {"message": "slow down", "retry_after": 3}}"#;
    assert_eq!(of_status(429, &headers, body).retry_after, Some(Duration::from_secs(7)));
    assert_eq!(response(429, body).retry_after, Some(Duration::from_secs(3)));
    assert_eq!(response(429, r#"{"retry_after": 3}"#).retry_after, Some(Duration::from_secs(3)));
}

#[test]
fn an_error_object_inside_a_reply_is_classed_by_its_code() {
    let object =
        |code: &str| serde_json::from_str(&format!(r#"{{"error": {{"message": "x", "code": {code}}}}}"#));
    let reason = |code: &str| of_error_object(&object(code).expect("JSON")).reason;
    assert_eq!(reason("429"), FailureReason::RateLimit);
    assert_eq!(reason("\"503\""), FailureReason::Overloaded);
    assert_eq!(reason("\"insufficient_quota\""), FailureReason::Billing);
    assert_eq!(reason("7"), FailureReason::ServerError);
    assert_eq!(reason("null"), FailureReason::ServerError);
}

#[test]
fn a_redirect_says_what_to_do() {
    let error = response(307, "");
    assert!(!error.retryable);
    assert!(error.message.contains("set the base URL"), "{error:?}");
}

/// Errors as the vendors write them, each in its own shape.
#[test]
fn every_vendors_errors_are_understood() {
    let anthropic = |kind: &str, text: &str| {
        json!({"type": "error", "error": {"type": kind, "message": text}, "request_id": "req_1"}).to_string()
    };
    let prompt = "prompt is too long: 250000 tokens > 200000 maximum";
    check(400, &anthropic("invalid_request_error", prompt), FailureReason::ContextOverflow, false);
    let limit = "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000";
    check(400, &anthropic("invalid_request_error", limit), FailureReason::ContextOverflow, false);
    let credit = "Your credit balance is too low to access the Anthropic API.";
    check(400, &anthropic("invalid_request_error", credit), FailureReason::Billing, false);
    check(400, &anthropic("invalid_request_error", "max_tokens: odd"), FailureReason::BadRequest, false);
    check(401, &anthropic("authentication_error", "invalid x-api-key"), FailureReason::Auth, false);
    check(403, &anthropic("permission_error", "no"), FailureReason::Auth, false);
    check(404, &anthropic("not_found_error", "model: claude-9"), FailureReason::ModelNotFound, false);
    check(413, &anthropic("request_too_large", "too large"), FailureReason::ContextOverflow, false);
    check(429, &anthropic("rate_limit_error", "slow down"), FailureReason::RateLimit, true);
    check(529, &anthropic("overloaded_error", "Overloaded"), FailureReason::Overloaded, true);

    let google = |code: u16, status: &str, text: &str| {
        json!({"error": {"code": code, "status": status, "message": text}}).to_string()
    };
    let key = json!({"error": {"code": 400, "status": "INVALID_ARGUMENT", "message": "API key not valid.",
        "details": [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}]}});
    check(400, &key.to_string(), FailureReason::Auth, false);
    let long = "The input token count (2000000) exceeds the maximum number of tokens allowed (1048576).";
    check(400, &google(400, "INVALID_ARGUMENT", long), FailureReason::ContextOverflow, false);
    check(404, &google(404, "NOT_FOUND", "models/x is not found"), FailureReason::ModelNotFound, false);
    check(429, &google(429, "RESOURCE_EXHAUSTED", "quota"), FailureReason::RateLimit, true);
    check(503, &google(503, "UNAVAILABLE", "overloaded"), FailureReason::Overloaded, true);
    check(504, &google(504, "DEADLINE_EXCEEDED", "late"), FailureReason::Timeout, true);

    check(404, r#"{"error":"model 'x' not found"}"#, FailureReason::ModelNotFound, false);
    let input = r#"{"error":"the input length exceeds the context length"}"#;
    check(400, input, FailureReason::ContextOverflow, false);
}

#[test]
fn a_delay_among_the_details_is_a_wait() {
    let body = json!({"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "quota",
        "details": [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34.5s"}]}});
    assert_eq!(response(429, &body.to_string()).retry_after, Some(Duration::from_millis(34_500)));
}

#[test]
fn an_error_inside_a_stream_is_classed_by_its_name_where_it_has_no_number() {
    let reason = |body: Value| of_error_object(&body).reason;
    let event = json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}});
    assert_eq!(reason(event), FailureReason::Overloaded);
    let failed = json!({"type": "response.failed", "response": {"status": "failed",
        "error": {"code": "rate_limit_exceeded", "message": "slow down"}}});
    assert_eq!(reason(failed), FailureReason::RateLimit);
    let flat = json!({"type": "error", "code": "server_error", "message": "oops", "param": null});
    assert_eq!(reason(flat), FailureReason::ServerError);
    let refused = json!({"error": {"type": "invalid_request_error", "message": "odd"}});
    assert_eq!(reason(refused), FailureReason::BadRequest);
}

#[test]
fn k23_an_error_that_only_speaks_of_a_call_is_told_from_others() {
    let said = |text: &str| of_error_object(&json!({ "error": text }));
    let read = said(r#"error parsing tool call: raw='{"path": "a', err=EOF while parsing"#);
    assert_eq!(unreadable_call(&read), Some(r#"{"path": "a"#));
    assert_eq!(unreadable_call(&said("error parsing tool call: odd")), Some("odd"));
    assert_eq!(unreadable_call(&said("model runner has stopped")), None);
}
