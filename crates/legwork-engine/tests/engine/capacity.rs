//! Calls that meet taken slots, and calls that come back in several units.

use crate::desk::Desk;
use crate::scene::{Scene, batch, batch_from, call_key, options, pushed, stopped};
use legwork_core::batch::{Completions, Fallback, NewBatch, Reach, Task, Ticket};
use legwork_core::completion::BatchResult;
use legwork_core::delivery::DeliveryState;
use legwork_core::outcome::{Force, Outcome, StopReason, WireStatus};
use legwork_core::ports::{Delegator, DispatchError, Refusal, StoreError};
use legwork_core::steering::Scope;
use legwork_engine::{AtCapacity, Options};
use legwork_testkit::memory::MemoryStore;
use std::time::Duration;

async fn scene(at_capacity: AtCapacity, children_max: usize) -> Scene {
    let options = Options { at_capacity, completions: Completions::ByUnit, ..options(children_max) };
    Scene::over(MemoryStore::new(), 1, options).await
}

async fn call(scene: &Scene, goals: &[&str]) -> Ticket {
    scene.handle.dispatch(pushed(7, goals)).await.expect("it is accepted")
}

/// A call of session 7 whose tasks have these groups.
fn grouped(tasks: &[(&str, Option<&str>)]) -> NewBatch {
    let task =
        |(goal, group): &(&str, Option<&str>)| Task { group: group.map(str::to_owned), ..Task::of(*goal) };
    NewBatch { tasks: tasks.iter().map(task).collect(), ..pushed(7, &[]) }
}

fn how(ticket: &Ticket) -> (Reach, Option<Fallback>) {
    (ticket.reach, ticket.fallback)
}

const BACKGROUND: (Reach, Option<Fallback>) = (Reach::Push, None);
const INLINE: (Reach, Option<Fallback>) = (Reach::Joined, Some(Fallback::AtCapacity));

#[tokio::test(start_paused = true)]
async fn cap_03_of_calls_that_come_at_once_no_more_than_there_are_slots_go_to_the_background() {
    let scene = scene(AtCapacity::Sync, 2).await;
    let calls = ["until a", "until b", "until c"].map(|goal| scene.handle.dispatch(pushed(7, &[goal])));
    let tickets = futures::future::try_join_all(calls).await.expect("all are accepted");
    let mut answers: Vec<_> = tickets.iter().map(how).collect();
    answers.sort_by_key(|(_, fallback)| fallback.is_some());
    assert_eq!(answers, [BACKGROUND, BACKGROUND, INLINE]);
}

/// Proves CAP-10: a call keeps its slot until its children are gone, not only until they were told to go.
#[tokio::test(start_paused = true)]
async fn cap_10_a_call_whose_child_does_not_heed_its_stop_counts_until_that_is_gone() {
    let scene = scene(AtCapacity::Sync, 1).await;
    let first = call(&scene, &["deaf"]).await;
    scene.troupe.until_here("deaf").await;
    let child = Scope::Child(first.children[0].clone());
    scene.handle.stop(child, StopReason::Cancelled, Force::Ask).await;
    assert_eq!(how(&call(&scene, &["answer"]).await), INLINE);
    scene.joined(&first).await;
    assert_eq!(how(&call(&scene, &["answer"]).await), BACKGROUND);
}

/// Proves CAP-2, CAP-4, CAP-5, CAP-6, CAP-11.
#[tokio::test(start_paused = true)]
async fn cap_06_where_calls_take_slots_one_too_many_is_waited_for_and_runs_at_once() {
    let scene = scene(AtCapacity::Sync, 2).await;
    let (first, second) = tokio::join!(
        scene.handle.dispatch(pushed(7, &["until told a", "until told b"])),
        scene.handle.dispatch(pushed(7, &["until called"])),
    );
    let (first, second) = (first.expect("accepted"), second.expect("accepted"));
    assert_eq!((how(&first), first.units.len(), how(&second)), (BACKGROUND, 2, BACKGROUND));
    let (third, fourth) = (call(&scene, &["until heard"]).await, call(&scene, &["until heard too"]).await);
    assert_eq!((how(&third), how(&fourth)), (INLINE, INLINE));
    scene.troupe.until(|counts| counts.here.len() == 5).await;
    scene.troupe.say("heard");
    let joined = scene.handle.join(&third.delegation).await.expect("it settles");
    assert_eq!((joined.claims.len(), joined.record.is_settled()), (1, true));

    // A call keeps its slot until all its units have settled, and no longer: nobody has taken the results.
    scene.troupe.say("called");
    scene.handle.settled(&second.delegation).await;
    assert_eq!(how(&call(&scene, &["until told c"]).await), BACKGROUND);
    assert_eq!(how(&call(&scene, &["answer"]).await), INLINE);
}

