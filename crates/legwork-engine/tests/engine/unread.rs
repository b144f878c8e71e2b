//! What a child had asked for and had not read when it ended: it is told with the child's own results, to one reader.

use crate::desk::Desk;
use crate::scene::{DEAD, Scene, batch_from, options, owner, pushed};
use futures::FutureExt;
use legwork_core::batch::{NewBatch, Ticket};
use legwork_core::delivery::DeliveryState;
use legwork_core::ids::{CallKey, ChildId, ClaimId};
use legwork_core::outcome::{Force, StopReason};
use legwork_core::ports::{Delegator, Facts, Filter, Joined};
use legwork_core::steering::Scope;
use legwork_core::time::Timestamp;
use legwork_engine::recovery::Orphans;
use legwork_testkit::memory::MemoryStore;
use legwork_testkit::shaky::{Luck, ShakyStore};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// The child with this goal.
fn child(scene: &Scene, goal: &str) -> ChildId {
    let assignments = scene.troupe.assignments();
    let mut of_goal = assignments.into_iter().filter(|assignment| assignment.task.goal == goal);
    of_goal.next().expect("it is at work").child
}

/// A child that delegates to one that delegates to one that waits for a word; the one in the middle is told to end.
async fn middle_stopped() -> (Scene, Ticket) {
    let scene = Scene::over(MemoryStore::new(), 1, options(1)).await;
    let ticket = scene.dispatch(&["tree 1 2 word"]).await;
    scene.troupe.until_here("tree 1 0 word").await;
    let middle = Scope::Child(child(&scene, "tree 1 1 word"));
    scene.handle.stop(middle, StopReason::Cancelled, Force::Ask).await;
    scene.troupe.until(|counts| counts.here.is_empty()).await;
    scene.handle.settled(&ticket.delegation).await;
    (scene, ticket)
}

fn unread(joined: &Joined) -> Vec<ChildId> {
    joined.below.unread().into_iter().map(|(_, unread)| unread.subagent_id).collect()
}

