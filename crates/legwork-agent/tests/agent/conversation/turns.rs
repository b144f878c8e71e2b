//! What a person says: taken within limits, answered in order, each message by a turn of its own, stopped when asked.

use super::scene::{Machine, assert_legal, new_session, stored, texts};
use crate::fakes::{Dropped, FakeModel, Say, failure, route, until};
use legwork_agent::models::Model;
use legwork_agent::session::{MESSAGE_BYTES_MAX, OpenError, SayError, WAITING_MAX};
use legwork_core::batch::Route;
use legwork_core::ids::SessionId;
use legwork_core::message::Author;
use legwork_core::outcome::{Force, StopReason};
use legwork_core::ports::StopNotice;
use legwork_core::report::FailureReason;
use std::sync::Arc;

const NOTICE: StopNotice = StopNotice { reason: StopReason::Cancelled, force: Force::Ask };

#[tokio::test(start_paused = true)]
async fn dlv_05_messages_are_answered_in_order_each_by_a_turn_of_its_own() {
    let machine = Machine::new();
    let running = machine.start(1).await;
    let model = FakeModel::new([Say::Text("A."), Say::Text("B."), Say::Text("C.")]);
    let open = running.open(model.clone(), new_session(5)).await;
    for text in ["a", "b", "c"] {
        open.handle.say(text).expect("there is room");
    }
    open.handle.wait_idle().await;
    assert_eq!(
        open.words(),
        ["user a", "ended Answered", "user b", "ended Answered", "user c", "ended Answered", "idle"]
    );
    let history = machine.history(open.handle.session()).await;
    assert_eq!(texts(&history), ["a", "A.", "b", "B.", "c", "C."]);
    assert_legal(&history.into_iter().map(Arc::new).collect::<Vec<_>>());
    assert_eq!(model.calls(), 3, "waiting costs no call");
}

#[tokio::test(start_paused = true)]
async fn k17_what_cannot_be_taken_is_refused_in_words_and_nothing_is_lost() {
    let machine = Machine::new();
    let running = machine.start(1).await;
    let (hanging, _) = Dropped::new();
    let open = running.open(FakeModel::new([Say::Hang("a", hanging)]), new_session(5)).await;
    let refused = |text: String| open.handle.say(text).expect_err("it is refused");
    assert_eq!(refused(" \n".to_owned()), SayError::Blank);
    let bytes = MESSAGE_BYTES_MAX + 1;
    assert_eq!(refused("x".repeat(bytes)), SayError::TooLong { bytes, bytes_max: MESSAGE_BYTES_MAX });
    open.handle.say("first").expect("there is room");
    open.until(|events| !events.is_empty()).await;
    for number in 0..WAITING_MAX {
        open.handle.say(number.to_string()).expect("there is room");
    }
    assert_eq!(refused("one more".to_owned()), SayError::Full { waiting: WAITING_MAX });
    let handle = open.handle.clone();
    let farewell = open.close(StopReason::Shutdown).await;
    assert_eq!(farewell.unsaid.len(), WAITING_MAX);
    assert_eq!((farewell.unsaid[0].as_str(), farewell.lost), ("0", None));
    assert_eq!(handle.say("late"), Err(SayError::Closed));
}

#[tokio::test(start_paused = true)]
async fn k13_a_stop_ends_the_turn_and_the_messages_that_wait_are_answered() {
    let machine = Machine::new();
    let running = machine.start(1).await;
    let (hanging, is_dropped) = Dropped::new();
    let model = FakeModel::new([Say::Hang("Bl", hanging), Say::Text("B.")]);
    let open = running.open(model.clone(), new_session(5)).await;
    open.handle.stop_turn(NOTICE);
    open.handle.say("a").expect("there is room");
    open.handle.say("b").expect("there is room");
    until(|| model.calls() > 0).await;
    open.handle.stop_turn(NOTICE);
    open.handle.wait_idle().await;
    assert!(is_dropped());
    assert_eq!(open.words()[..3], ["user a", "ended Interrupted", "user b"]);
    let history = machine.history(open.handle.session()).await;
    assert_eq!(history.len(), 5);
    assert!(history[2].plain_text().contains("stopped on request"), "{}", history[2].plain_text());
    assert_eq!(history[4].plain_text(), "B.");
}

