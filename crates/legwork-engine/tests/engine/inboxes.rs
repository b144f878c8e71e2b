//! Completions on their way to sessions.

use crate::desk::{Answer, Desk};
use crate::scene::{DEAD, Scene, batch_from, options, owner, pushed};
use legwork_core::batch::{NewBatch, Reach, Ticket};
use legwork_core::delivery::{DeliveryState, ParkReason};
use legwork_core::ids::{ClaimId, UnitId};
use legwork_core::ports::{Delegator, Facts, Receipt};
use legwork_core::time::Timestamp;
use legwork_testkit::memory::MemoryStore;
use legwork_testkit::shaky::{Luck, ShakyStore};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::time::{Instant, timeout};

const LONG: Duration = Duration::from_secs(90);

/// A call of session 7 that is accepted.
async fn call(scene: &Scene, goals: &[&str]) -> Ticket {
    scene.handle.dispatch(pushed(7, goals)).await.expect("the call is accepted")
}

/// A scene with so many slots whose session was offered the answer to its first call.
async fn offered(children_max: usize, desk: &Desk) -> (Scene, Ticket) {
    let scene = Scene::served(children_max, desk).await;
    let ticket = call(&scene, &["answer"]).await;
    desk.until_offered(1).await;
    (scene, ticket)
}

fn unit(ticket: &Ticket) -> UnitId {
    ticket.units[0].id.clone()
}

async fn delivery(scene: &Scene, ticket: &Ticket) -> DeliveryState {
    scene.stored(&ticket.delegation).await.deliveries[0].state.clone()
}

async fn settled(scene: &Scene, ticket: &Ticket) {
    scene.handle.settled(&ticket.delegation).await;
}

/// A scene over a store that can be told to fail, and that store.
async fn shaky_scene(memory: &MemoryStore) -> (Scene, Arc<ShakyStore>) {
    let shaky = Arc::new(ShakyStore::new(Arc::new(memory.clone())));
    (Scene::over_store(shaky.clone(), 1, options(2)).await, shaky)
}

/// Proves INV-3 for a bug in the courier, or below it: the session stays open and gets its results all the same.
#[tokio::test(start_paused = true)]
async fn inv_03_a_courier_that_panics_is_begun_again_and_brings_what_waits() {
    for call_name in ["due", "claim", "release"] {
        let (scene, shaky) = shaky_scene(&MemoryStore::new()).await;
        let desk = Desk::new(7);
        // It is offered twice, so that something is given back between.
        desk.answers(Answer::Receipt(Receipt::Busy));
        let panics = AtomicUsize::new(0);
        shaky.let_decide(move |name| {
            let is_hit = name == call_name && panics.fetch_add(1, Ordering::SeqCst) < 5;
            assert!(!is_hit, "a bug in {name}");
            Luck::Good
        });
        scene.serve(&desk).await;
        let ticket = call(&scene, &["answer"]).await;
        // Deadline: gaps grow, and this is longer than all of them together.
        let offered = timeout(LONG, desk.until_offered(2)).await;
        assert!(offered.is_ok(), "{call_name}: the courier is gone");
        shaky.recover();
        desk.stores(scene.store.as_ref()).await;
        assert_eq!(delivery(&scene, &ticket).await, DeliveryState::Delivered, "{call_name}");
    }
}

#[tokio::test(start_paused = true)]
async fn dlv_01_a_completion_waits_until_the_session_is_idle() {
    let desk = Desk::busy(7);
    let scene = Scene::served(1, &desk).await;
    let ticket = call(&scene, &["answer"]).await;
    settled(&scene, &ticket).await;
    scene.pass(LONG).await;
    assert_eq!(desk.offered(), []);
    assert_eq!(delivery(&scene, &ticket).await, DeliveryState::Ready { tries: 0 }, "nobody took it");
    desk.turn_ends();
    desk.until_offered(1).await;
    let offer = desk.last_offer();
    assert_eq!((offer.session, offer.unit), (desk.session.clone(), 0));
    assert!(offer.record.is_settled());
    desk.stores(scene.store.as_ref()).await;
    scene.pass(LONG).await;
    assert_eq!(desk.offered(), [unit(&ticket)]);
    assert_eq!(delivery(&scene, &ticket).await, DeliveryState::Delivered);
}

