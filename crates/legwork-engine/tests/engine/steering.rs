//! What is said to running children.

use crate::scene::{Scene, options, pushed};
use legwork_core::batch::Ticket;
use legwork_core::ids::{ChildId, RequestId, SessionId};
use legwork_core::outcome::{Force, StopReason};
use legwork_core::ports::{Delegator, Facts, SteerError};
use legwork_core::steering::{Fate, Scope};
use legwork_testkit::memory::MemoryStore;
use legwork_testkit::shaky::ShakyStore;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, advance};

async fn working(scene: &Scene) -> Ticket {
    let ticket = scene.handle.dispatch(pushed(7, &["until told"])).await.expect("it is accepted");
    scene.troupe.until_here("until told").await;
    ticket
}

async fn say(scene: &Scene, child: &ChildId, text: &str) -> Result<RequestId, SteerError> {
    scene.handle.steer(child, text.to_owned(), None).await
}

/// What the child with this goal would read now.
fn read(scene: &Scene, goal: &str) -> Vec<String> {
    scene.troupe.line(goal).steered().into_iter().map(|steer| steer.text).collect()
}

/// What the child reads, once there is something; and how long that took.
async fn reads(scene: &Scene, goal: &str) -> (Vec<String>, Duration) {
    let begun = Instant::now();
    loop {
        let texts = read(scene, goal);
        if !texts.is_empty() {
            return (texts, begun.elapsed());
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "nothing is read");
        advance(Duration::from_millis(10)).await;
        scene.handle.view(None).await;
    }
}

#[tokio::test(start_paused = true)]
async fn ctrl_06_a_text_reaches_the_child_at_once_and_once() {
    let scene = Scene::new(1).await;
    let ticket = working(&scene).await;
    scene.pass(Duration::from_millis(300)).await;
    let receipt = say(&scene, &ticket.children[0], "look into src only").await.expect("it is taken");
    // The dispatcher looks, and looks up again.
    for _ in 0..3 {
        scene.handle.view(None).await;
    }
    let steers = scene.troupe.line("until told").steered();
    assert_eq!(steers.len(), 1, "without a wait for the next round");
    assert_eq!((&steers[0].request, steers[0].text.as_str()), (&receipt, "look into src only"));
    scene.pass(Duration::from_secs(5)).await;
    assert_eq!(read(&scene, "until told"), Vec::<String>::new());
    let stored = scene.store.steers(&ticket.children[0]).await.expect("it reads").rows;
    assert_eq!(stored.iter().map(|record| &record.fate).collect::<Vec<_>>(), [&Fate::Open]);
}

#[tokio::test(start_paused = true)]
async fn ctrl_08_texts_come_in_the_order_in_which_they_were_said() {
    let scene = Scene::new(1).await;
    let ticket = working(&scene).await;
    let texts: Vec<String> = (0..20).map(|number| format!("text {number}")).collect();
    for text in &texts {
        say(&scene, &ticket.children[0], text).await.expect("it is taken");
    }
    scene.pass(Duration::from_secs(1)).await;
    assert_eq!(read(&scene, "until told"), texts);
}

#[tokio::test(start_paused = true)]
async fn k38_a_child_in_the_queue_reads_it_when_it_begins() {
    let scene = Scene::new(1).await;
    working(&scene).await;
    let queued = scene.handle.dispatch(pushed(7, &["until later"])).await.expect("it is accepted");
    say(&scene, &queued.children[0], "begin at the end").await.expect("it is taken");
    scene.pass(Duration::from_secs(1)).await;
    scene.troupe.say("told");
    scene.troupe.until_here("until later").await;
    assert_eq!(read(&scene, "until later"), ["begin at the end"]);
}

