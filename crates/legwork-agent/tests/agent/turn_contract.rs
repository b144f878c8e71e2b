//! An answer that must meet a schema: one correction turn in the same conversation, through crashes too, and no work lost.

use crate::fakes::{Bench, Dropped, FakeLine, FakeModel, FakeTool, Say, call, failure, until};
use legwork_agent::tools::{Effect, ToolOutput};
use legwork_agent::turn::TurnLimits;
use legwork_core::message::{Author, Message};
use legwork_core::outcome::{Ending, FailureKind, Limit};
use legwork_core::report::{Conformance, FailureReason, Report};
use serde_json::{Value, json};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

const RIGHT: &str = r#"{"colour": "blue"}"#;
const WRONG: &str = r#"{"colour": 7}"#;
const MISSED: &str = r#"$.colour: 7 is not of type "string""#;

fn schema() -> Value {
    json!({"type": "object", "properties": {"colour": {"type": "string"}}, "required": ["colour"]})
}

fn bench(script: impl IntoIterator<Item = Say>) -> Bench {
    let bench = Bench::new(FakeModel::new(script), vec![FakeTool::look("look", "blue")]);
    Bench { schema: Some(schema()), ..bench }
}

fn look() -> Say {
    Say::Calls("I look.", vec![call("a", "look", json!({}))])
}

fn last(messages: &[Arc<Message>]) -> String {
    messages.last().expect("there are messages").plain_text()
}

fn conformance(report: &Report) -> &Conformance {
    report.conformance.as_ref().expect("there is a schema and an answer")
}

#[tokio::test]
async fn schema_07_an_answer_that_fits_is_not_asked_for_again() {
    let report = bench([look(), Say::Text(RIGHT)]).run().await;
    assert_eq!((report.ending, report.answer.as_deref()), (Ending::Answered, Some(RIGHT)));
    assert_eq!(conformance(&report), &Conformance::default());
    let without = Bench { schema: None, ..bench([Say::Text(WRONG)]) };
    assert_eq!(without.run().await.conformance, None, "SCHEMA-1");
}

/// Proves SCHEMA-4, SCHEMA-5, SCHEMA-7.
#[tokio::test]
async fn schema_04_one_correction_turn_follows_in_the_same_conversation_with_what_does_not_fit() {
    let bench = bench([look(), Say::Text(WRONG), Say::Text(RIGHT)]);
    let report = bench.run().await;
    assert_eq!((report.ending, report.answer.as_deref()), (Ending::Answered, Some(RIGHT)));
    assert_eq!(conformance(&report), &Conformance { retries: 1, ..Conformance::default() });
    assert_eq!((report.model_calls, report.usage.input), (3, 30), "its calls and tokens are counted");
    let asked = bench.model.requests().pop().expect("it was asked");
    let [.., answer, correction] = asked.messages.as_slice() else { panic!("{asked:?}") };
    assert_eq!((answer.author, answer.plain_text().as_str()), (Author::Assistant, WRONG));
    let text = correction.plain_text();
    assert_eq!(correction.author, Author::User);
    assert!(
        text.contains(MISSED) && !text.contains("required"),
        "the errors, and not the schema again: {text}"
    );
    let journal = bench.steps.journal();
    assert!(journal.iter().any(|commit| commit.contains(&format!("4 correct {MISSED}"))), "{journal:?}");
}

#[tokio::test]
async fn schema_06_an_answer_that_misses_twice_is_kept_as_it_is() {
    let report = bench([Say::Text("it is blue"), Say::Text(WRONG)]).run().await;
    assert_eq!((report.ending, report.answer.as_deref()), (Ending::Answered, Some(WRONG)));
    let expected = Conformance { errors: vec![MISSED.to_owned()], retries: 1, remark: None };
    assert_eq!(conformance(&report), &expected);
}

