//! The policy under which calls take slots, in random schedules in which the units of a call are placed one after the other
//! while others come and go: the one place where a later unit of an admitted call can find no slot (CAP-9).

use legwork_core::batch::Completions;
use legwork_engine::book::{Load, Placement, policy};
use legwork_engine::{AtCapacity, Options, Patience};
use legwork_testkit::worlds::{Chance, worlds_wanted};
use std::time::Duration;

/// One call: its units that are to be placed, and those that run.
struct Call {
    to_place: usize,
    behind: usize,
    placed: usize,
    inline: usize,
}

fn options(children_max: usize) -> Options {
    let second = Duration::from_secs(1);
    Options {
        children_max,
        queue_max: 0,
        depth_max: 1,
        at_capacity: AtCapacity::Sync,
        completions: Completions::ByUnit,
        patience: Patience { idle: second, tool: second, grace: second, inactivity: None },
        stop_grace: second,
        lease: Duration::from_secs(10),
    }
}

/// Lives through one schedule; answers how many later units were refused.
fn live(seed: u64) -> usize {
    let mut chance = Chance::new(seed);
    let slots = chance.between(1, 4);
    let policy = policy(&options(slots));
    let new_call =
        |chance: &mut Chance| Call { to_place: chance.between(1, 5), behind: 0, placed: 0, inline: 0 };
    let mut calls: Vec<Call> = (0..8).map(|_| new_call(&mut chance)).collect();
    let mut refused = 0;
    for _ in 0..200 {
        let taken = calls.iter().filter(|call| call.behind > 0).count();
        assert!(taken <= slots, "seed {seed}: {taken} calls in {slots} slots");
        let which = chance.below(calls.len());
        let call = &mut calls[which];
        if call.to_place == 0 && call.behind == 0 {
            *call = new_call(&mut chance);
        } else if call.to_place > 0 && (call.behind == 0 || chance.once_in(2)) {
            let is_admitted = call.behind > 0;
            let load = Load { running: taken, waiting: 0, calls: taken, is_admitted };
            let first = call.placed + call.inline == 0;
            match policy.place(&load) {
                Placement::Background => {
                    assert!(is_admitted || taken < slots, "seed {seed}: a slot from nowhere");
                    (call.behind, call.placed) = (call.behind + 1, call.placed + 1);
                }
                Placement::Inline => {
                    assert!(!is_admitted && taken == slots, "seed {seed}: refused although there was room");
                    call.inline += 1;
                    // A first unit without a slot takes the whole call with it.
                    call.to_place = if first { 1 } else { call.to_place };
                    refused += usize::from(!first);
                }
            }
            call.to_place -= 1;
        } else if call.behind > 0 {
            call.behind -= 1;
        }
    }
    refused
}

/// Proves CAP-2, CAP-4, CAP-6, CAP-9.
#[test]
fn cap_09_a_later_unit_is_refused_only_when_its_call_has_lost_its_slot_to_others() {
    let refused: usize = (0..worlds_wanted(1000)).map(live).sum();
    assert!(refused > 0, "worlds in which that never happens prove nothing");
}
