//! The running engine in live worlds: sessions whose users talk, workers that read what is said to them, a store that
//! fails, processes that die; and proof that the worlds would notice a bug.
//!
//! `LEGWORK_WORLDS=N` runs N worlds instead of the usual number.

use legwork_testkit::shaky::Bend;
use legwork_testkit::worlds::{Cut, Law, LiveFigures, run_cut, run_live, worlds_wanted};

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

/// Every write of a world kills the process that makes it: before it is stored, and after. In every third world one that
/// takes over dies in its turn, a few writes later.
#[test]
fn k02_k06_whichever_write_a_process_dies_of_nothing_is_lost_and_nothing_comes_twice() {
    let mut figures = LiveFigures::default();
    for seed in 0..worlds_wanted(200).div_ceil(200) {
        let whole = run_cut(seed, Vec::new()).unwrap_or_else(|wreck| panic!("without a cut: {wreck}"));
        assert!(whole.writes > 50, "a world in which little is written proves little: {whole:?}");
        for write in 0..whole.writes {
            for late in [false, true] {
                let again = (write % 3 == 0).then_some(Cut { write: write + 1 + write % 7, late: !late });
                let cuts: Vec<Cut> = [Cut { write, late }].into_iter().chain(again).collect();
                match run_cut(seed, cuts.clone()) {
                    Ok(lived) => figures += lived,
                    Err(wreck) => panic!("{cuts:?}: {wreck}"),
                }
            }
        }
    }
    println!("{figures:?}");
    assert!(figures.arrived > 0 && figures.seen > 0 && figures.deaths > figures.worlds, "{figures:?}");
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
