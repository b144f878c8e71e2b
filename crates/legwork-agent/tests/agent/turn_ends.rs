//! The ways in which a turn ends, and what its report says.

use crate::fakes::{Bench, Dropped, FakeModel, FakeTool, Say, call, failure};
use legwork_agent::models::{ModelError, ReplyPart, Spent};
use legwork_agent::turn::TurnLimits;
use legwork_core::message::{Author, Message, Part, ToolCall};
use legwork_core::outcome::{Ending, FailureKind, Limit};
use legwork_core::pulse::LineEvent;
use legwork_core::report::{Cost, FailureReason, Report, Usage};
use legwork_core::step::{Finish, Reply};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

fn look() -> Say {
    Say::Calls("I look.", vec![call("a", "look", json!({}))])
}

fn bench(script: impl IntoIterator<Item = Say>) -> Bench {
    Bench::new(FakeModel::new(script), vec![FakeTool::look("look", "blue")])
}

fn ended(report: &Report) -> (Ending, Option<&str>) {
    (report.ending, report.answer.as_deref())
}

#[tokio::test]
async fn k20_an_answer_is_an_answer_whatever_it_says() {
    let report = bench([Say::Text("HTTP 401: token expired")]).run().await;
    assert_eq!(ended(&report), (Ending::Answered, Some("HTTP 401: token expired")));
    assert_eq!((report.error, report.failure_reason), (None, None));
}

#[tokio::test]
async fn inv_28_usage_and_cost_are_counted_once_a_response() {
    let report = bench([look(), Say::Text("blue")]).run().await;
    assert_eq!(report.usage, Usage { input: 20, output: 4, cached: 8, reasoning: 2 });
    assert_eq!((report.cost, report.model_calls), (Cost::MicroUsd(14), 2));
    assert_eq!(report.model.as_deref(), Some("fake-model-1"));
}

#[tokio::test]
async fn entry_04_a_blank_answer_is_a_failure() {
    for blank in ["", "  \n", "(empty)"] {
        let bench = bench([look(), Say::Text(blank)]);
        let report = bench.run().await;
        assert_eq!(ended(&report), (Ending::Failed(FailureKind::EmptyAnswer), Some("I look.")), "{blank:?}");
        assert!(report.error.is_some());
    }
}

#[tokio::test]
async fn entry_05_the_step_limit_keeps_the_last_text_and_begins_no_further_call() {
    let mut bench = bench([look(), look()]);
    bench.steps_max = 2;
    let report = bench.run().await;
    assert_eq!(ended(&report), (Ending::CutShort(Limit::Steps), Some("I look.")));
    assert!(report.error.as_deref().is_some_and(|error| error.contains("2 model calls")), "{report:?}");
    assert_eq!(bench.steps.journal().last().map(String::as_str), Some("4=a:blue"));
}

/// Proves ENTRY-6, ENTRY-8: a refusal at the last step that there is, is a refusal.
#[tokio::test]
async fn entry_06_a_refusal_of_the_last_call_is_not_taken_for_the_step_limit() {
    let mut bench = bench([Say::Fail("", failure(FailureReason::Auth, "401 Unauthorized"))]);
    bench.steps_max = 1;
    let report = bench.run().await;
    assert_eq!(ended(&report), (Ending::Failed(FailureKind::Model), None));
    assert_eq!(
        (report.failure_reason, report.error.as_deref()),
        (Some(FailureReason::Auth), Some("401 Unauthorized"))
    );
}

#[tokio::test]
async fn k20_a_providers_failure_keeps_its_words_and_its_class() {
    let error = failure(FailureReason::Auth, "401 Unauthorized: invalid key");
    let bench = bench([look(), Say::Fail("", error)]);
    let report = bench.run().await;
    assert_eq!(ended(&report), (Ending::Failed(FailureKind::Model), Some("I look.")));
    assert_eq!(report.error.as_deref(), Some("401 Unauthorized: invalid key"));
    assert_eq!((report.failure_reason, report.model_calls), (Some(FailureReason::Auth), 2));
    assert_eq!(
        bench.steps.journal().last().map(String::as_str),
        Some("3 failed 401 Unauthorized: invalid key")
    );
}