/// Proves DISP-6.
#[tokio::test(start_paused = true)]
async fn k03_an_idle_session_is_offered_the_last_answer_at_once_after_two_commits() {
    let (scene, shaky) = shaky_scene(&MemoryStore::new()).await;
    let desk = Desk::new(7);
    scene.serve(&desk).await;
    call(&scene, &["until told", "answer"]).await;
    scene.troupe.until(|counts| counts.here == ["until told"]).await;
    scene.pass(Duration::from_secs(1)).await;
    shaky.take_calls();
    let begun = Instant::now();
    scene.troupe.say("told");
    desk.until_offered(1).await;
    assert_eq!(begun.elapsed(), Duration::ZERO, "nobody waited for a round");
    let mut calls = shaky.take_calls();
    calls.retain(|name| *name != "news");
    assert_eq!(calls, ["append", "due", "delegation", "delegations", "claim"]);
}

#[tokio::test(start_paused = true)]
async fn dlv_01_completions_come_one_a_turn_in_the_order_in_which_they_became_ready() {
    let desk = Desk::busy(7);
    let scene = Scene::served(3, &desk).await;
    let mut tickets = Vec::new();
    for goal in ["until a", "until b", "until c"] {
        tickets.push(call(&scene, &[goal]).await);
        scene.troupe.until_here(goal).await;
    }
    for (word, place) in [("c", 2), ("a", 0), ("b", 1)] {
        scene.troupe.say(word);
        settled(&scene, &tickets[place]).await;
    }
    desk.turn_ends();
    for count in 1..=3 {
        desk.until_offered(count).await;
        scene.pass(Duration::from_secs(1)).await;
        assert_eq!(desk.offered().len(), count, "the next one waits for the turn to end");
        desk.stores(scene.store.as_ref()).await;
    }
    assert_eq!(desk.offered(), [2, 0, 1].map(|place| unit(&tickets[place])));
}

/// Proves DUR-15.
#[tokio::test(start_paused = true)]
async fn dlv_02_a_busy_session_keeps_the_order_and_gets_it_at_its_next_idle_moment() {
    let desk = Desk::new(7);
    desk.answers(Answer::Receipt(Receipt::Busy));
    let (scene, first) = offered(1, &desk).await;
    desk.turn_begins();
    let second = call(&scene, &["answer"]).await;
    settled(&scene, &second).await;
    scene.pass(LONG).await;
    assert_eq!(desk.offered(), [unit(&first)]);
    assert_eq!(delivery(&scene, &first).await, DeliveryState::Ready { tries: 1 });
    let ledger = scene.stored(&first.delegation).await.deliveries[0].ledger.clone();
    let reason = ledger.last().and_then(|line| line.reason.clone()).expect("it says why");
    assert!(reason.contains("the session was busy"), "{reason}");
    let idle = Instant::now();
    desk.turn_ends();
    desk.until_offered(2).await;
    assert_eq!(idle.elapsed(), Duration::ZERO, "a long turn is gap enough");
    desk.stores(scene.store.as_ref()).await;
    desk.until_offered(3).await;
    assert_eq!(desk.offered(), [unit(&first), unit(&first), unit(&second)]);
}

/// Proves ROUTE-7, ROUTE-8, SEC-8.
#[tokio::test(start_paused = true)]
async fn k01_results_without_a_session_wait_untouched_and_arrive_when_it_opens() {
    let memory = MemoryStore::new();
    let scene = Scene::over(memory.clone(), 1, options(1)).await;
    let ticket = call(&scene, &["answer"]).await;
    settled(&scene, &ticket).await;
    let stranger = Desk::new(8);
    scene.serve(&stranger).await;
    scene.pass(LONG).await;
    assert_eq!(delivery(&scene, &ticket).await, DeliveryState::Ready { tries: 0 });
    scene.engine.close().await;
    for n in 2..12 {
        let scene = Scene::over(memory.clone(), n, options(1)).await;
        scene.serve(&stranger).await;
        scene.pass(Duration::from_secs(1)).await;
        assert_eq!(delivery(&scene, &ticket).await, DeliveryState::Ready { tries: 0 });
        scene.engine.close().await;
    }
    assert_eq!(stranger.offered(), [], "an empty or foreign session matches nothing");
    let scene = Scene::over(memory, 12, options(1)).await;
    let desk = Desk::new(7);
    scene.serve(&desk).await;
    desk.until_offered(1).await;
    assert_eq!(desk.offered(), [unit(&ticket)]);
}

