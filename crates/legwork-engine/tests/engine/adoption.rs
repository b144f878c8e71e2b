//! A second process goes on with what a dead one left: whose work, with which attempt, and what is said to it.

use crate::desk::Desk;
use crate::scene::{DEAD, Scene, batch, batch_from, options, owner, pushed, reported, stopped};
use crate::troupe::LACKING;
use legwork_core::batch::{NewBatch, Task, Tenant, Ticket};
use legwork_core::child::ChildState;
use legwork_core::ids::{Epoch, RequestId, SessionId};
use legwork_core::message::{Author, Message, Part, ToolCall};
use legwork_core::outcome::{Force, Outcome, StopReason};
use legwork_core::ports::{
    Delegator, Facts, Filter, JoinError, LiveEvent, Steps, Store, StoreError, WriteSteps,
};
use legwork_core::pulse::LineEvent;
use legwork_core::record::DelegationRecord;
use legwork_core::report::{Cost, Usage};
use legwork_core::steering::{Request, Scope, Wish};
use legwork_core::step::{Action, Actor, Finish, Product, Reply, StepChange};
use legwork_core::time::Timestamp;
use legwork_engine::recovery::{Orphans, Recovered};
use legwork_engine::{AtCapacity, Options};
use legwork_testkit::memory::MemoryStore;
use legwork_testkit::shaky::{Luck, ShakyStore};
use std::sync::Arc;
use std::time::Duration;

/// A process accepts the call, is left when `here` are at work, and is dead then.
async fn left(memory: &MemoryStore, call: NewBatch, here: &[&str]) -> Ticket {
    left_by(memory, DEAD, (call, here)).await
}

async fn left_by(memory: &MemoryStore, process: u32, (call, here): (NewBatch, &[&str])) -> Ticket {
    let scene = Scene::over(memory.clone(), process, options(3)).await;
    let ticket = scene.handle.dispatch(call).await.expect("it is accepted");
    scene.troupe.until(|counts| counts.here == here).await;
    // Starts are durable before they are performed; one more round stores the pulses.
    scene.pass(Duration::from_secs(2)).await;
    ticket
}

async fn recover(scene: &Scene, orphans: &Orphans) -> Recovered {
    scene.handle.recover(orphans).await.expect("the store works")
}

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
    let recovered = recover(&scene, &Orphans::All).await;
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
    recover(&scene, &Orphans::All).await;
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
    recover(&scene, &Orphans::All).await;
    let desk = Desk::new(7);
    scene.handle.attach(&desk.session, desk.inbox()).await;
    scene.troupe.until_here("tree 1 0 told").await;
    scene.troupe.say("told");
    desk.until_offered(1).await;
    let offered = desk.last_offer().record.accepted;
    assert_eq!((&offered.delegation, &offered.lineage.tenant), (&ticket.delegation, &tenant));
    let all = memory.delegations(Filter::Recent(10)).await.expect("it reads");
    let below = all.iter().find(|record| record.accepted.lineage.parent.is_some()).expect("one is below");
    assert_eq!(below.accepted.lineage.tenant, tenant);
}

#[tokio::test(start_paused = true)]
async fn recov_05_only_what_is_opened_or_named_is_taken_over() {
    let memory = MemoryStore::new();
    let first = left(&memory, batch(&["until told"]), &["until told"]).await;
    let second = left_by(&memory, DEAD + 1, (pushed(8, &["until told"]), &["until told"])).await;
    let scene = Scene::over(memory.clone(), 2, options(2)).await;
    assert_eq!(recover(&scene, &Orphans::OfSession(SessionId::from_bits(9))).await, Recovered::default());
    let of_eight = recover(&scene, &Orphans::OfSession(SessionId::from_bits(8))).await;
    assert_eq!(of_eight.taken, [second.delegation]);
    let again = recover(&scene, &Orphans::OfSession(SessionId::from_bits(8))).await;
    assert_eq!(again, Recovered::default(), "it is at work here");
    assert_eq!(scene.stored(&first.delegation).await.owner, owner(DEAD));
    assert_eq!(recover(&scene, &Orphans::Of(first.delegation.clone())).await.taken, [first.delegation]);
}

