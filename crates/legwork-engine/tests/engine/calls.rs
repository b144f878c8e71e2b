//! What makes a call one and the same: who asks, under which id, and for what.

use crate::scene::{Scene, batch, call_key, options, stopped};
use legwork_core::batch::{NewBatch, OnCrash, Task, Ticket};
use legwork_core::ids::{CallKey, DelegationId, SessionId};
use legwork_core::outcome::{Ending, Force, Outcome, StopReason};
use legwork_core::ports::{Delegator, DispatchError, Facts, Filter};
use legwork_core::steering::Scope;
use legwork_core::time::Timestamp;
use legwork_engine::Clock;
use legwork_testkit::memory::MemoryStore;
use std::collections::BTreeSet;

/// Tasks of each of two equal calls.
const MANY: usize = 50;

/// A call of session 7 under one id.
fn keyed(tasks: &[Task]) -> NewBatch {
    NewBatch { call_key: Some(call_key("call_1")), tasks: tasks.to_vec(), ..batch(&[]) }
}

/// Fails unless the call was refused for what was accepted under its key before, in words that name both.
#[track_caller]
fn assert_other(answer: &Result<Ticket, DispatchError>, first: &DelegationId, words: [&str; 2]) {
    let Err(DispatchError::Reused(other)) = answer else { panic!("{answer:?}") };
    assert_eq!((&other.delegation, other.call.as_str()), (first, "call_1"));
    let text = answer.as_ref().expect_err("it was refused").to_string();
    for word in words.into_iter().chain([first.as_str(), "call_1", "Nothing was started"]) {
        assert!(text.contains(word), "{word:?} is missing: {text}");
    }
}

async fn delegations(scene: &Scene) -> usize {
    scene.store.delegations(Filter::Recent(usize::MAX)).await.expect("readable").rows.len()
}

/// Calls that ask for something else than `Task::of("until told")`.
fn others() -> Vec<Vec<Task>> {
    let first = || Task::of("until told");
    vec![
        vec![Task::of("answer something else")],
        vec![first(), Task::of("answer more")],
        vec![Task { context: Some("in another folder".to_owned()), ..first() }],
        vec![Task { output_schema: Some(true.into()), ..first() }],
        vec![Task { group: Some("g".to_owned()), ..first() }],
        vec![Task { images: vec!["picture.png".to_owned()], ..first() }],
    ]
}