/// Proves CAP-6.
#[tokio::test(start_paused = true)]
async fn a_call_that_is_made_again_after_a_crash_is_waited_for_like_the_first_time() {
    let scene = scene(AtCapacity::Sync, 1).await;
    let busy = call(&scene, &["until told"]).await;
    let again = NewBatch { call_key: Some(call_key("again")), ..pushed(7, &["answer"]) };
    let first = scene.handle.dispatch(again.clone()).await.expect("accepted");
    scene.troupe.say("told");
    scene.joined(&busy).await;
    let second = scene.handle.dispatch(again).await.expect("accepted");
    assert_eq!((how(&second), &second), (INLINE, &first), "though there is a slot now");
}

/// Proves CAP-1, TASK-3, MODE-1.
#[tokio::test(start_paused = true)]
async fn task_03_a_call_of_too_many_tasks_is_refused_and_children_take_no_slot() {
    let scene = scene(AtCapacity::Sync, 2).await;
    let refused = scene.handle.dispatch(pushed(7, &["answer"; 3])).await;
    let expected = DispatchError::Refused(Refusal::TooManyTasks { asked: 3, tasks_max: 2 });
    assert_eq!((refused, scene.handle.view(None).await.len()), (Err(expected), 0));
    call(&scene, &["until told"]).await;
    scene.troupe.until_here("until told").await;
    let caller = scene.troupe.assignments()[0].clone();
    let goals = ["until told too".to_owned(), "until told three".to_owned()];
    let below = NewBatch { reach: Reach::Push, ..batch_from(&caller, &goals) };
    let below = scene.handle.dispatch(below).await.expect("accepted");
    assert_eq!(how(&below), (Reach::Joined, None));
    assert_eq!(how(&call(&scene, &["answer"]).await), BACKGROUND);
}

#[tokio::test(start_paused = true)]
async fn cap_08_a_call_that_cannot_be_recorded_leaves_nothing_behind_and_takes_no_slot() {
    for at_capacity in [AtCapacity::Queue, AtCapacity::Reject, AtCapacity::Sync] {
        let scene = scene(at_capacity, 1).await;
        scene.store.fail(StoreError::Full("no space left".to_owned()));
        let refused = scene.handle.dispatch(pushed(7, &["answer"])).await;
        assert!(matches!(refused, Err(DispatchError::Store(_))), "{at_capacity:?}: {refused:?}");
        assert_eq!(scene.handle.view(None).await, []);
        scene.store.open();
        let next = call(&scene, &["answer"]).await;
        assert_eq!(how(&next), BACKGROUND, "{at_capacity:?}");
        scene.joined(&next).await;
        assert_eq!(scene.troupe.counts().came, 1, "{at_capacity:?}: the refused call started nothing");
    }
}

#[tokio::test(start_paused = true)]
async fn cap_10_a_process_that_is_ending_takes_no_call_and_says_when_to_call_again() {
    let scene = scene(AtCapacity::Sync, 1).await;
    call(&scene, &["finish told"]).await;
    scene.troupe.until_here("finish told").await;
    let (handle, troupe) = (scene.handle.clone(), scene.troupe.clone());
    let calling = async {
        troupe.until(|counts| !counts.heard.is_empty()).await;
        let refused = handle.dispatch(pushed(7, &["answer"])).await;
        troupe.say("told");
        refused
    };
    let ((), refused) = tokio::join!(scene.engine.close(), calling);
    assert_eq!(refused, Err(DispatchError::Refused(Refusal::Ending)));
    assert!(Refusal::Ending.to_string().contains("Call again when the session is open again"));
}

/// Proves DISP-11, DISP-22, DISP-23, DISP-24, CAP-6: a stop that comes while the call is being recorded reaches every unit of it.
#[tokio::test(start_paused = true)]
async fn disp_24_a_stop_in_the_middle_of_a_call_reaches_what_is_handed_back() {
    for at_capacity in [AtCapacity::Queue, AtCapacity::Sync] {
        let begun = std::time::Instant::now();
        let scene = scene(at_capacity, 2).await;
        call(&scene, &["until told"]).await;
        call(&scene, &["until told too"]).await;
        scene.troupe.until(|counts| counts.here.len() == 2).await;
        scene.store.close();
        let dispatched = scene.handle.dispatch(pushed(7, &["until told a", "until told b"]));
        tokio::pin!(dispatched);
        assert!(futures::poll!(&mut dispatched).is_pending());
        let arrived = scene.store.arrived();
        scene.store.until_arrived(arrived).await;
        let session = pushed(7, &[]).lineage.session;
        let told = scene.begin_stop(Scope::Session(session), Force::Ask).await;
        scene.store.open();
        let told = told.await;
        assert_eq!(told.children.len(), 4, "{at_capacity:?}: {told:?}");
        let ticket = dispatched.await.expect("it was accepted before");
        let record = scene.joined(&ticket).await;
        let outcomes: Vec<Option<Outcome>> = record.children.iter().map(|child| child.outcome()).collect();
        assert_eq!(outcomes, [stopped(StopReason::Cancelled), stopped(StopReason::Cancelled)]);
        for (index, entry) in BatchResult::of(&record).results.iter().enumerate() {
            assert_eq!((entry.task_index, entry.status), (index, WireStatus::Interrupted));
            assert_eq!((&entry.summary, entry.api_calls), (&None, 0));
            // Stored times are the wall clock's, which goes on while the runtime's stands still; it is rounded to a hundredth.
            let most = begun.elapsed().as_secs_f64() + 0.01;
            assert!(entry.duration_seconds <= most, "{} s, at most {most}", entry.duration_seconds);
            assert_eq!(entry.error.as_deref(), Some("stopped on request"));
        }
    }
}