#[tokio::test]
async fn schema_05_a_correction_that_comes_to_nothing_leaves_the_first_answer() {
    let denied = || Say::Fail("I will", failure(FailureReason::Auth, "HTTP 401: no"));
    let endings = [
        (vec![Say::Text(WRONG), Say::Text(" ")], "answered nothing"),
        (vec![Say::Text(WRONG), denied()], "which failed: HTTP 401: no"),
        (vec![Say::Text(WRONG), look(), look(), look()], "made the same failing call"),
    ];
    for (script, words) in endings {
        let bench = bench(script);
        let failing = FakeTool::new("look", Effect::ReadOnly, |_| {
            Box::pin(async { ToolOutput::error("no such thing") })
        });
        let bench =
            if words.contains("same failing") { Bench { tools: vec![failing], ..bench } } else { bench };
        let report = bench.run().await;
        assert_eq!((report.ending, report.answer.as_deref()), (Ending::Answered, Some(WRONG)), "{words}");
        assert_eq!((report.error.as_deref(), report.failure_reason), (None, None), "{words}");
        let known = conformance(&report);
        assert_eq!((known.errors.len(), known.retries), (1, 1), "{words}");
        assert!(known.remark.as_deref().is_some_and(|remark| remark.contains(words)), "{known:?}");
    }
}

#[tokio::test]
async fn schema_04_nothing_is_corrected_after_a_blank_answer_or_at_a_limit() {
    let report = bench([Say::Text(" ")]).run().await;
    assert_eq!((report.ending, report.conformance), (Ending::Failed(FailureKind::EmptyAnswer), None));
    let limited = Bench { steps_max: 2, ..bench([look(), Say::Text(WRONG)]) };
    let report = limited.run().await;
    assert_eq!((report.ending, report.answer.as_deref()), (Ending::Answered, Some(WRONG)));
    let known = conformance(&report);
    assert_eq!((known.errors.len(), known.retries), (1, 0));
    assert!(known.remark.as_deref().is_some_and(|remark| remark.contains("at a limit")), "{known:?}");
    let cut = Bench { steps_max: 1, ..bench([look()]) };
    let report = cut.run().await;
    assert_eq!(report.ending, Ending::CutShort(Limit::Steps));
    assert_eq!(conformance(&report).errors, ["$: there is no JSON value in the answer"]);
}

#[tokio::test]
async fn schema_04_a_stop_ends_the_correction_and_what_was_said_is_kept() {
    let (dropped, was_dropped) = Dropped::new();
    let model = FakeModel::new([Say::Text(WRONG), Say::Hang("{\"col", dropped)]);
    let bench = Bench { schema: Some(schema()), ..Bench::new(model, vec![]) };
    let line = Arc::clone(&bench.line);
    let (report, ()) = tokio::join!(bench.run(), async {
        until(|| bench.model.calls() >= 2).await;
        line.stop();
    });
    assert_eq!((report.ending, report.conformance), (Ending::Interrupted, None));
    assert_eq!(report.answer.as_deref(), Some("{\"col"));
    assert!(was_dropped());
}

#[tokio::test]
async fn what_was_said_to_a_child_comes_before_its_correction() {
    let said = OnceLock::new();
    let line = FakeLine::new();
    let (asked, script) = (Arc::clone(&line), [Say::Text(WRONG), Say::Text(WRONG), Say::Text(RIGHT)]);
    let model = FakeModel::heard(script, move || *said.get_or_init(|| asked.steer(1, "make it red")));
    let bench = Bench { schema: Some(schema()), line, ..Bench::new(model, vec![]) };
    let report = bench.run().await;
    assert_eq!((conformance(&report).retries, report.answer.as_deref()), (1, Some(RIGHT)));
    let lasts: Vec<String> = bench.model.requests().iter().map(|request| last(&request.messages)).collect();
    assert!(lasts[1].contains("make it red") && lasts[2].contains(MISSED), "{lasts:?}");
}