/// Proves DLV-4.
#[tokio::test(start_paused = true)]
async fn k07_each_session_gets_its_own() {
    let scene = Scene::new(4).await;
    let desks = [Desk::new(1), Desk::new(2), Desk::new(3)];
    let mut tickets = Vec::new();
    for (desk, session) in desks.iter().zip(1..) {
        scene.serve(desk).await;
        tickets.push(scene.handle.dispatch(pushed(session, &["answer"])).await.expect("it is accepted"));
    }
    for (desk, ticket) in desks.iter().zip(&tickets) {
        desk.until_offered(1).await;
        assert_eq!(desk.offered(), [unit(ticket)]);
    }
}

/// Proves DLV-9.
#[tokio::test(start_paused = true)]
async fn k01_a_session_that_is_gone_parks_the_result_and_gets_it_when_it_is_back() {
    let desk = Desk::new(7);
    desk.answers(Answer::Receipt(Receipt::Gone));
    let (scene, ticket) = offered(1, &desk).await;
    scene.pass(LONG).await;
    assert_eq!(delivery(&scene, &ticket).await, DeliveryState::Parked(ParkReason::SessionGone));
    assert_eq!(desk.offered().len(), 1);
    scene.serve(&desk).await;
    desk.until_offered(2).await;
    desk.stores(scene.store.as_ref()).await;
    assert_eq!(delivery(&scene, &ticket).await, DeliveryState::Delivered);
}

#[tokio::test(start_paused = true)]
async fn k01_whatever_it_was_parked_for_a_session_that_is_open_gets_it() {
    for reason in [ParkReason::NoConversation, ParkReason::WriteFailed, ParkReason::SessionGone] {
        let scene = Scene::new(1).await;
        let ticket = call(&scene, &["answer"]).await;
        settled(&scene, &ticket).await;
        let claim = ClaimId::from_bits(1);
        let taker = owner(1).claimant();
        scene.store.claim(&unit(&ticket), claim.clone(), &taker, Timestamp(0)).await.expect("it is ready");
        scene.store.park(vec![claim], Timestamp(0), reason).await.expect("it is claimed");
        let desk = Desk::new(7);
        scene.serve(&desk).await;
        desk.until_offered(1).await;
    }
}

#[tokio::test(start_paused = true)]
async fn k02_what_a_dead_holder_of_the_session_had_claimed_is_offered_again() {
    let scene = Scene::new(1).await;
    let ticket = call(&scene, &["answer"]).await;
    settled(&scene, &ticket).await;
    scene.store.enter(owner(DEAD), Timestamp(0)).await.expect("it enters");
    let dead = owner(DEAD).claimant();
    let claim = scene.store.claim(&unit(&ticket), ClaimId::from_bits(1), &dead, Timestamp(0)).await;
    assert!(matches!(claim, Ok(Some(_))), "{claim:?}");
    let desk = Desk::new(7);
    scene.serve(&desk).await;
    desk.until_offered(1).await;
    assert_eq!(desk.offered(), [unit(&ticket)]);
}

/// Proves DUR-15: nothing is used up by many tries.
#[tokio::test(start_paused = true)]
async fn k06_a_turn_that_cannot_be_stored_brings_the_result_back_with_growing_gaps() {
    let desk = Desk::new(7);
    let (scene, first) = offered(2, &desk).await;
    let second = call(&scene, &["answer"]).await;
    settled(&scene, &second).await;
    let mut gaps = Vec::new();
    for count in 2..14 {
        desk.gives_back(scene.store.as_ref()).await;
        let back = Instant::now();
        desk.until_offered(count).await;
        gaps.push(back.elapsed());
    }
    assert_eq!(gaps[0], Duration::from_millis(100));
    assert!(gaps.is_sorted(), "{gaps:?}");
    assert_eq!(gaps.last(), Some(&Duration::from_secs(30)));
    assert!(desk.offered().iter().all(|offered| *offered == unit(&first)), "the second one waits its turn");
    desk.stores(scene.store.as_ref()).await;
    desk.until_offered(14).await;
    desk.gives_back(scene.store.as_ref()).await;
    let back = Instant::now();
    desk.until_offered(15).await;
    assert_eq!(back.elapsed(), Duration::from_millis(100), "gaps begin anew for the next one");
}

