//! A second process goes on with what a dead one left: whose work, with which attempt, and what is said to it.

use crate::desk::Desk;
use crate::scene::{DEAD, FOR_EVER, Scene, batch, left, left_by, options, owner, pushed, reported, stopped};
use legwork_core::batch::Tenant;
use legwork_core::child::ChildState;
use legwork_core::ids::{Epoch, RequestId, SessionId};
use legwork_core::outcome::{Force, Outcome, StopReason};
use legwork_core::ports::{Delegator, Facts, Filter, LiveEvent};
use legwork_core::pulse::LineEvent;
use legwork_core::steering::{Request, Scope, Wish};
use legwork_core::time::Timestamp;
use legwork_engine::recovery::{Orphans, Recovered};
use legwork_engine::{AtCapacity, Options};
use legwork_testkit::memory::MemoryStore;
use legwork_testkit::shaky::{Luck, ShakyStore};
use std::sync::Arc;
use std::time::Duration;

async fn stored_stop(memory: &MemoryStore, n: u64, scope: Scope) {
    let wish = Wish::Stop { reason: StopReason::Cancelled, force: Force::Ask };
    let request = Request { id: RequestId::from_bits(n), at: Timestamp(0), scope, wish };
    memory.ask(request).await.expect("it is stored");
}

/// Proves RECOV-2, RECOV-9.
#[tokio::test(start_paused = true)]
async fn recov_02_children_of_a_dead_process_go_on_with_another_attempt() {
    let memory = MemoryStore::new();
    let goals = ["answer", "until told", "until told too", "deaf", "answer late"];
    let ticket = left(&memory, batch(&goals), &["until told", "until told too", "deaf"]).await;
    let before = memory.delegation(&ticket.delegation).await.expect("it reads").expect("it is stored");
    let scene = Scene::over(memory.clone(), 2, options(2)).await;
    let recovered = scene.recover(&Orphans::All).await;
    assert_eq!(recovered.taken, std::slice::from_ref(&ticket.delegation));
    assert_eq!((recovered.resumed, recovered.lost, recovered.unstarted), (4, 0, 0));
    scene.troupe.until(|counts| counts.here == ["until told", "until told too"]).await;
    let again = scene.troupe.assignments();
    let attempts: Vec<u32> = again.iter().map(|assignment| assignment.attempt).collect();
    assert_eq!(attempts, [2, 2], "two slots, and the same children as before");
    assert!(again.iter().all(|assignment| assignment.fence.epoch == Epoch(2)));
    assert_eq!(again[0].child, ticket.children[1]);
    scene.handle.stop(Scope::Child(ticket.children[3].clone()), StopReason::Cancelled, Force::Ask).await;
    scene.troupe.say("told");
    let record = scene.joined(&ticket).await;
    let outcomes: Vec<_> = record.children.iter().map(|child| child.outcome()).collect();
    let done = Some(Outcome::Succeeded);
    assert_eq!(outcomes, [done, done, done, stopped(StopReason::Cancelled), done]);
    assert_eq!(record.children[0], before.children[0], "what had ended is untouched");
    assert_eq!(record.children[1].started_at, before.children[1].started_at, "it began when it first began");
}

/// Proves FIN-5: of a unit that one process began and another ended, the last end is known, and who joins it is answered.
#[tokio::test(start_paused = true)]
async fn recov_03_a_unit_whose_other_children_had_ended_before_ends_with_the_last() {
    let memory = MemoryStore::new();
    let ticket = left(&memory, batch(&["answer", "until told"]), &["until told"]).await;
    let scene = Scene::over(memory.clone(), 2, options(2)).await;
    let mut watch = scene.handle.watch();
    scene.recover(&Orphans::All).await;
    scene.troupe.until_here("until told").await;
    scene.troupe.say("told");
    let joined = scene.handle.join_unit(&ticket.delegation, &ticket.units[0].id).await;
    assert!(joined.expect("the unit settles").record.is_settled());
    loop {
        if let LiveEvent::Settled { ends_unit, .. } = watch.next().await.expect("the engine runs") {
            assert!(ends_unit);
            return;
        }
    }
}