#[tokio::test(start_paused = true)]
async fn recov_05_work_that_has_ended_here_and_whose_end_is_not_stored_yet_is_not_gone_on_with() {
    let memory = MemoryStore::new();
    let ticket = left(&memory, batch(&["until told"]), &["until told"]).await;
    let scene = Scene::over(memory.clone(), 2, options(2)).await;
    assert_eq!(recover(&scene, &Orphans::All).await.resumed, 1);
    scene.troupe.until_here("until told").await;
    scene.store.close();
    let arrived = scene.store.arrived();
    scene.troupe.say("told");
    scene.store.until_arrived(arrived + 1).await;
    assert_eq!(recover(&scene, &Orphans::All).await, Recovered::default());
    scene.store.open();
    assert_eq!(scene.joined(&ticket).await.children[0].outcome(), Some(Outcome::Succeeded));
}

#[tokio::test(start_paused = true)]
async fn k34_of_two_that_go_on_at_once_one_has_the_work() {
    let memory = MemoryStore::new();
    let ticket = left(&memory, batch(&["until told", "until told"]), &["until told", "until told"]).await;
    let here = Scene::over(memory.clone(), 2, options(2)).await;
    let there = Scene::over(memory.clone(), 3, options(2)).await;
    let (one, other) = tokio::join!(recover(&here, &Orphans::All), recover(&there, &Orphans::All));
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
    let recovered = recover(&scene, &Orphans::OfSession(SessionId::from_bits(7))).await;
    assert_eq!((recovered.taken.len(), recovered.resumed), (2, 2));
    scene.troupe.say("told");
    let record = scene.joined(&ticket).await;
    let answer = record.children[0].report.as_ref().and_then(|report| report.answer.clone());
    assert_eq!(answer.as_deref(), Some("2"));
    assert_eq!(scene.troupe.counts().peak, 1);
    let all = memory.delegations(legwork_core::ports::Filter::Recent(9)).await.expect("it reads");
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
    recover(&scene, &Orphans::All).await;
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
    recover(&scene, &Orphans::All).await;
    assert_eq!(scene.outcome(&ticket, &ticket.children[0]).await, Outcome::Stopped(StopReason::Cancelled));
}

#[tokio::test(start_paused = true)]
async fn what_a_process_lacks_is_left_to_another_one() {
    let memory = MemoryStore::new();
    let mut call = batch(&["until told"]);
    call.setting.route.model = LACKING.to_owned();
    let ticket = left(&memory, call, &["until told"]).await;
    let scene = Scene::over(memory.clone(), 2, options(2)).await;
    let recovered = recover(&scene, &Orphans::All).await;
    assert_eq!(recovered.lacking, [(ticket.delegation.clone(), "the key of the model".to_owned())]);
    assert_eq!(recovered.taken, []);
    let record = scene.stored(&ticket.delegation).await;
    assert_eq!((record.owner, record.epoch), (owner(DEAD), Epoch(1)), "nothing was touched");
    let joined = scene.handle.join(&ticket.delegation).await;
    assert!(joined.is_err_and(|error| error.to_string().contains("has died")), "nobody waits for ever");
}

/// A task whose model has no key in most processes.
fn keyless(goal: &str) -> Task {
    let mut route = batch(&[goal]).setting.route;
    route.model = LACKING.to_owned();
    Task { route: Some(route), ..Task::of(goal) }
}

/// Lets time go by until nobody has the delegation any more, and gives it as it is stored then.
async fn left_to_another(scene: &Scene, ticket: &Ticket) -> DelegationRecord {
    for _ in 0..100 {
        let record = scene.stored(&ticket.delegation).await;
        if record.owner.gone {
            return record;
        }
        scene.pass(Duration::from_millis(100)).await;
    }
    panic!("somebody still has it: {:?}", scene.stored(&ticket.delegation).await);
}

