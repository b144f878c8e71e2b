//! The running engine in live worlds: sessions whose users talk, workers that read what is said to them and send out
//! others, a store that fails, processes that die; and proof that the worlds would notice a bug.
//!
//! `LEGWORK_WORLDS=N` runs N worlds instead of the usual number.

use legwork_testkit::shaky::Bend;
use legwork_testkit::worlds::{
    Cut, Lapse, Law, LiveFigures, LiveTerms, Owners, Trouble, Wall, run_live, run_on, worlds_wanted,
};

/// Worlds in which a bug must have shown. Few need more than twenty; after any change of the engine other worlds show it.
const SEEDS_FOR_A_BUG: u64 = 1000;
/// Worlds in which something odd that is no bug must not show.
const SEEDS_WITHOUT_A_BUG: u64 = 60;

/// Proves EVT-4.
#[test]
fn k06_whatever_happens_each_completion_arrives_once_in_order_and_each_text_ends() {
    let mut figures = LiveFigures::default();
    for seed in 0..worlds_wanted(100) {
        match run_live(seed, None) {
            Ok(lived) => figures += lived,
            Err(wreck) => panic!("{wreck}"),
        }
    }
    println!("{figures:?}");
    let LiveFigures {
        arrived,
        notices,
        said,
        busy,
        gone,
        lost_turns,
        seen,
        missed,
        refused,
        deaths,
        failures,
        read_below,
        told_below,
        called,
        left,
        ended,
        waited,
        ..
    } = figures;
    let trouble = [said, busy, gone, lost_turns, seen, missed, refused, deaths, failures, ended, waited];
    let rare = [&[arrived, notices, read_below, told_below, called, left][..], &trouble].concat();
    assert!(rare.iter().all(|count| *count > 0), "worlds without trouble prove little: {figures:?}");
}

/// So one that broke a law does it again, and what holds here holds everywhere.
#[test]
fn a_seed_always_makes_the_same_live_world() {
    for seed in 0..30 {
        let two = LiveTerms { owners: Owners::Two, wall: Wall::Jumps, ..LiveTerms::usual() };
        let cuts = Trouble::Cuts(vec![Cut { write: 40 + seed, late: seed % 2 == 0 }]);
        for terms in [LiveTerms::usual(), two.clone(), LiveTerms { trouble: cuts, ..two }] {
            let live = || run_on(seed, &terms).unwrap_or_else(|wreck| panic!("{wreck}"));
            assert_eq!(live(), live(), "seed {seed}, {:?}, {:?}", terms.owners, terms.trouble);
        }
    }
}

/// Two processes have the sessions between them and go on with each other's work; one dies, or stands still for so long that
/// it is declared gone, and comes back late. The wall clock is turned by a day again and again.
#[test]
fn k34_k10_with_two_owners_and_a_clock_that_jumps_nothing_is_lost_doubled_or_stolen() {
    let terms = LiveTerms { owners: Owners::Two, wall: Wall::Jumps, ..LiveTerms::usual() };
    let mut figures = LiveFigures::default();
    for seed in 0..worlds_wanted(60) {
        figures += run_on(seed, &terms).unwrap_or_else(|wreck| panic!("{wreck}"));
    }
    println!("{figures:?}");
    let LiveFigures { arrived, seen, missed, deaths, steps, stood_still, deposed, fenced, turned, .. } =
        figures;
    let rare = [arrived, seen, missed, deaths, steps, stood_still, deposed, fenced, turned];
    assert!(rare.iter().all(|count| *count > 0), "worlds without trouble prove little: {figures:?}");
}

