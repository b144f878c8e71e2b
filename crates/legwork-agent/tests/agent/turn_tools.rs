//! The tool calls of a reply: which run, in what company, and what the model reads.

use crate::fakes::{Bench, FakeModel, FakeTool, Say, call, rights};
use legwork_agent::models::ModelRequest;
use legwork_agent::tools::{Effect, Tool, ToolOutput};
use legwork_core::message::{Part, ToolCall};
use legwork_core::outcome::{Ending, FailureKind};
use legwork_core::report::TraceStatus;
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::sync::{Barrier, Mutex};

/// What the model reads after one reply with these calls.
async fn results(bench: &Bench) -> Vec<(String, bool)> {
    bench.run().await;
    let request = bench.model.requests().remove(1);
    let last = request.messages.last().expect("there are messages").parts.clone();
    let result = |part| match part {
        Part::Result(result) => (result.content, result.is_error),
        other => panic!("{other:?} is no result"),
    };
    last.into_iter().map(result).collect()
}

fn bench(calls: Vec<ToolCall>, tools: Vec<Arc<dyn Tool>>) -> Bench {
    Bench::new(FakeModel::new([Say::Calls("", calls), Say::Text("done")]), tools)
}

#[tokio::test]
async fn harmless_neighbours_run_side_by_side() {
    let all_here = Arc::new(Barrier::new(3));
    let meet = FakeTool::new("meet", Effect::ReadOnly, move |invocation| {
        let all_here = Arc::clone(&all_here);
        Box::pin(async move {
            // One after the other they would wait here for ever.
            all_here.wait().await;
            ToolOutput::ok(invocation.call_id)
        })
    });
    let bench = bench(["a", "b", "c"].map(|id| call(id, "meet", json!({}))).to_vec(), vec![meet]);
    let contents: Vec<String> = results(&bench).await.into_iter().map(|(content, _)| content).collect();
    assert_eq!(contents, ["a", "b", "c"]);
}

#[tokio::test]
async fn a_call_that_changes_something_runs_alone_and_in_its_place() {
    let alone = Arc::new(Mutex::new(()));
    let behaviour = move |invocation: legwork_agent::tools::Invocation| {
        let alone = Arc::clone(&alone);
        let alone = alone.try_lock_owned().map_err(|_| "somebody else is running");
        Box::pin(async move {
            let _alone = alone.expect("it runs alone");
            tokio::task::yield_now().await;
            ToolOutput::ok(invocation.call_id)
        }) as futures::future::BoxFuture<'static, ToolOutput>
    };
    let change = FakeTool::new("change", Effect::Changes, behaviour);
    let bench = bench(["a", "b"].map(|id| call(id, "change", json!({}))).to_vec(), vec![change]);
    assert_eq!(results(&bench).await, [("a".to_owned(), false), ("b".to_owned(), false)]);
    let words = bench.line.words();
    let ends = words.iter().filter(|word| word.starts_with("started") || word.starts_with("ended"));
    let order: Vec<&str> = ends.map(|word| word.split(' ').next().unwrap_or_default()).collect();
    assert_eq!(order, ["started", "ended", "started", "ended"]);
}

#[tokio::test]
async fn k23_every_wrong_call_gets_a_result_that_says_what_to_send() {
    let malformed =
        |text: &str| ToolCall { malformed: Some(text.to_owned()), ..call("a", "change", Value::Null) };
    let cases = [
        (malformed("{\"what\": }"), "not valid JSON: expected value at line 1 column 10"),
        (malformed("{\"what\":1}{\"what\":1}"), "trailing characters at line 1 column 11"),
        (malformed("{\"what\":\"a\nb\"}"), "line 2"),
        (malformed("{\"what\":1e400}"), "number out of range"),
        (call("a", "change", json!(["what"])), "must be one JSON object, not a list"),
        (call("a", "change", json!("what")), "must be one JSON object, not text"),
        (call("a", "change", json!({})), "needs `what`"),
        (call("a", "change", json!({"what": null})), "needs `what`"),
        (call("a", "change", Value::Null), "needs `what`"),
        (call("a", "chnage", json!({"what": 1})), "chnage"),
        (call("a", "", json!({"what": 1})), "there is no tool"),
        (call("a", "denied", json!({})), "not allowed"),
    ];
    for (wrong, words) in cases {
        let change = FakeTool::change("change", "did");
        let denied = FakeTool::look("denied", "secret");
        let mut bench = bench(vec![wrong.clone()], vec![change.clone(), denied.clone()]);
        bench.rights = rights(&["change"]);
        let results = results(&bench).await;
        assert!(results[0].0.contains(words) && results[0].1, "{wrong:?} gave {results:?}");
        assert_eq!((change.calls(), denied.calls()), (0, 0), "{wrong:?} had an effect");
    }
}

#[tokio::test]
async fn k23_truncated_arguments_never_run_a_tool() {
    let whole = r#"{"what":"a","n":[1,{"deep":"é"}]}"#;
    for end in (0..whole.len()).filter(|end| whole.is_char_boundary(*end)) {
        let change = FakeTool::change("change", "did");
        let wrong = ToolCall { malformed: Some(whole[..end].to_owned()), ..call("a", "change", Value::Null) };
        let results = results(&bench(vec![wrong], vec![change.clone()])).await;
        assert!(results[0].0.contains("not valid JSON") && change.calls() == 0, "cut at {end}: {results:?}");
    }
}