#[tokio::test(start_paused = true)]
async fn k29_a_child_without_its_key_stays_queued_its_siblings_go_on_and_the_next_with_the_key_takes_it() {
    let memory = MemoryStore::new();
    let goals = ["until told", "until another is told", "answer"];
    let mut call = batch(&goals);
    call.tasks[1] = keyless(goals[1]);
    let ticket = left(&memory, call, &goals[..2]).await;
    let scene = Scene::over(memory.clone(), 2, options(3)).await;
    let recovered = recover(&scene, &Orphans::All).await;
    assert_eq!((recovered.taken.len(), recovered.resumed), (1, 1));
    assert_eq!(recovered.lacking, [(ticket.delegation.clone(), "the key of the model".to_owned())]);
    scene.troupe.until_here("until told").await;
    scene.pass(Duration::from_secs(2)).await;
    assert_eq!(scene.stored(&ticket.delegation).await.owner, owner(2), "its sibling is at work here");
    let waiting = scene.handle.clone();
    let delegation = ticket.delegation.clone();
    let mut joins = tokio::task::JoinSet::new();
    joins.spawn(async move { waiting.join(&delegation).await });
    scene.troupe.say("told");
    let record = left_to_another(&scene, &ticket).await;
    let states: Vec<ChildState> = record.children.iter().map(|child| child.state).collect();
    let done = ChildState::Settled(Outcome::Succeeded);
    assert_eq!(states, [done, ChildState::Queued { attempts: 1 }, done]);
    let joined = joins.join_next().await.expect("it waits").expect("it does not panic");
    assert!(
        joined.is_err_and(|error| error.to_string().contains("what is lacking")),
        "nobody waits for ever"
    );
    assert_eq!(recover(&scene, &Orphans::All).await.taken, [], "it is not taken again and again");
    assert_eq!(scene.troupe.counts().came, 1);
    let heir = Scene::over(memory.clone(), 3, options(3)).await;
    heir.troupe.gets_keys();
    let recovered = recover(&heir, &Orphans::All).await;
    assert_eq!((recovered.taken.len(), recovered.resumed, recovered.lacking.len()), (1, 1, 0));
    heir.troupe.say("another");
    let record = heir.joined(&ticket).await;
    assert!(record.children.iter().all(|child| child.outcome() == Some(Outcome::Succeeded)), "{record:?}");
    assert_eq!(heir.troupe.assignments()[0].attempt, 2);
}

/// A child of the dead process stores what the model said.
async fn replied(scene: &Scene, goal: &str, message: Message) {
    let assignment = scene.troupe.assignments().into_iter().find(|known| known.task.goal == goal);
    let assignment = assignment.expect("it is at work");
    let (usage, cost, finish) = (Usage::default(), Cost::Unknown, Finish::Stop);
    let reply = Reply { message, usage, cost, model: None, finish };
    let done =
        |seq, action, product| [StepChange::Intend { seq, action }, StepChange::Finish { seq, product }];
    let changes = [
        done(0, Action::Open, Product::Opened(Vec::new())),
        done(1, Action::Model, Product::Reply(reply)),
        done(2, Action::Switch { place: 1, model: "another".to_owned() }, Product::Switched),
    ];
    let write = WriteSteps {
        actor: Actor::Child(assignment.child),
        fence: assignment.fence,
        at: Timestamp(0),
        changes: changes.into_iter().flatten().collect(),
        acknowledge: Vec::new(),
        turn: None,
        seen: Vec::new(),
    };
    scene.store.write_steps(write).await.expect("it is the owner");
}

/// Whoever has answered needs no key any more; a reply with calls is no answer.
#[tokio::test(start_paused = true)]
async fn k29_a_child_that_has_answered_goes_on_without_its_key() {
    let memory = MemoryStore::new();
    let goals = ["until told", "until told too", "until told as well"];
    let mut call = batch(&goals);
    call.tasks = goals.iter().map(|goal| keyless(goal)).collect();
    let dead = Scene::over(memory.clone(), DEAD, options(3)).await;
    dead.handle.dispatch(call).await.expect("it is accepted");
    dead.troupe.until(|counts| counts.here.len() == 3).await;
    replied(&dead, goals[0], Message::text(Author::Assistant, "it is blue")).await;
    let calls = ToolCall {
        id: "a".to_owned(),
        name: "look".to_owned(),
        arguments: Default::default(),
        malformed: None,
    };
    let asking = Message { author: Author::Assistant, parts: vec![Part::Call(calls)] };
    replied(&dead, goals[1], asking).await;
    let scene = Scene::over(memory.clone(), 2, options(3)).await;
    let recovered = recover(&scene, &Orphans::All).await;
    assert_eq!((recovered.resumed, recovered.lacking.len()), (1, 1), "{recovered:?}");
    scene.troupe.until(|counts| counts.here == [goals[0]]).await;
}