/// Proves ROUTE-5: from the call to the inbox that is offered its results, over the death of a process; and a child calls for
/// whom it works for, whatever it says.
#[tokio::test(start_paused = true)]
async fn route_05_whom_a_call_is_for_travels_to_the_inbox_and_to_calls_below() {
    let memory = MemoryStore::new();
    let tenant = Tenant::new("T024", "U1", " ");
    assert_eq!((tenant.scope_id(), tenant.user_id(), tenant.user_name()), (Some("T024"), Some("U1"), None));
    let mut call = pushed(7, &["tree 1 1 told"]);
    call.lineage.tenant = tenant.clone();
    let ticket = left(&memory, call, &["tree 1 1 told", "tree 1 0 told"]).await;
    let scene = Scene::over(memory.clone(), 2, options(2)).await;
    scene.recover(&Orphans::All).await;
    let desk = Desk::new(7);
    scene.serve(&desk).await;
    scene.troupe.until_here("tree 1 0 told").await;
    scene.troupe.say("told");
    desk.until_offered(1).await;
    let offered = desk.last_offer().record.accepted;
    assert_eq!((&offered.delegation, &offered.lineage.tenant), (&ticket.delegation, &tenant));
    let all = memory.delegations(Filter::Recent(10)).await.expect("it reads").rows;
    let below = all.iter().find(|record| record.accepted.lineage.parent.is_some()).expect("one is below");
    assert_eq!(below.accepted.lineage.tenant, tenant);
}

#[tokio::test(start_paused = true)]
async fn recov_05_only_what_is_opened_or_named_is_taken_over() {
    let memory = MemoryStore::new();
    let first = left(&memory, batch(&["until told"]), &["until told"]).await;
    let second = left_by(&memory, DEAD + 1, (pushed(8, &["until told"]), &["until told"])).await;
    let scene = Scene::over(memory.clone(), 2, options(2)).await;
    assert_eq!(scene.recover(&Orphans::OfSession(SessionId::from_bits(9))).await, Recovered::default());
    let of_eight = scene.recover(&Orphans::OfSession(SessionId::from_bits(8))).await;
    assert_eq!(of_eight.taken, [second.delegation]);
    let again = scene.recover(&Orphans::OfSession(SessionId::from_bits(8))).await;
    assert_eq!(again, Recovered::default(), "it is at work here");
    assert_eq!(scene.stored(&first.delegation).await.owner, owner(DEAD));
    assert_eq!(scene.recover(&Orphans::Of(first.delegation.clone())).await.taken, [first.delegation]);
}

#[tokio::test(start_paused = true)]
async fn recov_05_work_that_has_ended_here_and_whose_end_is_not_stored_yet_is_not_gone_on_with() {
    let memory = MemoryStore::new();
    let ticket = left(&memory, batch(&["until told"]), &["until told"]).await;
    let scene = Scene::over(memory.clone(), 2, options(2)).await;
    assert_eq!(scene.recover(&Orphans::All).await.resumed, 1);
    scene.troupe.until_here("until told").await;
    scene.store.close();
    let arrived = scene.store.arrived();
    scene.troupe.say("told");
    scene.store.until_arrived(arrived + 1).await;
    assert_eq!(scene.recover(&Orphans::All).await, Recovered::default());
    scene.store.open();
    assert_eq!(scene.joined(&ticket).await.children[0].outcome(), Some(Outcome::Succeeded));
}

#[tokio::test(start_paused = true)]
async fn k34_of_two_that_go_on_at_once_one_has_the_work() {
    let memory = MemoryStore::new();
    let ticket = left(&memory, batch(&["until told", "until told"]), &["until told", "until told"]).await;
    let here = Scene::over(memory.clone(), 2, options(2)).await;
    let there = Scene::over(memory.clone(), 3, options(2)).await;
    let (one, other) = tokio::join!(here.recover(&Orphans::All), there.recover(&Orphans::All));
    assert_eq!(one.taken.len() + other.taken.len(), 1, "{one:?} {other:?}");
    let winner = if one.taken.is_empty() { &there } else { &here };
    winner.troupe.until(|counts| counts.here.len() == 2).await;
    assert_eq!(here.troupe.counts().came + there.troupe.counts().came, 2);
    winner.troupe.say("told");
    // Both may wait for it: whoever does not run it looks into the store.
    let (mine, theirs) =
        tokio::join!(here.handle.join(&ticket.delegation), there.handle.join(&ticket.delegation));
    let claims = mine.expect("it settles").claims.len() + theirs.expect("it settles").claims.len();
    assert_eq!(claims, 1, "one of them has the results");
}

