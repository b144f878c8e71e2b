//! A store that has room for little: what it takes goes on as ever, what it does not take has a time of its own, and nothing that
//! was given up is begun again by whoever waits for it.

use crate::scene::{Scene, options, stopped};
use legwork_core::batch::Ticket;
use legwork_core::outcome::{Force, Outcome, StopReason};
use legwork_core::ports::{Delegator, JoinError, StoreError};
use legwork_core::steering::Scope;
use legwork_engine::Hold;
use legwork_testkit::memory::MemoryStore;
use legwork_testkit::shaky::{Call, Content, Luck, ShakyStore};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// There is no room for a long answer.
fn room_for_little(call: Call<'_>) -> Luck {
    let bytes = match call.content {
        Content::Facts(appends) => appends.iter().map(|append| format!("{:?}", append.facts).len()).sum(),
        Content::Steps(_) | Content::Turn(_) | Content::Other => 0_usize,
    };
    if bytes > 10_000 { Luck::NoRoom } else { Luck::Good }
}

#[tokio::test(start_paused = true)]
async fn k35_what_finds_no_room_holds_nothing_else_up_and_is_given_up_after_a_minute() {
    let shaky = Arc::new(ShakyStore::new(Arc::new(MemoryStore::new())));
    let scene = Scene::over_store(shaky.clone(), 1, options(4)).await;
    let large = scene.dispatch(&[&format!("until told {}", "x".repeat(20_000))]).await;
    let (small, unending) = (scene.dispatch(&["until told"]).await, scene.dispatch(&["until more"]).await);
    scene.troupe.until(|counts| counts.here.len() == 3).await;
    shaky.let_judge(room_for_little);
    let begun = Instant::now();
    let others = async {
        scene.handle.view(None).await;
        scene.troupe.say("told");
        scene.joined(&small).await;
        assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
        scene.pass(Duration::from_secs(30)).await;
        scene
            .handle
            .stop(Scope::Delegation(unending.delegation.clone()), StopReason::Cancelled, Force::Ask)
            .await;
        scene.joined(&unending).await;
        assert!(begun.elapsed() < Duration::from_secs(45), "{:?}", begun.elapsed());
        assert_eq!(scene.outcomes(&unending).await, [stopped(StopReason::Cancelled)]);
    };
    let (joined, ()) = tokio::join!(scene.handle.join(&large.delegation), others);
    assert!(matches!(&joined, Err(JoinError::GivenUp(why)) if why.contains("no space left")), "{joined:?}");
    let waited = begun.elapsed();
    assert!(waited >= Duration::from_secs(60) && waited < Duration::from_secs(70), "{waited:?}");
    assert_eq!(scene.outcomes(&large).await, [None], "left to the next owner");
    let next = scene.dispatch(&["answer"]).await;
    scene.joined(&next).await;
}

#[tokio::test(start_paused = true)]
async fn k35_the_minute_of_each_work_begins_with_its_own_first_refusal() {
    let scene = Scene::new(2).await;
    let (first, second) = (scene.dispatch(&["until told"]).await, scene.dispatch(&["until more"]).await);
    scene.troupe.until(|counts| counts.here.len() == 2).await;
    scene.store.fail(StoreError::Full("no space left on device".to_owned()));
    scene.troupe.say("told");
    scene.pass(Duration::from_secs(40)).await;
    scene.troupe.say("more");
    scene.pass(Duration::from_secs(30)).await;
    let hold = async |ticket: &Ticket| scene.handle.hold(&ticket.delegation).await.expect("the engine runs");
    assert!(matches!(hold(&first).await, Hold::GivenUp(_)));
    assert_eq!(hold(&second).await, Hold::InHand, "it waits for 30 s");
    scene.store.open();
    scene.joined(&second).await;
    assert_eq!(scene.outcomes(&second).await, [Some(Outcome::Succeeded)]);
}