#[tokio::test(start_paused = true)]
async fn k06_a_claim_that_an_idle_session_sits_on_is_taken_back_after_a_minute() {
    let desk = Desk::new(7);
    let (scene, first) = offered(2, &desk).await;
    let second = call(&scene, &["answer"]).await;
    settled(&scene, &second).await;
    let idle = Instant::now();
    desk.turn_ends();
    desk.until_offered(2).await;
    let waited = idle.elapsed();
    assert!(waited > Duration::from_secs(40) && waited < Duration::from_secs(70), "{waited:?}");
    assert_eq!(desk.offered(), [unit(&first), unit(&first)], "nothing overtakes it");
    desk.stores(scene.store.as_ref()).await;
    desk.until_offered(3).await;
    assert_eq!(desk.offered()[2], unit(&second));
}

/// Proves RECOV-8: what is dropped with its session is ready again and offered to the next one.
#[tokio::test(start_paused = true)]
async fn k06_a_session_that_closes_keeps_no_claim() {
    let desk = Desk::new(7);
    let (scene, ticket) = offered(1, &desk).await;
    desk.closes();
    scene.pass(Duration::from_secs(1)).await;
    assert_eq!(delivery(&scene, &ticket).await, DeliveryState::Ready { tries: 1 });
    let desk = Desk::new(7);
    scene.serve(&desk).await;
    desk.until_offered(1).await;
}

#[tokio::test(start_paused = true)]
async fn k06_a_second_inbox_replaces_the_first() {
    let (first, second) = (Desk::new(7), Desk::new(7));
    first.answers(Answer::Hang);
    let (scene, ticket) = offered(1, &first).await;
    scene.serve(&second).await;
    second.until_offered(1).await;
    second.stores(scene.store.as_ref()).await;
    let next = call(&scene, &["answer"]).await;
    second.until_offered(2).await;
    assert_eq!((first.offered(), second.offered()), (vec![unit(&ticket)], vec![unit(&ticket), unit(&next)]));
}

#[tokio::test(start_paused = true)]
async fn k06_an_inbox_that_is_attached_while_the_old_one_closes_is_served() {
    let scene = Scene::new(1).await;
    for round in 0..20 {
        let (old, new) = (Desk::new(7), Desk::new(7));
        scene.serve(&old).await;
        scene.handle.view(None).await;
        old.closes();
        for _ in 0..round {
            tokio::task::yield_now().await;
        }
        scene.serve(&new).await;
        let ticket = call(&scene, &["answer"]).await;
        new.until_offered(1).await;
        new.stores(scene.store.as_ref()).await;
        assert_eq!(new.offered(), [unit(&ticket)]);
        new.closes();
    }
}

#[tokio::test(start_paused = true)]
async fn k11_an_inbox_that_panics_costs_one_try() {
    let desk = Desk::new(7);
    desk.answers(Answer::Panic);
    let scene = Scene::served(1, &desk).await;
    let ticket = call(&scene, &["answer"]).await;
    desk.until_offered(2).await;
    desk.stores(scene.store.as_ref()).await;
    assert_eq!(delivery(&scene, &ticket).await, DeliveryState::Delivered);
}

#[tokio::test(start_paused = true)]
async fn k33_an_engine_that_ends_waits_for_no_inbox_and_gives_the_claim_back() {
    let desk = Desk::new(7);
    desk.answers(Answer::Hang);
    let (Scene { store, engine, .. }, ticket) = offered(1, &desk).await;
    engine.close().await;
    let record = store.delegation(&ticket.delegation).await.expect("it reads").expect("it is stored");
    assert_eq!(record.deliveries[0].state, DeliveryState::Ready { tries: 1 });
}

