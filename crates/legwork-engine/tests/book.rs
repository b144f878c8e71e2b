//! Single moves of the book that once went wrong, each under its symptom. Everything else about it is in the worlds.

use legwork_core::batch::{Completions, Isolation, Lineage, NewBatch, Reach, Rights, Route, Setting, Task};
use legwork_core::budget::Allowance;
use legwork_core::child::ChildState;
use legwork_core::ids::{ChildId, DelegationId, OwnerId, SessionId};
use legwork_core::outcome::{Ending, Force, StopReason};
use legwork_core::ports::{Facts, Refusal, StopNotice};
use legwork_core::record::{DelegationRecord, OwnerRecord, Process};
use legwork_core::report::Report;
use legwork_core::steering::Scope;
use legwork_core::time::{Moment, Now, Timestamp};
use legwork_engine::book::{Adopted, Book, Effect, Event, NewIds, ReplyTo};
use legwork_engine::{AtCapacity, Options, Patience};
use legwork_testkit::memory::MemoryStore;
use std::collections::BTreeMap;
use std::time::Duration;

const GRACE: u64 = 1_000;
const PATIENCE: u64 = 60_000;

fn book(children_max: usize) -> Book {
    let seconds = |ms| Duration::from_millis(ms);
    let options = Options {
        children_max,
        queue_max: 10,
        depth_max: 3,
        at_capacity: AtCapacity::Queue,
        completions: Completions::Together,
        patience: Patience {
            idle: seconds(PATIENCE),
            tool: seconds(PATIENCE),
            grace: seconds(GRACE),
            inactivity: None,
        },
        stop_grace: seconds(GRACE),
        lease: Duration::from_secs(10),
    };
    Book::new(options, OwnerId::from_bits(1))
}

fn at(ms: u64) -> Now {
    Now { wall: Timestamp(0), mono: Moment(ms) }
}

fn child(delegation: u32, index: usize) -> ChildId {
    ChildId::from_bits(index, delegation)
}

/// Delegates `tasks` tasks as number `delegation`; `parent` is the child that calls, if one does.
fn call(book: &mut Book, delegation: u32, tasks: usize, parent: Option<ChildId>) -> Vec<Effect> {
    let depth = u32::from(parent.is_some());
    let batch = NewBatch {
        lineage: Lineage { parent, depth, ..Lineage::of_session(SessionId::from_bits(1)) },
        call_key: None,
        context: None,
        reach: Reach::Joined,
        tasks: vec![Task::of("look"); tasks],
        setting: Setting {
            folder: "/".to_owned(),
            route: Route {
                model: "m".to_owned(),
                base_url: None,
                api_mode: "chat".to_owned(),
                key_source: None,
                terms: None,
                table: None,
                fallbacks: Vec::new(),
            },
            rights: Rights::default(),
            allowance: Allowance { steps_max: 1 },
            isolation: Isolation::Shared,
        },
    };
    let children = (0..tasks).map(|index| child(delegation, index)).collect();
    let ids = NewIds { delegation: DelegationId::from_bits(delegation), children, transcripts: Vec::new() };
    book.step(Event::Dispatch { batch: Box::new(batch), ids, reply: ReplyTo(u64::from(delegation)) }, at(0))
}

fn stop(book: &mut Book, scope: Scope, force: Force, now: u64) -> Vec<Effect> {
    let notice = StopNotice { reason: StopReason::Cancelled, force };
    book.step(Event::Stop { scope, notice, reply: Some(ReplyTo(99)) }, at(now))
}

fn withdraw(book: &mut Book, delegation: u32) -> Vec<Effect> {
    book.step(Event::Withdrawn(DelegationId::from_bits(delegation)), at(0))
}

fn end(book: &mut Book, child: ChildId) -> Vec<Effect> {
    book.step(Event::Returned(child, Box::new(Report::bare(Ending::Interrupted))), at(0))
}

fn state(book: &Book, child: &ChildId) -> ChildState {
    let (delegated, index) = book.child(child).expect("the book knows the child");
    delegated.children[index].state
}

fn cause(book: &Book, child: &ChildId) -> Option<StopReason> {
    match state(book, child) {
        ChildState::Stopping { cause, .. } => Some(cause),
        _ => None,
    }
}

#[test]
fn k12_the_answer_to_a_stop_of_a_whole_tree_listed_grandchildren_twice() {
    let mut book = book(4);
    call(&mut book, 2, 1, None);
    call(&mut book, 1, 1, Some(child(2, 0)));
    let effects = stop(&mut book, Scope::All, Force::Ask, 0);
    let listed = effects.iter().find_map(|effect| match effect {
        Effect::Stopped(_, children) => Some(children.clone()),
        _ => None,
    });
    assert_eq!(listed, Some(vec![child(1, 0), child(2, 0)]));
    assert_eq!(cause(&book, &child(1, 0)), Some(StopReason::Cancelled), "the stop names it itself");
}

#[test]
fn k14_a_softer_stop_gave_an_aborted_child_a_new_grace() {
    let mut book = book(1);
    call(&mut book, 1, 1, None);
    stop(&mut book, Scope::All, Force::Abort, 0);
    stop(&mut book, Scope::All, Force::Ask, 10);
    assert_eq!(book.next_deadline(), None);
}

#[test]
fn k33_a_release_lengthened_the_grace_of_a_child_that_was_stopping() {
    let mut book = book(1);
    call(&mut book, 1, 1, None);
    stop(&mut book, Scope::All, Force::Ask, 0);
    book.step(Event::Released, at(GRACE - 1));
    assert_eq!(book.next_deadline(), Some(Moment(GRACE)));
}

