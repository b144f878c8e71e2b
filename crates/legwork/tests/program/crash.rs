//! The kill sweep: the built program is killed with SIGKILL at moments swept across a whole scene, started again, and what
//! is left is audited: nothing lost, nothing twice, nothing for another conversation, nothing still running.
//!
//! Each test plays a few rounds. `cargo xtask crash` plays many, by naming the rounds in [`ROUNDS`]. A round's moments follow
//! from its number alone, so a round that failed can be played again.

mod audit;
mod killing;
mod scene;
mod snapshot;

use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::io::Write;
use std::ops::Range;

use killing::Sweep;
use scene::Scene;

/// The variable that names the rounds to play, as `FIRST..END`.
const ROUNDS: &str = "LEGWORK_CRASH_ROUNDS";
/// The variable that names a file which gets a line for each round that held: scene, round, kills. Rounds that stand in it
/// are not played again.
const TALLY: &str = "LEGWORK_CRASH_TALLY";
/// What a usual run of the tests plays.
const FEW: Range<u32> = 0..3;

fn rounds() -> Range<u32> {
    let Ok(text) = std::env::var(ROUNDS) else { return FEW };
    let ends = text.split_once("..").and_then(|(first, end)| Some((first.parse().ok()?, end.parse().ok()?)));
    let (first, end) = ends.unwrap_or_else(|| panic!("{ROUNDS} is {text:?}; write it as 0..50"));
    first..end
}

#[track_caller]
fn sweep(scene: &Scene) {
    let sweep = Sweep::over(scene);
    let played = played(scene.name);
    for round in rounds().filter(|round| !played.contains(round)) {
        let kills = sweep.play(round);
        note(&format!("{} {round} {kills}\n", scene.name));
    }
}

/// The rounds of a scene that stand in the tally.
fn played(scene: &str) -> BTreeSet<u32> {
    let text =
        std::env::var(TALLY).ok().and_then(|path| std::fs::read_to_string(path).ok()).unwrap_or_default();
    let words = text.lines().filter_map(|line| line.split_once(' ')).filter(|(name, _)| *name == scene);
    words.filter_map(|(_, rest)| rest.split(' ').next()?.parse().ok()).collect()
}

/// Adds a line to the tally, if there is one. Others add theirs at the same time.
fn note(line: &str) {
    let Ok(path) = std::env::var(TALLY) else { return };
    let file = OpenOptions::new().append(true).create(true).open(&path);
    file.and_then(|mut file| file.write_all(line.as_bytes())).expect("the tally can be written");
}

#[test]
fn k02_k08_killed_at_any_moment_of_one_subagents_work() {
    sweep(&scene::single());
}

#[test]
fn k02_k13_killed_at_any_moment_of_a_batch() {
    sweep(&scene::batch());
}

#[test]
fn k02_disp_17_killed_at_any_moment_of_a_call_that_comes_back_in_parts() {
    sweep(&scene::groups());
}

#[test]
fn k02_schema_05_killed_at_any_moment_around_the_correction_of_an_answer() {
    sweep(&scene::schema());
}

#[test]
fn k02_killed_at_any_moment_while_subagents_wait_for_subagents() {
    sweep(&scene::nested());
}

#[test]
fn k02_k31_killed_at_any_moment_around_a_steer() {
    sweep(&scene::steered());
}

#[test]
fn k02_k43_killed_at_any_moment_of_a_turn_that_brings_a_result() {
    sweep(&scene::delivery());
}