#[tokio::test(start_paused = true)]
async fn k16_a_tree_goes_on_in_one_slot_and_each_parent_finds_its_children() {
    let memory = MemoryStore::new();
    let goals = ["tree 1 1 told"];
    let ticket = left(&memory, batch(&goals), &["tree 1 1 told", "tree 1 0 told"]).await;
    let scene = Scene::over(memory.clone(), 2, options(1)).await;
    let recovered = scene.recover(&Orphans::OfSession(SessionId::from_bits(7))).await;
    assert_eq!((recovered.taken.len(), recovered.resumed), (2, 2));
    scene.troupe.say("told");
    let record = scene.joined(&ticket).await;
    let answer = record.children[0].report.as_ref().and_then(|report| report.answer.clone());
    assert_eq!(answer.as_deref(), Some("2"));
    assert_eq!(scene.troupe.counts().peak, 1);
    let all = memory.delegations(legwork_core::ports::Filter::Recent(9)).await.expect("it reads").rows;
    assert_eq!(all.len(), 2, "nothing was delegated twice");
}

#[tokio::test(start_paused = true)]
async fn k38_what_was_said_and_asked_while_nobody_was_there_is_heard_once() {
    let memory = MemoryStore::new();
    let goals = ["until told", "until told too"];
    let ticket = left(&memory, batch(&goals), &goals).await;
    let scope = Scope::Child(ticket.children[0].clone());
    let wish = Wish::Steer { text: "to the left".to_owned() };
    let said = Request { id: RequestId::from_bits(1), at: Timestamp(0), scope, wish };
    memory.ask(said).await.expect("it is stored");
    let scene = Scene::over(memory.clone(), 2, options(2)).await;
    // It comes after this process has begun to read the news, and before it has the work.
    stored_stop(&memory, 2, Scope::Child(ticket.children[1].clone())).await;
    scene.pass(Duration::from_secs(1)).await;
    scene.recover(&Orphans::All).await;
    scene.troupe.until_here("until told").await;
    let line = scene.troupe.line("until told");
    let heard: Vec<String> = line.steered().into_iter().map(|steer| steer.text).collect();
    assert_eq!(heard, ["to the left"], "it is there when the child begins");
    scene.pass(Duration::from_secs(2)).await;
    assert_eq!(line.steered(), [], "and it is said once");
    assert_eq!(scene.outcome(&ticket, &ticket.children[1]).await, Outcome::Stopped(StopReason::Cancelled));
}

#[tokio::test(start_paused = true)]
async fn k35_a_stop_that_waited_for_an_heir_is_heard_although_the_first_look_for_it_fails() {
    let memory = MemoryStore::new();
    let ticket = left(&memory, batch(&["until told"]), &["until told"]).await;
    let shaky = Arc::new(ShakyStore::new(Arc::new(memory.clone())));
    let scene = Scene::over_store(shaky.clone(), 2, options(2)).await;
    // This process has read it already when the work comes to it, and let it pass.
    stored_stop(&memory, 2, Scope::Child(ticket.children[0].clone())).await;
    scene.pass(Duration::from_secs(1)).await;
    let mut looks = 0;
    shaky.let_decide(move |name| {
        looks += usize::from(name == "news");
        if name == "news" && looks <= 2 { Luck::Fails } else { Luck::Good }
    });
    scene.recover(&Orphans::All).await;
    assert_eq!(scene.outcome(&ticket, &ticket.children[0]).await, Outcome::Stopped(StopReason::Cancelled));
}

