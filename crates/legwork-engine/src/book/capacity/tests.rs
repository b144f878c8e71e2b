//! Each policy with its table of cases.

use super::*;
use legwork_core::batch::Completions;

const MAX: usize = 3;

fn named(policy: AtCapacity) -> Box<dyn Capacity> {
    use crate::options::Patience;
    use std::time::Duration;
    let second = Duration::from_secs(1);
    super::policy(&Options {
        children_max: MAX,
        queue_max: 2,
        depth_max: 1,
        at_capacity: policy,
        completions: Completions::ByUnit,
        patience: Patience { idle: second, tool: second, grace: second, inactivity: None },
        stop_grace: second,
        lease: Duration::from_secs(10),
    })
}

fn load(running: usize, waiting: usize, calls: usize) -> Load {
    Load { running, waiting, calls, is_admitted: false }
}

#[test]
fn a_queue_takes_what_fits_into_free_slots_and_the_queue_and_places_all_of_it_behind() {
    let queue = named(AtCapacity::Queue);
    for (asked, running, waiting, fits) in [
        (5, 0, 0, true),
        (6, 0, 0, false),
        (2, 3, 0, true),
        (3, 3, 0, false),
        (1, 3, 1, true),
        (1, 3, 2, false),
        (1, 9, 0, true),
    ] {
        let refusal = queue.objection(asked, &load(running, waiting, 9));
        let full = Refusal::QueueFull { asked, waiting, queue_max: 2 };
        assert_eq!(refusal, (!fits).then_some(full), "{asked} beside {running} and {waiting}");
    }
    assert_eq!(queue.place(&load(9, 9, 9)), Placement::Background);
    assert!(queue.may_run(MAX - 1) && !queue.may_run(MAX));
}

/// Proves CAP-7.
#[test]
fn cap_07_a_rejection_starts_nothing_and_names_the_cap_what_to_wait_for_and_the_key() {
    let reject = named(AtCapacity::Reject);
    for (asked, running, free) in [(3, 0, 3), (4, 0, 3), (1, 2, 1), (2, 2, 1), (1, 3, 0), (1, 7, 0)] {
        let refusal = reject.objection(asked, &load(running, 0, 9));
        let expected = Refusal::NoSlots { asked, free, children_max: MAX };
        assert_eq!(refusal, (asked > free).then_some(expected), "{asked} beside {running}");
    }
    assert_eq!(reject.place(&load(9, 9, 9)), Placement::Background);
    assert!(reject.may_run(MAX - 1) && !reject.may_run(MAX));
    let words = reject.objection(1, &load(3, 0, 0)).expect("it is full").to_string();
    for part in ["delegation.max_concurrent_children is 3", "wait until", "Nothing was started"] {
        assert!(words.contains(part), "{part} is missing in {words}");
    }
}

/// Proves TASK-3, CAP-1.
#[test]
fn task_03_cap_01_sync_takes_no_call_of_more_tasks_than_slots_and_says_what_to_do() {
    let sync = named(AtCapacity::Sync);
    for (asked, running, calls) in [(1, 0, 0), (3, 0, 0), (3, 30, 9)] {
        assert_eq!(
            sync.objection(asked, &load(running, 0, calls)),
            None,
            "{asked} beside {running}, {calls}"
        );
    }
    let refusal = sync.objection(4, &load(0, 0, 0));
    assert_eq!(refusal, Some(Refusal::TooManyTasks { asked: 4, tasks_max: MAX }));
    let words = refusal.expect("too many").to_string();
    for part in ["4 tasks", "delegation.max_concurrent_children is 3", "send fewer", "raise"] {
        assert!(words.contains(part), "{part} is missing in {words}");
    }
    assert!(sync.may_run(usize::MAX), "an admitted call never waits (CAP-5)");
}

/// Proves CAP-2, CAP-4, CAP-5, CAP-6, CAP-9.
#[test]
fn cap_02_cap_09_sync_counts_calls_and_places_each_unit_by_whether_its_call_has_a_slot() {
    let sync = named(AtCapacity::Sync);
    for (calls, is_admitted, expected) in [
        // A first unit takes a slot if there is one, whatever number of children run.
        (0, false, Placement::Background),
        (2, false, Placement::Background),
        (3, false, Placement::Inline),
        (4, false, Placement::Inline),
        // A later unit shares the slot of its call, also when all are taken.
        (1, true, Placement::Background),
        (3, true, Placement::Background),
        // A later unit whose call has lost its slot, since all before it have ended, is a first one again.
        (3, false, Placement::Inline),
    ] {
        let placed = sync.place(&Load { running: 99, waiting: 0, calls, is_admitted });
        assert_eq!(placed, expected, "{calls} calls, admitted: {is_admitted}");
    }
}
