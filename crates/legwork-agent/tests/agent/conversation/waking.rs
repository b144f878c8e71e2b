//! A turn that failed in a way that may pass is tried again by itself (K03).

use super::scene::{Machine, delegation, new_session, stored, texts};
use crate::fakes::{FakeModel, Say, failure, until};
use legwork_agent::session::{SessionSetup, TRIES_MAX};
use legwork_core::batch::Reach;
use legwork_core::outcome::{Force, StopReason};
use legwork_core::ports::StopNotice;
use legwork_core::report::FailureReason;
use std::time::Duration;
use tokio::time::Instant;

fn throttled() -> Say {
    Say::Fail("", failure(FailureReason::RateLimit, "429"))
}

#[tokio::test(start_paused = true)]
async fn k03_a_wake_that_fails_is_repeated_and_the_completion_is_said_once() {
    let machine = Machine::new();
    let running = machine.start(1).await;
    let model = FakeModel::new([
        Say::Calls("", vec![delegation("c", &["one"])]),
        Say::Text("Waiting."),
        throttled(),
        throttled(),
        Say::Text("It did one."),
    ]);
    let open = running.open(model, new_session(5)).await;
    open.ask("a").await;
    let begun = Instant::now();
    machine.children.free("one");
    open.told("It did one.").await;
    open.handle.wait_idle().await;
    assert_eq!(begun.elapsed().as_secs(), 15, "5 s, then 10 s");
    assert_eq!(
        open.words()[3..],
        [
            "completion Subagent: Completed · one",
            "ended Failed(Model)",
            "again in 5 s after 1",
            "unanswered",
            "ended Failed(Model)",
            "again in 10 s after 2",
            "unanswered",
            "ended Answered",
            "idle"
        ]
    );
    let history = machine.history(open.handle.session()).await;
    assert_eq!(texts(&history), ["a", "[calls]", "[results]", "Waiting.", "<one>", "It did one."]);
    assert_eq!(machine.deliveries().await, ["delivered"]);
}

#[tokio::test(start_paused = true)]
async fn k03_the_next_message_goes_at_once_and_answers_both() {
    let machine = Machine::new();
    let running = machine.start(1).await;
    let model = FakeModel::new([throttled(), Say::Text("Both.")]);
    let open = running.open(model, new_session(5)).await;
    open.handle.say("a").expect("there is room");
    open.told("TryingAgain").await;
    let begun = Instant::now();
    open.ask("b").await;
    assert_eq!(begun.elapsed(), Duration::ZERO);
    assert_eq!(texts(&machine.history(open.handle.session()).await), ["a", "b", "Both."]);
}

/// A limit of use may last for hours.
#[tokio::test(start_paused = true)]
async fn k03_a_conversation_that_stays_open_tries_until_the_model_answers() {
    let machine = Machine::new();
    let running = machine.start(1).await;
    let hours = 12 * usize::try_from(TRIES_MAX).expect("it is small");
    let model = FakeModel::new((0..hours).map(|_| throttled()).chain([Say::Text("A.")]));
    let open = running.open(model.clone(), new_session(5)).await;
    let begun = Instant::now();
    open.ask("a").await;
    assert_eq!(model.calls(), hours + 1);
    assert!(begun.elapsed() > Duration::from_secs(9 * 3600), "{:?}", begun.elapsed());
    assert_eq!(texts(&machine.history(open.handle.session()).await), ["a", "A."]);
}

#[tokio::test(start_paused = true)]
async fn k03_tries_come_to_an_end_where_somebody_waits_for_it_and_reopening_tries_anew() {
    let machine = Machine::new();
    let running = machine.start(1).await;
    let tries = usize::try_from(TRIES_MAX).expect("it is small");
    let model = FakeModel::new((0..tries).map(|_| throttled()));
    let setup = SessionSetup { reach: Reach::Joined, ..running.setup(model.clone()) };
    let open = running.open_with(setup, new_session(5)).await.expect("it opens");
    open.ask("a").await;
    assert_eq!(model.calls(), tries);
    assert_eq!(open.words().last().map(String::as_str), Some("idle"));
    open.close(StopReason::SessionEnded).await;
    let again = running.open(FakeModel::new([Say::Text("A.")]), stored(5)).await;
    again.handle.wait_idle().await;
    assert_eq!(again.words(), ["unanswered", "ended Answered", "idle"]);
    assert_eq!(texts(&machine.history(again.handle.session()).await), ["a", "A."]);
}

#[tokio::test(start_paused = true)]
async fn a_stop_gives_a_try_up_for_good() {
    let machine = Machine::new();
    let running = machine.start(1).await;
    let open = running.open(FakeModel::new([throttled()]), new_session(5)).await;
    open.handle.say("a").expect("there is room");
    open.told("TryingAgain").await;
    let notice = StopNotice { reason: StopReason::Cancelled, force: Force::Ask };
    until(|| {
        let is_idle = open.words().last().is_some_and(|word| word == "idle");
        if !is_idle {
            open.handle.stop_turn(notice);
        }
        is_idle
    })
    .await;
    open.close(StopReason::SessionEnded).await;
    let again = running.open(FakeModel::new([]), stored(5)).await;
    again.handle.wait_idle().await;
    assert_eq!(again.words(), ["idle"]);
}

#[tokio::test(start_paused = true)]
async fn k03_no_other_completion_is_taken_while_one_is_to_be_tried_again() {
    let machine = Machine::new();
    let running = machine.start(1).await;
    let model = FakeModel::new([
        Say::Calls("", vec![delegation("c", &["one"]), delegation("d", &["two"])]),
        Say::Text("Waiting."),
        throttled(),
        Say::Text("One."),
        Say::Text("Two."),
    ]);
    let open = running.open(model, new_session(5)).await;
    open.ask("a").await;
    machine.children.free("one");
    open.told("TryingAgain").await;
    machine.children.free("two");
    open.told("Two.").await;
    let history = machine.history(open.handle.session()).await;
    assert_eq!(texts(&history)[4..], ["<one>", "One.", "<two>", "Two."]);
}