#[tokio::test]
async fn k23_the_same_invalid_call_is_cut_off_at_the_third_time() {
    let again = || Say::Calls("let me try", vec![call("a", "change", json!({"wath": 1}))]);
    let model = FakeModel::new([again(), again(), again(), Say::Text("never asked")]);
    let bench = Bench::new(model, vec![FakeTool::change("change", "did")]);
    let report = bench.run().await;
    assert_eq!((report.ending, bench.model.calls()), (Ending::Failed(FailureKind::Tool), 3));
    let error = report.error.expect("it says why");
    assert!(
        error.contains("3 times in a row: change {\"wath\":1}") && error.contains("needs `what`"),
        "{error}"
    );
    assert_eq!(report.answer.as_deref(), Some("let me try"));
    assert_eq!(report.tool_trace.len(), 3);
    let warned =
        |request: &ModelRequest| format!("{:?}", request.messages.last()).contains("once more ends the run");
    let warnings: Vec<bool> = bench.model.requests().iter().map(warned).collect();
    assert_eq!(warnings, [false, false, true]);
    assert_eq!(bench.steps.journal().last().map(|commit| commit.contains("model")), Some(false));
}

#[tokio::test]
async fn k23_different_mistakes_and_failures_of_commands_are_not_cut_off() {
    let wait =
        FakeTool::new("wait", Effect::Changes, |_| Box::pin(async { ToolOutput::error("not up yet") }));
    let mistakes = (0..4).map(|n| Say::Calls("", vec![call("a", "look", json!([n]))]));
    let waits = (0..5).map(|_| Say::Calls("", vec![call("b", "wait", json!({}))]));
    let model = FakeModel::new(mistakes.chain(waits).chain([Say::Text("up")]));
    let report = Bench::new(model, vec![wait, FakeTool::look("look", "")]).run().await;
    assert_eq!(report.ending, Ending::Answered);
}

#[tokio::test]
async fn tool_21_surplus_spawns_are_answered_and_everything_else_is_kept() {
    let spawn = FakeTool::new("spawn", Effect::Rejoins, |_| Box::pin(async { ToolOutput::ok("spawned") }));
    let look = FakeTool::look("look", "seen");
    let names = ["spawn", "look", "spawn", "spawn", "spawn", "look"];
    let calls = names.iter().enumerate().map(|(n, name)| call(&n.to_string(), name, json!({}))).collect();
    let results = results(&bench(calls, vec![spawn.clone(), look.clone()])).await;
    assert_eq!((spawn.calls(), look.calls()), (2, 2));
    for surplus in [3, 4] {
        let (content, is_error) = &results[surplus];
        assert!(*is_error && content.contains("at most 2 calls of spawn"), "{content}");
        assert!(content.contains("delegation.max_concurrent_children"), "{content}");
    }
    assert_eq!(results.iter().filter(|(_, is_error)| !is_error).count(), 4);
}

#[tokio::test]
async fn k17_every_call_of_an_endless_reply_gets_a_result() {
    let look = FakeTool::look("look", "seen");
    let calls = (0..100).map(|n| call(&n.to_string(), "look", json!({}))).collect();
    let results = results(&bench(calls, vec![look.clone()])).await;
    assert_eq!((results.len(), look.calls()), (100, 64));
    assert!(results[99].0.contains("at most 64 tool calls"), "{:?}", results[99]);
}

#[tokio::test]
async fn a_result_that_is_far_too_long_is_cut_with_a_note() {
    let huge =
        FakeTool::new("huge", Effect::ReadOnly, |_| Box::pin(async { ToolOutput::ok("é".repeat(1 << 20)) }));
    let script = [Say::Calls("", vec![call("a", "huge", json!({}))]), Say::Text("done")];
    let results = results(&Bench::new(FakeModel::with_window(1 << 30, script), vec![huge])).await;
    assert!(results[0].0.len() < (1 << 20) + 100 && results[0].0.contains("bytes left out"));
}

#[tokio::test]
async fn entry_09_the_trace_pairs_calls_and_results_in_order() {
    // The second call ends first.
    let failed = Arc::new(tokio::sync::Notify::new());
    let told = Arc::clone(&failed);
    let fail = FakeTool::new("fail", Effect::ReadOnly, move |_| {
        let told = Arc::clone(&told);
        Box::pin(async move {
            told.notify_one();
            ToolOutput::error("no")
        })
    });
    let look = FakeTool::new("look", Effect::ReadOnly, move |_| {
        let failed = Arc::clone(&failed);
        Box::pin(async move {
            failed.notified().await;
            tokio::task::yield_now().await;
            ToolOutput::ok("blue")
        })
    });
    let calls = vec![call("a", "look", json!({"path": "src"})), call("b", "fail", json!({}))];
    let report = bench(calls, vec![look, fail]).run().await;
    let traced: Vec<(&str, TraceStatus, u64)> =
        report.tool_trace.iter().map(|item| (item.tool.as_str(), item.status, item.result_bytes)).collect();
    assert_eq!(traced, [("look", TraceStatus::Ok, 4), ("fail", TraceStatus::Error, 2)]);
    assert_eq!(report.tool_trace[0].input_summary.targets, ["src"]);
}