#[tokio::test]
async fn k20_a_cut_in_mid_text_keeps_the_partial_text() {
    let error = failure(FailureReason::Network, "connection reset");
    let report = bench([Say::Fail("It is bl", error)]).run().await;
    assert_eq!(ended(&report), (Ending::Failed(FailureKind::Model), Some("It is bl")));
}

#[tokio::test]
async fn a_stream_that_ends_without_an_end_is_a_failure() {
    let report = bench([Say::Parts(vec![Ok(ReplyPart::Text("It is".to_owned()))])]).run().await;
    assert_eq!(ended(&report), (Ending::Failed(FailureKind::Model), Some("It is")));
    assert_eq!(report.failure_reason, Some(FailureReason::Network));
}

#[tokio::test(start_paused = true)]
async fn inv_07_a_model_that_falls_silent_is_given_up() {
    let (mark, is_dropped) = Dropped::new();
    let report = bench([Say::Hang("It is", mark)]).run().await;
    assert_eq!(ended(&report), (Ending::Failed(FailureKind::Model), Some("It is")));
    assert_eq!(report.failure_reason, Some(FailureReason::Timeout));
    assert!(report.error.is_some_and(|error| error.contains("600 seconds")) && is_dropped());
}

#[tokio::test]
async fn what_happens_is_told_on_the_line_in_order() {
    let bench = bench([look(), Say::Text("blue")]);
    bench.run().await;
    assert_eq!(
        bench.line.words(),
        [
            "asked",
            "text I look.",
            "replied 10/2",
            "started look {}",
            "ended look blue false",
            "asked",
            "text blue",
            "replied 10/2",
        ]
    );
}

fn cut_off(text: &str) -> Say {
    let reply = Reply {
        message: Message::text(Author::Assistant, text),
        usage: Usage::default(),
        cost: Cost::Unknown,
        model: None,
        finish: Finish::Length,
    };
    Say::Parts(vec![Ok(ReplyPart::Done(Box::new(reply)))])
}

#[tokio::test]
async fn an_answer_that_was_cut_off_never_stands_without_its_mark() {
    let bench = bench([cut_off("It is bl")]);
    let report = bench.run().await;
    let (ending, answer) = ended(&report);
    assert_eq!(ending, Ending::CutShort(Limit::Output), "it counts as completed, with its mark");
    assert!(
        report.error.as_deref().is_some_and(|error| error.contains("limit of output tokens")),
        "{report:?}"
    );
    assert!(answer.is_some_and(|answer| answer.starts_with("It is bl\n\n[cut off")), "{answer:?}");
    assert!(bench.line.words().iter().any(|word| word.contains("was cut off")), "{:?}", bench.line.words());
}

#[tokio::test]
async fn a_call_that_was_cut_off_is_told_why_and_written_again() {
    let cut = ToolCall { malformed: Some("{\"path\": \"a".into()), ..call("a", "look", json!(null)) };
    let reply = Reply {
        message: Message { author: Author::Assistant, parts: vec![Part::Call(cut)] },
        usage: Usage::default(),
        cost: Cost::Unknown,
        model: None,
        finish: Finish::Length,
    };
    let script = [Say::Parts(vec![Ok(ReplyPart::Done(Box::new(reply)))]), Say::Text("blue")];
    let model = FakeModel::new(script);
    let bench = Bench::new(Arc::clone(&model), vec![FakeTool::look("look", "blue")]);
    assert_eq!(ended(&bench.run().await), (Ending::Answered, Some("blue")));
    let told = format!("{:?}", model.requests()[1].messages.last());
    assert!(told.contains("write less in one call"), "{told}");
}

#[tokio::test]
async fn a_reply_that_was_cut_off_before_it_said_anything_is_no_answer() {
    let report = bench([cut_off("")]).run().await;
    assert_eq!(report.ending, Ending::Failed(FailureKind::EmptyAnswer));
    assert!(report.error.is_some_and(|error| error.contains("limit of output tokens")));
}

