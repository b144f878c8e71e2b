//! What the worker does after a run, however that ended.

use crate::fakes::FakeModel;
use crate::worker::Shop;
use legwork_core::outcome::{Ending, Force, StopReason};
use legwork_core::ports::{Assignment, Line, RunEnd, StopNotice, Worker};
use legwork_core::pulse::Pulse;
use legwork_core::report::Report;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::time::Duration;

/// A run that the supervisor has ended after so many model calls.
fn timed_out(model_calls: u32) -> RunEnd {
    RunEnd {
        report: Report::bare(Ending::Interrupted),
        stop: Some(StopNotice { reason: StopReason::TimedOut, force: Force::Ask }),
        pulse: Pulse { model_calls, ..Pulse::default() },
        ran: Duration::from_millis(31_500),
        limit: Some(Duration::from_secs(30)),
    }
}

async fn closed(shop: &Shop, assignment: Assignment, end: RunEnd) -> Report {
    shop.worker().close(assignment, end, Arc::clone(&shop.line) as Arc<dyn Line>).await
}

#[tokio::test]
async fn run_18_a_child_that_never_asked_its_model_leaves_what_was_known_of_it() {
    let shop = Shop::new(FakeModel::new([]));
    let mut assignment = shop.assignment(2, None);
    assignment.task.goal = format!("find it; api_key=sk-0123456789abcdefghijkl {}", "x".repeat(2000));
    assignment.setting.route.base_url = Some("https://me:word@host/v1?key=secret".to_owned());
    let report = closed(&shop, assignment, timed_out(0)).await;
    let path = report.diagnostics.expect("a file");
    let folder = shop.folder.path().join("diagnostics");
    assert!(path.starts_with(&format!("{}/sa-2-00000007-timeout-2", folder.display())), "{path}");
    let text = fs::read_to_string(&path).expect("it is readable");
    for line in [
        "subagent: sa-2-00000007",
        "task index: 2",
        "limit in seconds: 30.00",
        "ran for seconds: 31.50",
        "phase: starting",
        "model: fake/model",
        "address: https://host/v1\n",
        "role: orchestrator",
        "depth: 1",
        "tools: delegate_task, look",
        "find it",
    ] {
        assert!(text.contains(line), "{line} is missing in {text}");
    }
    assert!(!text.contains("word@") && !text.contains("sk-0123") && text.len() < 2500, "{text}");
    let mode = fs::metadata(&path).expect("it is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[tokio::test]
async fn run_18_one_that_had_asked_leaves_nothing_and_a_folder_that_cannot_be_written_costs_the_path_only() {
    let shop = Shop::new(FakeModel::new([]));
    let report = closed(&shop, shop.assignment(0, None), timed_out(1)).await;
    assert_eq!((report.diagnostics, shop.folder.path().join("diagnostics").exists()), (None, false));
    let cancelled = StopNotice { reason: StopReason::Cancelled, force: Force::Ask };
    let report =
        closed(&shop, shop.assignment(0, None), RunEnd { stop: Some(cancelled), ..timed_out(0) }).await;
    assert_eq!(report.diagnostics, None, "somebody stopped it, and knows why");
    fs::write(shop.folder.path().join("diagnostics"), "in the way").expect("it is written");
    let report = closed(&shop, shop.assignment(0, None), timed_out(0)).await;
    assert_eq!((report.diagnostics, report.ending), (None, Ending::Interrupted));
}
