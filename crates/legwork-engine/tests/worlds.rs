//! The book in thousands of random worlds, and proof that the worlds would notice a bug in it.
//!
//! `LEGWORK_WORLDS=N` runs N worlds of each kind instead of the usual number.

use legwork_testkit::worlds::{Figures, Sabotage, Scenario, run, run_sabotaged, worlds_wanted};

/// Worlds in which a seeded bug must have shown.
const SEEDS_FOR_A_BUG: u64 = 200;

/// Runs the worlds of the first seeds and returns what they went through.
fn worlds(scenario: Scenario, usual: u64) -> Figures {
    let mut figures = Figures::default();
    for seed in 0..worlds_wanted(usual) {
        match run(scenario, seed) {
            Ok(lived) => figures += lived,
            Err(wreck) => panic!("{wreck}"),
        }
    }
    println!("{scenario:?}: {figures:?}");
    figures
}

#[test]
fn the_laws_hold_whatever_happens() {
    let figures = worlds(Scenario::Anything, 3000);
    let rare = [
        figures.inline,
        figures.granted,
        figures.withdrawals,
        figures.deaths,
        figures.releases,
        figures.refusals,
    ];
    assert!(rare.iter().all(|count| *count > 0), "worlds without trouble prove little: {figures:?}");
}

#[test]
fn k16_any_tree_within_the_depth_limit_drains_with_one_slot() {
    let figures = worlds(Scenario::OneSlotTrees, 300);
    assert_eq!(figures.peak, 1);
    assert!(figures.granted > 0);
}

#[test]
fn the_laws_hold_in_crowds() {
    worlds(Scenario::Crowds, 20);
}

#[test]
fn a_seed_always_makes_the_same_world() {
    for seed in 0..50 {
        let lives = [run(Scenario::Anything, seed), run(Scenario::Anything, seed)];
        let [first, second] = lives.map(|life| life.unwrap_or_else(|wreck| panic!("{wreck}")));
        assert_eq!(first, second, "seed {seed}");
    }
}

fn catches(bug: Sabotage) {
    let wreck = (0..SEEDS_FOR_A_BUG).find_map(|seed| run_sabotaged(bug, seed).err());
    let wreck = wreck.unwrap_or_else(|| panic!("{bug:?} is not caught"));
    println!("{bug:?} in world {}: {}", wreck.seed, wreck.broken);
    assert!(bug.caught_by().contains(&wreck.broken.law), "{bug:?} is caught otherwise: {wreck}");
}

/// One test a bug, and one that none is left out.
macro_rules! seeded_bugs {
    ($($test:ident: $bug:ident,)+) => {
        $(
            #[test]
            fn $test() {
                catches(Sabotage::$bug);
            }
        )+

        #[test]
        fn every_seeded_bug_has_a_test() {
            assert_eq!([$(Sabotage::$bug),+], Sabotage::ALL);
        }
    };
}

seeded_bugs! {
    catches_a_record_that_comes_last: RecordsLast,
    catches_a_start_before_its_record: StartsBeforeRecord,
    catches_one_child_too_many: RunsOneTooMany,
    catches_a_queue_without_limit: QueuesWithoutLimit,
    catches_a_unit_that_settles_on_its_first_child: SettlesUnitOnFirst,
    catches_a_lost_settling_of_a_unit: LosesUnitSettled,
    catches_a_settling_told_twice: TellsTwice,
    catches_a_second_ticket: AnswersTwice,
    catches_the_start_of_a_stopped_child: StartsTheStopped,
    catches_a_slot_for_a_stopped_child: GrantsToTheStopped,
    catches_a_dropped_abort: DropsAborts,
    catches_a_dropped_request_to_stop: DropsAsks,
    catches_a_force_that_falls: LowersForce,
    catches_a_cause_that_is_overwritten: ReportsLastCause,
    catches_a_stop_that_reaches_siblings: StopsSiblings,
    catches_forgotten_parents: ForgetsParents,
    catches_an_unfair_queue: ServesInOrderOfArrival,
    catches_a_missed_end: MissesAnEnd,
    catches_missed_progress: MissesBeats,
    catches_decisions_by_the_wall_clock: GoesByTheWallClock,
    catches_a_lost_fact: LosesAFact,
    catches_an_ignored_pause: IgnoresPauses,
    catches_starts_after_the_release: StartsAfterRelease,
}