/// Proves BUILD-30.
#[tokio::test(start_paused = true)]
async fn mode_01_what_a_child_delegates_is_joined_and_never_offered() {
    let desk = Desk::new(7);
    let scene = Scene::served(2, &desk).await;
    let parent = call(&scene, &["until told"]).await;
    scene.troupe.until_here("until told").await;
    let caller = scene.troupe.assignments().pop().expect("it is at work");
    let wish = NewBatch { reach: Reach::Push, ..batch_from(&caller, &["answer".to_owned()]) };
    let below = scene.handle.dispatch(wish).await.expect("it is accepted");
    let joined = scene.handle.join(&below.delegation).await.expect("it settles");
    assert_eq!(joined.claims.len(), 1, "the caller has it");
    assert_eq!(scene.stored(&below.delegation).await.accepted.reach, Reach::Joined);
    scene.pass(Duration::from_secs(60)).await;
    assert_eq!(desk.offered(), []);
    scene.troupe.say("told");
    desk.until_offered(1).await;
    assert_eq!(desk.offered(), [unit(&parent)]);
}

#[tokio::test(start_paused = true)]
async fn mode_06_a_session_that_cannot_be_woken_is_not() {
    let desk = Desk::new(7);
    let scene = Scene::served(2, &desk).await;
    for reach in [Reach::History, Reach::Joined] {
        let batch = NewBatch { reach, ..pushed(7, &["answer"]) };
        let ticket = scene.handle.dispatch(batch).await.expect("it is accepted");
        settled(&scene, &ticket).await;
    }
    scene.pass(LONG).await;
    assert_eq!(desk.offered(), []);
}

#[tokio::test(start_paused = true)]
async fn k03_what_another_process_settles_arrives_within_a_bound() {
    let memory = MemoryStore::new();
    let here = Scene::over(memory.clone(), 1, options(1)).await;
    let there = Scene::over(memory, 2, options(1)).await;
    let desk = Desk::new(7);
    here.serve(&desk).await;
    here.pass(Duration::from_secs(3)).await;
    let ticket = call(&there, &["answer"]).await;
    settled(&there, &ticket).await;
    let begun = Instant::now();
    desk.until_offered(1).await;
    assert!(begun.elapsed() <= Duration::from_secs(15), "{:?}", begun.elapsed());
}

/// The result arrives once, whatever the store does to the calls that bring it.
async fn arrives_in_spite_of(bad: fn(&str) -> Luck, failing: Duration) {
    let (scene, shaky) = shaky_scene(&MemoryStore::new()).await;
    let desk = Desk::new(7);
    scene.serve(&desk).await;
    scene.pass(Duration::from_secs(1)).await;
    shaky.let_decide(bad);
    let ticket = call(&scene, &["answer"]).await;
    settled(&scene, &ticket).await;
    scene.pass(failing).await;
    shaky.recover();
    desk.until_offered(1).await;
    desk.stores(&*shaky).await;
    scene.pass(LONG).await;
    assert_eq!(desk.offered(), [unit(&ticket)]);
    assert_eq!(delivery(&scene, &ticket).await, DeliveryState::Delivered);
}

#[tokio::test(start_paused = true)]
async fn k35_a_store_that_does_not_tell_what_is_ready_is_asked_again() {
    arrives_in_spite_of(|name| if name == "due" { Luck::Fails } else { Luck::Good }, LONG).await;
}

#[tokio::test(start_paused = true)]
async fn k35_a_claim_that_fails_is_made_again() {
    arrives_in_spite_of(|name| if name == "claim" { Luck::Fails } else { Luck::Good }, LONG).await;
}

#[tokio::test(start_paused = true)]
async fn k06_a_claim_that_was_made_although_it_failed_is_not_lost() {
    arrives_in_spite_of(|name| if name == "claim" { Luck::FailsLate } else { Luck::Good }, LONG).await;
}

#[tokio::test(start_paused = true)]
async fn k35_a_claim_that_can_be_neither_used_nor_given_back_is_given_back_later() {
    let bad = |name: &str| match name {
        "delegation" => Luck::Fails,
        "release" => Luck::FailsLate,
        _ => Luck::Good,
    };
    arrives_in_spite_of(bad, Duration::from_secs(5)).await;
    let worse = |name: &str| match name {
        "delegation" | "release" => Luck::Fails,
        _ => Luck::Good,
    };
    arrives_in_spite_of(worse, Duration::from_secs(5)).await;
}

