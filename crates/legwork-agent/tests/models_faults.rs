//! OpenAI chat completions against a provider that misbehaves: each failure has its reason, and no half reply passes
//! for a whole one.

#[path = "models_support/asking.rs"]
mod models_support;

use legwork_agent::models::{CallLimits, Model, ModelError, ReplyPart};
use legwork_core::report::FailureReason;
use legwork_testkit::server::{
    Call, Finish, ProviderError, Reply, Script, ScriptedServer, Scripts, call, empty, hang,
    hang_after_headers, hang_up, rate_limited, raw_response, say, server_error, status, status_page,
    status_with, unauthorized,
};
use models_support::{KEY, ask, failure, model_at, request};
use serde_json::json;
use std::time::{Duration, Instant};

fn server(reply: Reply) -> ScriptedServer {
    ScriptedServer::start(Scripts::default().otherwise(Script::always(reply)))
}

async fn failed(reply: Reply) -> ModelError {
    let server = server(reply);
    let error = failure(&model_at(&server)).await;
    assert_eq!(server.log().entries().len(), 1, "the model never tries again by itself");
    error
}

async fn check(reply: Reply, reason: FailureReason, retryable: bool) -> ModelError {
    let error = failed(reply).await;
    assert_eq!((error.reason, error.retryable), (reason, retryable), "{error:?}");
    error
}

#[tokio::test]
async fn k28_a_refused_key_is_the_providers_words_and_never_retried() {
    let error = check(unauthorized(), FailureReason::Auth, false).await;
    assert_eq!(error.message, "HTTP 401: Incorrect API key provided.");
}

#[tokio::test]
async fn k28_a_throttle_carries_the_wait_that_was_asked_for() {
    let error = check(rate_limited(7), FailureReason::RateLimit, true).await;
    assert_eq!(error.retry_after, Some(Duration::from_secs(7)));
}

#[tokio::test]
async fn k28_an_empty_account_is_not_a_throttle() {
    let error = ProviderError::new("insufficient_quota", "You exceeded your current quota.");
    check(status_with(429, error.code("insufficient_quota")), FailureReason::Billing, false).await;
}

#[tokio::test]
async fn errors_of_the_server_and_of_what_stands_before_it() {
    check(server_error(), FailureReason::ServerError, true).await;
    check(status(404, "The model `x` does not exist"), FailureReason::ModelNotFound, false).await;
    let page = "<html><h1>502 Bad Gateway</h1></html>";
    let error = check(status_page(502, "text/html", page), FailureReason::ServerError, true).await;
    assert!(error.message.contains("502 Bad Gateway"), "{error:?}");
}

#[tokio::test]
async fn k29_a_provider_that_echoes_the_key_does_not_leak_it() {
    let echo = format!("Incorrect key {KEY} provided");
    for reply in [
        status(401, echo.as_str()),
        say("a").error_chunk(ProviderError::new("server_error", echo.as_str())),
        status_page(500, "text/plain", echo.as_str()),
    ] {
        let error = failed(reply).await;
        assert!(error.message.contains("[key]"), "{error:?}");
        assert!(!format!("{error:?}").contains(KEY), "{error:?}");
    }
}

#[tokio::test]
async fn a_cut_stream_is_never_a_whole_reply() {
    for reply in [say("half a sentence").cut(), call("read_file", json!({"path": "a"})).cut(), empty().cut()]
    {
        check(reply, FailureReason::Network, true).await;
    }
}

#[tokio::test]
async fn a_stream_that_ends_without_its_closing_events_is_never_a_whole_reply() {
    for reply in
        [say("half a sentence").truncate(), call("read_file", json!({})).truncate(), empty().truncate()]
    {
        check(reply, FailureReason::Network, true).await;
    }
}

#[tokio::test]
async fn k23_an_error_object_inside_the_stream_is_an_error() {
    let overloaded = ProviderError::new("overloaded_error", "Overloaded");
    let error = check(say("half").error_chunk(overloaded), FailureReason::Overloaded, true).await;
    assert!(error.message.ends_with("within its reply: Overloaded"), "{error:?}");
}

#[tokio::test]
async fn an_error_beside_a_last_choice_is_an_error() {
    let chunk = json!({"error": {"code": 429, "message": "slow down"},
        "choices": [{"index": 0, "delta": {"content": ""}, "finish_reason": "error"}]});
    let reply = say("half").raw(format!("data: {chunk}\n\ndata: [DONE]\n\n")).truncate();
    let error = check(reply, FailureReason::RateLimit, true).await;
    assert!(error.message.ends_with("slow down"), "{error:?}");
}

#[tokio::test]
async fn a_filtered_reply_is_an_error() {
    check(say("half").finish(Finish::Filtered), FailureReason::ContentPolicy, false).await;
}

#[tokio::test]
async fn what_is_no_json_within_the_stream_is_an_error() {
    check(say("half").raw("data: {\"choices\": [\n\n"), FailureReason::ServerError, true).await;
}

