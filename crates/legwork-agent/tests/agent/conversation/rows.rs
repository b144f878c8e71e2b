//! Results of a session that could not be woken when it asked for them, in a conversation that can be (MODE-6).

use super::scene::{Machine, Open, Running, delegation, new_session, stored, texts};
use crate::fakes::{FakeModel, Say};
use legwork_agent::session::{SessionEvent, SessionSetup};
use legwork_core::batch::Reach;
use legwork_core::ids::OwnerId;
use legwork_core::outcome::StopReason;
use legwork_core::ports::Store;
use legwork_testkit::shaky::{Luck, ShakyStore};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A session whose clients read their results with their next turn has delegated this, and was closed.
async fn asked(running: &Running, goals: &[&str]) {
    let calls = goals.iter().map(|goal| delegation(goal, &[goal])).collect();
    let says = [Say::Calls("", calls), Say::Text("Waiting.")];
    let setup = SessionSetup { reach: Reach::History, ..running.setup(FakeModel::new(says)) };
    let open = running.open_with(setup, new_session(5)).await.expect("it opens");
    open.ask("a").await;
    open.close(StopReason::SessionEnded).await;
}

/// They settle one after the other.
async fn settled(machine: &Machine, goals: &[&str]) {
    for (place, goal) in goals.iter().enumerate() {
        machine.children.free(goal);
        machine.until_settled(place).await;
    }
}

async fn opened(running: &Running, says: Vec<Say>) -> Open {
    running.open(FakeModel::new(says), stored(5)).await
}

/// Proves MODE-6, DLV-14: a stored row for the next turn of a client, and no turn of its own.
#[tokio::test(start_paused = true)]
async fn mode_06_what_wakes_nobody_comes_in_with_the_next_message_and_not_before() {
    let machine = Machine::new();
    let running = machine.start(1).await;
    asked(&running, &["one", "two"]).await;
    let open = opened(&running, vec![Say::Text("Both."), Say::Text("Nothing new.")]).await;
    settled(&machine, &["one", "two"]).await;
    // Deadline: paused time passes, longer than any gap between two looks.
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(machine.deliveries().await, ["ready", "ready"], "nobody is woken");
    open.ask("b").await;
    assert_eq!(machine.deliveries().await, ["delivered", "delivered"]);
    open.ask("c").await;
    let history = machine.history(open.handle.session()).await;
    let expected = ["<one>", "<two>", "b", "Both.", "c", "Nothing new."];
    assert_eq!(texts(&history)[4..], expected);
    let words: Vec<String> = open.words().into_iter().filter(|word| !word.starts_with("idle")).collect();
    let rows = ["row Subagent: Completed · one", "row Subagent: Completed · two", "user b"];
    assert_eq!(words[..3], rows, "they are told before the turn that answers them");
}

#[tokio::test(start_paused = true)]
async fn inv_06_rows_whose_message_could_not_be_stored_come_in_once() {
    for luck in [Luck::Fails, Luck::FailsLate] {
        let machine = Machine::new();
        let running = machine.start(1).await;
        asked(&running, &["one"]).await;
        settled(&machine, &["one"]).await;
        let shaky = Arc::new(ShakyStore::new(Arc::clone(&machine.store) as Arc<dyn Store>));
        let armed = AtomicBool::new(true);
        shaky.let_decide(move |name| {
            let is_hit = name == "append_turn" && armed.swap(false, Ordering::SeqCst);
            if is_hit { luck } else { Luck::Good }
        });
        let setup = running.setup(FakeModel::new([Say::Text("It did one.")]));
        let setup = SessionSetup { store: shaky as Arc<dyn Store>, ..setup };
        let open = running.open_with(setup, stored(5)).await.expect("it opens");
        open.handle.say("b").expect("there is room");
        open.told("It did one.").await;
        open.handle.wait_idle().await;
        let history = machine.history(open.handle.session()).await;
        assert_eq!(texts(&history)[4..], ["<one>", "b", "It did one."], "{luck:?}");
        assert_eq!(machine.deliveries().await, ["delivered"], "{luck:?}");
    }
}

/// A conversation with a store of its own, and these answers.
async fn opened_over(machine: &Machine, running: &Running, says: Vec<Say>) -> (Open, Arc<ShakyStore>) {
    let shaky = Arc::new(ShakyStore::new(Arc::clone(&machine.store)));
    let setup = running.setup(FakeModel::new(says));
    let setup = SessionSetup { store: Arc::clone(&shaky) as Arc<dyn Store>, ..setup };
    (running.open_with(setup, stored(5)).await.expect("it opens"), shaky)
}

/// The next call with this name meets this luck, and later ones are carried out.
fn once(name: &'static str, luck: Luck) -> impl FnMut(&'static str) -> Luck + Send + 'static {
    let mut is_armed = true;
    move |called| if called == name && std::mem::take(&mut is_armed) { luck } else { Luck::Good }
}

