//! A store in trouble under the real worker: for a while, before or after the fact, and for too long.

use crate::fakes::{FakeDelegator, FakeLine, FakeModel, FakeTool, Say, call, rights, until};
use crate::worker_resume::{assignment, taken_over};
use legwork_agent::models::Model;
use legwork_agent::process::Shells;
use legwork_agent::tools::{Commands, Toolbox};
use legwork_agent::turn::TurnLimits;
use legwork_agent::worker::{LocalWorker, Pictures, WorkerParts};
use legwork_core::batch::{Isolation, Route};
use legwork_core::outcome::{Ending, FailureKind};
use legwork_core::ports::{Assignment, Facts, Line, RunEnd, Steps, Store, Unrecorded, Worker};
use legwork_core::pulse::Pulse;
use legwork_core::report::Report;
use legwork_core::step::{Actor, StepRecord};
use legwork_testkit::shaky::{Luck, ShakyStore};
use serde_json::json;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::time::Instant;

/// The commits of a child that looks, changes something and answers.
const WRITES: usize = 6;
/// How long the store may be in trouble here.
const TROUBLE_MAX: Duration = Duration::from_secs(10);

/// A child, its store, and what it has used up.
struct Ground {
    delegator: FakeDelegator,
    shaky: Arc<ShakyStore>,
    assignment: Assignment,
    line: Arc<FakeLine>,
    look: Arc<FakeTool>,
    change: Arc<FakeTool>,
    trouble_max: Duration,
}

/// What the model says from its reply of that number on.
fn model(from: usize) -> Arc<FakeModel> {
    let says = [
        Say::Calls("I look.", vec![call("a", "look", json!({}))]),
        Say::Calls("I change it.", vec![call("b", "change", json!({"what": 1}))]),
        Say::Text("It is blue."),
    ];
    FakeModel::new(says.into_iter().skip(from))
}

impl Ground {
    async fn new() -> Ground {
        let delegator = FakeDelegator::new().await;
        let mut assignment = assignment(&delegator).await;
        assignment.setting.rights = rights(&["look", "change"]);
        let shaky = Arc::new(ShakyStore::new(Arc::clone(&delegator.store) as Arc<dyn Store>));
        let (look, change) = (FakeTool::look("look", "seen"), FakeTool::change("change", "did"));
        Ground { delegator, shaky, assignment, line: FakeLine::new(), look, change, trouble_max: TROUBLE_MAX }
    }

    /// The store fails for so many writes from that one on, each time in this way.
    fn fails(&self, (from, times): (usize, usize), luck: Luck) {
        let writes = AtomicUsize::new(0);
        self.shaky.let_decide(move |name| {
            let is_hit = name == "write_steps"
                && (from..from.saturating_add(times)).contains(&writes.fetch_add(1, Ordering::SeqCst));
            if is_hit { luck } else { Luck::Good }
        });
    }

    fn worker(&self, model: &Arc<FakeModel>) -> LocalWorker {
        let model = Arc::clone(model) as Arc<dyn Model>;
        let shells = Shells::new(std::env::vars_os()).expect("there is a shell");
        LocalWorker::new(WorkerParts {
            store: Arc::clone(&self.shaky) as Arc<dyn Steps>,
            facts: Arc::clone(&self.shaky) as Arc<dyn Facts>,
            models: Arc::new(move |_: &Route| Ok(Arc::clone(&model))),
            toolbox: Arc::new(Toolbox::new(vec![self.look.clone(), self.change.clone()])),
            commands: Commands::new(shells, Arc::clone(&self.shaky) as Arc<dyn Facts>),
            limits: TurnLimits { store_trouble_max: self.trouble_max, ..TurnLimits::default() },
            depth_max: 1,
            pictures: Pictures::ByModel,
            spill: "/nowhere".into(),
            diagnostics: "/nowhere".into(),
        })
    }