#[tokio::test(start_paused = true)]
async fn k29_who_waits_for_a_child_without_its_key_waits_with_it_and_holds_no_slot() {
    let memory = MemoryStore::new();
    let goals = ["until told", "until asked"];
    let dead = Scene::over(memory.clone(), DEAD, options(3)).await;
    let ticket = dead.handle.dispatch(batch(&goals)).await.expect("it is accepted");
    dead.troupe.until(|counts| counts.here.len() == 2).await;
    let upper = dead.troupe.assignments().into_iter().find(|known| known.task.goal == goals[0]);
    let mut below = batch_from(&upper.expect("it began"), &["until told below".to_owned()]);
    below.tasks[0] = keyless("until told below");
    let below = dead.handle.dispatch(below).await.expect("it is accepted");
    dead.troupe.until_here("until told below").await;
    dead.pass(Duration::from_secs(2)).await;
    let scene = Scene::over(memory.clone(), 2, options(3)).await;
    let recovered = recover(&scene, &Orphans::All).await;
    assert_eq!((recovered.taken.len(), recovered.resumed), (2, 1), "whole trees are taken over");
    assert_eq!(recovered.lacking, [(below.delegation.clone(), "the key of the model".to_owned())]);
    scene.troupe.until(|counts| counts.here == ["until asked"]).await;
    scene.troupe.say("asked");
    let record = left_to_another(&scene, &ticket).await;
    assert_eq!(record.children[0].state, ChildState::Queued { attempts: 1 });
    assert_eq!(left_to_another(&scene, &below).await.owner, record.owner);
    assert_eq!(recover(&scene, &Orphans::All).await.taken, [], "nothing of it can go on here");
    let heir = Scene::over(memory.clone(), 3, options(3)).await;
    heir.troupe.gets_keys();
    assert_eq!(recover(&heir, &Orphans::All).await.resumed, 2);
    heir.troupe.say("told");
    assert_eq!(heir.joined(&ticket).await.children[0].outcome(), Some(Outcome::Succeeded));
}

#[tokio::test(start_paused = true)]
async fn k12_a_child_that_waits_for_its_key_can_be_stopped() {
    let memory = MemoryStore::new();
    let goals = ["until told", "until another is told"];
    let mut call = batch(&goals);
    call.tasks[1] = keyless(goals[1]);
    let ticket = left(&memory, call, &goals).await;
    let scene = Scene::over(memory.clone(), 2, options(3)).await;
    recover(&scene, &Orphans::All).await;
    scene.troupe.until_here("until told").await;
    let scope = Scope::Child(ticket.children[1].clone());
    let told = scene.handle.stop(scope, StopReason::Cancelled, Force::Ask).await;
    assert_eq!(told.children, [ticket.children[1].clone()]);
    scene.troupe.say("told");
    let record = scene.joined(&ticket).await;
    assert_eq!(record.children[1].outcome(), stopped(StopReason::Cancelled));
}

/// Three tasks, the last two without a key, that a dead process left to the second one: the first of them is at work there.
async fn partly_withheld(memory: &MemoryStore, store: Arc<dyn Store>) -> (Ticket, Scene) {
    let goals = ["until told", "until another is told", "until a third is told"];
    let mut call = batch(&goals);
    call.tasks[1] = keyless(goals[1]);
    call.tasks[2] = keyless(goals[2]);
    let ticket = left(memory, call, &goals).await;
    let scene = Scene::over_store(store, 2, options(3)).await;
    recover(&scene, &Orphans::All).await;
    scene.troupe.until_here("until told").await;
    (ticket, scene)
}

/// A tree is let go of behind everything else of the same commit: what that settles is still known, and those who hear of ends
/// hear of it.
#[tokio::test(start_paused = true)]
async fn fin_05_who_hears_of_ends_hears_of_those_in_the_commit_that_lets_go_of_their_tree() {
    let memory = MemoryStore::new();
    let (ticket, scene) = partly_withheld(&memory, Arc::new(memory.clone())).await;
    let mut watch = scene.handle.watch();
    scene.store.close();
    let arrived = scene.store.arrived();
    let handle = scene.handle.clone();
    let mut calls = tokio::task::JoinSet::new();
    calls.spawn(async move { handle.dispatch(pushed(8, &["deaf"])).await });
    scene.store.until_arrived(arrived + 1).await;
    // While that is being stored one ends, with whom nothing of the tree goes on, and another one is stopped.
    scene.troupe.say("told");
    scene.troupe.until(|counts| counts.here.is_empty()).await;
    scene.handle.view(None).await;
    let scope = Scope::Child(ticket.children[1].clone());
    let told = scene.begin_stop(scope, Force::Ask).await;
    scene.store.open();
    told.await;
    let record = left_to_another(&scene, &ticket).await;
    assert_eq!(record.children[2].state, ChildState::Queued { attempts: 1 });
    assert_eq!(record.children[1].outcome(), stopped(StopReason::Cancelled));
    let mut heard = Vec::new();
    while heard.len() < 2 {
        // Deadline: what is not told within this time is never told.
        let event = tokio::time::timeout(FOR_EVER, watch.next()).await.expect("both ends are told");
        if let Some(LiveEvent::Settled { child, .. }) = event {
            heard.push(child.child.clone());
        }
    }
    assert_eq!(heard, ticket.children[..2]);
}