fn is_put_off(events: &[SessionEvent]) -> bool {
    events.iter().any(|event| matches!(event, SessionEvent::TryingAgain { .. }))
}

fn rows_of(open: &Open) -> Vec<String> {
    open.words().into_iter().filter(|word| word.starts_with("row")).collect()
}

/// Proves DLV-14: a message that was stored although its store failed carries what was stored with it, and nothing else.
#[tokio::test(start_paused = true)]
async fn inv_06_a_row_that_came_after_its_message_was_stored_is_free_at_once_and_comes_with_the_next_one() {
    let machine = Machine::new();
    let running = machine.start(1).await;
    asked(&running, &["one", "two"]).await;
    settled(&machine, &["one"]).await;
    let (open, shaky) =
        opened_over(&machine, &running, vec![Say::Text("It did one."), Say::Text("And two.")]).await;
    shaky.let_decide(once("append_turn", Luck::FailsLate));
    open.handle.say("b").expect("there is room");
    open.until(is_put_off).await;
    machine.children.free("two");
    machine.until_settled(1).await;
    // The history cannot be read before the message is said again, and then it can.
    shaky.let_decide(once("session", Luck::Fails));
    open.told("It did one.").await;
    open.handle.wait_idle().await;
    let history = machine.history(open.handle.session()).await;
    assert_eq!(texts(&history)[4..], ["<one>", "b", "It did one."]);
    assert_eq!(
        machine.deliveries().await,
        ["delivered", "ready"],
        "nobody has what the message did not carry"
    );
    assert_eq!(
        rows_of(&open),
        ["row Subagent: Completed · one"],
        "what came in is told once, and nothing else"
    );
    open.ask("c").await;
    assert_eq!(machine.deliveries().await, ["delivered", "delivered"]);
    let history = machine.history(open.handle.session()).await;
    assert_eq!(texts(&history)[7..], ["<two>", "c", "And two."]);
    assert_eq!(rows_of(&open), ["row Subagent: Completed · one", "row Subagent: Completed · two"]);
}

#[tokio::test(start_paused = true)]
async fn inv_06_a_row_whose_claim_could_not_be_given_back_comes_in_with_the_next_try() {
    let machine = Machine::new();
    let running = machine.start(1).await;
    asked(&running, &["one"]).await;
    settled(&machine, &["one"]).await;
    let (open, shaky) = opened_over(&machine, &running, vec![Say::Text("It did one.")]).await;
    let (mut append, mut release) = (once("append_turn", Luck::Fails), once("release", Luck::Fails));
    shaky.let_decide(move |name| if name == "release" { release(name) } else { append(name) });
    open.handle.say("b").expect("there is room");
    open.told("It did one.").await;
    open.handle.wait_idle().await;
    let history = machine.history(open.handle.session()).await;
    assert_eq!(texts(&history)[4..], ["<one>", "b", "It did one."]);
    assert_eq!(machine.deliveries().await, ["delivered"]);
}

#[tokio::test(start_paused = true)]
async fn inv_06_a_row_whose_claim_was_made_although_it_failed_comes_in_with_the_next_message() {
    let machine = Machine::new();
    let running = machine.start(1).await;
    asked(&running, &["one"]).await;
    settled(&machine, &["one"]).await;
    let (open, shaky) = opened_over(&machine, &running, vec![Say::Text("B."), Say::Text("C.")]).await;
    shaky.let_decide(once("claim", Luck::FailsLate));
    open.ask("b").await;
    assert_eq!(machine.deliveries().await, ["ready"], "it is given back at once");
    open.ask("c").await;
    let history = machine.history(open.handle.session()).await;
    assert_eq!(texts(&history)[4..], ["b", "B.", "<one>", "c", "C."]);
    assert_eq!(machine.deliveries().await, ["delivered"]);
}

#[tokio::test(start_paused = true)]
async fn inv_30_who_has_lost_its_session_gives_the_rows_back_to_whoever_has_it_now() {
    let machine = Machine::new();
    let running = machine.start(1).await;
    asked(&running, &["one"]).await;
    settled(&machine, &["one"]).await;
    let mut open = opened(&running, vec![]).await;
    let _next = machine.start(2).await;
    let (one, two) = (OwnerId::from_bits(1), OwnerId::from_bits(2));
    machine.store.hold_session(open.handle.session(), &two, Some(&one)).await.expect("it is taken over");
    open.handle.say("b").expect("there is room");
    let farewell = open.ended().await;
    assert!(farewell.lost.is_some());
    assert_eq!(farewell.unsaid, ["b"]);
    assert_eq!(machine.deliveries().await, ["ready"]);
}
