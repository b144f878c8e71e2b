//! What is still there of dead owners when somebody goes on with their work: commands that may run, processes that fork while they
//! are ended, and parts of trees.

use crate::scene::{DEAD, Scene, TICKS, batch_from, options, owner, takeover};
use legwork_core::batch::Ticket;
use legwork_core::outcome::Outcome;
use legwork_core::ports::{Delegator, Facts};
use legwork_core::pulse::LineEvent;
use legwork_core::record::ProcessGroup;
use legwork_core::step::Actor;
use legwork_core::time::Timestamp;
use legwork_engine::recovery::{Orphans, Recovered};
use legwork_testkit::memory::MemoryStore;
use std::time::Duration;

/// A process accepts a task, runs a command for it, and dies.
async fn left_with_a_command(memory: &MemoryStore) -> (Ticket, ProcessGroup) {
    let dead = Scene::over(memory.clone(), DEAD, options(1)).await;
    let ticket = dead.dispatch(&["until told"]).await;
    dead.troupe.until_here("until told").await;
    let group = ProcessGroup { pgid: 4242, start_ticks: 9, boot_id: "this boot".to_owned() };
    let fence = dead.troupe.assignments().remove(0).fence;
    let actor = Actor::Child(ticket.children[0].clone());
    memory.note_group(fence, actor, group.clone()).await.expect("it is the owner");
    (ticket, group)
}

/// Proves RECOV-6.
#[tokio::test(start_paused = true)]
async fn k15_nothing_begins_beside_a_command_of_which_it_cannot_be_told_whether_it_runs() {
    let memory = MemoryStore::new();
    let (ticket, group) = left_with_a_command(&memory).await;
    let heir = Scene::over(memory.clone(), 2, options(1)).await;
    heir.neighbours.doubtful.lock().expect("nobody panicked").push(group.pgid);
    let recovered = heir.recover(&Orphans::All).await;
    assert_eq!((recovered.taken.len(), recovered.resumed), (0, 0));
    let [(delegation, why)] = recovered.lacking.as_slice() else { panic!("it is named: {recovered:?}") };
    assert_eq!(*delegation, ticket.delegation);
    assert!(why.contains("process group 4242 still runs cannot be told"), "{why}");
    let record = heir.stored(&ticket.delegation).await;
    assert_eq!((&record.owner.id, heir.troupe.counts().came), (&owner(DEAD).id, 0), "it is left as it was");
    assert_eq!(memory.groups_of(&owner(DEAD).id).await.expect("it reads").len(), 1, "and still known");
    // Once it can be told, it goes on.
    heir.neighbours.doubtful.lock().expect("nobody panicked").clear();
    assert_eq!(heir.recover(&Orphans::All).await.resumed, 1);
    assert_eq!(memory.groups_of(&owner(DEAD).id).await.expect("it reads"), []);
    heir.troupe.say("told");
    assert_eq!(heir.joined(&ticket).await.children[0].outcome(), Some(Outcome::Succeeded));
}

#[tokio::test(start_paused = true)]
async fn k15_what_forks_while_it_is_ended_is_looked_for_until_nothing_is_found() {
    for (found, looks) in [(vec![2, 1], 3), (vec![0, 7], 1), (vec![1; 50], 5)] {
        let memory = MemoryStore::new();
        left_with_a_command(&memory).await;
        let heir = Scene::over(memory.clone(), 2, options(1)).await;
        heir.neighbours.marked.lock().expect("nobody panicked").extend(found);
        assert_eq!(heir.recover(&Orphans::All).await.resumed, 1);
        let cuts = heir.neighbours.cuts.lock().expect("nobody panicked").clone();
        // Each look takes in the tick that goes on, and the time that the last one took.
        let expected: Vec<u64> = (1..=looks).map(|look| TICKS + look).collect();
        assert_eq!(cuts, expected);
        heir.troupe.until_here("until told").await;
    }
}

/// Proves RECOV-2.
#[tokio::test(start_paused = true)]
async fn k02_the_part_of_a_tree_that_a_dead_owner_had_goes_on_beside_the_part_that_is_at_work_here() {
    let memory = MemoryStore::new();
    let scene = Scene::over(memory.clone(), 2, options(3)).await;
    let above = scene.dispatch(&["deaf"]).await;
    scene.troupe.until_here("deaf").await;
    let parent = scene.troupe.assignments().remove(0);
    let below = scene.handle.dispatch(batch_from(&parent, &["until told".to_owned()])).await;
    let below = below.expect("it is within the limits");
    scene.troupe.until_here("until told").await;
    // Another process has taken over what is below, and died.
    let dead = owner(DEAD);
    memory.enter(dead.clone(), Timestamp(0)).await.expect("it enters");
    memory.take_over(takeover((&owner(2), &dead), &below.delegation)).await.expect("it is taken");
    scene.troupe.line("until told").tell(LineEvent::ModelCalled);
    scene.pass(Duration::from_secs(3)).await;
    assert_eq!(scene.troupe.counts().here, ["deaf"], "its run here was dropped");
    let recovered = scene.recover(&Orphans::All).await;
    assert_eq!((recovered.taken.as_slice(), recovered.resumed), (&[below.delegation.clone()][..], 1));
    scene.troupe.until(|counts| counts.here.len() == 2).await;
    scene.troupe.say("told");
    let record = scene.joined(&below).await;
    assert_eq!(record.children[0].outcome(), Some(Outcome::Succeeded));
    assert_eq!(scene.outcomes(&above).await, [None], "the part that was here was left as it was");
    assert_eq!(scene.recover(&Orphans::All).await, Recovered::default());
}
