//! A run that was cut off goes on from its journal: what was stored is read and not done again.

use crate::fakes::{Bench, FakeModel, FakeTool, Say, call};
use legwork_agent::tools::{Effect, ToolOutput};
use legwork_core::message::{Message, ToolCall};
use legwork_core::outcome::{Ending, Limit};
use legwork_core::report::{Cost, Usage};
use serde_json::json;
use std::sync::Arc;

/// What the model says in a run of three model calls: two looks side by side, a change, the answer.
fn script(from: usize) -> Vec<Say> {
    let looks = || vec![call("a", "look", json!({})), call("b", "look", json!({}))];
    let change = || vec![call("c", "change", json!({"what": 1})), call("d", "look", json!({}))];
    let all = vec![Say::Calls("I look.", looks()), Say::Calls("I change.", change()), Say::Text("done")];
    all.into_iter().skip(from).collect()
}

struct Tools {
    look: Arc<FakeTool>,
    change: Arc<FakeTool>,
}

impl Tools {
    fn new() -> Self {
        Tools { look: FakeTool::look("look", "seen"), change: FakeTool::change("change", "did") }
    }

    fn bench(&self, script: Vec<Say>) -> Bench {
        Bench::new(FakeModel::new(script), vec![self.look.clone(), self.change.clone()])
    }
}

/// The messages of a request or a journal, without what cannot be compared.
fn shown(messages: &[Arc<Message>]) -> Vec<Message> {
    messages.iter().map(|message| Message::clone(message)).collect()
}

#[tokio::test]
async fn k02_a_run_that_is_cut_off_after_any_commit_goes_on_and_does_nothing_twice() {
    let whole = Tools::new().bench(script(0));
    let undisturbed = whole.run().await;
    let commits = whole.steps.commits();
    assert_eq!(commits, 7);
    // How often model, look and change are asked after the commit of that number, and whether the change is in doubt.
    let after = [(3, 3, 1), (2, 3, 1), (2, 1, 1), (1, 1, 0), (1, 1, 0), (1, 0, 0), (0, 0, 0)];
    for (cut, (asked, looks, changes)) in (1..=commits).zip(after) {
        let tools = Tools::new();
        let bench = Bench { steps: whole.steps.until(cut), ..tools.bench(script(3 - asked)) };
        let report = bench.resume().await;
        assert_eq!(
            (bench.model.calls(), tools.look.calls(), tools.change.calls()),
            (asked, looks, changes),
            "cut after commit {cut}"
        );
        assert_eq!((report.ending, report.answer.as_deref()), (Ending::Answered, Some("done")));
        let in_doubt = usize::from(cut == 4);
        assert_eq!((report.in_doubt.len(), report.tool_trace.len()), (in_doubt, 4), "cut after {cut}");
        assert_eq!((report.usage, report.cost), (undisturbed.usage, undisturbed.cost), "cut after {cut}");
        let again = bench.steps.journal().iter().filter(|commit| commit.contains("the process died")).count();
        assert!(report.model_calls - undisturbed.model_calls <= u32::try_from(again).expect("few"));
        assert_eq!(bench.steps.open().await, 0);
        if let (Some(last), false) = (bench.model.requests().last(), cut == 4) {
            let expected = &whole.model.requests()[2].messages;
            assert_eq!(shown(&last.messages), shown(expected), "cut after commit {cut}");
        }
    }
}

#[tokio::test]
async fn k02_a_call_in_doubt_is_not_made_again_and_the_model_is_told() {
    let whole = Tools::new().bench(script(0));
    whole.run().await;
    let tools = Tools::new();
    let bench = Bench { steps: whole.steps.until(4), ..tools.bench(script(2)) };
    let report = bench.resume().await;
    assert_eq!((tools.change.calls(), tools.look.calls()), (0, 1));
    let request = format!("{:?}", bench.model.requests()[0].messages.last());
    assert!(request.contains("this call of change was cut off when the process"), "{request}");
    assert!(request.contains("its effect is not known") || request.contains("had an effect is not known"));
    assert_eq!(report.in_doubt[0].tool, "change");
    let journal = bench.steps.journal();
    assert!(journal[4].starts_with("5 failed {\"error\":\"this call of change"), "{journal:?}");
    assert!(journal[4].ends_with(", 6 look look(d)"), "{journal:?}");
}

#[tokio::test]
async fn k02_a_second_crash_in_a_resumed_run_resumes_too() {
    let whole = Tools::new().bench(script(0));
    whole.run().await;
    let first = Bench { steps: whole.steps.until(4), ..Tools::new().bench(script(2)) };
    first.resume().await;
    for cut in 5..=first.steps.commits() {
        let tools = Tools::new();
        let left = if cut == first.steps.commits() { 3 } else { 2 };
        let bench = Bench { steps: first.steps.until(cut), ..tools.bench(script(left)) };
        let report = bench.resume().await;
        assert_eq!((report.answer.as_deref(), report.in_doubt.len()), (Some("done"), 1), "cut after {cut}");
        assert_eq!(tools.change.calls(), 0);
    }
}

#[tokio::test]
async fn k06_a_call_that_started_work_is_made_again_under_its_own_id() {
    let spawn = || {
        FakeTool::new("spawn", Effect::Rejoins, |invocation| {
            Box::pin(async move { ToolOutput::ok(format!("joined {}", invocation.call_id)) })
        })
    };
    let calls: Vec<ToolCall> = ["a", "b"].map(|id| call(id, "spawn", json!({}))).to_vec();
    let whole = Bench::new(FakeModel::new([Say::Calls("", calls), Say::Text("done")]), vec![spawn()]);
    whole.run().await;
    let again = spawn();
    let model = FakeModel::new([Say::Text("done")]);
    let bench = Bench { steps: whole.steps.until(2), ..Bench::new(model, vec![again.clone()]) };
    let report = bench.resume().await;
    assert_eq!((again.calls(), report.in_doubt), (2, vec![]));
    assert_eq!(bench.steps.journal()[2], "2=a:joined a, 3=b:joined b, 4 model");
}

#[tokio::test]
async fn k02_limits_usage_and_price_go_on_where_they_were() {
    let whole = Tools::new().bench(script(0));
    whole.run().await;
    let mut bench = Bench { steps: whole.steps.until(5), ..Tools::new().bench(vec![]) };
    bench.steps_max = 2;
    let report = bench.resume().await;
    assert_eq!((report.ending, report.model_calls), (Ending::CutShort(Limit::Steps), 2));
    assert_eq!(report.usage, Usage { input: 20, output: 4, cached: 8, reasoning: 2 });
    assert_eq!((report.cost, report.answer.as_deref()), (Cost::MicroUsd(14), Some("I change.")));
    // A call that was begun within the limit may be made again.
    let mut bench = Bench { steps: whole.steps.until(6), ..Tools::new().bench(script(2)) };
    bench.steps_max = 3;
    let report = bench.resume().await;
    assert_eq!((report.ending, report.model_calls), (Ending::Answered, 4));
}

#[tokio::test]
async fn ctrl_08_what_was_said_is_read_again_and_not_asked_for_again() {
    let whole = Tools::new().bench(script(0));
    whole.line.steer(1, "use the red one");
    whole.run().await;
    let bench = Bench { steps: whole.steps.until(1), ..Tools::new().bench(script(0)) };
    bench.resume().await;
    let first = &bench.model.requests()[0];
    assert!(first.messages[2].plain_text().ends_with("use the red one"));
    assert_eq!(bench.steps.seen().len(), 1);
}