    async fn work(&self, model: &Arc<FakeModel>) -> Result<Report, Unrecorded> {
        self.worker(model).work(self.assignment.clone(), self.line()).await
    }

    fn line(&self) -> Arc<dyn Line> {
        Arc::clone(&self.line) as Arc<dyn Line>
    }

    /// Another process goes on with the child.
    async fn is_taken_over(&mut self) {
        self.assignment.fence = taken_over(&self.delegator.store, &self.assignment.delegation).await;
        self.assignment.attempt = 2;
    }

    async fn steps(&self) -> Vec<StepRecord> {
        let actor = Actor::Child(self.assignment.child.clone());
        self.delegator.store.steps(&actor).await.expect("memory can be read")
    }

    /// How often it was told that the store takes nothing.
    fn told(&self) -> usize {
        self.line.words().iter().filter(|word| word.contains("kept and offered again")).count()
    }

    fn effects(&self) -> (usize, usize) {
        (self.look.calls(), self.change.calls())
    }
}

/// Proves K35.
#[tokio::test(start_paused = true)]
async fn inv_28_a_store_that_fails_for_a_while_costs_a_child_nothing_but_time() {
    let undisturbed = Ground::new().await;
    let report = undisturbed.work(&model(0)).await.expect("it is recorded");
    assert_eq!((report.ending, undisturbed.told()), (Ending::Answered, 0));
    let steps = undisturbed.steps().await;
    for from in 0..WRITES {
        for (times, luck) in [(1, Luck::Fails), (4, Luck::Fails), (1, Luck::FailsLate), (5, Luck::FailsLate)]
        {
            let (ground, model) = (Ground::new().await, model(0));
            ground.fails((from, times), luck);
            let met = format!("write {from}, {times} times {luck:?}");
            assert_eq!(ground.work(&model).await.as_ref(), Ok(&report), "{met}");
            assert_eq!((model.calls(), ground.effects()), (3, (1, 1)), "{met}");
            assert_eq!(ground.steps().await, steps, "{met}");
            assert!(ground.told() == 1 || times == 5, "{met}: told {} times", ground.told());
        }
    }
}

/// What the model is asked and which tools run in two attempts, of which the first ends at the write of that number.
fn costs(lost: usize) -> (usize, (usize, usize)) {
    match lost {
        0 => (0, (1, 1)),
        // A reply that could not be stored is asked for again.
        1 => (1, (1, 1)),
        // So is a look; a change is in doubt and not made again.
        2 => (1, (2, 1)),
        3 => (2, (1, 1)),
        4 => (2, (1, 1)),
        _ => (3, (1, 1)),
    }
}

/// Proves K35.
#[tokio::test(start_paused = true)]
async fn inv_28_a_store_that_fails_for_too_long_leaves_the_child_to_the_next_owner() {
    for lost in 0..WRITES {
        let (mut ground, first) = (Ground::new().await, model(0));
        ground.fails((lost, usize::MAX), Luck::Fails);
        let begun = Instant::now();
        let ended = ground.work(&first).await;
        assert!(matches!(ended, Err(Unrecorded(_))), "write {lost}: {ended:?}");
        let waited = begun.elapsed();
        assert!(waited >= TROUBLE_MAX && waited < TROUBLE_MAX * 2, "write {lost}: {waited:?}");
        let stored = lost / 2;
        let told = ground.line.words().iter().filter(|word| word.starts_with("replied")).count();
        assert_eq!(told, stored, "what is not stored is not told");
        ground.shaky.recover();
        ground.is_taken_over().await;
        let second = model(stored);
        let report = ground.work(&second).await.expect("the store is back");
        assert_eq!((report.ending, report.answer.as_deref()), (Ending::Answered, Some("It is blue.")));
        let (asked, effects) = costs(lost);
        assert_eq!((first.calls(), second.calls()), (asked, 3 - stored), "write {lost}");
        assert_eq!(ground.effects(), effects, "write {lost}");
        assert_eq!(report.in_doubt.len(), usize::from(lost == 4), "write {lost}");
    }
}