/// Proves SCHEMA-4 through crashes: the correction is a step like any other.
#[tokio::test]
async fn k02_a_correction_that_is_cut_off_after_any_commit_is_not_asked_for_twice() {
    let script = |from: usize| {
        let all = vec![look(), Say::Text(WRONG), look(), Say::Text(RIGHT)];
        all.into_iter().skip(from).collect::<Vec<_>>()
    };
    let whole = bench(script(0));
    let undisturbed = whole.run().await;
    assert_eq!(undisturbed.model_calls, 4);
    let commits = whole.steps.commits();
    for (cut, asked_before) in (1..=commits).zip([0, 1, 1, 2, 3, 3, 4]) {
        let bench = Bench { steps: whole.steps.until(cut), ..bench(script(asked_before)) };
        let report = bench.resume().await;
        assert_eq!(bench.model.calls(), 4 - asked_before, "cut after commit {cut}");
        assert_eq!((report.ending, report.answer.as_deref()), (Ending::Answered, Some(RIGHT)), "after {cut}");
        assert_eq!(report.conformance, undisturbed.conformance, "cut after commit {cut}");
        let corrections = bench.steps.journal().iter().filter(|commit| commit.contains("correct ")).count();
        assert_eq!(corrections, 1, "cut after commit {cut}: {:?}", bench.steps.journal());
    }
    let last = whole.steps.journal();
    assert_eq!(commits, 7, "{last:?}");
}

#[tokio::test]
async fn k02_the_first_answer_is_known_after_a_crash_within_its_correction() {
    let whole = bench([Say::Text(WRONG), Say::Text(RIGHT)]);
    whole.run().await;
    let bench = Bench { steps: whole.steps.until(2), ..bench([Say::Text("")]) };
    let report = bench.resume().await;
    assert_eq!((report.ending, report.answer.as_deref()), (Ending::Answered, Some(WRONG)));
    assert_eq!(conformance(&report).retries, 1);
}

/// Definitions each of which names the next one twice.
fn doubling(levels: usize) -> Value {
    let mut parts = serde_json::Map::new();
    for level in 0..levels {
        let next = json!({"$ref": format!("#/$defs/p{}", level + 1)});
        parts.insert(format!("p{level}"), json!({"allOf": [next, next]}));
    }
    parts.insert(format!("p{levels}"), json!({"type": "object"}));
    json!({"$defs": parts, "items": {"$ref": "#/$defs/p0"}})
}

/// Proves invariant 7 for the check of an answer.
#[tokio::test]
async fn k08_a_schema_that_takes_long_holds_no_answer_back() {
    let many = Value::from(vec![json!({}); 400]).to_string();
    let bench = bench([Say::Text(Box::leak(many.clone().into_boxed_str()))]);
    let limits = TurnLimits { schema_check_max: Duration::from_millis(1), ..bench.limits };
    let bench = Bench { schema: Some(doubling(14)), limits, ..bench };
    let report = bench.run().await;
    assert_eq!((report.ending, report.answer.as_ref()), (Ending::Answered, Some(&many)));
    let known = conformance(&report);
    assert!(known.errors[0].contains("took longer than 0.001 s"), "{known:?}");
    assert_eq!((known.retries, bench.model.calls()), (0, 1), "nobody is asked to correct what may be right");
}

#[tokio::test]
async fn k27_a_check_that_would_not_end_is_not_begun() {
    let branch = json!({"properties": {"a": {"$ref": "#/$defs/n"}}});
    let schema = json!({"$ref": "#/$defs/n", "$defs": {"n": {"oneOf": [branch, branch]}}});
    let deep = (0..40).fold("{}".to_owned(), |inner, _| format!("{{\"a\":{inner}}}"));
    let bench = bench([Say::Text(Box::leak(deep.clone().into_boxed_str()))]);
    let bench = Bench { schema: Some(schema), ..bench };
    let report = bench.run().await;
    assert_eq!((report.ending, report.answer.as_ref()), (Ending::Answered, Some(&deep)));
    let known = conformance(&report);
    assert!(known.errors[0].contains("nested 40 levels deep"), "{known:?}");
    assert_eq!((known.retries, bench.model.calls()), (0, 1));
}