#[tokio::test(start_paused = true)]
async fn arguments_that_are_being_written_show_on_the_line_now_and_then() {
    let mut parts: Vec<_> = (0..100).map(|_| Ok(ReplyPart::Moved)).collect();
    parts.push(Err(failure(FailureReason::Auth, "no")));
    let bench = bench([Say::Parts(parts)]);
    bench.run().await;
    assert_eq!(bench.line.words(), ["asked", "moved"]);
}

#[tokio::test(start_paused = true)]
async fn small_pieces_of_a_reply_are_told_together() {
    let text = |text: &str| Ok(ReplyPart::Text(text.to_owned()));
    let thinking = |text: &str| Ok(ReplyPart::Thinking(text.to_owned()));
    let parts = vec![
        thinking("hm"),
        thinking(", "),
        thinking("so"),
        text("It"),
        text(" is"),
        text(" blue."),
        Err(failure(FailureReason::Network, "reset")),
    ];
    let bench = bench([Say::Parts(parts)]);
    bench.run().await;
    assert_eq!(bench.line.words(), ["asked", "thinking hm", "thinking , so", "text It is blue."]);
}

#[tokio::test(start_paused = true)]
async fn inv_28_what_a_provider_told_of_calls_that_failed_is_counted_once() {
    let usage = Usage { input: 1000, output: 7, ..Usage::default() };
    let spent = Spent { usage, cost: Cost::MicroUsd(500) };
    let passing = || ModelError { retryable: true, spent, ..failure(FailureReason::ServerError, "oh") };
    let plain = bench([Say::Text("blue")]).run().await;
    let cases = [
        (vec![Say::Fail("", passing()), Say::Fail("", passing()), Say::Text("blue")], 2, plain.usage),
        (vec![Say::Fail("half", ModelError { retryable: false, ..passing() })], 1, Usage::default()),
    ];
    for (script, failures, others) in cases {
        let report = bench(script).run().await;
        let wanted = (others.input + failures * 1000, others.output + failures * 7);
        assert_eq!((report.usage.input, report.usage.output), wanted, "{report:?}");
        assert!(report.cost.usd() >= failures as f64 * 500.0 / 1e6, "{report:?}");
    }
}

/// A wait that was told is no silence of the model, however long it is.
#[tokio::test(start_paused = true)]
async fn k28_a_wait_that_is_longer_than_a_model_may_be_silent_is_waited() {
    let wait = TurnLimits::default().silence_max + Duration::from_secs(100);
    let limited = ModelError {
        retryable: true,
        retry_after: Some(wait),
        ..failure(FailureReason::RateLimit, "429 slow down")
    };
    let bench = bench([Say::Fail("", limited), Say::Text("blue")]);
    assert_eq!(ended(&bench.run().await), (Ending::Answered, Some("blue")));
}

#[tokio::test(start_paused = true)]
async fn k28_a_passing_failure_is_told_and_asked_again_as_the_same_call() {
    let passing = |wait| ModelError {
        retryable: true,
        retry_after: wait,
        ..failure(FailureReason::RateLimit, "429 slow down")
    };
    let waits = [None, Some(Duration::from_secs(7))];
    let mut script: Vec<Say> = waits.into_iter().map(|wait| Say::Fail("", passing(wait))).collect();
    script.push(Say::Text("blue"));
    let bench = bench(script);
    let report = bench.run().await;
    assert_eq!((ended(&report), report.model_calls), ((Ending::Answered, Some("blue")), 1));
    let events = bench.line.events();
    let pauses = events.iter().filter_map(|event| match event {
        LineEvent::Retrying { error, pause_ms, .. } if error.ends_with("429 slow down") => Some(*pause_ms),
        _ => None,
    });
    let pauses: Vec<u64> = pauses.collect();
    assert!(pauses.len() == 2 && pauses[0] >= 1000 && pauses[1] >= 7000, "{pauses:?}");
    assert_eq!(bench.steps.commits(), 2);
}