/// Proves K35.
#[tokio::test(start_paused = true)]
async fn inv_11_a_stop_ends_a_child_that_waits_for_its_store_at_once() {
    for lost in 0..WRITES {
        let (ground, model) = (Ground::new().await, model(0));
        ground.fails((lost, usize::MAX), Luck::Fails);
        let begun = Instant::now();
        let (ended, ()) = tokio::join!(ground.work(&model), async {
            until(|| ground.told() > 0).await;
            ground.line.stop();
        });
        assert_eq!(ended.map(|report| report.ending), Ok(Ending::Interrupted), "write {lost}");
        assert!(begun.elapsed() < Duration::from_secs(1), "write {lost}");
    }
}

/// A write that failed after the fact and whose journal cannot be read at first either.
#[tokio::test(start_paused = true)]
async fn k35_whether_a_write_was_stored_is_asked_until_the_store_says_so() {
    let (ground, model) = (Ground::new().await, model(0));
    let (writes, reads) = (AtomicUsize::new(0), AtomicUsize::new(0));
    ground.shaky.let_decide(move |name| match name {
        "write_steps" if writes.fetch_add(1, Ordering::SeqCst) == 2 => Luck::FailsLate,
        "steps" if reads.fetch_add(1, Ordering::SeqCst) < 3 => Luck::Fails,
        _other => Luck::Good,
    });
    let report = ground.work(&model).await.expect("it is recorded");
    assert_eq!((report.ending, model.calls(), ground.effects()), (Ending::Answered, 3, (1, 1)));
    assert_eq!(ground.told(), 1);
}

/// An attempt that begins while what an earlier one recorded cannot be read.
#[tokio::test(start_paused = true)]
async fn k35_a_journal_that_cannot_be_read_for_a_while_is_waited_for() {
    let mut ground = Ground::new().await;
    ground.fails((2, usize::MAX), Luck::Fails);
    assert!(ground.work(&model(0)).await.is_err());
    ground.is_taken_over().await;
    ground.shaky.fail(&["steps"]);
    assert!(matches!(ground.work(&model(1)).await, Err(Unrecorded(_))), "for too long");
    let reads = AtomicUsize::new(0);
    ground.shaky.let_decide(move |name| match name {
        "steps" if reads.fetch_add(1, Ordering::SeqCst) < 3 => Luck::Fails,
        _other => Luck::Good,
    });
    let report = ground.work(&model(1)).await.expect("the store is back");
    assert_eq!(report.ending, Ending::Answered);
}

/// Time is not paused here, because git takes some.
#[tokio::test]
async fn wt_05_a_run_that_could_not_be_recorded_leaves_its_worktree_to_the_next_owner() {
    let repository = tempfile::tempdir().expect("a folder");
    let script = "git init -q && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m first";
    let made = Command::new("sh").args(["-c", script]).current_dir(repository.path()).status();
    assert!(made.expect("there is git").success());
    let mut ground = Ground { trouble_max: Duration::ZERO, ..Ground::new().await };
    ground.assignment.setting.isolation = Isolation::Worktree;
    ground.assignment.setting.folder = repository.path().display().to_string();
    ground.fails((2, usize::MAX), Luck::Fails);
    let worker = ground.worker(&model(0));
    let unrecorded = worker.work(ground.assignment.clone(), ground.line()).await.expect_err("it is not");
    let error = Some(unrecorded.to_string());
    let end = RunEnd {
        report: Report { error, ..Report::bare(Ending::Failed(FailureKind::Store)) },
        stop: None,
        pulse: Pulse::default(),
        ran: Duration::from_secs(1),
        limit: None,
    };
    worker.close(ground.assignment.clone(), end, ground.line()).await;
    ground.shaky.recover();
    ground.is_taken_over().await;
    let report = ground.work(&model(1)).await.expect("the store is back");
    assert_eq!((report.ending, report.error), (Ending::Answered, None));
}