/// Work that is let go of and whose owner is not changed yet: the store is slow.
async fn between_letting_go_and_its_commit(memory: &MemoryStore) -> (Ticket, Scene, Arc<ShakyStore>) {
    let shaky = Arc::new(ShakyStore::new(Arc::new(memory.clone())));
    let (ticket, scene) = partly_withheld(memory, shaky.clone()).await;
    shaky.let_decide(|name| match name {
        "enter" => Luck::Slow(Duration::from_secs(5)),
        _other => Luck::Good,
    });
    scene.troupe.say("told");
    for _ in 0..50 {
        if !scene.handle.view(None).await.iter().any(|view| view.delegation == ticket.delegation) {
            break;
        }
        scene.pass(Duration::from_millis(100)).await;
    }
    assert!(scene.handle.view(None).await.is_empty(), "it is let go of");
    assert_eq!(scene.stored(&ticket.delegation).await.owner, owner(2), "and that is not stored");
    (ticket, scene, shaky)
}

#[tokio::test(start_paused = true)]
async fn k38_a_join_between_letting_go_and_its_commit_hears_what_is_lacking() {
    let memory = MemoryStore::new();
    let (ticket, scene, _shaky) = between_letting_go_and_its_commit(&memory).await;
    let whole = scene.handle.join(&ticket.delegation);
    let unit = scene.handle.join_unit(&ticket.delegation, &ticket.units[0].id);
    // Deadline: in paused time a wait for something that never comes would turn for ever.
    let both = tokio::time::timeout(FOR_EVER, async { tokio::join!(whole, unit) }).await;
    let (whole, unit) = both.expect("nobody waits for ever");
    assert_eq!(whole.err(), Some(JoinError::Orphaned(ticket.delegation.clone())));
    assert_eq!(unit.err(), Some(JoinError::Orphaned(ticket.delegation)));
}

#[tokio::test(start_paused = true)]
async fn disp_16_who_waits_for_a_unit_of_a_tree_that_is_let_go_of_hears_what_is_lacking() {
    let memory = MemoryStore::new();
    let (ticket, scene) = partly_withheld(&memory, Arc::new(memory.clone())).await;
    let (handle, id, unit) = (scene.handle.clone(), ticket.delegation.clone(), ticket.units[0].id.clone());
    let mut joins = tokio::task::JoinSet::new();
    joins.spawn(async move { handle.join_unit(&id, &unit).await });
    scene.pass(Duration::from_secs(1)).await;
    scene.troupe.say("told");
    // Deadline: as above.
    let joined = tokio::time::timeout(FOR_EVER, joins.join_next()).await.expect("nobody waits for ever");
    let joined = joined.expect("it waits").expect("it does not panic");
    assert_eq!(joined.err(), Some(JoinError::Orphaned(ticket.delegation)));
}

#[tokio::test(start_paused = true)]
async fn k12_a_stop_between_letting_go_and_its_commit_is_stored_for_whoever_goes_on() {
    let memory = MemoryStore::new();
    let (ticket, scene, shaky) = between_letting_go_and_its_commit(&memory).await;
    let scope = Scope::Child(ticket.children[1].clone());
    let told = scene.handle.stop(scope, StopReason::Cancelled, Force::Ask).await;
    assert_eq!((told.children.as_slice(), told.untold), (&ticket.children[1..2], None));
    shaky.recover();
    left_to_another(&scene, &ticket).await;
    let heir = Scene::over(memory.clone(), 3, options(3)).await;
    heir.troupe.gets_keys();
    recover(&heir, &Orphans::All).await;
    heir.troupe.say("a");
    let record = heir.joined(&ticket).await;
    assert_eq!(record.children[1].outcome(), stopped(StopReason::Cancelled));
    assert_eq!(record.children[2].outcome(), Some(Outcome::Succeeded));
}

