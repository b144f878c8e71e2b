//! What a joined `delegate_task` gives back.

use crate::delegate_calls::{Door, OPTIONS};
use crate::fakes::{FakeDelegator, json_of};
use legwork_agent::tools::DelegateOptions;
use legwork_core::batch::Reach;
use legwork_core::outcome::{Ending, FailureKind};
use legwork_core::report::{FailureReason, InputSummary, Report, TraceItem, TraceStatus};
use serde_json::json;

fn answering(answer: String) -> impl Fn(&str) -> Report + Send + Sync + 'static {
    move |_| Report { answer: Some(answer.clone()), ..Report::bare(Ending::Answered) }
}

#[tokio::test]
async fn out_01_results_come_in_the_order_of_the_tasks_with_their_claim() {
    let door = Door::new(OPTIONS).await;
    let output = door.call(json!({"tasks": "[{\"goal\":\"a\"},{\"goal\":\"b\"}]"})).await;
    let answer = json_of(&output);
    let of = |key: &str| {
        answer["results"]
            .as_array()
            .expect("a list")
            .iter()
            .map(|entry| entry[key].clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(of("task_index"), [0, 1]);
    assert_eq!(of("status"), ["completed", "completed"]);
    assert_eq!(of("summary"), ["did: a", "did: b"]);
    let keys: Vec<&String> = answer.as_object().expect("an object").keys().collect();
    assert_eq!(keys, ["results", "total_duration_seconds"]);
    assert_eq!(answer["total_duration_seconds"], json!(0.5));
    assert_eq!(output.acknowledge.len(), 1);
}

#[tokio::test]
async fn the_slot_is_given_back_while_the_call_waits() {
    let door = Door::new(OPTIONS).await;
    door.call(json!({"goal": "a"})).await;
    assert_eq!(door.bench.line.words(), ["parked", "unparked"]);
}

#[tokio::test]
async fn k20_a_failed_child_is_a_failed_entry_with_the_providers_words() {
    let delegator = FakeDelegator::reporting(|_| Report {
        error: Some("401 Unauthorized".to_owned()),
        failure_reason: Some(FailureReason::Auth),
        ..Report::bare(Ending::Failed(FailureKind::Model))
    });
    let answer = json_of(&Door::to(delegator.await, OPTIONS).call(json!({"goal": "a"})).await);
    let entry = &answer["results"][0];
    assert_eq!((&entry["status"], &entry["exit_reason"]), (&json!("failed"), &json!("error")));
    assert_eq!((&entry["error"], &entry["failure_reason"]), (&json!("401 Unauthorized"), &json!("auth")));
}

#[tokio::test]
async fn fin_03_a_long_summary_keeps_head_and_tail_and_says_where_the_rest_is() {
    let text: String = (0..9000).map(|n| format!("{n:04}\n")).collect();
    let delegator = FakeDelegator::reporting(answering(text)).await;
    let answer = json_of(&Door::to(delegator, OPTIONS).call(json!({"goal": "a"})).await);
    let entry = &answer["results"][0];
    let summary = entry["summary"].as_str().expect("there is a summary");
    assert!(
        summary.len() < 24_200 && summary.starts_with("0000\n") && summary.ends_with("8999\n"),
        "{}",
        summary.len()
    );
    assert!(summary.contains("whole: legwork results deleg_00000001"));
    assert_eq!(entry["summary_truncated"], json!(true));
}

#[tokio::test]
async fn k25_many_long_results_share_one_bound() {
    let trace = TraceItem {
        tool: "look".to_owned(),
        args_bytes: 1,
        input_summary: InputSummary { argument_keys: vec![], targets: vec!["t".repeat(1000)] },
        result_bytes: 1,
        status: TraceStatus::Ok,
    };
    let delegator = FakeDelegator::reporting(move |_| Report {
        tool_trace: vec![trace.clone(); 50],
        error: Some("e".repeat(100_000)),
        ..answering("x".repeat(1 << 20))("")
    });
    let tasks: Vec<_> = (0..200).map(|_| json!({"goal": "a"})).collect();
    let options = DelegateOptions { summary_bytes_max: usize::MAX, ..OPTIONS };
    let output = Door::to(delegator.await, options).call(json!({"tasks": json!(tasks).to_string()})).await;
    assert!(output.content.len() < 1 << 20, "{} bytes", output.content.len());
    let answer = json_of(&output);
    let results = answer["results"].as_array().expect("a list");
    assert_eq!(results.len(), 200);
    assert!(results.iter().all(|entry| entry["tool_trace_omitted"] == json!(50)));
}

/// Proves TOOL-10, SEC-4.
#[tokio::test]
async fn k23_arguments_without_effect_are_named_in_the_answer() {
    let door = Door::new(OPTIONS).await;
    let arguments = json!({
        "background": true,
        "context": "for all",
        "tasks": [{"goal": "a", "role": "leaf", "acp_command": "x"}],
    });
    let note = json_of(&door.call(arguments).await)["note"].as_str().map(str::to_owned).unwrap_or_default();
    for name in ["context", "role", "acp_command"] {
        assert!(note.contains(&format!("`{name}`")), "{note}");
    }
}

#[tokio::test]
async fn out_09_an_agent_that_asked_for_background_is_told_once_that_its_session_waits() {
    let door = Door::new(OPTIONS).await;
    let note = |output| json_of(&output)["note"].as_str().map(str::to_owned).unwrap_or_default();
    let first = note(door.call(json!({"goal": "a", "background": true})).await);
    assert!(first.starts_with("no_async: ") && first.contains("already holds the outcome"), "{first}");
    let second = note(door.call(json!({"goal": "a", "background": true})).await);
    assert_eq!(second, "without effect in this call: `background`");
    let promised = Door::new(DelegateOptions { reach: Reach::Push, ..OPTIONS }).await;
    assert!(note(promised.call(json!({"goal": "a"})).await).starts_with("no_async: "));
    assert_eq!(note(promised.call(json!({"goal": "a"})).await), "");
}
