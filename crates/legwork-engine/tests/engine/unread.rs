//! What a child had asked for and had not read when it ended: it is told with the child's own results, to one reader.

use crate::scene::{Scene, options};
use legwork_core::batch::Ticket;
use legwork_core::delivery::DeliveryState;
use legwork_core::ids::{ChildId, ClaimId};
use legwork_core::outcome::{Force, StopReason};
use legwork_core::ports::{Delegator, Facts, Filter, Joined};
use legwork_core::steering::Scope;
use legwork_core::time::Timestamp;
use legwork_testkit::memory::MemoryStore;

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
    let records = scene.store.delegations(Filter::Recent(10)).await.expect("the store can be read");
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