#[tokio::test(start_paused = true)]
async fn disp_16_a_unit_of_which_a_part_had_ended_before_its_process_died_can_be_joined() {
    let memory = MemoryStore::new();
    let ticket = left(&memory, batch(&["answer", "until told"]), &["until told"]).await;
    let scene = Scene::over(memory.clone(), 2, options(2)).await;
    scene.recover(&Orphans::All).await;
    scene.troupe.until_here("until told").await;
    scene.troupe.say("told");
    let join = scene.handle.join_unit(&ticket.delegation, &ticket.units[0].id);
    // Deadline: in paused time a wait for something that never comes would turn for ever.
    let joined = tokio::time::timeout(FOR_EVER, join).await.expect("it ends").expect("it settles");
    assert_eq!(joined.claims.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn k39_whoever_watches_hears_what_is_known_of_a_lost_run() {
    let memory = MemoryStore::new();
    let dead = Scene::over(memory.clone(), DEAD, options(2)).await;
    let ticket = dead.handle.dispatch(reported(&["until told"])).await.expect("it is accepted");
    dead.troupe.until_here("until told").await;
    dead.troupe.line("until told").tell(LineEvent::ModelCalled);
    dead.pass(Duration::from_secs(2)).await;
    let scene = Scene::over(memory.clone(), 2, options(2)).await;
    let mut watch = scene.handle.watch();
    scene.recover(&Orphans::All).await;
    let Some(LiveEvent::Settled { child, outcome, facts, .. }) = watch.next().await else {
        panic!("it settles")
    };
    assert_eq!((&child.child, outcome, facts.model_calls), (&ticket.children[0], Outcome::Lost, 1));
}

/// Proves CAP-2, CAP-5.
#[tokio::test(start_paused = true)]
async fn cap_02_where_calls_take_slots_work_that_is_taken_over_begins_in_as_many_and_no_more() {
    let memory = MemoryStore::new();
    let mut tickets = Vec::new();
    for process in DEAD..DEAD + 3 {
        let goals = ["until told", "until told too"];
        tickets.push(left_by(&memory, process, (pushed(8, &goals), &goals)).await);
    }
    let sync = Options { at_capacity: AtCapacity::Sync, ..options(2) };
    let scene = Scene::over(memory, 2, sync).await;
    assert_eq!(scene.recover(&Orphans::All).await.resumed, 6);
    scene.pass(Duration::from_secs(1)).await;
    assert_eq!(scene.troupe.counts().here.len(), 2);
    scene.troupe.say("told");
    for ticket in &tickets {
        scene.handle.settled(&ticket.delegation).await;
        assert_eq!(scene.outcomes(ticket).await, [Some(Outcome::Succeeded); 2]);
    }
    assert_eq!((scene.troupe.counts().came, scene.troupe.counts().peak), (6, 2));
}

/// Proves RECOV-3.
#[tokio::test(start_paused = true)]
async fn recov_03_what_is_to_be_reported_settles_beside_what_goes_on() {
    let memory = MemoryStore::new();
    let mut call = reported(&["answer", "until told", "until told too"]);
    call.tasks[2].on_crash = legwork_core::batch::OnCrash::Resume;
    let ticket = left(&memory, call, &["until told", "until told too"]).await;
    let scene = Scene::over(memory.clone(), 2, options(2)).await;
    let recovered = scene.recover(&Orphans::All).await;
    assert_eq!((recovered.resumed, recovered.lost), (1, 1));
    scene.troupe.say("told");
    let record = scene.joined(&ticket).await;
    let outcomes: Vec<_> = record.children.iter().map(|child| child.outcome()).collect();
    assert_eq!(outcomes, [Some(Outcome::Succeeded), Some(Outcome::Lost), Some(Outcome::Succeeded)]);
}

#[tokio::test(start_paused = true)]
async fn k12_what_a_child_delegated_that_is_gone_is_stopped_and_not_gone_on_with() {
    let memory = MemoryStore::new();
    let mut call = reported(&["tree 1 1 told"]);
    call.tasks[0].goal = "tree 1 1 told".to_owned();
    left(&memory, call, &["tree 1 1 told", "tree 1 0 told"]).await;
    let scene = Scene::over(memory.clone(), 2, options(2)).await;
    scene.recover(&Orphans::All).await;
    scene.pass(Duration::from_secs(1)).await;
    let all = memory.delegations(legwork_core::ports::Filter::Recent(9)).await.expect("it reads").rows;
    let states: Vec<ChildState> = all.iter().map(|record| record.children[0].state).collect();
    assert_eq!(
        states,
        [
            ChildState::Settled(Outcome::Stopped(StopReason::ParentStopped)),
            ChildState::Settled(Outcome::Lost)
        ]
    );
    assert_eq!(scene.troupe.counts().came, 0, "nobody began");
}

#[tokio::test(start_paused = true)]
async fn k34_a_late_owner_whose_work_goes_on_elsewhere_is_fenced_and_drops_its_runs() {
    let memory = MemoryStore::new();
    let late = Scene::over(memory.clone(), DEAD, options(2)).await;
    let ticket = late.dispatch(&["until told"]).await;
    late.troupe.until_here("until told").await;
    let heir = Scene::over(memory.clone(), 2, options(2)).await;
    heir.recover(&Orphans::All).await;
    heir.troupe.until_here("until told").await;
    late.troupe.say("told");
    late.troupe.until(|counts| counts.here.is_empty()).await;
    assert_eq!(
        heir.stored(&ticket.delegation).await.children[0].outcome(),
        None,
        "the late answer is refused"
    );
    assert_eq!(late.handle.view(None).await, []);
    heir.troupe.say("told");
    assert_eq!(heir.joined(&ticket).await.children[0].outcome(), Some(Outcome::Succeeded));
}
