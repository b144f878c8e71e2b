//! A child whose process is gone: a later attempt of another owner goes on from the journal, at a strict provider.

use crate::asking::{model as remote, options};
use crate::fakes::{Bench, FakeDelegator, FakeLine, FakeTool, allowance, rights, route};
use legwork_agent::models::Model;
use legwork_agent::process::Shells;
use legwork_agent::tools::{Commands, Toolbox};
use legwork_agent::turn::TurnLimits;
use legwork_agent::worker::{LocalWorker, Pictures, WorkerParts};
use legwork_core::batch::{Isolation, Lineage, NewBatch, Reach, Route, Setting, Task};
use legwork_core::ids::{DelegationId, OwnerId, SessionId};
use legwork_core::outcome::Ending;
use legwork_core::ports::{Assignment, Delegator, Facts, Line, Steps, Takeover, Worker};
use legwork_core::record::{OwnerRecord, Process};
use legwork_core::report::Report;
use legwork_core::step::Fence;
use legwork_core::time::Timestamp;
use legwork_testkit::memory::MemoryStore;
use legwork_testkit::server::{Reply, Script, ScriptedServer, Scripts, gate, say};
use serde_json::json;
use std::sync::Arc;

/// A child of three model calls; the one of that number waits at a gate.
fn server(held: Option<usize>) -> ScriptedServer {
    let steps = [
        say("I look.").call("look", json!({})),
        say("I look again.").call("look", json!({})).call("look", json!({})),
        say("It is blue."),
    ];
    let step = |(number, reply): (usize, Reply)| match held {
        Some(held) if held == number => gate("held").then(reply),
        Some(_) | None => reply,
    };
    let script = steps.into_iter().enumerate().map(step).fold(Script::new(), Script::step);
    ScriptedServer::start(Scripts::default().agent("whales", script))
}

fn setting() -> Setting {
    let folder = std::env::temp_dir().display().to_string();
    Setting {
        folder,
        route: route(),
        rights: rights(&["look"]),
        allowance: allowance(10),
        isolation: Isolation::Shared,
    }
}

/// The child of a delegation that is in the store.
pub async fn assignment(delegator: &FakeDelegator) -> Assignment {
    let task = Task::of("look for whales");
    let session = SessionId::from_bits(1);
    let ticket = delegator.dispatch(NewBatch {
        lineage: Lineage::of_session(session.clone()),
        call_key: None,
        context: None,
        reach: Reach::Joined,
        tasks: vec![task.clone()],
        setting: setting(),
    });
    let ticket = ticket.await.expect("it is accepted");
    Assignment {
        child: ticket.children[0].clone(),
        delegation: ticket.delegation,
        session,
        parent: None,
        task_index: 0,
        task,
        depth: 1,
        attempt: 1,
        fence: Bench::fence(),
        setting: setting(),
    }
}

fn worker(store: &Arc<MemoryStore>, server: &ScriptedServer, look: &Arc<FakeTool>) -> LocalWorker {
    let model = Arc::new(remote(options(&server.base_url()))) as Arc<dyn Model>;
    let shells = Shells::new(std::env::vars_os()).expect("there is a shell");
    LocalWorker::new(WorkerParts {
        store: Arc::clone(store) as Arc<dyn Steps>,
        facts: Arc::clone(store) as Arc<dyn Facts>,
        models: Arc::new(move |_: &Route| Ok(Arc::clone(&model))),
        toolbox: Arc::new(Toolbox::new(vec![look.clone()])),
        commands: Commands::new(shells, Arc::clone(store) as Arc<dyn Facts>),
        limits: TurnLimits::default(),
        depth_max: 1,
        pictures: Pictures::ByModel,
        spill: "/nowhere".into(),
        diagnostics: "/nowhere".into(),
    })
}

/// Another process takes the work of the first one over.
pub async fn taken_over(store: &MemoryStore, delegation: &DelegationId) -> Fence {
    let process = Process { boot_id: "boot".to_owned(), pid: 2, start_ticks: 2 };
    let owner = OwnerId::from_bits(2);
    store.enter(OwnerRecord::new(owner.clone(), process), Timestamp(1)).await.expect("it enters");
    let takeover = Takeover {
        from: Bench::fence().owner,
        to: owner.clone(),
        delegations: vec![delegation.clone()],
        at: Timestamp(2),
        pulses: Vec::new(),
    };
    let taken = store.take_over(takeover).await.expect("it is dead");
    Fence { owner, epoch: taken[0].1 }
}

fn line() -> Arc<dyn Line> {
    FakeLine::new()
}

/// Runs the child until the model call of that number is under way, drops it, and lets another owner go on.
async fn cut_off_at(held: usize) -> (Report, usize, usize) {
    let (delegator, server) = (FakeDelegator::new().await, server(Some(held)));
    let look = FakeTool::look("look", "seen");
    let first = assignment(&delegator).await;
    let gate = server.gate("held");
    let reached = tokio::task::spawn_blocking(move || {
        gate.wait_reached();
        gate
    });
    let store = &delegator.store;
    let gate = tokio::select! {
        report = worker(store, &server, &look).work(first.clone(), line()) => panic!("it ended: {report:?}"),
        gate = reached => gate.expect("the gate is reached"),
    };
    gate.open();
    let second = Assignment { attempt: 2, fence: taken_over(store, &first.delegation).await, ..first };
    let report = worker(store, &server, &look).work(second, line()).await.expect("it is recorded");
    let log = server.log();
    assert_eq!(log.violations(), [] as [&_; 0], "{}", log.summary());
    (report, log.entries().len(), look.calls())
}

#[tokio::test]
async fn k02_a_child_whose_owner_died_in_any_model_call_costs_at_most_one_request_more() {
    let (delegator, server) = (FakeDelegator::new().await, server(None));
    let look = FakeTool::look("look", "seen");
    let first = assignment(&delegator).await;
    let undisturbed =
        worker(&delegator.store, &server, &look).work(first, line()).await.expect("it is recorded");
    assert_eq!((server.log().entries().len(), look.calls()), (3, 3));
    for held in 0..3 {
        let (report, requests, looks) = cut_off_at(held).await;
        assert_eq!((report.ending, report.answer.as_deref()), (Ending::Answered, Some("It is blue.")));
        assert_eq!((requests, looks), (4, 3), "cut off in call {held}");
        assert_eq!(report.usage, undisturbed.usage);
        assert_eq!(report.tool_trace, undisturbed.tool_trace);
    }
}

#[tokio::test]
async fn k02_a_later_attempt_without_a_journal_begins_anew() {
    let (delegator, server) = (FakeDelegator::new().await, server(None));
    let look = FakeTool::look("look", "seen");
    let again = Assignment { attempt: 2, ..assignment(&delegator).await };
    let report = worker(&delegator.store, &server, &look).work(again, line()).await.expect("it is recorded");
    assert_eq!((report.ending, server.log().entries().len()), (Ending::Answered, 3));
}

#[tokio::test]
async fn inv_30_a_late_owner_writes_nothing_more() {
    let (delegator, server) = (FakeDelegator::new().await, server(None));
    let look = FakeTool::look("look", "seen");
    let late = assignment(&delegator).await;
    taken_over(&delegator.store, &late.delegation).await;
    let report = worker(&delegator.store, &server, &look).work(late, line()).await.expect("it is recorded");
    assert!(report.error.is_some_and(|error| error.contains("no longer the owner")));
    assert_eq!((server.log().entries().len(), look.calls()), (0, 0));
}
