//! Stops that other processes ask for: they are rows of the store.

use crate::scene::{DEAD, Scene, options, owner, stopped, takeover};
use legwork_core::ids::{ChildId, RequestId, SessionId};
use legwork_core::outcome::{Force, Outcome, StopReason};
use legwork_core::ports::Facts;
use legwork_core::pulse::LineEvent;
use legwork_core::steering::{Request, Scope, Wish};
use legwork_core::time::Timestamp;
use legwork_engine::recovery::Orphans;
use legwork_testkit::memory::MemoryStore;
use legwork_testkit::shaky::ShakyStore;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// "Another process" asks for a stop.
async fn ask(store: &dyn Facts, number: u64, scope: Scope) {
    let wish = Wish::Stop { reason: StopReason::Cancelled, force: Force::Ask };
    let request = Request { id: RequestId::from_bits(number), at: Timestamp(0), scope, wish };
    store.ask(request).await.expect("the store takes a request");
}

#[tokio::test(start_paused = true)]
async fn k12_a_stop_from_another_process_arrives_within_half_a_second() {
    let scene = Scene::new(2).await;
    let ticket = scene.dispatch(&["until told", "until told"]).await;
    scene.troupe.until(|counts| counts.here.len() == 2).await;
    let asked = Instant::now();
    ask(scene.store.as_ref(), 1, Scope::Child(ticket.children[0].clone())).await;
    assert_eq!(scene.outcome(&ticket, &ticket.children[0]).await, Outcome::Stopped(StopReason::Cancelled));
    assert!(asked.elapsed() < Duration::from_millis(500), "{:?}", asked.elapsed());
    assert_eq!(scene.troupe.counts().here.len(), 1, "its sibling goes on");
    scene.pass(Duration::from_secs(1)).await;
    assert_eq!(
        scene.store.news(0).await.map(|news| news.requests),
        Ok(Vec::new()),
        "the request is marked as carried out"
    );
    scene.troupe.say("told");
    scene.joined(&ticket).await;
}

#[tokio::test(start_paused = true)]
async fn a_request_for_work_of_somebody_else_is_left_to_them() {
    let scene = Scene::new(1).await;
    let ticket = scene.dispatch(&["until told"]).await;
    let other = ChildId::from_bits(0, 0xffff);
    ask(scene.store.as_ref(), 1, Scope::Child(other)).await;
    scene.pass(Duration::from_secs(2)).await;
    assert_eq!(scene.store.news(0).await.expect("it reads").requests.len(), 1);
    scene.troupe.say("told");
    scene.joined(&ticket).await;
    assert_eq!(scene.outcomes(&ticket).await, [Some(Outcome::Succeeded)]);
}

#[tokio::test(start_paused = true)]
async fn k13_a_stop_of_everything_does_not_reach_work_that_is_accepted_after_it() {
    let memory = MemoryStore::new();
    ask(&memory, 1, Scope::All).await;
    let scene = Scene::over(memory, 1, options(1)).await;
    let first = scene.dispatch(&["until begun"]).await;
    scene.troupe.until_here("until begun").await;
    scene.pass(Duration::from_secs(1)).await;
    scene.troupe.say("begun");
    scene.joined(&first).await;
    assert_eq!(scene.outcomes(&first).await, [Some(Outcome::Succeeded)], "it was asked of processes before");
    // The process is idle when somebody stops everything, and has new work a while later.
    ask(scene.store.as_ref(), 2, Scope::Session(SessionId::from_bits(7))).await;
    scene.pass(Duration::from_secs(1)).await;
    let ticket = scene.dispatch(&["until told"]).await;
    scene.troupe.until_here("until told").await;
    scene.pass(Duration::from_secs(2)).await;
    scene.troupe.say("told");
    scene.joined(&ticket).await;
    assert_eq!(scene.outcomes(&ticket).await, [Some(Outcome::Succeeded)]);
}

/// Proves REG-14, REG-18.
#[tokio::test(start_paused = true)]
async fn k12_a_stop_of_everything_reaches_every_process() {
    let memory = MemoryStore::new();
    let (one, two) =
        (Scene::over(memory.clone(), 1, options(1)).await, Scene::over(memory.clone(), 2, options(1)).await);
    let tickets = (one.dispatch(&["until told"]).await, two.dispatch(&["until told"]).await);
    one.troupe.until_here("until told").await;
    two.troupe.until_here("until told").await;
    ask(&memory, 1, Scope::All).await;
    one.joined(&tickets.0).await;
    two.joined(&tickets.1).await;
    assert_eq!(one.outcomes(&tickets.0).await, [stopped(StopReason::Cancelled)]);
    assert_eq!(two.outcomes(&tickets.1).await, [stopped(StopReason::Cancelled)]);
}

#[tokio::test(start_paused = true)]
async fn k34_a_late_owner_finds_out_by_its_pulses_and_keeps_the_rest_of_its_work() {
    let memory = MemoryStore::new();
    let scene = Scene::over(memory.clone(), 1, options(2)).await;
    let taken = scene.dispatch(&["until never"]).await;
    scene.troupe.until_here("until never").await;
    let heir = owner(2);
    memory.enter(heir.clone(), Timestamp(0)).await.expect("it enters");
    let taking = takeover((&scene.wiring.owner, &heir), &taken.delegation);
    memory.take_over(taking).await.expect("it takes over");
    let ours = scene.dispatch(&["until told"]).await;
    scene.troupe.until_here("until told").await;
    scene.troupe.line("until never").tell(LineEvent::ToolMoved);
    scene.troupe.line("until told").tell(LineEvent::ToolMoved);
    scene.pass(Duration::from_secs(2)).await;
    assert_eq!(scene.troupe.counts().here, ["until told"], "the run of the lost delegation is dropped");
    assert_eq!(scene.outcomes(&taken).await, [None], "what becomes of it is the heir's to say");
    assert!(scene.stored(&ours.delegation).await.children[0].pulse.is_some(), "other pulses are stored");
    ask(&memory, 1, Scope::Delegation(ours.delegation.clone())).await;
    scene.joined(&ours).await;
    assert_eq!(scene.outcomes(&ours).await, [stopped(StopReason::Cancelled)]);
}

/// Its row is all that the next owner would know of it.
#[tokio::test(start_paused = true)]
async fn k12_a_stop_from_another_process_is_marked_only_when_it_is_recorded() {
    let memory = MemoryStore::new();
    let shaky = Arc::new(ShakyStore::new(Arc::new(memory.clone())));
    let late = Scene::over_store(shaky.clone(), DEAD, options(1)).await;
    let ticket = late.dispatch(&["until told"]).await;
    late.troupe.until_here("until told").await;
    // The disk takes small things, and facts with whole reports no more.
    shaky.fail(&["append"]);
    ask(&memory, 1, Scope::Child(ticket.children[0].clone())).await;
    late.troupe.until(|counts| counts.here.is_empty()).await;
    late.pass(Duration::from_secs(10)).await;
    assert_eq!(memory.news(0).await.expect("it reads").requests.len(), 1, "it is not recorded");
    // The process dies of it.
    let heir = Scene::over(memory.clone(), 1, options(1)).await;
    heir.recover(&Orphans::All).await;
    heir.joined(&ticket).await;
    assert_eq!(heir.outcomes(&ticket).await, [stopped(StopReason::Cancelled)]);
    heir.pass(Duration::from_secs(1)).await;
    assert_eq!(memory.news(0).await.expect("it reads").requests, []);
}