/// The claim under which the results of the child with this goal are.
async fn claim(scene: &Scene, goal: &str) -> ClaimId {
    let id = child(scene, goal);
    let records = scene.store.delegations(Filter::Recent(10)).await.expect("the store can be read").rows;
    let home = records.iter().find(|record| record.accepted.children.contains(&id));
    match &home.expect("it was accepted").deliveries[0].state {
        DeliveryState::Claimed { claim, .. } => claim.clone(),
        state => panic!("nobody has claimed {goal}: {state:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn k01_what_nobody_had_read_below_is_told_with_the_results_above() {
    let (scene, ticket) = middle_stopped().await;
    let joined = scene.handle.join(&ticket.delegation).await.expect("it can be joined");
    assert_eq!(unread(&joined), [child(&scene, "tree 1 1 word"), child(&scene, "tree 1 0 word")]);
}

/// Proves INV-6: a child that was told of its own child has read what came with that.
#[tokio::test(start_paused = true)]
async fn inv_06_what_a_child_has_read_with_the_results_of_its_own_is_not_told_again() {
    let (scene, ticket) = middle_stopped().await;
    // The turn in which the uppermost one reads what it had asked for.
    let read = claim(&scene, "tree 1 1 word").await;
    scene.store.acknowledge(vec![read], Timestamp(0)).await.expect("the claim is current");
    let joined = scene.handle.join(&ticket.delegation).await.expect("it can be joined");
    assert_eq!(unread(&joined), []);
    assert!(joined.below.open().next().is_none());
}

/// Proves INV-6: whoever goes on with a child reads what an earlier owner of it, which lives, had taken for it and not stored.
#[tokio::test(start_paused = true)]
async fn inv_06_what_was_taken_for_a_child_that_is_left_to_another_process_can_be_taken_there() {
    let memory = MemoryStore::new();
    let scene = Scene::over(memory.clone(), 1, options(2)).await;
    let ticket = scene.dispatch(&["unrecorded told"]).await;
    scene.troupe.until_here("unrecorded told").await;
    let caller = scene.troupe.assignments().remove(0);
    let key = CallKey { caller: caller.child.to_string(), call: "call".to_owned() };
    let below = NewBatch { call_key: Some(key), ..batch_from(&caller, &["answer".to_owned()]) };
    let below = scene.handle.dispatch(below).await.expect("the call is accepted");
    let taken = scene.handle.join(&below.delegation).await.expect("it can be joined");
    assert_eq!(taken.claims.len(), 1);
    scene.troupe.say("told");
    scene.troupe.until(|counts| counts.here.is_empty()).await;
    scene.pass(Duration::from_secs(1)).await;
    let heir = Scene::over(memory, 2, options(2)).await;
    let recovered = heir.recover(&Orphans::All).await;
    assert_eq!(recovered.taken, [ticket.delegation], "the other process lives and has left it");
    let again = heir.handle.join(&below.delegation).await.expect("it can be joined");
    assert_eq!(again.claims.len(), 1, "{:?}", again.record.deliveries);
}

/// Proves INV-6: what is given back, or taken by somebody who dies of it, between the look of a caller and its claim is taken by
/// the caller all the same; otherwise it would read it and hear of it again.
#[tokio::test(start_paused = true)]
async fn inv_06_what_the_dead_move_between_a_look_and_a_claim_is_taken_all_the_same() {
    for moment in ["release", "claim"] {
        let memory = MemoryStore::new();
        let gone = Scene::over(memory.clone(), DEAD, options(1)).await;
        let ticket = gone.dispatch(&["answer"]).await;
        let taken = gone.handle.join(&ticket.delegation).await.expect("it can be joined").claims;
        let shaky = Arc::new(ShakyStore::new(Arc::new(memory.clone())));
        let scene = Scene::over_store(shaky.clone(), 2, options(1)).await;
        let (unit, mut is_first) = (ticket.units[0].id.clone(), true);
        shaky.let_decide(move |name| {
            if name == moment && std::mem::take(&mut is_first) {
                let moved = match moment {
                    "release" => memory.release(taken.clone(), Timestamp(0), "late").map(drop).now_or_never(),
                    _ => {
                        let late =
                            memory.claim(&unit, ClaimId::from_bits(1), &owner(DEAD).claimant(), Timestamp(0));
                        late.map(drop).now_or_never()
                    }
                };
                moved.expect("memory answers at once");
            }
            Luck::Good
        });
        let joined = scene.handle.join(&ticket.delegation).await.expect("it can be joined");
        assert_eq!(joined.claims.len(), 1, "{moment}: {:?}", joined.record.deliveries);
    }
}

/// Proves DISP-6 for results that were kept back: nobody waits for the next look when what is below has ended.
#[tokio::test(start_paused = true)]
async fn k03_what_was_kept_back_is_offered_at_once_when_what_is_below_has_ended() {
    let scene = Scene::over(MemoryStore::new(), 1, options(2)).await;
    let desk = Desk::new(7);
    scene.serve(&desk).await;
    let ticket = scene.handle.dispatch(pushed(7, &["until told"])).await.expect("the call is accepted");
    scene.troupe.until_here("until told").await;
    let caller = scene.troupe.assignments().remove(0);
    let key = CallKey { caller: caller.child.to_string(), call: "call".to_owned() };
    let below = NewBatch { call_key: Some(key), ..batch_from(&caller, &["finish done".to_owned()]) };
    scene.handle.dispatch(below).await.expect("the call is accepted");
    scene.troupe.until_here("finish done").await;
    let above = Scope::Child(ticket.children[0].clone());
    scene.handle.stop(above, StopReason::Cancelled, Force::Ask).await;
    scene.handle.settled(&ticket.delegation).await;
    scene.pass(Duration::from_secs(1)).await;
    assert_eq!(desk.offered(), [], "something below it is open");
    let told = Instant::now();
    scene.troupe.say("done");
    desk.until_offered(1).await;
    assert_eq!(told.elapsed(), Duration::ZERO, "nobody waited for a round");
}

/// Proves INV-6 for joins: whatever settles below after them would count as told with what they brought.
#[tokio::test(start_paused = true)]
async fn inv_06_a_join_waits_for_what_is_to_end_below() {
    for whole in ["a call", "a unit"] {
        let scene = Scene::over(MemoryStore::new(), 1, options(2)).await;
        let ticket = scene.dispatch(&["until told"]).await;
        scene.troupe.until_here("until told").await;
        let caller = scene.troupe.assignments().remove(0);
        let key = CallKey { caller: caller.child.to_string(), call: "call".to_owned() };
        let below = NewBatch { call_key: Some(key), ..batch_from(&caller, &["finish done".to_owned()]) };
        scene.handle.dispatch(below).await.expect("the call is accepted");
        scene.troupe.until_here("finish done").await;
        scene.handle.stop(Scope::Child(caller.child), StopReason::Cancelled, Force::Ask).await;
        scene.handle.settled(&ticket.delegation).await;
        let join = match whole {
            "a call" => scene.handle.join(&ticket.delegation),
            _ => scene.handle.join_unit(&ticket.delegation, &ticket.units[0].id),
        };
        let (joined, ()) = tokio::join!(join, async {
            scene.pass(Duration::from_secs(1)).await;
            scene.troupe.say("done");
        });
        let joined = joined.expect("it can be joined");
        assert_eq!(unread(&joined), [child(&scene, "finish done")], "{whole}");
    }
}
