//! What is said to an agent while it works: read once, at the next boundary, or left for the store to call missed.

use crate::fakes::{Bench, FakeModel, FakeTool, Say, call, failure};
use legwork_agent::models::ModelRequest;
use legwork_agent::tools::{Effect, ToolOutput};
use legwork_core::ids::RequestId;
use legwork_core::message::Author;
use legwork_core::outcome::{Ending, Limit};
use legwork_core::report::FailureReason;
use serde_json::json;
use std::sync::{Arc, OnceLock};

/// A bench whose parts can say something to its own run.
fn bench_of(make: impl FnOnce(Arc<OnceLock<Bench>>) -> Bench) -> Arc<OnceLock<Bench>> {
    let bench = Arc::new(OnceLock::new());
    let made = make(Arc::clone(&bench));
    assert!(bench.set(made).is_ok());
    bench
}

fn said_in(request: &ModelRequest, text: &str) -> usize {
    request.messages.iter().filter(|message| message.plain_text().contains(text)).count()
}

#[tokio::test]
async fn ctrl_08_what_was_said_comes_as_one_message_after_the_results_and_costs_no_commit() {
    let bench = bench_of(|bench| {
        let look = FakeTool::new("look", Effect::ReadOnly, move |_| {
            let line = &bench.get().expect("the bench is set").line;
            line.steer(1, "use the red one");
            line.steer(2, "and be quick");
            Box::pin(async { ToolOutput::ok("seen") })
        });
        let script = [Say::Calls("", vec![call("a", "look", json!({}))]), Say::Text("red")];
        Bench::new(FakeModel::new(script), vec![look])
    });
    let bench = bench.get().expect("the bench is set");
    let report = bench.run().await;
    assert_eq!((report.ending, report.answer.as_deref()), (Ending::Answered, Some("red")));
    let request = bench.model.requests().remove(1);
    let authors: Vec<Author> = request.messages.iter().map(|message| message.author).collect();
    assert_eq!(authors, [Author::System, Author::User, Author::Assistant, Author::Tool, Author::User]);
    let told = request.messages[4].plain_text();
    assert!(told.starts_with("[legwork: ") && told.ends_with("]\n\nuse the red one\nand be quick"), "{told}");
    let journal = bench.steps.journal();
    assert_eq!(journal.len(), 4, "{journal:?}");
    let (one, two) = (RequestId::from_bits(1), RequestId::from_bits(2));
    assert!(journal[2].starts_with(&format!("2=a:seen, 3 steer {one}+{two}, 3=[legwork: ")), "{journal:?}");
    assert!(journal[2].ends_with(", 4 model"), "{journal:?}");
    assert_eq!(bench.steps.seen(), [(one, 3), (two, 3)]);
    assert!(bench.line.words().contains(&"was told: use the red one\nand be quick".to_owned()));
}

#[tokio::test]
async fn k38_what_was_said_before_the_first_call_is_in_the_first_request() {
    let bench = Bench::new(FakeModel::new([Say::Text("red")]), vec![]);
    bench.line.steer(1, "use the red one");
    bench.run().await;
    assert_eq!(said_in(&bench.model.requests()[0], "use the red one"), 1);
    assert_eq!(bench.steps.commits(), 2);
}

fn told_while_answering(steps_max: u32) -> Arc<OnceLock<Bench>> {
    bench_of(|bench| {
        let said = OnceLock::new();
        let model = FakeModel::heard([Say::Text("blue"), Say::Text("red")], move || {
            let line = &bench.get().expect("the bench is set").line;
            said.get_or_init(|| line.steer(1, "use the red one"));
        });
        Bench { steps_max, ..Bench::new(model, vec![]) }
    })
}

#[tokio::test]
async fn ctrl_10_what_was_said_during_the_last_call_is_taken_in_and_answered() {
    let bench = told_while_answering(50);
    let bench = bench.get().expect("the bench is set");
    let report = bench.run().await;
    assert_eq!((report.answer.as_deref(), report.model_calls), (Some("red"), 2));
    let request = bench.model.requests().remove(1);
    assert_eq!(said_in(&request, "use the red one"), 1);
    assert_eq!(request.messages[2].plain_text(), "blue");
    let journal = bench.steps.journal();
    assert!(journal[1].starts_with("1=blue, 2 steer") && journal[1].ends_with(", 3 model"), "{journal:?}");
}

#[tokio::test]
async fn ctrl_10_what_cannot_be_read_any_more_is_left_to_be_called_missed() {
    let bench = told_while_answering(1);
    let bench = bench.get().expect("the bench is set");
    let report = bench.run().await;
    assert_eq!((report.ending, report.answer.as_deref()), (Ending::Answered, Some("blue")));
    assert_eq!((bench.line.unheard(), bench.steps.seen()), (1, vec![]));
}

