//! Stops of running children.

use crate::scene::{self, IDLE_PATIENCE, STOP_GRACE, Scene, stopped};
use legwork_core::ids::ChildId;
use legwork_core::outcome::{Force, Outcome, StopReason};
use legwork_core::ports::{Delegator, Facts, Filter};
use legwork_core::steering::Scope;
use std::collections::{BTreeMap, BTreeSet};
use tokio::time::Instant;

#[tokio::test(start_paused = true)]
async fn k13_a_stop_of_one_child_leaves_its_siblings_alone() {
    let scene = Scene::new(3).await;
    let ticket = scene.dispatch(&["until told", "until told", "until told"]).await;
    scene.troupe.until(|counts| counts.here.len() == 3).await;
    let scope = Scope::Child(ticket.children[1].clone());
    let told = scene.handle.stop(scope, StopReason::Cancelled, Force::Ask).await;
    assert_eq!(told.children, [ticket.children[1].clone()]);
    assert_eq!(scene.outcome(&ticket, &ticket.children[1]).await, Outcome::Stopped(StopReason::Cancelled));
    assert_eq!(scene.troupe.counts().here.len(), 2);
    scene.troupe.say("told");
    scene.joined(&ticket).await;
    let succeeded = Some(Outcome::Succeeded);
    assert_eq!(scene.outcomes(&ticket).await, [succeeded, stopped(StopReason::Cancelled), succeeded]);
}

/// Proves DISP-8, RUN-22.
#[tokio::test(start_paused = true)]
async fn k12_who_ignores_a_stop_is_aborted_after_the_grace() {
    let scene = Scene::new(1).await;
    let ticket = scene.dispatch(&["deaf"]).await;
    scene.troupe.until_here("deaf").await;
    let asked = Instant::now();
    scene.handle.stop(Scope::All, StopReason::Cancelled, Force::Ask).await;
    scene.joined(&ticket).await;
    assert!(asked.elapsed() >= STOP_GRACE, "not before: {:?}", asked.elapsed());
    assert!(asked.elapsed() < STOP_GRACE * 2, "and not much later: {:?}", asked.elapsed());
    assert_eq!(scene.troupe.counts().here, [""; 0], "its future is dropped");
    assert_eq!(scene.outcomes(&ticket).await, [stopped(StopReason::Cancelled)]);
}

#[tokio::test(start_paused = true)]
async fn k14_an_answer_that_comes_after_the_stop_is_kept() {
    let scene = Scene::new(1).await;
    let ticket = scene.dispatch(&["finish word"]).await;
    scene.troupe.until_here("finish word").await;
    scene.handle.stop(Scope::All, StopReason::Cancelled, Force::Ask).await;
    scene.troupe.say("word");
    let record = scene.joined(&ticket).await;
    assert_eq!(record.children[0].outcome(), Some(Outcome::Succeeded));
}

/// Proves RUN-23.
#[tokio::test(start_paused = true)]
async fn k12_a_stop_reaches_the_whole_tree_and_lists_it() {
    let scene = Scene::new(4).await;
    let ticket = scene.dispatch(&["tree 2 2 word"]).await;
    // The root and both of the second level are parked; of four leaves one more could run.
    scene.troupe.until(|counts| counts.parked == 3 && counts.here.len() == 7).await;
    let views = scene.handle.view(None).await;
    let scope = Scope::Delegation(ticket.delegation.clone());
    let told = scene.handle.stop(scope.clone(), StopReason::Cancelled, Force::Ask).await;
    let mut open: Vec<_> = views.into_iter().map(|view| view.child).collect();
    let mut listed = told.children.clone();
    open.sort();
    listed.sort();
    assert_eq!(listed, open);
    scene.joined(&ticket).await;
    let came = scene.troupe.counts().came;
    scene.troupe.until(|counts| counts.here.is_empty()).await;
    assert_eq!(scene.troupe.counts().came, came, "nothing was born after the stop");
    assert_eq!(scene.handle.view(None).await, []);
    assert_eq!(scene.outcomes(&ticket).await, [stopped(StopReason::Cancelled)]);
    let again = scene.handle.stop(scope, StopReason::Cancelled, Force::Ask).await;
    assert_eq!(again.children, [], "there is nothing left to stop");
}

/// Every moment of a tree's growth is one at which a stop can come.
/// Proves RUN-23, BUILD-27.
#[tokio::test(start_paused = true)]
async fn k12_a_stop_at_any_moment_of_the_growth_of_a_tree_reaches_all_of_it() {
    for slots in [2, 13] {
        let mut commits = 1;
        while stopped_while_it_grows(slots, commits).await {
            commits += 1;
        }
        assert!(commits > 4, "{slots} slots: the tree grew in {commits} commits");
    }
}

