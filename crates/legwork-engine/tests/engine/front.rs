//! What the front doors ask of the engine: tickets, joins, watching.

use crate::scene::{Scene, batch, call_key, options, pushed};
use legwork_core::batch::{Completions, NewBatch};
use legwork_core::delivery::DeliveryState;
use legwork_core::ids::{DelegationId, SessionId};
use legwork_core::outcome::Outcome;
use legwork_core::ports::{
    Delegator, DispatchError, Facts, Filter, JoinError, LiveEvent, Refusal, StoreError,
};
use legwork_core::pulse::LineEvent;
use legwork_engine::{AtCapacity, Options};
use legwork_testkit::memory::MemoryStore;
use std::collections::BTreeSet;

fn keyed(goals: &[&str]) -> NewBatch {
    NewBatch { call_key: Some(call_key("call_1")), ..batch(goals) }
}

/// Proves DISP-6, DUR-17.
#[tokio::test(start_paused = true)]
async fn a_join_claims_each_unit_once_and_a_later_one_takes_the_claim_up() {
    let scene = Scene::new(2).await;
    let ticket = scene.dispatch(&["answer", "answer"]).await;
    let first = scene.handle.join(&ticket.delegation).await.expect("it settles");
    assert_eq!(first.claims.len(), 1);
    assert!(matches!(
        scene.stored(&ticket.delegation).await.deliveries[0].state,
        DeliveryState::Claimed { .. }
    ));
    let second = scene.handle.join(&ticket.delegation).await.expect("it has settled");
    assert_eq!(second.claims, first.claims);
    assert_eq!(second.record.children, first.record.children);
}

#[tokio::test(start_paused = true)]
async fn two_joins_at_once_make_one_claim() {
    let scene = Scene::new(2).await;
    let ticket = scene.dispatch(&["until told"]).await;
    scene.troupe.until_here("until told").await;
    let (first, second) = (scene.handle.join(&ticket.delegation), scene.handle.join(&ticket.delegation));
    scene.troupe.say("told");
    let (first, second) = tokio::join!(first, second);
    let [first, second] = [first, second].map(|joined| joined.expect("it settles").claims);
    let mut claims: Vec<_> = first.into_iter().chain(second).collect();
    claims.dedup();
    assert_eq!(claims.len(), 1, "{claims:?}");
}

#[tokio::test(start_paused = true)]
async fn a_join_of_nothing_known_says_so() {
    let scene = Scene::new(1).await;
    let nothing = DelegationId::from_bits(0xdead);
    assert_eq!(scene.handle.join(&nothing).await, Err(JoinError::Unknown(nothing.clone())));
}

#[tokio::test(start_paused = true)]
async fn k06_the_same_call_again_gets_the_first_ticket() {
    let scene = Scene::new(2).await;
    let first = scene.handle.dispatch(keyed(&["answer"])).await.expect("it is accepted");
    let again = scene.handle.dispatch(keyed(&["answer"])).await.expect("it is known");
    assert_eq!(again, first);
    scene.joined(&first).await;
    let after_the_end = scene.handle.dispatch(keyed(&["answer"])).await.expect("it is known");
    assert_eq!((after_the_end, scene.troupe.counts().came), (first, 1));
}

#[tokio::test(start_paused = true)]
async fn k06_the_same_call_twice_at_once_makes_one_set_of_children() {
    let scene = Scene::new(4).await;
    let calls = (scene.handle.dispatch(keyed(&["answer"])), scene.handle.dispatch(keyed(&["answer"])));
    let (first, second) = tokio::join!(calls.0, calls.1);
    let (first, second) = (first.expect("it is accepted"), second.expect("it is known"));
    assert_eq!(first, second);
    scene.joined(&first).await;
    assert_eq!(scene.troupe.counts().came, 1);
    assert_eq!(scene.handle.view(None).await, [], "the second set is gone");
}

#[tokio::test(start_paused = true)]
async fn k06_the_same_call_twice_at_once_takes_one_slot() {
    for at_capacity in [AtCapacity::Reject, AtCapacity::Queue] {
        let one = Options { at_capacity, queue_max: 0, ..options(1) };
        let scene = Scene::over(MemoryStore::new(), 1, one).await;
        // Neither is decided before both are there.
        scene.store.close();
        let calls =
            (scene.handle.dispatch(keyed(&["until told"])), scene.handle.dispatch(keyed(&["until told"])));
        let let_go = async {
            scene.store.until_arrived(1).await;
            scene.handle.view(None).await;
            scene.store.open();
        };
        let (first, second, ()) = tokio::join!(calls.0, calls.1, let_go);
        let first = first.expect("it is accepted");
        assert_eq!(second, Ok(first.clone()), "{at_capacity:?}");
        scene.troupe.until_here("until told").await;
        let again = scene.handle.dispatch(keyed(&["until told"])).await;
        assert_eq!(again, Ok(first.clone()));
        scene.troupe.say("told");
        scene.joined(&first).await;
        assert_eq!(scene.troupe.counts().came, 1);
    }
}