/// Longer than anything here takes.
const FOR_EVER: Duration = Duration::from_secs(3600);

#[tokio::test(start_paused = true)]
async fn disp_16_a_unit_of_which_a_part_had_ended_before_its_process_died_can_be_joined() {
    let memory = MemoryStore::new();
    let ticket = left(&memory, batch(&["answer", "until told"]), &["until told"]).await;
    let scene = Scene::over(memory.clone(), 2, options(2)).await;
    recover(&scene, &Orphans::All).await;
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
    recover(&scene, &Orphans::All).await;
    let Some(LiveEvent::Settled { child, outcome, facts, .. }) = watch.next().await else {
        panic!("it settles")
    };
    assert_eq!((&child.child, outcome, facts.model_calls), (&ticket.children[0], Outcome::Lost, 1));
}

/// The store takes nothing until the work whose facts wait for it is given up.
async fn given_up(scene: &Scene) {
    scene.store.fail(StoreError::Full("no space left on device".to_owned()));
    scene.handle.stop(Scope::All, StopReason::Cancelled, Force::Ask).await;
    scene.pass(Duration::from_secs(70)).await;
    assert_eq!(scene.handle.view(None).await, []);
    scene.store.open();
}

#[tokio::test(start_paused = true)]
async fn k08_work_that_was_given_up_here_goes_on_here_when_it_is_asked_for() {
    let scene = Scene::new(1).await;
    let ticket = scene.dispatch(&["until told"]).await;
    scene.troupe.until_here("until told").await;
    given_up(&scene).await;
    for attempt in [2, 3] {
        let recovered = recover(&scene, &Orphans::All).await;
        assert_eq!(recovered.taken, std::slice::from_ref(&ticket.delegation));
        assert_eq!(recover(&scene, &Orphans::All).await.taken, [], "it is at work here");
        scene.troupe.until(|counts| counts.came == attempt).await;
        let again = scene.troupe.assignments().pop().expect("it was played");
        assert_eq!((again.attempt as usize, again.fence.epoch), (attempt, Epoch(attempt as u64)));
        if attempt == 2 {
            given_up(&scene).await;
            assert_eq!(recover(&scene, &Orphans::All).await.taken, [], "it is left alone for a while");
            scene.pass(Duration::from_secs(60)).await;
        }
    }
    scene.troupe.say("told");
    assert_eq!(scene.joined(&ticket).await.children[0].outcome(), Some(Outcome::Succeeded));
}

#[tokio::test(start_paused = true)]
async fn k08_work_that_was_given_up_here_is_not_begun_again_before_its_old_run_has_ended() {
    let memory = MemoryStore::new();
    let goal = "until told slow to leave";
    let ticket = left(&memory, batch(&[goal]), &[goal]).await;
    let scene = Scene::over(memory, 2, options(1)).await;
    recover(&scene, &Orphans::All).await;
    scene.troupe.until_here(goal).await;
    given_up(&scene).await;
    assert_eq!(recover(&scene, &Orphans::All).await.taken, [], "its run is still tidying up");
    assert_eq!(scene.troupe.counts().came, 1);
    scene.troupe.say("left");
    scene.pass(Duration::from_secs(1)).await;
    assert_eq!(recover(&scene, &Orphans::All).await.taken, std::slice::from_ref(&ticket.delegation));
    scene.troupe.until(|counts| counts.came == 2).await;
    scene.troupe.say("told");
    let record = scene.joined(&ticket).await;
    assert_eq!((record.children[0].outcome(), record.epoch), (Some(Outcome::Succeeded), Epoch(3)));
    // And its slot is free again, once.
    let next = scene.dispatch(&["until another is told", "until another is told too"]).await;
    scene.troupe.until_here("until another is told").await;
    scene.pass(Duration::from_secs(1)).await;
    assert_eq!(scene.troupe.counts().here.len(), 1);
    scene.troupe.say("another");
    scene.joined(&next).await;
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
    assert_eq!(recover(&scene, &Orphans::All).await.resumed, 6);
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
    let recovered = recover(&scene, &Orphans::All).await;
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
    recover(&scene, &Orphans::All).await;
    scene.pass(Duration::from_secs(1)).await;
    let all = memory.delegations(legwork_core::ports::Filter::Recent(9)).await.expect("it reads");
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
    recover(&heir, &Orphans::All).await;
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
