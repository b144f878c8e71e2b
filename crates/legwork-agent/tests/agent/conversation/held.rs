//! Who holds a session while the process that had it open comes to its end: nobody else opens it before all of its work there
//! is over, and nothing that was taken for it comes in twice.

use super::scene::{Machine, Open, Running, delegation, new_session, stored, texts};
use crate::delegate_calls::OPTIONS;
use crate::fakes::{FakeModel, FakeTool, Say, call, rights};
use legwork_agent::session::{OpenError, SessionEvent, SessionSetup};
use legwork_agent::tools::{DelegateOptions, DelegateTool, Effect, Tool, Toolbox};
use legwork_core::batch::{Reach, Setting};
use legwork_core::ids::OwnerId;
use legwork_core::outcome::StopReason;
use legwork_core::ports::{Store, StoreError};
use legwork_engine::recovery::Orphans;
use legwork_testkit::shaky::{Luck, ShakyStore};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

async fn is_refused(running: &Running) -> bool {
    match running.try_open(FakeModel::new([]), stored(5)).await {
        Err(OpenError::Held { pid, .. }) => pid == 1,
        Err(error) => panic!("{error}"),
        Ok(_) => false,
    }
}

/// Its children are found in nobody's hand, and not in those of a process that does nothing with them any more.
#[tokio::test(start_paused = true)]
async fn k33_a_session_is_opened_elsewhere_once_nothing_of_it_runs_where_it_was_open() {
    let machine = Machine::new();
    let (running, next) = (machine.start(1).await, machine.start(2).await);
    let says = [Say::Calls("", vec![delegation("c", &["one"])]), Say::Text("Waiting.")];
    let open = running.open(FakeModel::new(says), new_session(5)).await;
    open.ask("a").await;
    machine.children.begun("one").await;
    open.close(StopReason::Shutdown).await;
    assert!(is_refused(&next).await, "its subagent still runs there");
    running.close().await;
    // The process may be there for a moment more: it is not dead.
    let open = next.open(FakeModel::new([Say::Text("One.")]), stored(5)).await;
    let recovered = next.engine().recover(&Orphans::OfSession(open.handle.session().clone())).await;
    assert_eq!(recovered.map(|recovered| recovered.resumed).expect("it can be taken over"), 1);
    machine.children.free("one");
    open.told("One.").await;
    open.handle.wait_idle().await;
    assert_eq!(texts(&machine.history(open.handle.session()).await)[4..], ["<one>", "One."]);
    assert_eq!(machine.deliveries().await, ["delivered"]);
}

fn setup(running: &Running, model: Arc<FakeModel>) -> SessionSetup {
    let door = DelegateTool::new(DelegateOptions { reach: Reach::Joined, ..OPTIONS });
    door.connect(Arc::new(running.engine()));
    let hang = FakeTool::new("hang", Effect::Changes, |_| Box::pin(std::future::pending()));
    let tools: Vec<Arc<dyn Tool>> = vec![Arc::new(door), hang];
    let setup = running.setup(model);
    SessionSetup {
        toolbox: Arc::new(Toolbox::new(tools)),
        setting: Setting { rights: rights(&["delegate_task", "hang"]), ..setup.setting.clone() },
        reach: Reach::Joined,
        ..setup
    }
}

/// A conversation in the middle of a reply: results of the first of its calls are there, and are not part of it yet.
async fn in_mid_exchange(machine: &Machine, running: &Running) -> Open {
    let calls = vec![delegation("c", &["one"]), call("h", "hang", json!({}))];
    let model = FakeModel::new([Say::Calls("", calls)]);
    let open = running.open_with(setup(running, model), new_session(5)).await.expect("it opens");
    open.handle.say("a").expect("there is room");
    machine.children.free("one");
    open.told("hang").await;
    assert_eq!(machine.deliveries().await, ["claimed"]);
    open
}

async fn finished_elsewhere(machine: &Machine, next: &Running) {
    let model = FakeModel::new([Say::Text("Both."), Say::Text("B.")]);
    let open = next.open_with(setup(next, model), stored(5)).await.expect("it opens");
    open.told("Both.").await;
    open.ask("b").await;
    let history = machine.history(open.handle.session()).await;
    assert_eq!(texts(&history), ["a", "[calls]", "[results]", "Both.", "b", "B."]);
    let said = format!("{history:?}").matches("did one").count();
    assert_eq!(said, 1, "the results came in once: {history:?}");
    assert_eq!(machine.deliveries().await, ["delivered"]);
}

#[tokio::test(start_paused = true)]
async fn inv_06_results_of_a_reply_that_was_cut_off_by_a_shutdown_come_in_once() {
    let machine = Machine::new();
    let running = machine.start(1).await;
    let open = in_mid_exchange(&machine, &running).await;
    open.close(StopReason::Shutdown).await;
    assert_eq!(machine.deliveries().await, ["ready"], "what was taken is given back");
    running.close().await;
    let next = machine.start(2).await;
    finished_elsewhere(&machine, &next).await;
}

/// They would come in once more, as soon as the other one gives them back or dies.
#[tokio::test(start_paused = true)]
async fn inv_06_a_session_is_not_opened_while_results_that_it_carries_are_in_other_living_hands() {
    let machine = Machine::new();
    let (running, next) = (machine.start(1).await, machine.start(2).await);
    let open = in_mid_exchange(&machine, &running).await;
    let session = open.handle.session().clone();
    drop(open);
    // As one that knows less of sessions than this one does.
    machine.store.release_session(&session, &OwnerId::from_bits(1)).await.expect("it can be given free");
    let model = FakeModel::new([]);
    match next.open_with(setup(&next, model), stored(5)).await {
        Err(OpenError::Store(StoreError::Conflict(why))) => assert!(why.contains("process 1"), "{why}"),
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("it was opened"),
    }
    let record = machine.store.session(&session).await.expect("readable").expect("it is there");
    assert_eq!(record.holder, None, "whoever cannot open it does not keep it");
    running.die();
    finished_elsewhere(&machine, &next).await;
}

/// As far as this process knows nothing was said.
#[tokio::test(start_paused = true)]
async fn inv_02_a_first_message_that_is_stored_although_that_failed_is_not_deleted_with_the_session() {
    let machine = Machine::new();
    let running = machine.start(1).await;
    let shaky = Arc::new(ShakyStore::new(Arc::clone(&machine.store)));
    let said = AtomicBool::new(false);
    shaky.let_decide(move |name| match name {
        "append_turn" if !said.swap(true, Ordering::SeqCst) => Luck::FailsLate,
        "session" | "history" | "steps" if said.load(Ordering::SeqCst) => Luck::Fails,
        _ => Luck::Good,
    });
    let setup = SessionSetup { store: shaky as Arc<dyn Store>, ..running.setup(FakeModel::new([])) };
    let open = running.open_with(setup, new_session(5)).await.expect("it opens");
    open.handle.say("a").expect("there is room");
    open.until(|events| matches!(events.last(), Some(SessionEvent::TryingAgain { .. }))).await;
    let farewell = open.close(StopReason::Shutdown).await;
    assert_eq!(farewell.unsaid, ["a"]);
    assert_eq!(texts(&machine.history(stored(5).id()).await), ["a"]);
}