#[tokio::test]
async fn an_answer_that_is_no_stream_is_an_error() {
    let json = |body: &str| {
        let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n";
        raw_response(format!("{head}content-length: {}\r\n\r\n{body}", body.len()))
    };
    let error = check(json(r#"{"message": "hello"}"#), FailureReason::ServerError, false).await;
    assert!(error.message.contains("application/json"), "{error:?}");
    let object = r#"{"error": {"message": "no credit", "code": 402}}"#;
    check(json(object), FailureReason::Billing, false).await;
}

#[tokio::test]
async fn a_closed_connection_is_an_error() {
    check(hang_up(), FailureReason::Network, true).await;
}

#[tokio::test]
async fn nobody_at_the_address_is_an_error_that_names_it() {
    let base = ScriptedServer::start(Scripts::default()).base_url();
    let error = failure(&models_support::model(models_support::options(&base))).await;
    assert_eq!((error.reason, error.retryable), (FailureReason::Network, true));
    assert!(error.message.contains(base.trim_end_matches("/v1")), "{error:?}");
    assert!(error.message.contains("refused"), "{error:?}");
}

fn patient_for(idle_max: Duration) -> CallLimits {
    CallLimits { idle_max, ..CallLimits::default() }
}

#[tokio::test]
async fn k08_silence_ends_as_a_timeout_wherever_it_begins() {
    for reply in [hang(), hang_after_headers(), say("half").stall()] {
        let server = server(reply);
        let model = models_support::with_limits(&server.base_url(), patient_for(Duration::from_millis(200)));
        let error = failure(&model).await;
        assert_eq!((error.reason, error.retryable), (FailureReason::Timeout, true), "{error:?}");
        assert!(error.message.contains("sent nothing for 0.2 s"), "{error:?}");
    }
}

#[tokio::test]
async fn k08_a_reply_that_moves_may_take_longer_than_the_limit_of_silence() {
    // The whole takes longer than the limit, and each part so much less that a busy machine may be late with it.
    let server = server(empty().drip("one two three four five six seven eight", Duration::from_millis(600)));
    let model = models_support::with_limits(&server.base_url(), patient_for(Duration::from_secs(4)));
    let (parts, reply) = ask(&model, request("hi")).await;
    assert!(parts.len() >= 8);
    assert_eq!(reply.expect("a reply").message.plain_text(), "one two three four five six seven eight");
}

#[tokio::test]
async fn a_reply_without_end_is_stopped_at_the_limit_of_its_size() {
    let server = server(say("a".repeat(100_000)));
    let limits = CallLimits { reply_max_bytes: 50_000, ..CallLimits::default() };
    let error = failure(&models_support::with_limits(&server.base_url(), limits)).await;
    assert_eq!((error.reason, error.retryable), (FailureReason::ServerError, false));
    assert!(error.message.contains("50000"), "{error:?}");
}

#[tokio::test]
async fn k23_arguments_that_nest_without_end_are_an_unreadable_call_at_once() {
    for opening in ["[", "{\"a\":"] {
        let server = server(say("So:").calls([Call::malformed("read_file", opening.repeat(100_000))]));
        // Without a bound it takes ten times as long and gigabytes of memory, each time. A busy machine is slow now and then.
        let mut tries = 0;
        let message = loop {
            let begun = Instant::now();
            let (_, reply) = ask(&model_at(&server), request("hi")).await;
            tries += 1;
            if begun.elapsed() < Duration::from_secs(2) {
                break reply.expect("a reply").message;
            }
            assert!(tries < 10, "{:?}", begun.elapsed());
        };
        let calls: Vec<_> = message.calls().collect();
        let malformed = calls[0].malformed.as_deref().expect("it cannot be read");
        assert!(malformed.starts_with(opening) && malformed.len() <= 64 * 1024, "{}", malformed.len());
        assert_eq!((calls.len(), message.plain_text().as_str()), (1, "So:"));
    }
}

#[tokio::test]
async fn k29_a_redirect_is_not_followed_and_the_key_goes_nowhere_else() {
    let other = server(say("caught"));
    let moved = format!("HTTP/1.1 307 Moved\r\nlocation: {}/chat/completions\r\n", other.base_url());
    let reply = raw_response(format!("{moved}connection: close\r\ncontent-length: 0\r\n\r\n"));
    let error = check(reply, FailureReason::BadRequest, false).await;
    assert!(error.message.starts_with("HTTP 307"), "{error:?}");
    assert!(other.log().entries().is_empty(), "the key must not travel to another origin");
}

#[tokio::test]
async fn parts_before_a_failure_were_seen() {
    let server = server(say("half a sentence").cut());
    let mut stream = model_at(&server).respond(request("hi"));
    let parts = models_support::rest(&mut stream).await;
    assert!(matches!(parts.first(), Some(Ok(ReplyPart::Text(_)))), "{parts:?}");
    assert!(matches!(parts.last(), Some(Err(_))), "{parts:?}");
}