#[tokio::test]
async fn ctrl_08_what_was_said_before_a_stop_or_a_limit_is_not_called_read() {
    for limit in [false, true] {
        let bench = bench_of(|bench| {
            let look = FakeTool::new("look", Effect::ReadOnly, move |_| {
                let line = &bench.get().expect("the bench is set").line;
                line.steer(1, "use the red one");
                if !limit {
                    line.stop();
                }
                Box::pin(async { ToolOutput::ok("seen") })
            });
            let script = [Say::Calls("", vec![call("a", "look", json!({}))])];
            Bench { steps_max: if limit { 1 } else { 50 }, ..Bench::new(FakeModel::new(script), vec![look]) }
        });
        let bench = bench.get().expect("the bench is set");
        let report = bench.run().await;
        let ending = if limit { Ending::CutShort(Limit::Steps) } else { Ending::Interrupted };
        assert_eq!((report.ending, bench.line.unheard(), bench.steps.seen()), (ending, 1, vec![]));
    }
}

/// An agent that is told something while it gives its first answer, and goes on like this.
fn told_more(goes_on: Vec<Say>) -> Arc<OnceLock<Bench>> {
    bench_of(|bench| {
        let said = OnceLock::new();
        let script = [Say::Text("blue")].into_iter().chain(goes_on);
        let model = FakeModel::heard(script, move || {
            let line = &bench.get().expect("the bench is set").line;
            said.get_or_init(|| line.steer(1, "use the red one"));
        });
        Bench::new(model, vec![FakeTool::look("look", "seen")])
    })
}

const UNANSWERED: &str = "[legwork: after this answer it was told something more, and ";

/// Proves ENTRY-4, K14: nothing that was produced before an end is lost by what came after it.
#[tokio::test]
async fn ctrl_10_an_answer_stands_when_what_is_said_after_it_comes_to_nothing() {
    let refused = || Say::Fail("It is r", failure(FailureReason::Auth, "401 Unauthorized"));
    let look = || Say::Calls("I look again.", vec![call("a", "look", json!({}))]);
    let failed = "what it was to do then failed: 401 Unauthorized]";
    let cases = [
        (vec![refused()], failed),
        (vec![look(), refused()], failed),
        (vec![Say::Text(" ")], "it answered nothing to it]"),
    ];
    for (goes_on, why) in cases {
        let bench = told_more(goes_on);
        let bench = bench.get().expect("the bench is set");
        let report = bench.run().await;
        assert_eq!(
            (report.ending, report.error.as_deref(), report.failure_reason),
            (Ending::Answered, None, None)
        );
        assert_eq!(report.answer, Some(format!("blue\n\n{UNANSWERED}{why}")));
        assert_eq!(bench.steps.seen().len(), 1, "it was read, and is not called missed");
        assert!(
            bench.line.words().iter().any(|word| word.contains(UNANSWERED)),
            "whoever reads along is told"
        );
    }
}

#[tokio::test]
async fn ctrl_10_the_answer_to_what_was_said_is_the_answer_and_a_failure_without_one_before_it_stays_one() {
    let bench = told_more(vec![Say::Text("red")]);
    let report = bench.get().expect("the bench is set").run().await;
    assert_eq!((report.ending, report.answer.as_deref()), (Ending::Answered, Some("red")));
    let refused = Say::Fail("", failure(FailureReason::Auth, "401 Unauthorized"));
    let bench = Bench::new(FakeModel::new([refused]), vec![]);
    bench.line.steer(1, "use the red one");
    let report = bench.run().await;
    assert!(matches!(report.ending, Ending::Failed(_)) && report.answer.is_none(), "{report:?}");
}

/// Wherever the process of such a run dies, whoever goes on with it knows its answer.
#[tokio::test]
async fn k02_an_answer_before_something_was_said_is_known_after_a_crash() {
    let refused = || Say::Fail("", failure(FailureReason::Auth, "401 Unauthorized"));
    let look = || Say::Calls("I look again.", vec![call("a", "look", json!({}))]);
    let whole = told_more(vec![look(), refused()]);
    let whole = whole.get().expect("the bench is set");
    whole.run().await;
    let mut resumed = 0;
    for cut in 2..whole.steps.commits() {
        let goes_on = if cut < 3 { vec![look(), refused()] } else { vec![refused()] };
        let bench = Bench::new(FakeModel::new(goes_on), vec![FakeTool::look("look", "seen")]);
        let bench = Bench { steps: whole.steps.until(cut), ..bench };
        let report = bench.resume().await;
        assert_eq!(report.ending, Ending::Answered, "cut after commit {cut}");
        assert!(report.answer.is_some_and(|answer| answer.starts_with("blue\n\n[legwork: ")), "{cut}");
        resumed += 1;
    }
    assert!(resumed >= 2, "{resumed}");
}