#[tokio::test(start_paused = true)]
async fn k06_whoever_repeats_a_call_that_cannot_be_recorded_hears_why_as_well() {
    let scene = Scene::new(1).await;
    scene.store.close();
    let calls = (scene.handle.dispatch(keyed(&["answer"])), scene.handle.dispatch(keyed(&["answer"])));
    let fail = async {
        scene.store.until_arrived(1).await;
        scene.handle.view(None).await;
        scene.store.fail(StoreError::Full("no space left on device".to_owned()));
    };
    let (first, second, ()) = tokio::join!(calls.0, calls.1, fail);
    for answer in [first, second] {
        assert!(matches!(&answer, Err(DispatchError::Store(why)) if why.contains("no space")), "{answer:?}");
    }
    let offered: BTreeSet<DelegationId> =
        scene.store.offered().into_iter().map(|append| append.delegation).collect();
    assert_eq!(offered.len(), 1, "it was one call");
    scene.store.open();
    let third = scene.handle.dispatch(keyed(&["answer"])).await.expect("it is a new one");
    scene.joined(&third).await;
}

/// Proves OUT-10.
#[tokio::test(start_paused = true)]
async fn k23_a_refusal_leaves_nothing_behind() {
    let scene = Scene::new(1).await;
    let empty = scene.handle.dispatch(batch(&[])).await;
    assert_eq!(empty, Err(DispatchError::Refused(Refusal::Empty)));
    scene.handle.pause().await.expect("the store takes it");
    let caller = batch(&[]).lineage;
    for goals in [&["answer"][..], &[]] {
        let paused = scene.handle.dispatch(batch(goals)).await;
        assert_eq!(
            paused,
            Err(DispatchError::Refused(Refusal::Paused)),
            "it comes before the tasks (TOOL-13)"
        );
        assert_eq!(scene.handle.objection(&caller).await, Some(Refusal::Paused));
    }
    assert_eq!(scene.store.offered(), []);
    scene.handle.resume().await.expect("the store takes it");
    assert_eq!(scene.handle.objection(&caller).await, None);
    let ticket = scene.dispatch(&["answer"]).await;
    scene.joined(&ticket).await;
}

#[tokio::test(start_paused = true)]
async fn k39_a_watcher_sees_starts_words_and_ends_in_order() {
    let scene = Scene::new(1).await;
    let mut watch = scene.handle.watch();
    let ticket = scene.dispatch(&["until told"]).await;
    scene.troupe.until_here("until told").await;
    scene.troupe.line("until told").tell(LineEvent::Note("hello".to_owned()));
    scene.troupe.say("told");
    scene.joined(&ticket).await;
    let child = &ticket.children[0];
    let Some(LiveEvent::Queued(who)) = watch.next().await else { panic!("it is queued first") };
    assert_eq!((&who.child, &who.delegation, who.goal.as_str()), (child, &ticket.delegation, "until told"));
    assert_eq!((who.task_index, who.task_count, who.unit_count, who.depth), (0, 1, 1, 1));
    assert_eq!((&who.parent, who.model.as_str()), (&None, "scripted/troupe"));
    assert_eq!(watch.next().await, Some(LiveEvent::Started { child: who.clone(), attempt: 1 }));
    let told = LiveEvent::Told { child: who.clone(), event: LineEvent::Note("hello".to_owned()) };
    assert_eq!(watch.next().await, Some(told));
    let settled = watch.next().await;
    let Some(LiveEvent::Settled { child, outcome: Outcome::Succeeded, facts, .. }) = settled else {
        panic!("it settles: {settled:?}")
    };
    assert_eq!((child, facts.answer.as_deref()), (who, Some("until told")));
}

#[tokio::test(start_paused = true)]
async fn k39_a_watcher_that_lags_is_told_how_many_it_lost() {
    let scene = Scene::new(1).await;
    let mut watch = scene.handle.watch();
    let ticket = scene.dispatch(&["until told"]).await;
    scene.troupe.until_here("until told").await;
    let line = scene.troupe.line("until told");
    (0..5000).for_each(|_| line.tell(LineEvent::ToolMoved));
    // That it was queued, its start, and all but the last 4096 words are gone.
    assert_eq!(watch.next().await, Some(LiveEvent::Lagged(906)));
    assert!(matches!(watch.next().await, Some(LiveEvent::Told { .. })));
    scene.troupe.say("told");
    scene.joined(&ticket).await;
}

#[tokio::test(start_paused = true)]
async fn k39_a_watch_ends_with_the_engine() {
    let scene = Scene::new(1).await;
    let mut watch = scene.handle.watch();
    scene.engine.close().await;
    assert_eq!(watch.next().await, None);
    assert_eq!(scene.handle.watch().next().await, None, "a watch that begins too late ends at once");
    assert_eq!(scene.handle.dispatch(batch(&["answer"])).await, Err(DispatchError::Closed));
}

/// It may be deleted at any moment before the commit, which is what notices.
#[tokio::test(start_paused = true)]
async fn k07_a_call_of_a_session_that_is_gone_is_refused_as_such_and_nothing_of_it_begins() {
    let scene = Scene::new(1).await;
    let refused = Err(DispatchError::NoSession(SessionId::from_bits(99)));
    assert_eq!(scene.handle.dispatch(pushed(99, &["until told"])).await, refused);
    assert_eq!(
        scene.handle.accept_for_another(pushed(99, &["until told"]), Completions::Together).await,
        refused
    );
    assert_eq!(scene.handle.view(None).await, []);
    assert_eq!(scene.store.delegations(Filter::Recent(9)).await.expect("it reads").rows, []);
    let later = scene.dispatch(&["answer"]).await;
    scene.joined(&later).await;
    assert_eq!(scene.troupe.counts().came, 1, "its slot is free");
}
