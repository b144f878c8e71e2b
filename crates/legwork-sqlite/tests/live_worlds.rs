//! Live worlds over files: every process of a world opens the database for itself, as processes do.
//!
//! `LEGWORK_WORLDS=N` runs N worlds of each kind instead of the usual number.

#[path = "file/place.rs"]
mod place;

use legwork_testkit::worlds::{
    Cut, Ground, LiveFigures, LiveTerms, Owners, Trouble, Wall, run_on, worlds_wanted,
};
use place::FilePlace;
use std::sync::Arc;

/// A world in a folder of its own.
fn lived(seed: u64, terms: LiveTerms) -> LiveFigures {
    let ground = Ground::Place(Arc::new(FilePlace::new()));
    let terms = LiveTerms { ground, ..terms };
    run_on(seed, &terms).unwrap_or_else(|wreck| panic!("{:?}: {wreck}", terms.trouble))
}

/// Proves EVT-4.
#[test]
fn k06_over_a_file_each_completion_arrives_once_in_order_and_each_text_ends() {
    let mut figures = LiveFigures::default();
    for seed in 0..worlds_wanted(10) {
        let owners = if seed % 2 == 0 { Owners::One } else { Owners::Two };
        figures += lived(seed, LiveTerms { owners, wall: Wall::Jumps, ..LiveTerms::usual() });
    }
    println!("{figures:?}");
    assert!(figures.arrived > 0 && figures.deaths > 0 && figures.failures > 0, "{figures:?}");
}

/// Now and then a write kills the process that makes it, before it is stored or after, and one that takes over dies a few
/// writes later.
#[test]
fn k02_k06_over_a_file_nothing_is_lost_or_comes_twice_whichever_write_a_process_dies_of() {
    let mut figures = LiveFigures::default();
    for seed in 0..worlds_wanted(200).div_ceil(200) {
        let terms = LiveTerms { owners: Owners::Two, wall: Wall::Jumps, ..LiveTerms::usual() };
        let whole = lived(seed, LiveTerms { trouble: Trouble::Cuts(Vec::new()), ..terms.clone() });
        for write in (0..whole.writes).step_by(60) {
            for late in [false, true] {
                let cuts = vec![Cut { write, late }, Cut { write: write + 1 + write % 7, late: !late }];
                figures += lived(seed, LiveTerms { trouble: Trouble::Cuts(cuts), ..terms.clone() });
            }
        }
    }
    println!("{figures:?}");
    // The order of a moment is not the seed's alone, so that a world may end before a later cut is due. The first cut of each kind
    // never fails to come, and who takes over dies of the next write.
    assert!(figures.arrived > 0 && figures.deaths >= 4, "{figures:?}");
}