/// A stop stays a stop and a limit a limit, also behind an answer.
#[tokio::test]
async fn ctrl_10_an_answer_before_something_was_said_makes_no_answer_of_a_stop_or_a_limit() {
    let look = || Say::Calls("I look again.", vec![call("a", "look", json!({}))]);
    let limited = bench_of(|bench| {
        let said = OnceLock::new();
        let model = FakeModel::heard([Say::Text("blue"), look()], move || {
            let line = &bench.get().expect("the bench is set").line;
            said.get_or_init(|| line.steer(1, "use the red one"));
        });
        Bench { steps_max: 2, ..Bench::new(model, vec![FakeTool::look("look", "seen")]) }
    });
    let report = limited.get().expect("the bench is set").run().await;
    assert_eq!(report.ending, Ending::CutShort(Limit::Steps), "{report:?}");
    assert!(report.answer.is_none_or(|answer| !answer.contains(UNANSWERED)));

    let stopped = bench_of(|bench| {
        let (said, stopping) = (OnceLock::new(), Arc::clone(&bench));
        let model = FakeModel::heard([Say::Text("blue"), look()], move || {
            let line = &bench.get().expect("the bench is set").line;
            said.get_or_init(|| line.steer(1, "use the red one"));
        });
        let stop = FakeTool::new("look", Effect::ReadOnly, move |_| {
            stopping.get().expect("the bench is set").line.stop();
            Box::pin(async { ToolOutput::ok("seen") })
        });
        Bench::new(model, vec![stop])
    });
    let report = stopped.get().expect("the bench is set").run().await;
    assert_eq!(report.ending, Ending::Interrupted, "{report:?}");
    assert!(report.answer.is_none_or(|answer| !answer.contains(UNANSWERED)));
}

/// Also where what came of it is a call that fails again and again.
#[tokio::test]
async fn ctrl_10_an_answer_stands_when_what_it_was_told_then_fails_again_and_again() {
    let look = || Say::Calls("", vec![call("a", "look", json!({}))]);
    let bench = bench_of(|bench| {
        let said = OnceLock::new();
        let script = std::iter::once(Say::Text("blue")).chain((0..9).map(|_| look()));
        let model = FakeModel::heard(script, move || {
            let line = &bench.get().expect("the bench is set").line;
            said.get_or_init(|| line.steer(1, "use the red one"));
        });
        let fails = FakeTool::new("look", Effect::ReadOnly, |_| {
            Box::pin(async { ToolOutput::error("there is nothing") })
        });
        Bench::new(model, vec![fails])
    });
    let report = bench.get().expect("the bench is set").run().await;
    assert_eq!((report.ending, report.error), (Ending::Answered, None));
    let answer = report.answer.expect("it stands");
    assert!(
        answer.starts_with(&format!(
            "blue

{UNANSWERED}what it was to do then failed: "
        )),
        "{answer}"
    );
}

/// The answer that stands is the last one, also where that was to be corrected, and wherever the process dies.
#[tokio::test]
async fn ctrl_10_the_last_answer_stands_when_its_correction_comes_to_nothing() {
    let schema = json!({"type": "object"});
    let whole = bench_of(|bench| {
        let said = OnceLock::new();
        let model = FakeModel::heard([Say::Text("blue"), Say::Text("red"), Say::Text(" ")], move || {
            let line = &bench.get().expect("the bench is set").line;
            said.get_or_init(|| line.steer(1, "use the red one"));
        });
        Bench { schema: Some(schema.clone()), ..Bench::new(model, vec![]) }
    });
    let whole = whole.get().expect("the bench is set");
    let undisturbed = whole.run().await;
    assert_eq!((undisturbed.ending, undisturbed.answer.as_deref()), (Ending::Answered, Some("red")));
    for (cut, goes_on) in [(2, vec![Say::Text("red"), Say::Text(" ")]), (3, vec![Say::Text(" ")])] {
        let bench = Bench::new(FakeModel::new(goes_on), vec![]);
        let bench = Bench { steps: whole.steps.until(cut), schema: Some(schema.clone()), ..bench };
        let report = bench.resume().await;
        assert_eq!((report.ending, report.answer.as_deref()), (Ending::Answered, Some("red")), "{cut}");
    }
}
