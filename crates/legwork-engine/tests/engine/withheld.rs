//! What a process lacks the key for is left to another one, in one commit, and nobody waits for it here.

use crate::scene::{DEAD, FOR_EVER, Scene, batch, batch_from, left, options, owner, pushed, stopped};
use crate::troupe::LACKING;
use legwork_core::batch::{Task, Ticket};
use legwork_core::child::ChildState;
use legwork_core::ids::Epoch;
use legwork_core::message::{Author, Message, Part, ToolCall};
use legwork_core::outcome::{Force, Outcome, StopReason};
use legwork_core::ports::{Delegator, JoinError, LiveEvent, Steps, Store, WriteSteps};
use legwork_core::record::DelegationRecord;
use legwork_core::report::{Cost, Usage};
use legwork_core::steering::Scope;
use legwork_core::step::{Action, Actor, Finish, Product, Reply, StepChange};
use legwork_core::time::Timestamp;
use legwork_engine::recovery::Orphans;
use legwork_testkit::memory::MemoryStore;
use legwork_testkit::shaky::{Luck, ShakyStore};
use std::sync::Arc;
use std::time::Duration;
#[tokio::test(start_paused = true)]
async fn what_a_process_lacks_is_left_to_another_one() {
    let memory = MemoryStore::new();
    let mut call = batch(&["until told"]);
    call.setting.route.model = LACKING.to_owned();
    let ticket = left(&memory, call, &["until told"]).await;
    let scene = Scene::over(memory.clone(), 2, options(2)).await;
    let recovered = scene.recover(&Orphans::All).await;
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
    let recovered = scene.recover(&Orphans::All).await;
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
    assert_eq!(scene.recover(&Orphans::All).await.taken, [], "it is not taken again and again");
    assert_eq!(scene.troupe.counts().came, 1);
    let heir = Scene::over(memory.clone(), 3, options(3)).await;
    heir.troupe.gets_keys();
    let recovered = heir.recover(&Orphans::All).await;
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
    let recovered = scene.recover(&Orphans::All).await;
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
    let recovered = scene.recover(&Orphans::All).await;
    assert_eq!((recovered.taken.len(), recovered.resumed), (2, 1), "whole trees are taken over");
    assert_eq!(recovered.lacking, [(below.delegation.clone(), "the key of the model".to_owned())]);
    scene.troupe.until(|counts| counts.here == ["until asked"]).await;
    scene.troupe.say("asked");
    let record = left_to_another(&scene, &ticket).await;
    assert_eq!(record.children[0].state, ChildState::Queued { attempts: 1 });
    assert_eq!(left_to_another(&scene, &below).await.owner, record.owner);
    assert_eq!(scene.recover(&Orphans::All).await.taken, [], "nothing of it can go on here");
    let heir = Scene::over(memory.clone(), 3, options(3)).await;
    heir.troupe.gets_keys();
    assert_eq!(heir.recover(&Orphans::All).await.resumed, 2);
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
    scene.recover(&Orphans::All).await;
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
    scene.recover(&Orphans::All).await;
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
    heir.recover(&Orphans::All).await;
    heir.troupe.say("a");
    let record = heir.joined(&ticket).await;
    assert_eq!(record.children[1].outcome(), stopped(StopReason::Cancelled));
    assert_eq!(record.children[2].outcome(), Some(Outcome::Succeeded));
}

/// A tree is let go of behind facts of it that the store has not taken yet: they are this process's, and nobody else's would be
/// taken for them.
#[tokio::test(start_paused = true)]
async fn k12_a_stop_that_is_not_recorded_yet_is_recorded_before_its_tree_is_left() {
    let memory = MemoryStore::new();
    let (ticket, scene) = partly_withheld(&memory, Arc::new(memory.clone())).await;
    scene.store.close();
    let arrived = scene.store.arrived();
    scene.troupe.say("told");
    scene.store.until_arrived(arrived + 1).await;
    let told = scene.begin_stop(Scope::Child(ticket.children[1].clone()), Force::Ask).await;
    scene.store.let_one_pass();
    scene.store.until_arrived(arrived + 2).await;
    scene.pass(Duration::from_secs(2)).await;
    assert_eq!(scene.stored(&ticket.delegation).await.owner, owner(2), "the stop waits for the store");
    scene.store.open();
    let told = told.await;
    assert_eq!((told.children.as_slice(), told.untold), (&ticket.children[1..2], None));
    let record = left_to_another(&scene, &ticket).await;
    assert_eq!(record.children[1].outcome(), stopped(StopReason::Cancelled));
    assert_eq!(record.children[2].state, ChildState::Queued { attempts: 1 });
}
