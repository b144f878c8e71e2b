//! Completions: one turn each, when the session is idle, in the order in which they became ready, to the session that
//! asked and to no other.

use super::scene::{Machine, delegation, new_session, texts};
use crate::fakes::{Dropped, FakeModel, Say, until};
use legwork_core::child::ChildState;
use legwork_core::message::Author;
use legwork_core::outcome::{Force, Outcome, StopReason};
use legwork_core::ports::{Delegator, Filter, StopNotice};
use legwork_core::steering::Scope;

/// Proves EVT-17.
#[tokio::test(start_paused = true)]
async fn dlv_01_completions_come_one_by_one_in_the_order_in_which_they_became_ready() {
    let machine = Machine::new();
    let running = machine.start(1).await;
    let model = FakeModel::new([
        Say::Calls("", vec![delegation("c", &["one"]), delegation("d", &["two", "three"])]),
        Say::Text("Waiting."),
        Say::Text("Two and three."),
        Say::Text("One."),
    ]);
    let open = running.open(model.clone(), new_session(5)).await;
    open.ask("a").await;
    assert_eq!(model.calls(), 2, "waiting costs no call");
    machine.children.free("three");
    machine.children.free("two");
    open.told("Two and three.").await;
    machine.children.free("one");
    open.told("One.").await;
    open.handle.wait_idle().await;
    let history = machine.history(open.handle.session()).await;
    assert_eq!(
        texts(&history),
        ["a", "[calls]", "[results]", "Waiting.", "<two three>", "Two and three.", "<one>", "One."]
    );
    assert_eq!(history[5].author, Author::Completion);
    assert_eq!(machine.deliveries().await, ["delivered", "delivered"]);
    let shown = model.requests()[3].messages.last().expect("there is one").plain_text();
    assert!(shown.starts_with("[The result of a subagent: delegation deleg_"), "{shown}");
}

#[tokio::test(start_paused = true)]
async fn dlv_02_a_completion_never_enters_a_turn_that_runs_and_messages_go_first() {
    let machine = Machine::new();
    let running = machine.start(1).await;
    let (hanging, _) = Dropped::new();
    let model = FakeModel::new([
        Say::Calls("", vec![delegation("c", &["one"])]),
        Say::Text("Waiting."),
        Say::Hang("thinking", hanging),
        Say::Text("C."),
        Say::Text("One."),
    ]);
    let open = running.open(model.clone(), new_session(5)).await;
    open.ask("a").await;
    open.handle.say("b").expect("there is room");
    until(|| model.calls() >= 3).await;
    machine.children.free("one");
    machine.until_settled(0).await;
    open.handle.say("c").expect("there is room");
    assert_eq!(machine.deliveries().await, ["ready"]);
    open.handle.stop_turn(StopNotice { reason: StopReason::Cancelled, force: Force::Ask });
    open.told("One.").await;
    let texts = texts(&machine.history(open.handle.session()).await);
    assert_eq!(
        (texts[4].as_str(), &texts[6..]),
        ("b", ["c", "C.", "<one>", "One."].map(str::to_owned).as_slice())
    );
}

#[tokio::test(start_paused = true)]
async fn k07_a_completion_goes_to_the_session_that_asked_and_to_no_other() {
    let machine = Machine::new();
    let running = machine.start(1).await;
    let asks = FakeModel::new([
        Say::Calls("", vec![delegation("c", &["one"])]),
        Say::Text("Waiting."),
        Say::Text("One."),
    ]);
    let owner = running.open(asks, new_session(5)).await;
    let stranger = running.open(FakeModel::new([Say::Text("X.")]), new_session(6)).await;
    stranger.ask("x").await;
    owner.ask("a").await;
    machine.children.free("one");
    owner.told("One.").await;
    assert_eq!(texts(&machine.history(stranger.handle.session()).await), ["x", "X."]);
}

/// Proves DISP-9, KILL-6.
#[tokio::test(start_paused = true)]
async fn k13_turns_stops_of_turns_and_leaving_end_no_child() {
    let machine = Machine::new();
    let running = machine.start(1).await;
    let (hanging, _) = Dropped::new();
    let model = FakeModel::new([
        Say::Calls("", vec![delegation("c", &["one"])]),
        Say::Hang("thinking", hanging),
        Say::Text("B."),
    ]);
    let open = running.open(model.clone(), new_session(5)).await;
    open.handle.say("a").expect("there is room");
    until(|| model.calls() >= 2).await;
    open.handle.stop_turn(StopNotice { reason: StopReason::Cancelled, force: Force::Ask });
    open.ask("b").await;
    machine.children.begun("one").await;
    open.close(StopReason::SessionEnded).await;
    let views = running.engine().view(None).await;
    let states: Vec<ChildState> = views.iter().map(|view| view.state).collect();
    assert_eq!(states, [ChildState::Running { attempt: 1 }], "nobody has asked it to end");
    machine.children.free("one");
    machine.until_settled(0).await;
    assert_eq!(machine.deliveries().await, ["ready"], "it waits for its session");
    let records = machine.store.delegations(Filter::Recent(1)).await.expect("it reads").rows;
    assert_eq!(records[0].children[0].outcome(), Some(Outcome::Succeeded));
}

#[tokio::test(start_paused = true)]
async fn ctrl_05_what_is_stopped_comes_back_too() {
    let machine = Machine::new();
    let running = machine.start(1).await;
    let model = FakeModel::new([
        Say::Calls("", vec![delegation("c", &["one"])]),
        Say::Text("Waiting."),
        Say::Text("It was stopped."),
    ]);
    let open = running.open(model.clone(), new_session(5)).await;
    open.ask("a").await;
    machine.children.begun("one").await;
    let scope = Scope::Session(open.handle.session().clone());
    running.engine().stop(scope, StopReason::Cancelled, Force::Ask).await;
    open.told("It was stopped.").await;
    let shown = model.requests()[2].messages.last().expect("there is one").plain_text();
    assert!(shown.contains("✗ TASK 1/1: interrupted"), "{shown}");
    assert!(open.words().contains(&"completion Subagent: Cancelled · one".to_owned()));
}
