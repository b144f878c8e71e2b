//! The inbox of a conversation, asked directly: when it is idle, what it takes and what it turns away.

use super::scene::{Machine, Open, Running, delegation, new_session, stored, texts};
use crate::fakes::{Dropped, FakeModel, Say};
use futures::FutureExt;
use legwork_agent::session::SessionSetup;
use legwork_core::batch::Reach;
use legwork_core::ids::{ClaimId, OwnerId, SessionId};
use legwork_core::outcome::StopReason;
use legwork_core::ports::{Inbox, Offer, Receipt};
use legwork_core::time::Timestamp;
use std::sync::Arc;

/// A unit that is ready for session 5, which nobody has open.
async fn ready(machine: &Machine) -> Running {
    let running = machine.start(1).await;
    let says = [Say::Calls("", vec![delegation("c", &["one"])]), Say::Text("Waiting.")];
    let open = running.open(FakeModel::new(says), new_session(5)).await;
    open.ask("a").await;
    open.close(StopReason::SessionEnded).await;
    machine.children.free("one");
    machine.until_settled(0).await;
    running
}

/// The session opened without a courier.
async fn open(running: &Running, says: Vec<Say>) -> Open {
    let setup = SessionSetup { reach: Reach::Joined, ..running.setup(FakeModel::new(says)) };
    running.open_with(setup, stored(5)).await.expect("it opens")
}

async fn offer(machine: &Machine, session: u64) -> Offer {
    let record = machine.delegations().await.remove(0);
    let owner = OwnerId::from_bits(1);
    let claimant = format!("{owner} (pid 1)");
    let unit = record.accepted.units[0].id.clone();
    let claimed = machine.store.claim(&unit, ClaimId::from_bits(7), &claimant, Timestamp(0)).await;
    let claim = claimed.expect("it answers").expect("it is ready");
    Offer { session: SessionId::from_bits(session), claim, unit: 0, notice: None, record }
}

#[tokio::test(start_paused = true)]
async fn dlv_03_what_is_accepted_is_stored_with_the_end_of_its_claim() {
    let machine = Machine::new();
    let running = ready(&machine).await;
    let (hanging, _) = Dropped::new();
    let open = open(&running, vec![Say::Hang("thinking", hanging)]).await;
    assert!(open.handle.idle().await);
    assert_eq!(open.handle.offer(offer(&machine, 5).await).await, Receipt::Accepted);
    assert_eq!(machine.deliveries().await, ["delivered"]);
    assert_eq!(open.handle.idle().now_or_never(), None, "the turn runs");
    assert_eq!(texts(&machine.history(open.handle.session()).await)[4..], ["<one>"]);
}

#[tokio::test(start_paused = true)]
async fn dlv_02_a_busy_session_turns_a_completion_away() {
    let machine = Machine::new();
    let running = ready(&machine).await;
    let (hanging, _) = Dropped::new();
    let open = open(&running, vec![Say::Hang("thinking", hanging)]).await;
    open.handle.wait_idle().await;
    open.handle.say("b").expect("there is room");
    let offer = offer(&machine, 5).await;
    assert_eq!(open.handle.offer(offer.clone()).await, Receipt::Busy, "a message waits");
    open.told("thinking").await;
    assert_eq!(open.handle.offer(offer).now_or_never(), Some(Receipt::Busy), "a turn runs");
    assert_eq!(machine.deliveries().await, ["claimed"]);
}

#[tokio::test(start_paused = true)]
async fn inv_03_a_completion_that_cannot_be_written_is_turned_away_as_such() {
    let machine = Machine::new();
    let running = ready(&machine).await;
    let open = open(&running, vec![]).await;
    open.handle.wait_idle().await;
    let nobodys = Offer { notice: Some(99), ..offer(&machine, 5).await };
    assert_eq!(open.handle.offer(nobodys).await, Receipt::Unfit);
    assert_eq!(machine.history(open.handle.session()).await.len(), 5);
}

/// Proves DLV-4.
#[tokio::test(start_paused = true)]
async fn k07_a_completion_of_another_session_is_not_taken() {
    let machine = Machine::new();
    let running = ready(&machine).await;
    let open = open(&running, vec![]).await;
    open.handle.wait_idle().await;
    assert_eq!(open.handle.offer(offer(&machine, 6).await).await, Receipt::Gone);
    assert_eq!(machine.history(open.handle.session()).await.len(), 5);
}

/// Proves RECOV-8.
#[tokio::test(start_paused = true)]
async fn an_offer_that_is_dropped_is_not_taken() {
    let machine = Machine::new();
    let running = ready(&machine).await;
    let open = open(&running, vec![Say::Text("B.")]).await;
    open.handle.wait_idle().await;
    let offered = open.handle.offer(offer(&machine, 5).await).now_or_never();
    assert_eq!(offered, None, "it was not answered before it was dropped");
    open.ask("b").await;
    assert_eq!(machine.deliveries().await, ["claimed"]);
    assert_eq!(texts(&machine.history(open.handle.session()).await)[4..], ["b", "B."]);
}

#[tokio::test(start_paused = true)]
async fn a_closed_session_is_never_idle_again_and_takes_nothing() {
    let machine = Machine::new();
    let running = ready(&machine).await;
    let open = open(&running, vec![]).await;
    let inbox: Arc<dyn Inbox> = Arc::new(open.handle.clone());
    let waiting = open.handle.clone();
    let (idle, ()) =
        tokio::join!(async { waiting.idle().await }, open.handle.close(StopReason::SessionEnded));
    assert!(!idle || !inbox.idle().await);
    assert!(!inbox.idle().await);
    assert_eq!(inbox.offer(offer(&machine, 5).await).await, Receipt::Busy);
}