#[tokio::test(start_paused = true)]
async fn k38_a_text_from_another_process_arrives_within_half_a_second() {
    let memory = MemoryStore::new();
    let here = Scene::over(memory.clone(), 1, options(1)).await;
    let there = Scene::over(memory, 2, options(1)).await;
    let ticket = working(&here).await;
    here.pass(Duration::from_millis(300)).await;
    say(&there, &ticket.children[0], "hurry").await.expect("it is taken");
    let (texts, waited) = reads(&here, "until told").await;
    assert_eq!(texts, ["hurry"]);
    assert!(waited < Duration::from_millis(500), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn ctrl_03_a_text_that_says_nothing_or_too_much_is_refused_with_the_limit() {
    let scene = Scene::new(1).await;
    let ticket = working(&scene).await;
    let child = &ticket.children[0];
    assert_eq!(say(&scene, child, " \n\t").await, Err(SteerError::Blank));
    let bytes_max = 64 * 1024;
    say(&scene, child, &"x".repeat(bytes_max)).await.expect("it fits");
    let bytes = 1024 * 1024;
    assert_eq!(say(&scene, child, &"x".repeat(bytes)).await, Err(SteerError::TooLong { bytes, bytes_max }));
    let stored = scene.store.steers(child).await.expect("it reads").rows;
    assert_eq!(stored.len(), 1, "what is refused is not stored");
}

/// Proves SEC-8, SEC-12, DISP-2.
#[tokio::test(start_paused = true)]
async fn ctrl_04_unknown_finished_and_foreign_children_get_the_same_answer() {
    let scene = Scene::new(2).await;
    let ticket = working(&scene).await;
    let ended = scene.dispatch(&["answer"]).await;
    scene.joined(&ended).await;
    let child = &ticket.children[0];
    let beginning = ChildId::from_stored(child.as_str().split_at(6).0);
    let (ours, foreign) = (SessionId::from_bits(7), SessionId::from_bits(8));
    for (child, session) in [
        (child, Some(&foreign)),
        (&ended.children[0], Some(&ours)),
        (&ended.children[0], None),
        (&ChildId::from_bits(0, 0xffff), None),
        (&beginning, None),
        (&ChildId::from_stored(""), None),
    ] {
        let answer = scene.handle.steer(child, "hello".to_owned(), session).await;
        assert_eq!(answer, Err(SteerError::NotFound(child.clone())));
    }
    scene.handle.steer(child, "hello".to_owned(), Some(&ours)).await.expect("it is theirs");
}

#[tokio::test(start_paused = true)]
async fn k38_what_a_child_has_not_read_when_it_ends_is_missed_and_nothing_is_taken_after_that() {
    let scene = Scene::new(1).await;
    let ticket = working(&scene).await;
    let child = &ticket.children[0];
    say(&scene, child, "too late").await.expect("it is taken");
    scene.handle.stop(Scope::Child(child.clone()), StopReason::Cancelled, Force::Ask).await;
    let joined = scene.handle.join(&ticket.delegation).await.expect("it has settled");
    assert_eq!(joined.missed_by(child), ["too late"], "whoever joins gets it back");
    let stored = scene.store.steers(child).await.expect("it reads").rows;
    assert_eq!(stored.iter().map(|record| &record.fate).collect::<Vec<_>>(), [&Fate::Missed]);
    assert_eq!(say(&scene, child, "hello").await, Err(SteerError::NotFound(child.clone())));
}

/// Proves RUN-13: steering closes before the stop is heard, and that is known before it is stored.
#[tokio::test(start_paused = true)]
async fn ctrl_10_a_child_that_is_ending_takes_nothing_more() {
    let scene = Scene::new(1).await;
    let ticket = scene.dispatch(&["finish told"]).await;
    scene.troupe.until_here("finish told").await;
    let child = &ticket.children[0];
    say(&scene, child, "in time").await.expect("it is taken");
    scene.handle.stop(Scope::Child(child.clone()), StopReason::Cancelled, Force::Ask).await;
    assert_eq!(say(&scene, child, "too late").await, Err(SteerError::Ending(child.clone())));
    assert_eq!(
        scene.store.steers(child).await.expect("it reads").rows.len(),
        1,
        "what is refused is not stored"
    );
    scene.troupe.say("told");
    scene.joined(&ticket).await;
}

/// Another process knows it by what is stored.
#[tokio::test(start_paused = true)]
async fn ctrl_10_a_child_that_is_ending_elsewhere_takes_nothing_more() {
    let memory = MemoryStore::new();
    let here = Scene::over(memory.clone(), 1, options(1)).await;
    let there = Scene::over(memory, 2, options(1)).await;
    let ticket = here.dispatch(&["finish told"]).await;
    here.troupe.until_here("finish told").await;
    let child = &ticket.children[0];
    here.handle.stop(Scope::Child(child.clone()), StopReason::Cancelled, Force::Ask).await;
    assert_eq!(say(&there, child, "too late").await, Err(SteerError::Ending(child.clone())));
    assert_eq!(here.store.steers(child).await.expect("it reads").rows, [], "what is refused is not stored");
    here.troupe.say("told");
    here.joined(&ticket).await;
}

#[tokio::test(start_paused = true)]
async fn k35_a_child_that_reads_nothing_takes_so_many_texts_and_no_more() {
    let scene = Scene::new(1).await;
    let ticket = working(&scene).await;
    let child = &ticket.children[0];
    for number in 0..256 {
        say(&scene, child, &format!("text {number}")).await.expect("it is taken");
    }
    let full = say(&scene, child, "one more").await;
    assert_eq!(full, Err(SteerError::Full { child: child.clone(), waiting: 256, waiting_max: 256 }));
    assert_eq!(scene.store.steers(child).await.expect("it reads").rows.len(), 256);
}

#[tokio::test(start_paused = true)]
async fn k38_a_text_that_cannot_be_stored_was_not_said() {
    let shaky = Arc::new(ShakyStore::new(Arc::new(MemoryStore::new())));
    let scene = Scene::over_store(shaky.clone(), 1, options(1)).await;
    let ticket = working(&scene).await;
    for failing in [["ask"], ["find"], ["delegation"]] {
        shaky.let_decide(move |name| {
            use legwork_testkit::shaky::Luck;
            if failing.contains(&name) { Luck::Fails } else { Luck::Good }
        });
        let answer = say(&scene, &ticket.children[0], "hello").await;
        assert!(matches!(answer, Err(SteerError::Store(_))), "{answer:?}");
    }
    shaky.recover();
    scene.pass(Duration::from_secs(1)).await;
    assert_eq!(read(&scene, "until told"), Vec::<String>::new());
}

/// Proves DISP-2, BUILD-1.
#[tokio::test(start_paused = true)]
async fn ctrl_01_a_view_tells_whose_a_child_is_and_what_it_runs_with() {
    let scene = Scene::new(2).await;
    scene.dispatch(&["tree 1 1 told"]).await;
    scene.troupe.until_here("tree 1 0 told").await;
    let views = scene.handle.view(None).await;
    let parent = views.iter().find(|view| view.parent.is_none()).expect("one is the session's own");
    let below = views.iter().find(|view| view.parent.is_some()).expect("one is below it");
    assert_eq!(below.parent.as_ref(), Some(&parent.child));
    assert_eq!((&below.session, below.model.as_str()), (&SessionId::from_bits(7), "scripted/troupe"));
    assert_eq!(below.transcript, None);
    scene.troupe.say("told");
}