/// Stops a tree at the commit with this number of its growth. `false` when it had grown before.
async fn stopped_while_it_grows(slots: usize, commits: usize) -> bool {
    let scene = Scene::new(slots).await;
    scene.store.close();
    let begun = Instant::now();
    let dispatch = scene.handle.dispatch(scene::batch(&["tree 3 2 word"]));
    let stop = async {
        for passed in 1..commits {
            scene.store.until_arrived(passed).await;
            scene.store.let_one_pass();
        }
        scene.store.until_arrived(commits).await;
        let is_growing = begun.elapsed() < IDLE_PATIENCE / 2;
        let open = scene.handle.view(None).await;
        let told = scene.begin_stop(Scope::All, Force::Ask).await;
        scene.store.open();
        (is_growing, open.into_iter().map(|view| view.child).collect::<BTreeSet<_>>(), told.await)
    };
    let (ticket, (is_growing, open, told)) = tokio::join!(dispatch, stop);
    if !is_growing {
        return false;
    }
    let at = format!("{slots} slots, after {commits} commits");
    scene.joined(&ticket.expect("it is accepted")).await;
    scene.troupe.until(|counts| counts.here.is_empty()).await;
    assert_eq!(scene.handle.view(None).await, [], "{at}");
    let all = scene.store.delegations(Filter::Recent(100)).await.expect("the store can be read");
    let children = all.rows.iter().flat_map(|record| &record.children);
    let ended: BTreeMap<ChildId, Option<Outcome>> =
        children.map(|child| (child.id.clone(), child.outcome())).collect();
    let told: BTreeSet<ChildId> = told.children.into_iter().collect();
    let unheard: Vec<_> = open.iter().filter(|child| !told.contains(*child)).collect();
    assert!(unheard.is_empty(), "{at}: these were open and not told: {unheard:?}");
    for child in &told {
        let outcome = ended.get(child).copied().flatten();
        let cause = Some(Outcome::Stopped(StopReason::Cancelled));
        assert_eq!(outcome, cause, "{at}: {child} was told: {ended:?}");
    }
    // Who was being born when the stop came ended with whoever called for it.
    for (child, outcome) in ended.iter().filter(|(child, _)| !told.contains(*child)) {
        let is_of_it =
            matches!(outcome, Some(Outcome::Stopped(StopReason::Cancelled | StopReason::ParentStopped)));
        assert!(is_of_it, "{at}: {child} {outcome:?}");
    }
    !ended.is_empty()
}

/// Proves DISP-22.
#[tokio::test(start_paused = true)]
async fn k12_queued_children_are_stopped_without_ever_starting() {
    let scene = Scene::new(1).await;
    let ticket = scene.dispatch(&["until told", "answer", "answer"]).await;
    scene.troupe.until_here("until told").await;
    scene.handle.stop(Scope::All, StopReason::Cancelled, Force::Ask).await;
    let record = scene.joined(&ticket).await;
    assert_eq!(scene.outcomes(&ticket).await, [stopped(StopReason::Cancelled); 3]);
    assert_eq!(record.children[1].started_at, None);
    assert_eq!(scene.troupe.counts().came, 1);
}

#[tokio::test(start_paused = true)]
async fn k20_of_two_stops_the_first_cause_is_kept() {
    let scene = Scene::new(1).await;
    let ticket = scene.dispatch(&["deaf"]).await;
    scene.troupe.until_here("deaf").await;
    scene.handle.stop(Scope::All, StopReason::SessionEnded, Force::Ask).await;
    scene.handle.stop(Scope::All, StopReason::Cancelled, Force::Abort).await;
    scene.joined(&ticket).await;
    assert_eq!(scene.outcomes(&ticket).await, [stopped(StopReason::SessionEnded)]);
}

#[tokio::test(start_paused = true)]
async fn k12_a_parent_that_ends_leaves_no_children_behind() {
    let scene = Scene::new(4).await;
    let ticket = scene.dispatch(&["tree 2 1 word", "until told"]).await;
    scene.troupe.until_here("until told").await;
    scene.troupe.until(|counts| counts.parked == 1 && counts.here.len() == 4).await;
    scene.handle.stop(Scope::Child(ticket.children[0].clone()), StopReason::Cancelled, Force::Abort).await;
    scene.troupe.until(|counts| counts.here == ["until told"]).await;
    scene.troupe.say("told");
    scene.joined(&ticket).await;
    assert_eq!(scene.handle.view(None).await, []);
}
