//! How often the engine asks the store while nothing happens, and while the store fails.

use crate::desk::Desk;
use crate::scene::{Scene, options};
use legwork_core::ids::RequestId;
use legwork_core::outcome::{Force, Outcome, StopReason};
use legwork_core::ports::Facts;
use legwork_core::pulse::LineEvent;
use legwork_core::steering::{Request, Scope, Wish};
use legwork_core::time::Timestamp;
use legwork_testkit::memory::MemoryStore;
use legwork_testkit::shaky::ShakyStore;
use std::sync::Arc;
use std::time::Duration;

const MINUTE: Duration = Duration::from_secs(60);

async fn shaky_scene() -> (Scene, Arc<ShakyStore>) {
    let shaky = Arc::new(ShakyStore::new(Arc::new(MemoryStore::new())));
    (Scene::over_store(shaky.clone(), 1, options(2)).await, shaky)
}

fn count(calls: &[&str], name: &str) -> usize {
    calls.iter().filter(|call| **call == name).count()
}

#[tokio::test(start_paused = true)]
async fn k03_an_idle_session_costs_a_look_for_news_and_almost_none_for_results() {
    let (scene, shaky) = shaky_scene().await;
    let desk = Desk::new(7);
    scene.serve(&desk).await;
    let ticket = scene.dispatch(&["until told"]).await;
    scene.troupe.until_here("until told").await;
    scene.pass(Duration::from_secs(2)).await;
    shaky.take_calls();
    scene.pass(MINUTE).await;
    let calls = shaky.take_calls();
    assert!(count(&calls, "news") <= 305, "{}", count(&calls, "news"));
    assert!((55..=65).contains(&count(&calls, "due")), "{}", count(&calls, "due"));
    assert!(count(&calls, "renew") <= 19, "{}", count(&calls, "renew"));
    let known = ["news", "due", "renew"].map(|name| count(&calls, name));
    assert_eq!(calls.len(), known.iter().sum::<usize>(), "{calls:?}");
    scene.troupe.say("told");
    scene.joined(&ticket).await;
}

#[tokio::test(start_paused = true)]
async fn k35_a_store_that_cannot_be_read_is_asked_less_and_less_and_a_stop_is_heard_when_it_is_back() {
    let (scene, shaky) = shaky_scene().await;
    let ticket = scene.dispatch(&["until told"]).await;
    scene.troupe.until_here("until told").await;
    shaky.take_calls();
    shaky.fail(&["news"]);
    scene.pass(MINUTE).await;
    let looks = count(&shaky.take_calls(), "news");
    assert!((10..30).contains(&looks), "{looks} looks in a minute");
    shaky.recover();
    let wish = Wish::Stop { reason: StopReason::Cancelled, force: Force::Ask };
    let scope = Scope::Delegation(ticket.delegation.clone());
    let stop = Request { id: RequestId::from_bits(1), at: Timestamp(0), scope, wish };
    shaky.ask(stop).await.expect("the store takes it");
    scene.joined(&ticket).await;
    assert_eq!(scene.outcomes(&ticket).await, [Some(Outcome::Stopped(StopReason::Cancelled))]);
    shaky.take_calls();
    scene.pass(Duration::from_secs(10)).await;
    assert!(count(&shaky.take_calls(), "news") >= 45, "it is asked as often as before");
}

#[tokio::test(start_paused = true)]
async fn k35_a_store_that_takes_no_pulses_is_offered_them_less_and_less() {
    let (scene, shaky) = shaky_scene().await;
    let ticket = scene.dispatch(&["until told"]).await;
    scene.troupe.until_here("until told").await;
    shaky.fail(&["note_pulses"]);
    shaky.take_calls();
    for _ in 0..60 {
        scene.troupe.line("until told").tell(LineEvent::ToolMoved);
        scene.pass(Duration::from_secs(1)).await;
    }
    let calls = shaky.take_calls();
    assert!(count(&calls, "note_pulses") <= 20, "{}", count(&calls, "note_pulses"));
    assert!(count(&calls, "news") >= 250, "stops are looked for all the same");
    scene.troupe.say("told");
    scene.joined(&ticket).await;
}

#[tokio::test(start_paused = true)]
async fn k35_a_pulse_that_the_store_did_not_take_is_offered_again_also_when_nothing_moves_any_more() {
    let (scene, shaky) = shaky_scene().await;
    let ticket = scene.dispatch(&["until told"]).await;
    scene.troupe.until_here("until told").await;
    scene.pass(Duration::from_secs(2)).await;
    let beat = async || {
        let record = scene.stored(&ticket.delegation).await;
        record.children[0].pulse.as_ref().map(|(pulse, _)| pulse.beat).expect("a pulse is stored")
    };
    let before = beat().await;
    shaky.fail(&["note_pulses"]);
    scene.troupe.line("until told").tell(LineEvent::ToolMoved);
    scene.pass(Duration::from_secs(2)).await;
    assert_eq!(beat().await, before, "the store has not taken it");
    shaky.recover();
    scene.pass(MINUTE).await;
    assert_eq!(beat().await, before + 1);
    scene.troupe.say("told");
    scene.joined(&ticket).await;
}