#[tokio::test(start_paused = true)]
async fn another_model_answers_from_the_next_turn_on() {
    let machine = Machine::new();
    let running = machine.start(1).await;
    let open = running.open(FakeModel::new([Say::Text("one")]), new_session(5)).await;
    open.ask("a").await;
    let other = FakeModel::new([Say::Text("two")]);
    let route = Route { model: "other/model".to_owned(), ..route() };
    open.handle.set_model(other.clone() as Arc<dyn Model>, route);
    open.ask("b").await;
    assert_eq!(other.calls(), 1);
    assert_eq!(texts(&machine.history(open.handle.session()).await), ["a", "one", "b", "two"]);
}

#[tokio::test(start_paused = true)]
async fn inv_25_a_refused_key_ends_the_turn_and_the_conversation_goes_on() {
    let machine = Machine::new();
    let running = machine.start(1).await;
    let model = FakeModel::new([Say::Fail("", failure(FailureReason::Auth, "401")), Say::Text("both")]);
    let open = running.open(model.clone(), new_session(5)).await;
    open.ask("a").await;
    assert_eq!(open.words(), ["user a", "ended Failed(Model)", "idle"]);
    open.ask("b").await;
    let history = machine.history(open.handle.session()).await;
    assert_eq!(texts(&history), ["a", "b", "both"]);
}

#[tokio::test(start_paused = true)]
async fn inv_30_a_session_is_open_in_one_place_and_nobody_is_thrown_out_who_may_live() {
    let machine = Machine::new();
    let (first, second) = (machine.start(1).await, machine.start(2).await);
    let open = first.open(FakeModel::new([Say::Text("A.")]), new_session(5)).await;
    open.ask("a").await;
    let refused = |error: OpenError| match error {
        OpenError::Held { pid, is_alive, .. } => (pid, is_alive),
        other => panic!("{other}"),
    };
    let model = || FakeModel::new([]) as Arc<dyn Model>;
    let error = second.try_open(model(), stored(5)).await.err().expect("it is open elsewhere");
    assert!(error.to_string().contains("is open in the process 1;"), "{error}");
    assert_eq!(refused(error), (1, true));
    machine.processes.obscure(1);
    let error = second.try_open(model(), stored(5)).await.err().expect("it may live");
    assert_eq!(refused(error), (1, false));
    assert!(matches!(second.try_open(model(), stored(6)).await.err(), Some(OpenError::Unknown(_))));
    let handle = open.handle.clone();
    open.close(StopReason::SessionEnded).await;
    assert_eq!(handle.say("late"), Err(SayError::Closed));
    let error = second.try_open(model(), stored(5)).await.err().expect("it may still work for it");
    assert_eq!(refused(error), (1, false));
    first.close().await;
    let reopened = second.open(model(), stored(5)).await;
    let past: Vec<Author> = reopened.handle.past().iter().map(|message| message.author).collect();
    assert_eq!(past, [Author::System, Author::User, Author::Assistant]);
    reopened.handle.wait_idle().await;
    assert_eq!(reopened.words(), ["idle"]);
}

#[tokio::test(start_paused = true)]
async fn inv_30_a_dead_holder_is_replaced_and_one_that_wakes_up_late_writes_nothing() {
    let machine = Machine::new();
    let (first, second) = (machine.start(1).await, machine.start(2).await);
    let mut late = first.open(FakeModel::new([Say::Text("A.")]), new_session(5)).await;
    late.ask("a").await;
    machine.processes.die(1);
    let open = second.open(FakeModel::new([Say::Text("B.")]), stored(5)).await;
    late.handle.say("late").expect("it does not know yet");
    let farewell = late.ended().await;
    assert_eq!(farewell.unsaid, ["late"]);
    assert!(farewell.lost.is_some());
    open.ask("b").await;
    assert_eq!(texts(&machine.history(open.handle.session()).await), ["a", "A.", "b", "B."]);
}

#[tokio::test(start_paused = true)]
async fn a_session_in_which_nothing_was_said_leaves_no_trace() {
    let machine = Machine::new();
    let running = machine.start(1).await;
    let open = running.open(FakeModel::new([]), new_session(5)).await;
    open.close(StopReason::SessionEnded).await;
    assert_eq!(machine.store.session(&SessionId::from_bits(5)).await, Ok(None));
}
