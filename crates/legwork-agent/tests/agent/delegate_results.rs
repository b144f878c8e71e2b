//! What a joined `delegate_task` gives back.

use crate::delegate_calls::{Door, OPTIONS};
use crate::fakes::{FakeDelegator, json_of};
use legwork_agent::tools::{DelegateOptions, Site, ToolOutput};
use legwork_core::aftermath::{ChildProcesses, Orphaned, Worktree};
use legwork_core::batch::Reach;
use legwork_core::ids::ChildId;
use legwork_core::outcome::{Ending, FailureKind, Limit};
use legwork_core::report::{FailureReason, InputSummary, Report, TraceItem, TraceStatus};
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;

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
    assert_eq!(keys, ["results", "total_duration_seconds", "note"]);
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
    assert!(summary.contains("whole: legwork results deleg_00000001 …]"), "no file could be written");
    assert_eq!(entry["summary_truncated"], json!(true));
    assert_eq!(entry.get("summary_full_path"), None);
}

/// Proves FIN-3, FIN-4, ENTRY-2.
#[tokio::test]
async fn fin_04_the_whole_of_a_summary_that_was_cut_is_in_a_file_of_its_own() {
    let text: String = (0..9000).map(|n| format!("{n:04}\n")).collect();
    let delegator = FakeDelegator::reporting(answering(text.clone())).await;
    let door = Door::to(delegator, OPTIONS);
    let folder = tempfile::tempdir().expect("a folder");
    let site = || Site { spill: folder.path().join("spill"), ..door.bench.site() };
    let mut paths = Vec::new();
    for _ in 0..2 {
        let answer = json_of(&door.call_from(site(), json!({"goal": "a"})).await);
        let entry = &answer["results"][0];
        let path = entry["summary_full_path"].as_str().expect("a path").to_owned();
        assert_eq!(std::fs::read_to_string(&path).expect("it is there"), text);
        let mode = std::fs::metadata(&path).expect("it is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let summary = entry["summary"].as_str().expect("there is a summary");
        let (head, rest) = summary.split_once("\n[… ").expect("there is a note");
        assert!(rest.contains(&format!("or {path} from byte {} on …]\n", head.len())), "{rest}");
        paths.push(path);
    }
    assert_ne!(paths[0], paths[1]);
}

/// Proves CTRL-11, ENTRY-2.
#[tokio::test]
async fn ctrl_11_what_was_said_too_late_stands_in_the_entry_of_its_child() {
    let mut delegator = FakeDelegator::reporting(|goal| match goal {
        "fail at this" => {
            Report { error: Some("401".to_owned()), ..Report::bare(Ending::Failed(FailureKind::Model)) }
        }
        _ => answering("done\n".repeat(9000))(""),
    })
    .await;
    let said = |task, text: &str| (ChildId::from_bits(task, 1), text.to_owned());
    delegator.missed = vec![said(0, "hurry"), said(1, "look"), said(0, "stop there")];
    let tasks = json!([{"goal": "do the first thing"}, {"goal": "fail at this"}, {"goal": "do the last"}]);
    let answer = json_of(&Door::to(delegator, OPTIONS).call(json!({"tasks": tasks})).await);
    let results = answer["results"].as_array().expect("a list");
    assert_eq!(results[0]["missed_steer"], json!("hurry\nstop there"));
    let summary = results[0]["summary"].as_str().expect("a summary");
    assert!(summary.ends_with("done\n\n[said to it too late, so it has not read this: hurry\nstop there]"));
    assert_eq!(results[1]["missed_steer"], json!("look"));
    let error = results[1]["error"].as_str().expect("an error");
    assert_eq!(error, "401\n\n[said to it too late, so it has not read this: look]");
    assert_eq!((results[1]["summary"].as_str(), results[2].get("missed_steer")), (None, None));
}

fn keys(entry: &Value) -> Vec<&str> {
    let mut keys: Vec<&str> = entry.as_object().expect("an object").keys().map(String::as_str).collect();
    keys.sort_unstable();
    keys
}

/// Proves ENTRY-1, ENTRY-2, FIN-8, OUT-12.
#[tokio::test]
async fn entry_02_an_entry_has_the_keys_that_apply_and_no_others() {
    let always = [
        "api_calls",
        "cost_status",
        "cost_usd",
        "duration_seconds",
        "exit_reason",
        "model",
        "status",
        "summary",
        "task_index",
        "tokens",
        "tool_trace",
        "truncated",
    ];
    let plain = json_of(&Door::new(OPTIONS).await.call(json!({"goal": "a"})).await);
    assert_eq!(keys(&plain["results"][0]), always);
    let delegator = FakeDelegator::reporting(|_| Report {
        error: Some("401".to_owned()),
        failure_reason: Some(FailureReason::Auth),
        worktree: Some(Worktree {
            path: "/w".to_owned(),
            branch: "b".to_owned(),
            commits: 0,
            dirty: false,
            pruned: true,
            inspection_failed: false,
            note: None,
        }),
        processes: ChildProcesses {
            orphaned: vec![Orphaned {
                session_id: "p".to_owned(),
                command: "make".to_owned(),
                runtime_seconds: 1.0,
            }],
            ..ChildProcesses::default()
        },
        stale_paths: vec!["a.rs".to_owned()],
        ..Report::bare(Ending::Failed(FailureKind::Setup))
    });
    let full = json_of(&Door::to(delegator.await, OPTIONS).call(json!({"goal": "a"})).await);
    let timeout =
        ["diagnostic_path", "last_event_age", "timed_out_after_seconds", "timeout_phase", "timeout_seconds"];
    let apply = ["error", "failure_reason", "orphaned_processes", "stale_paths", "worktree"];
    let mut expected: Vec<&str> = always.into_iter().chain(timeout).chain(apply).collect();
    expected.sort_unstable();
    assert_eq!(keys(&full["results"][0]), expected);
}

/// Proves ENTRY-3, ENTRY-7, ENTRY-12: a stop comes before an error, an error before an answer, and nothing is read off a text.
#[tokio::test]
async fn entry_03_status_and_exit_reason_follow_from_how_it_ended() {
    let cases = [
        (Ending::Interrupted, ("interrupted", "interrupted"), json!("stopped on request")),
        (Ending::Failed(FailureKind::Model), ("failed", "error"), json!("the subagent failed")),
        (Ending::Answered, ("completed", "completed"), Value::Null),
        (Ending::CutShort(Limit::Steps), ("completed", "max_iterations"), Value::Null),
    ];
    for (ending, (status, exit_reason), error) in cases {
        let said = "error: it was interrupted at max_iterations";
        let delegator = FakeDelegator::reporting(move |_| Report {
            answer: Some(said.to_owned()),
            ..Report::bare(ending)
        });
        let answer = json_of(&Door::to(delegator.await, OPTIONS).call(json!({"goal": "a"})).await);
        let entry = &answer["results"][0];
        assert_eq!((&entry["status"], &entry["exit_reason"]), (&json!(status), &json!(exit_reason)));
        assert_eq!((&entry["summary"], &entry["error"]), (&json!(said), &error), "{ending:?}");
        assert_eq!(entry["tokens"], json!({"input": 0, "output": 0}));
        assert_eq!((&entry["cost_usd"], &entry["cost_status"]), (&json!(0.0), &json!("unknown")));
    }
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

fn note(output: &ToolOutput) -> String {
    json_of(output)["note"].as_str().map(str::to_owned).unwrap_or_default()
}

/// Proves TOOL-10, SEC-4: also where the list came as text.
#[tokio::test]
async fn k23_arguments_without_effect_are_named_in_the_answer() {
    let door = Door::new(OPTIONS).await;
    let tasks = json!([{"goal": "a", "role": "leaf", "acp_command": "x"}]);
    for tasks in [tasks.clone(), json!(tasks.to_string())] {
        let arguments = json!({"background": true, "context": "for all", "group": "g", "tasks": tasks});
        let note = note(&door.call(arguments).await);
        for name in ["context", "group", "role", "acp_command"] {
            assert!(note.contains(&format!("`{name}`")), "{name} is missing in {note}");
        }
    }
}

/// Proves TASK-6: it is kept with the call, where people and the caller read of tasks without a context of their own.
#[tokio::test]
async fn task_06_what_stands_beside_a_list_reaches_no_child() {
    let door = Door::new(OPTIONS).await;
    let tasks = json!([{"goal": "read the first file"}, {"goal": "read the next file", "context": "own"}]);
    for tasks in [tasks.clone(), json!(tasks.to_string())] {
        let beside = json!({"context": "for all", "role": "leaf", "tasks": tasks});
        assert!(!door.call(beside).await.is_error);
        let batch = door.batch();
        let contexts: Vec<Option<&str>> = batch.tasks.iter().map(|task| task.context.as_deref()).collect();
        assert_eq!((contexts.as_slice(), batch.tasks.len()), (&[None, Some("own")][..], 2));
        assert_eq!((batch.context_of(0), batch.context_of(1)), (Some("for all"), Some("own")));
    }
    door.call(json!({"goal": "a", "context": "its own"})).await;
    assert_eq!(door.batch().context, None, "without a list it belongs to the task");
}

/// Proves MODE-2: every time, whether background was asked for or not.
#[tokio::test]
async fn out_09_a_call_that_is_waited_for_says_that_its_session_cannot_take_a_late_result() {
    for options in [OPTIONS, DelegateOptions { reach: Reach::Push, ..OPTIONS }] {
        let door = Door::new(options).await;
        for arguments in [json!({"goal": "a"}), json!({"goal": "a", "background": true})] {
            let note = note(&door.call(arguments).await);
            assert!(note.starts_with("no_async: ") && note.contains("already holds the outcome"), "{note}");
            assert!(note.contains("a single prompt") && !note.contains("`background`"), "{note}");
        }
    }
    let door = Door::new(DelegateOptions { depth_max: 2, ..OPTIONS }).await;
    let mut site = door.bench.site();
    site.lineage.depth = 1;
    let below = door.call_from(site, json!({"goal": "a", "background": true})).await;
    assert_eq!(note(&below), "Without effect on the subagents of this call: `background`");
}