/// Every write of a world kills the process that makes it: before it is stored, and after. In every third world one that
/// takes over dies in its turn, a few writes later.
#[test]
fn k02_k06_whichever_write_a_process_dies_of_nothing_is_lost_and_nothing_comes_twice() {
    let mut figures = LiveFigures::default();
    for seed in 0..worlds_wanted(400).div_ceil(200) {
        // One process at a time in the first world, then two.
        let owners = if seed % 2 == 0 { Owners::One } else { Owners::Two };
        let terms = LiveTerms { owners, wall: Wall::Jumps, ..LiveTerms::usual() };
        let of_cuts = |cuts| LiveTerms { trouble: Trouble::Cuts(cuts), ..terms.clone() };
        let whole =
            run_on(seed, &of_cuts(Vec::new())).unwrap_or_else(|wreck| panic!("without a cut: {wreck}"));
        for write in 0..whole.writes {
            for late in [false, true] {
                let again = (write % 3 == 0).then_some(Cut { write: write + 1 + write % 7, late: !late });
                let cuts: Vec<Cut> = [Cut { write, late }].into_iter().chain(again).collect();
                match run_on(seed, &of_cuts(cuts.clone())) {
                    Ok(lived) => figures += lived,
                    Err(wreck) => panic!("{cuts:?}: {wreck}"),
                }
            }
        }
    }
    println!("{figures:?}");
    assert!(figures.worlds > 200, "worlds in which little is written prove little: {figures:?}");
    assert!(figures.arrived > 0 && figures.seen > 0 && figures.deaths > figures.worlds, "{figures:?}");
}

fn catches(bug: Bend, laws: &[Law]) {
    catches_in(&LiveTerms { bend: Some(bug), ..LiveTerms::usual() }, laws);
}

fn catches_in(terms: &LiveTerms, laws: &[Law]) {
    let bug = (terms.bend, terms.lapse);
    let wreck = (0..SEEDS_FOR_A_BUG).find_map(|seed| run_on(seed, terms).err());
    let wreck = wreck.unwrap_or_else(|| panic!("{bug:?} is not caught"));
    println!("{bug:?} in world {}: {}", wreck.seed, wreck.broken);
    assert!(laws.contains(&wreck.broken.law), "{bug:?} is caught otherwise: {wreck}");
}

#[test]
fn catches_a_store_that_tells_the_last_first() {
    catches(Bend::ReadyBackwards, &[Law::ReadyOrder]);
}

#[test]
fn k07_catches_results_that_go_to_strangers() {
    catches(Bend::ReadyOfStrangers, &[Law::OwnSession]);
}

#[test]
fn k06_catches_turns_without_their_claims() {
    catches(Bend::ForgetsClaims, &[Law::ArrivesOnce, Law::Drains, Law::NothingBehind]);
}

#[test]
fn k01_catches_claims_that_are_never_given_back() {
    catches(Bend::KeepsClaims, &[Law::Drains]);
}

#[test]
fn k01_catches_what_an_ended_caller_had_not_read_and_nobody_is_told() {
    catches(Bend::ForgetsUnread, &[Law::ReadOnce]);
}

#[test]
fn k06_catches_what_a_caller_has_read_and_is_told_once_more() {
    catches(Bend::TellsAgain, &[Law::ReadOnce]);
}

#[test]
fn k01_catches_what_an_ended_caller_had_asked_for_and_is_left_behind() {
    catches(Bend::LeavesBehind, &[Law::NothingBehind]);
}

/// A bug that shows when a process stands still and its work is taken over.
fn catches_between_two(bug: Bend, laws: &[Law]) {
    let terms = LiveTerms { owners: Owners::Two, wall: Wall::Jumps, ..LiveTerms::usual() };
    catches_in(&LiveTerms { bend: Some(bug), ..terms }, laws);
}

#[test]
fn k34_catches_a_store_that_takes_writes_of_late_owners() {
    catches_between_two(Bend::IgnoresFences, &[Law::LateRefused, Law::StepsOnce]);
}

#[test]
fn k10_k34_catches_leases_that_are_not_renewed() {
    catches_between_two(Bend::ForgetsRenewals, &[Law::NoTheft]);
}

/// Whoever opens a session while its former process is ending would store what is in that one's hands still.
#[test]
fn k33_catches_sessions_that_come_free_when_their_process_begins_to_end() {
    for owners in [Owners::One, Owners::Two] {
        let lapse = Some(Lapse::FreesSessionsEarly);
        let terms = LiveTerms { owners, lapse, ..LiveTerms::usual() };
        catches_in(&terms, &[Law::ReadOnce, Law::ReadyOrder, Law::ArrivesOnce]);
    }
}

#[test]
fn k38_a_store_that_tells_requests_again_and_again_has_no_text_said_twice() {
    for seed in 0..SEEDS_WITHOUT_A_BUG {
        if let Err(wreck) = run_live(seed, Some(Bend::RepeatsRequests)) {
            panic!("{wreck}");
        }
    }
}
