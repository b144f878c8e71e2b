//! What a turn stores, and in how many commits.

use crate::fakes::{Bench, FakeModel, FakeSteps, FakeTool, Say, call};
use legwork_agent::journal::Journal;
use legwork_agent::tools::{Effect, ToolOutput};
use legwork_core::ids::ClaimId;
use legwork_core::message::{Author, Message, Part};
use legwork_core::outcome::{Ending, FailureKind};
use legwork_core::ports::Steps;
use legwork_core::report::{Cost, Usage};
use legwork_core::step::{Action, StepRecord, StepState};
use serde_json::json;
use std::sync::Arc;

fn two_steps() -> Bench {
    let model = FakeModel::new([
        Say::Calls("I look.", vec![call("a", "look", json!({"path": "x"}))]),
        Say::Text("It is blue."),
    ]);
    Bench::new(model, vec![FakeTool::look("look", "blue")])
}

#[tokio::test]
async fn inv_02_intent_is_stored_before_and_the_result_after_two_commits_a_turn_with_tools() {
    let bench = two_steps();
    let report = bench.run().await;
    assert_eq!(report.ending, Ending::Answered);
    assert_eq!(
        bench.steps.journal(),
        ["0 open, 0=sys|goal, 1 model", "1=I look.+a, 2 look look(a)", "2=a:blue, 3 model", "3=It is blue.",]
    );
}

#[tokio::test]
async fn a_reply_with_several_harmless_calls_costs_two_commits_too() {
    let calls = ["a", "b", "c"].map(|id| call(id, "look", json!({})));
    let model = FakeModel::new([Say::Calls("", calls.to_vec()), Say::Text("done")]);
    let bench = Bench::new(model, vec![FakeTool::look("look", "blue")]);
    bench.run().await;
    assert_eq!(bench.steps.commits(), 4);
    assert_eq!(bench.steps.journal()[2], "2=a:blue, 3=b:blue, 4=c:blue, 5 model");
}

#[tokio::test]
async fn calls_that_change_something_are_intended_one_by_one_so_that_none_is_in_doubt_needlessly() {
    let calls = vec![
        call("a", "change", json!({"what": 1})),
        call("b", "look", json!({})),
        call("c", "look", json!({})),
        call("d", "change", json!({"what": 2})),
    ];
    let model = FakeModel::new([Say::Calls("", calls), Say::Text("done")]);
    let bench = Bench::new(model, vec![FakeTool::look("look", "seen"), FakeTool::change("change", "did")]);
    bench.run().await;
    assert_eq!(
        bench.steps.journal()[1..],
        [
            "1=+a+b+c+d, 2 change change(a)",
            "2=a:did, 3 look look(b), 4 look look(c)",
            "3=b:seen, 4=c:seen, 5 change change(d)",
            "5=d:did, 6 model",
            "6=done",
        ]
    );
}

#[tokio::test]
async fn claims_are_acknowledged_in_the_commit_of_the_results_that_carry_them() {
    let claim = ClaimId::from_bits(9);
    let output = ToolOutput { acknowledge: vec![claim.clone()], ..ToolOutput::ok("results") };
    let join = FakeTool::new("join", Effect::Rejoins, move |_| {
        let output = output.clone();
        Box::pin(async move { output })
    });
    let model = FakeModel::new([Say::Calls("", vec![call("a", "join", json!({}))]), Say::Text("done")]);
    let bench = Bench::new(model, vec![join]);
    bench.run().await;
    assert_eq!(bench.steps.acknowledged(), [vec![], vec![], vec![claim], vec![]]);
    assert_eq!(bench.steps.journal()[2], "2=a:results, 3 model");
}

#[tokio::test]
async fn inv_30_after_a_refused_write_nothing_more_is_asked_or_run() {
    for refused_from in 0..4 {
        let look = FakeTool::look("look", "blue");
        let mut bench = two_steps();
        bench.tools = vec![look.clone()];
        bench.steps = FakeSteps::refusing_from(refused_from);
        let report = bench.run().await;
        assert_eq!(report.ending, Ending::Failed(FailureKind::Store), "refused from {refused_from}");
        assert!(report.error.unwrap_or_default().contains("no longer the owner"));
        let (asked, run) = [(0, 0), (1, 0), (1, 1), (2, 1)][refused_from];
        assert_eq!((bench.model.calls(), look.calls()), (asked, run), "refused from {refused_from}");
    }
}

#[tokio::test]
async fn a_journal_reads_back_what_was_said_and_what_is_unfinished() {
    let bench = two_steps();
    bench.run().await;
    let steps = Arc::clone(&bench.steps) as Arc<dyn Steps>;
    let (_, recorded) = Journal::open(steps, Bench::actor(), Bench::fence()).await.expect("it is readable");
    let sent: Vec<Message> =
        bench.model.requests()[1].messages.iter().map(|message| (**message).clone()).collect();
    let mut read: Vec<Message> = recorded.messages.iter().map(|message| (**message).clone()).collect();
    assert_eq!(read.pop(), Some(Message::text(Author::Assistant, "It is blue.")));
    assert_eq!(read, sent);
    assert_eq!(recorded.usage, Usage { input: 20, output: 4, cached: 8, reasoning: 2 });
    assert_eq!((recorded.cost, recorded.model_calls), (Cost::MicroUsd(14), 2));
    assert_eq!(recorded.unfinished, []);
}

#[tokio::test]
async fn a_journal_that_was_cut_off_names_the_open_step() {
    let mut bench = two_steps();
    bench.steps = FakeSteps::refusing_from(2);
    bench.run().await;
    let steps = Arc::clone(&bench.steps) as Arc<dyn Steps>;
    let (_, recorded) = Journal::open(steps, Bench::actor(), Bench::fence()).await.expect("it is readable");
    let action = Action::Tool { call: call("a", "look", json!({"path": "x"})), read_only: true };
    assert_eq!(recorded.unfinished, [StepRecord { seq: 2, action, state: StepState::Intended }]);
    assert_eq!(recorded.messages.len(), 2);
    let exchange = recorded.exchange.expect("the reply waits for its results");
    assert_eq!((exchange.reply.message.plain_text(), exchange.results), ("I look.".to_owned(), vec![]));
}

#[tokio::test]
async fn results_reach_the_model_as_one_message_in_the_order_of_the_calls() {
    let calls = vec![call("a", "look", json!({})), call("b", "change", json!({"what": 1}))];
    let model = FakeModel::new([Say::Calls("", calls), Say::Text("done")]);
    let bench = Bench::new(model, vec![FakeTool::look("look", "seen"), FakeTool::change("change", "did")]);
    bench.run().await;
    let request = bench.model.requests().remove(1);
    let last = request.messages.last().expect("there are messages");
    let results = last.parts.iter().map(|part| match part {
        Part::Result(result) => format!("{}={}", result.call_id, result.content),
        other => panic!("{other:?} is no result"),
    });
    assert_eq!(
        (last.author, results.collect::<Vec<_>>()),
        (Author::Tool, vec!["a=seen".into(), "b=did".into()])
    );
}
