//! What a run has taken is counted once wherever it is cut off, and however often it goes on; and it goes on with the
//! model that it had got to.

use crate::fakes::{Bench, FakeModel, FakeSteps, FakeTool, Say, call, failure};
use legwork_agent::models::{Chain, Model};
use legwork_agent::tools::{Effect, ToolOutput};
use legwork_core::outcome::Ending;
use legwork_core::ports::Steps;
use legwork_core::report::{FailureReason, Report};
use legwork_core::step::{Product, StepState};
use serde_json::json;
use std::sync::Arc;

const RIGHT: &str = r#"{"colour": "blue"}"#;

/// A run with three looks, a summary, an answer that does not fit and its correction. Only what comes after the first
/// `answered` replies.
fn script(answered: usize) -> Vec<Say> {
    let read = |id| Say::Calls("I read.", vec![call(id, "read", json!({}))]);
    let all = vec![read("a"), read("b"), read("c"), Say::Text("short"), Say::Text("blue"), Say::Text(RIGHT)];
    all.into_iter().skip(answered).collect()
}

fn bench(answered: usize) -> Bench {
    let tool = FakeTool::new("read", Effect::ReadOnly, |_| {
        Box::pin(async { ToolOutput::ok("words and more of them ".repeat(152)) })
    });
    let schema =
        json!({"type": "object", "properties": {"colour": {"type": "string"}}, "required": ["colour"]});
    let bench = Bench::new(FakeModel::with_window(4000, script(answered)), vec![tool]);
    Bench { schema: Some(schema), ..bench }
}

/// How many replies of the model are stored.
async fn answered(steps: &FakeSteps) -> usize {
    let rows = steps.steps(&Bench::actor()).await.expect("it is readable");
    let told = rows
        .iter()
        .filter(|row| matches!(&row.state, StepState::Done(Product::Reply(_) | Product::Compacted(_))));
    told.count()
}

/// A later attempt over what the first `cut` commits stored.
async fn resumed(steps: &FakeSteps, cut: usize) -> (Bench, Report) {
    let steps = steps.until(cut);
    let bench = Bench { ..bench(answered(&steps).await) };
    let bench = Bench { steps, ..bench };
    let report = bench.resume().await;
    (bench, report)
}

#[track_caller]
fn assert_same(report: &Report, undisturbed: &Report, cuts: &[usize]) {
    assert_eq!(
        (report.ending, report.answer.as_deref()),
        (Ending::Answered, Some(RIGHT)),
        "cut after {cuts:?}"
    );
    assert_eq!((report.usage, report.cost), (undisturbed.usage, undisturbed.cost), "cut after {cuts:?}");
    assert_eq!(report.tool_trace.len(), undisturbed.tool_trace.len(), "cut after {cuts:?}");
}

#[tokio::test]
async fn k32_inv_28_every_reply_is_counted_once_after_any_two_deaths_summaries_and_corrections_too() {
    let whole = bench(0);
    let undisturbed = whole.run().await;
    assert_eq!(whole.model.calls(), 6);
    assert_eq!(undisturbed.usage.output, 12, "two tokens for each of them");
    for first in 1..=whole.steps.commits() {
        let (bench, report) = resumed(&whole.steps, first).await;
        assert_same(&report, &undisturbed, &[first]);
        for second in first..=bench.steps.commits() {
            let (_, report) = resumed(&bench.steps, second).await;
            assert_same(&report, &undisturbed, &[first, second]);
        }
    }
}

/// A chain of two models of which the first always refuses.
fn chain(answered: usize) -> (Arc<FakeModel>, Arc<FakeModel>, Arc<dyn Model>) {
    let refusals = (0..9).map(|_| Say::Fail("", failure(FailureReason::Auth, "HTTP 401: no")));
    let looks = vec![Say::Calls("I look.", vec![call("a", "look", json!({}))]), Say::Text("done")];
    let first = FakeModel::named("first/model", refusals);
    let second = FakeModel::named("second/model", looks.into_iter().skip(answered));
    let links: Vec<Arc<dyn Model>> = vec![first.clone(), second.clone()];
    (first, second, Arc::new(Chain::new(links.into())))
}

#[tokio::test]
async fn cred_14_k02_a_run_goes_on_with_the_model_that_stood_in_from_the_commit_that_says_so() {
    let (first, _, model) = chain(0);
    let tools = || vec![FakeTool::look("look", "seen") as Arc<dyn legwork_agent::tools::Tool>];
    let whole = Bench { real: Some(model), ..Bench::new(FakeModel::new([]), tools()) };
    assert_eq!(whole.run().await.answer.as_deref(), Some("done"));
    assert_eq!(first.calls(), 1);
    let journal = whole.steps.journal();
    assert_eq!(journal[1], "2 switch 1 second/model, 2=switched", "{journal:?}");
    for cut in 1..=whole.steps.commits() {
        let steps = whole.steps.until(cut);
        let (first, _, model) = chain(answered(&steps).await);
        let bench = Bench { steps, real: Some(model), ..Bench::new(FakeModel::new([]), tools()) };
        assert_eq!(bench.resume().await.answer.as_deref(), Some("done"), "cut after {cut}");
        assert_eq!(first.calls(), usize::from(cut == 1), "cut after {cut}");
    }
}

#[tokio::test]
async fn cred_14_k02_an_answer_of_a_model_that_stood_in_for_it_is_not_asked_for_again() {
    let refusal = || Say::Fail("", failure(FailureReason::Auth, "HTTP 401: no"));
    let links = |answers: Vec<Say>| -> Arc<dyn Model> {
        let first = FakeModel::named("first/model", (0..9).map(|_| refusal()));
        Arc::new(Chain::new(vec![first as Arc<dyn Model>, FakeModel::named("second/model", answers)].into()))
    };
    let bench = |model| Bench { real: Some(model), ..Bench::new(FakeModel::new([]), Vec::new()) };
    let whole = bench(links(vec![Say::Text("done")]));
    let undisturbed = whole.run().await;
    assert_eq!(undisturbed.answer.as_deref(), Some("done"));
    let steps = whole.steps.until(whole.steps.commits());
    let later = Bench { steps, ..bench(links(Vec::new())) };
    assert_eq!(later.resume().await, undisturbed);
}

#[tokio::test]
async fn cred_14_a_model_that_stood_in_and_is_not_in_the_chain_any_more_is_not_looked_for() {
    let (_, _, model) = chain(0);
    let tools = || vec![FakeTool::look("look", "seen") as Arc<dyn legwork_agent::tools::Tool>];
    let whole = Bench { real: Some(model), ..Bench::new(FakeModel::new([]), tools()) };
    whole.run().await;
    let third = FakeModel::named("third/model", script_of_one());
    let only: Arc<dyn Model> = Arc::new(Chain::new(vec![third.clone() as Arc<dyn Model>].into()));
    let steps = whole.steps.until(2);
    let bench = Bench { steps, real: Some(only), ..Bench::new(FakeModel::new([]), tools()) };
    assert_eq!((bench.resume().await.answer.as_deref(), third.calls()), (Some("done"), 1));
}

fn script_of_one() -> Vec<Say> {
    vec![Say::Text("done")]
}