#[tokio::test(start_paused = true)]
async fn k06_inv_06_another_call_under_the_same_id_is_refused_while_the_first_runs_and_after_it() {
    let scene = Scene::new(4).await;
    let first = scene.handle.dispatch(keyed(&[Task::of("until told")])).await.expect("it is accepted");
    let id = &first.delegation;
    for ended in [false, true] {
        for tasks in others() {
            let answer = scene.handle.dispatch(keyed(&tasks)).await;
            assert_other(&answer, id, ["\"until told\"", tasks[0].goal.as_str()]);
        }
        // What follows from settings makes no other call of it.
        let again = Task { on_crash: OnCrash::Report, ..Task::of("until told") };
        assert_eq!(scene.handle.dispatch(keyed(&[again])).await.as_ref(), Ok(&first));
        if !ended {
            scene.troupe.until_here("until told").await;
            scene.troupe.say("told");
            scene.joined(&first).await;
        }
    }
    assert_eq!((scene.troupe.counts().came, delegations(&scene).await), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn k06_inv_06_another_call_under_the_same_id_is_refused_although_the_first_is_not_decided_yet() {
    for other in others() {
        let scene = Scene::new(4).await;
        scene.store.close();
        let (first, other_tasks) = (keyed(&[Task::of("until told")]), keyed(&other));
        let let_go = async {
            scene.store.until_arrived(1).await;
            scene.handle.view(None).await;
            scene.store.open();
        };
        let dispatches = (
            scene.handle.dispatch(first.clone()),
            scene.handle.dispatch(other_tasks),
            scene.handle.dispatch(first),
        );
        let (first, refused, again, ()) = tokio::join!(dispatches.0, dispatches.1, dispatches.2, let_go);
        let first = first.expect("it is accepted");
        assert_other(&refused, &first.delegation, ["\"until told\"", other[0].goal.as_str()]);
        assert_eq!(again.as_ref(), Ok(&first));
        scene.troupe.until_here("until told").await;
        assert_eq!((scene.troupe.counts().came, delegations(&scene).await), (1, 1));
    }
}

/// The store decides which of two processes was first.
#[tokio::test(start_paused = true)]
async fn k06_inv_06_another_call_under_the_same_id_is_refused_in_another_process_too() {
    let memory = MemoryStore::new();
    let one = Scene::over(memory.clone(), 1, options(4)).await;
    let two = Scene::over(memory.clone(), 2, options(4)).await;
    // Its record waits while the other one's is taken.
    two.store.close();
    let late = two.handle.dispatch(keyed(&[Task::of("answer late")]));
    let overtakes = async {
        two.store.until_arrived(1).await;
        let first = one.handle.dispatch(keyed(&[Task::of("until told")])).await.expect("it is accepted");
        two.store.open();
        first
    };
    let (late, first) = tokio::join!(late, overtakes);
    assert_other(&late, &first.delegation, ["\"until told\"", "\"answer late\""]);
    let again = two.handle.dispatch(keyed(&[Task::of("until told")])).await;
    assert_eq!(again, Ok(first));
    assert_eq!((delegations(&one).await, two.troupe.counts().came), (1, 0));
}

/// A call of a session, with tasks of its own under the same id as that of the others.
fn many(session: u64) -> NewBatch {
    let key = CallKey { caller: SessionId::from_bits(session).to_string(), call: "call_1".to_owned() };
    let goals: Vec<String> =
        (0..MANY).map(|number| format!("until told n={number} nonce={}", nonce(session, number))).collect();
    let goals: Vec<&str> = goals.iter().map(String::as_str).collect();
    let mut batch = NewBatch { call_key: Some(key), ..batch(&goals) };
    batch.lineage.session = SessionId::from_bits(session);
    batch
}

fn nonce(session: u64, number: usize) -> String {
    format!("r{session}-{}", number * 7919 % 9973)
}

/// Two sessions of one process or of two, with equal call ids, numbers and moments: each task has one child, which ends
/// in its own place, and a stop of one reaches that one.
#[tokio::test(start_paused = true)]
async fn k42_inv_36_equal_call_ids_of_two_sessions_stay_apart_while_the_clock_stands_still() {
    for is_one_process in [true, false] {
        let memory = MemoryStore::new();
        let still = Clock::start_beside(|| Timestamp(1_700_000_000_000));
        let one = Scene::at(memory.clone(), still, (1, options(2 * MANY))).await;
        let other = Scene::at(memory.clone(), still, (2, options(2 * MANY))).await;
        let homes = [&one, if is_one_process { &one } else { &other }];
        let calls = (homes[0].handle.dispatch(many(7)), homes[1].handle.dispatch(many(8)));
        let (first, second) = tokio::join!(calls.0, calls.1);
        let tickets = [first.expect("it is accepted"), second.expect("it is another call")];
        let ids = |ticket: &Ticket| ticket.children.iter().map(ToString::to_string).collect::<Vec<_>>();
        let children: BTreeSet<String> = tickets.iter().flat_map(ids).collect();
        assert_eq!(children.len(), 2 * MANY, "ids are made by us");
        let last = |session| format!("until told n={} nonce={}", MANY - 1, nonce(session, MANY - 1));
        homes[0].troupe.until_here(&last(7)).await;
        homes[1].troupe.until_here(&last(8)).await;

        let stop = Scope::Child(tickets[1].children[17].clone());
        let told = homes[1].handle.stop(stop, StopReason::Cancelled, Force::Ask).await;
        assert_eq!(told.children, [tickets[1].children[17].clone()]);
        homes[1].troupe.until(|counts| !counts.heard.is_empty()).await;
        [&one, &other].iter().for_each(|scene| scene.troupe.say("told"));
        for ((ticket, session), scene) in tickets.iter().zip([7, 8]).zip(homes) {
            let record = scene.joined(ticket).await;
            assert_eq!(record.accepted.lineage.session, SessionId::from_bits(session));
            for (number, child) in record.children.iter().enumerate() {
                let report = child.report.as_ref().expect("it has ended");
                if (session, number) == (8, 17) {
                    assert_eq!(child.outcome(), stopped(StopReason::Cancelled));
                    continue;
                }
                let own = format!("until told n={number} nonce={}", nonce(session, number));
                assert_eq!((report.ending, report.answer.as_deref()), (Ending::Answered, Some(own.as_str())));
                assert_eq!(child.outcome(), Some(Outcome::Succeeded));
            }
        }
        let came = one.troupe.assignments().len() + other.troupe.assignments().len();
        assert_eq!(came, 2 * MANY, "each task was begun once");
    }
}
