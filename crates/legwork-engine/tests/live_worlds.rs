//! The running engine in live worlds: sessions whose users talk, workers that read what is said to them, a store that
//! fails, processes that die; and proof that the worlds would notice a bug.
//!
//! `LEGWORK_WORLDS=N` runs N worlds instead of the usual number.

use legwork_testkit::shaky::Bend;
use legwork_testkit::worlds::{Law, LiveFigures, run_live, worlds_wanted};

/// Worlds in which a bug of the store must have shown.
const SEEDS_FOR_A_BUG: u64 = 60;

/// Proves EVT-4.
#[test]
fn k06_whatever_happens_each_completion_arrives_once_in_order_and_each_text_ends() {
    let mut figures = LiveFigures::default();
    for seed in 0..worlds_wanted(200) {
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
        ..
    } = figures;
    let rare = [arrived, notices, said, busy, gone, lost_turns, seen, missed, refused, deaths, failures];
    assert!(rare.iter().all(|count| *count > 0), "worlds without trouble prove little: {figures:?}");
}

fn catches(bug: Bend, laws: &[Law]) {
    let wreck = (0..SEEDS_FOR_A_BUG).find_map(|seed| run_live(seed, Some(bug)).err());
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
    catches(Bend::ForgetsClaims, &[Law::ArrivesOnce, Law::Drains]);
}

#[test]
fn k01_catches_claims_that_are_never_given_back() {
    catches(Bend::KeepsClaims, &[Law::Drains]);
}

#[test]
fn k38_a_store_that_tells_requests_again_and_again_has_no_text_said_twice() {
    for seed in 0..SEEDS_FOR_A_BUG {
        if let Err(wreck) = run_live(seed, Some(Bend::RepeatsRequests)) {
            panic!("{wreck}");
        }
    }
}