#[test]
fn k16_a_withdrawn_run_gave_its_slot_away_while_it_was_still_there() {
    let mut book = book(1);
    call(&mut book, 1, 1, None);
    call(&mut book, 2, 1, None);
    assert_eq!(withdraw(&mut book, 1), [Effect::Abort(child(1, 0))]);
    assert_eq!((book.slots_used(), book.waiting()), (1, 1));
    let effects = end(&mut book, child(1, 0));
    assert!(effects.contains(&Effect::Start(child(2, 0))), "{effects:?}");
    assert_eq!((book.slots_used(), book.waiting()), (1, 0));
}

#[test]
fn k12_the_children_of_a_withdrawn_child_ran_on() {
    let mut book = book(2);
    call(&mut book, 1, 1, None);
    call(&mut book, 2, 1, Some(child(1, 0)));
    withdraw(&mut book, 1);
    assert_eq!(cause(&book, &child(2, 0)), Some(StopReason::ParentStopped));
}

/// Proves INV-36 for ids that were drawn twice: the older work stays as it is.
#[test]
fn inv_36_ids_that_are_in_use_are_refused_and_the_older_work_goes_on() {
    let mut book = book(2);
    call(&mut book, 1, 2, None);
    let before = state(&book, &child(1, 1));
    let again = call(&mut book, 1, 1, None);
    assert_eq!(again, [Effect::Refuse(ReplyTo(1), Refusal::IdsInUse)]);
    let after = book.delegation(&DelegationId::from_bits(1)).expect("it is there");
    assert_eq!((after.accepted.tasks.len(), after.children.len()), (2, 2));
    assert_eq!(state(&book, &child(1, 1)), before);
}

#[test]
fn k12_a_child_that_was_withdrawn_could_still_make_children() {
    let mut book = book(2);
    call(&mut book, 1, 1, None);
    withdraw(&mut book, 1);
    let effects = call(&mut book, 2, 1, Some(child(1, 0)));
    assert_eq!(effects, [Effect::Refuse(ReplyTo(2), Refusal::Stopping)]);
}

#[test]
fn k33_a_child_was_called_stalled_by_a_process_that_was_ending() {
    let mut book = book(1);
    call(&mut book, 1, 1, None);
    book.step(Event::Released, at(0));
    let cut = book.step(Event::Tick, at(GRACE));
    assert_eq!(cut, [Effect::Abort(child(1, 0))]);
    assert_eq!(book.next_deadline(), None);
    assert_eq!(book.step(Event::Tick, at(2 * PATIENCE)), []);
}

#[test]
fn k33_a_run_that_ended_after_the_release_was_cut_once_more() {
    let mut book = book(1);
    call(&mut book, 1, 1, None);
    book.step(Event::Released, at(0));
    assert_eq!(end(&mut book, child(1, 0)), []);
    assert_eq!(book.next_deadline(), None);
}

/// What the store holds of a call of this owner's, before anything of it has begun.
async fn stored(delegation: u32, tasks: usize) -> DelegationRecord {
    let effects = call(&mut book(0), delegation, tasks, None);
    let accepted = effects.into_iter().find_map(|effect| match effect {
        Effect::Record(append) => Some(append),
        _ => None,
    });
    let store = MemoryStore::new();
    let process = Process { boot_id: "boot".to_owned(), pid: 1, start_ticks: 1 };
    store.enter(OwnerRecord::new(OwnerId::from_bits(1), process), Timestamp(0)).await.expect("it enters");
    let answers = store.append(vec![accepted.expect("it is accepted")]).await.expect("it is stored");
    assert_eq!(answers, [Ok(())]);
    let record = store.delegation(&DelegationId::from_bits(delegation)).await.expect("readable");
    record.expect("it is there")
}

fn adopt(book: &mut Book, record: &DelegationRecord, withheld: &[usize]) -> Vec<Effect> {
    let (losses, withheld) = (BTreeMap::new(), withheld.iter().copied().collect());
    book.step(Event::Adopted(vec![Adopted { record: record.clone(), losses, withheld }]), at(0))
}

#[tokio::test]
async fn k34_a_tree_that_goes_on_again_was_parted_with_by_a_wish_of_before() {
    let (mut book, record) = (book(1), stored(1, 2).await);
    let id = DelegationId::from_bits(1);
    let left = |effects: &[Effect]| effects.contains(&Effect::LetGo(vec![id.clone()]));
    assert!(left(&adopt(&mut book, &record, &[0, 1])), "nothing of it can go on");
    withdraw(&mut book, 1);
    let effects = adopt(&mut book, &record, &[1]);
    assert!(effects.contains(&Effect::Start(child(1, 0))), "{effects:?}");
    assert_eq!(book.part(std::slice::from_ref(&id)), Vec::<DelegationId>::new());
    assert!(state(&book, &child(1, 0)).has_runner());
    assert!(left(&end(&mut book, child(1, 0))), "nothing of it goes on any more, and that is noticed again");
    assert_eq!(book.part(std::slice::from_ref(&id)), [id]);
}

#[tokio::test]
async fn k34_what_settled_before_its_tree_was_left_was_left_with_it() {
    let (mut book, record) = (book(1), stored(1, 1).await);
    let id = DelegationId::from_bits(1);
    assert!(adopt(&mut book, &record, &[0]).contains(&Effect::LetGo(vec![id.clone()])));
    stop(&mut book, Scope::All, Force::Ask, 0);
    assert_eq!(book.part(std::slice::from_ref(&id)), Vec::<DelegationId>::new());
    assert!(book.delegation(&id).is_some(), "its end is told here");
}