#[tokio::test(start_paused = true)]
async fn k35_a_session_that_goes_while_the_store_fails_leaves_no_claim_behind() {
    let (scene, shaky) = shaky_scene(&MemoryStore::new()).await;
    let desk = Desk::new(7);
    desk.answers(Answer::Receipt(Receipt::Gone));
    scene.serve(&desk).await;
    shaky.fail(&["park", "release"]);
    let ticket = call(&scene, &["answer"]).await;
    desk.until_offered(1).await;
    scene.pass(Duration::from_secs(5)).await;
    shaky.recover();
    scene.pass(Duration::from_secs(40)).await;
    let state = delivery(&scene, &ticket).await;
    assert!(matches!(state, DeliveryState::Ready { .. }), "{state:?}");
}

/// It is tried again, with gaps of its own.
#[tokio::test(start_paused = true)]
async fn inv_03_results_that_cannot_become_a_message_keep_no_others_back() {
    let scene = Scene::new(3).await;
    let desk = Desk::busy(7);
    let [unfit, second, third] = [
        call(&scene, &["answer"]).await,
        call(&scene, &["answer"]).await,
        call(&scene, &["until told"]).await,
    ];
    settled(&scene, &unfit).await;
    settled(&scene, &second).await;
    for receipt in [Receipt::Unfit, Receipt::Accepted, Receipt::Unfit, Receipt::Unfit, Receipt::Accepted] {
        desk.answers(Answer::Receipt(receipt));
    }
    scene.serve(&desk).await;
    let begun = Instant::now();
    desk.turn_ends();
    desk.until_offered(2).await;
    assert_eq!(begun.elapsed(), Duration::ZERO, "those after it do not wait");
    desk.stores(scene.store.as_ref()).await;
    desk.until_offered(4).await;
    assert_eq!(desk.offered(), [&unfit, &second, &unfit, &unfit].map(unit));
    scene.troupe.say("told");
    settled(&scene, &third).await;
    let settled = Instant::now();
    desk.until_offered(5).await;
    assert_eq!(
        (desk.offered().pop(), settled.elapsed()),
        (Some(unit(&third)), Duration::ZERO),
        "nor do those that come later"
    );
    desk.stores(scene.store.as_ref()).await;
    desk.until_offered(6).await;
    desk.stores(scene.store.as_ref()).await;
    scene.pass(LONG).await;
    assert_eq!(desk.offered().pop(), Some(unit(&unfit)));
    for ticket in [&unfit, &second, &third] {
        assert_eq!(delivery(&scene, ticket).await, DeliveryState::Delivered);
    }
}

/// However many results wait, an offer reads a bounded part of them, and each arrives once, in order.
#[tokio::test(start_paused = true)]
async fn k03_k06_hundreds_of_results_arrive_once_in_order_and_none_is_read_again_for_each_of_the_others() {
    const WAITING: usize = 300;
    let memory = MemoryStore::new();
    let scene = Scene::over(memory.clone(), 1, options(4)).await;
    let mut expected = Vec::new();
    for _ in 0..WAITING {
        let ticket = call(&scene, &["answer"]).await;
        settled(&scene, &ticket).await;
        expected.push(unit(&ticket));
    }
    scene.engine.close().await;
    // Some are in the hands of others, as a process leaves them that dies while it prints them; some are parked.
    for (number, unit) in expected.iter().enumerate().filter(|(number, _)| number % 3 == 0) {
        memory.enter(owner(DEAD), Timestamp(0)).await.expect("it enters");
        let (claim, dead) = (ClaimId::from_bits(1 << 40 | number as u64), owner(DEAD).claimant());
        memory.claim(unit, claim.clone(), &dead, Timestamp(0)).await.expect("it is ready");
        if number % 2 == 0 {
            memory.park(vec![claim], Timestamp(0), ParkReason::SessionGone).await.expect("it is claimed");
        }
    }
    let shaky = Arc::new(ShakyStore::new(Arc::new(memory.clone())));
    let scene = Scene::over_store(shaky.clone(), 2, options(4)).await;
    let desk = Desk::new(7);
    scene.serve(&desk).await;
    shaky.take_read();
    for count in 1..=WAITING {
        desk.until_offered(count).await;
        desk.stores(scene.store.as_ref()).await;
    }
    scene.pass(LONG).await;
    assert_eq!(desk.offered(), expected);
    let read = shaky.take_read();
    assert!(read <= 40 * WAITING, "{read} rows were read for {WAITING} results");
    assert_eq!(memory.undelivered(&desk.session).await.map(|due| due.is_empty()), Ok(true));
}
