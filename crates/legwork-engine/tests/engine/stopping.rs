//! Stops of running children.

use crate::scene::{self, STOP_GRACE, Scene, stopped};
use legwork_core::outcome::{Force, Outcome, StopReason};
use legwork_core::ports::{Delegator, Facts, Filter};
use legwork_core::steering::Scope;
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
    for commits in 1..12 {
        let scene = Scene::new(2).await;
        scene.store.close();
        let dispatch = scene.handle.dispatch(scene::batch(&["tree 3 2 word"]));
        let stop = async {
            for passed in 1..commits {
                scene.store.until_arrived(passed).await;
                scene.store.let_one_pass();
            }
            scene.store.until_arrived(commits).await;
            let told = scene.begin_stop(Scope::All, Force::Ask).await;
            scene.store.open();
            told.await
        };
        let (ticket, told) = tokio::join!(dispatch, stop);
        let ticket = ticket.expect("it is accepted");
        scene.joined(&ticket).await;
        scene.troupe.until(|counts| counts.here.is_empty()).await;
        assert_eq!(scene.handle.view(None).await, [], "after {commits} commits");
        let all = scene.store.delegations(Filter::Recent(100)).await.expect("the store can be read").rows;
        let children = all.iter().flat_map(|record| &record.children);
        let ended: Vec<_> = children.map(|child| (child.id.clone(), child.outcome())).collect();
        assert!(!ended.is_empty() && ended.len() >= told.children.len());
        let is_stopped = |outcome: &Option<Outcome>| matches!(outcome, Some(Outcome::Stopped(_)));
        assert!(ended.iter().all(|(_, outcome)| is_stopped(outcome)), "after {commits} commits: {ended:?}");
    }
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