/// Proves DISP-9, DISP-17: units join on themselves.
#[tokio::test(start_paused = true)]
async fn disp_17_a_finished_unit_is_delivered_while_its_slower_siblings_run() {
    let scene = scene(AtCapacity::Queue, 4).await;
    let desk = Desk::new(7);
    scene.serve(&desk).await;
    let tasks =
        [("until a", Some("a")), ("until b", None), ("until a too", Some("a")), ("until c", Some("c"))];
    let ticket = scene.handle.dispatch(grouped(&tasks)).await.expect("accepted");
    let ids: Vec<_> = ticket.units.iter().map(|unit| unit.id.clone()).collect();
    scene.troupe.say("a");
    desk.until_offered(1).await;
    assert_eq!((desk.offered(), desk.last_offer().unit), (vec![ids[0].clone()], 0));
    desk.stores(scene.store.as_ref()).await;
    let deliveries = scene.stored(&ticket.delegation).await.deliveries;
    let states: Vec<&DeliveryState> = deliveries.iter().map(|delivery| &delivery.state).collect();
    assert_eq!(states, [&DeliveryState::Delivered, &DeliveryState::Held, &DeliveryState::Held]);
    scene.troupe.say("c");
    desk.until_offered(2).await;
    desk.stores(scene.store.as_ref()).await;
    scene.troupe.say("b");
    desk.until_offered(3).await;
    desk.stores(scene.store.as_ref()).await;
    scene.pass(Duration::from_secs(60)).await;
    assert_eq!(desk.offered(), [ids[0].clone(), ids[2].clone(), ids[1].clone()]);
}

/// Proves DISP-17, DISP-23: a stop of a unit ends its children and no others, and says why.
#[tokio::test(start_paused = true)]
async fn disp_23_a_stop_of_a_unit_ends_its_children_and_a_join_of_it_does_not_wait_for_the_others() {
    let scene = scene(AtCapacity::Queue, 4).await;
    let tasks = [("until a", Some("a")), ("until b", None), ("until c", Some("a"))];
    let ticket = scene.handle.dispatch(grouped(&tasks)).await.expect("accepted");
    scene.troupe.until(|counts| counts.here.len() == 3).await;
    let unit = ticket.units[0].id.clone();
    let (joined, told) = tokio::join!(
        scene.handle.join_unit(&ticket.delegation, &unit),
        scene.handle.stop(Scope::Unit(unit.clone()), StopReason::Cancelled, Force::Ask),
    );
    assert_eq!(told.children, [ticket.children[0].clone(), ticket.children[2].clone()]);
    let joined = joined.expect("the unit settles");
    assert_eq!((joined.claims.len(), joined.record.is_settled()), (1, false));
    let again = scene.handle.join_unit(&ticket.delegation, &unit).await.expect("it is settled");
    assert_eq!(again.claims, joined.claims, "what this process holds is taken up again");
    scene.troupe.say("b");
    assert_eq!(scene.joined(&ticket).await.children[1].outcome(), Some(Outcome::Succeeded));
}

/// Proves MODE-4, MODE-6.
#[tokio::test(start_paused = true)]
async fn mode_06_each_inbox_is_offered_the_completions_of_its_own_reach() {
    let scene = Scene::new(4).await;
    let mut tickets = Vec::new();
    for reach in [Reach::Push, Reach::History, Reach::Joined] {
        let ticket = scene.handle.dispatch(NewBatch { reach, ..pushed(7, &["answer"]) }).await;
        tickets.push(ticket.expect("accepted"));
    }
    for (reach, expected) in [(Reach::History, 1), (Reach::Push, 0)] {
        let desk = Desk::taking(7, reach);
        scene.serve(&desk).await;
        desk.until_offered(1).await;
        desk.stores(scene.store.as_ref()).await;
        scene.pass(Duration::from_secs(60)).await;
        assert_eq!(desk.offered(), [tickets[expected].units[0].id.clone()], "{reach:?}");
    }
    let nobody = Desk::taking(7, Reach::Joined);
    scene.serve(&nobody).await;
    scene.pass(Duration::from_secs(60)).await;
    assert_eq!(nobody.offered(), [], "what a caller waits for is offered to nobody");
    assert_eq!(batch(&["answer"]).reach, Reach::Joined);
}
