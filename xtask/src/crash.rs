//! `cargo xtask crash`: plays the kill sweep of the program's tests for so long that it has killed so often. It can be broken
//! off and goes on where it was: the tally in the target folder counts.
//!
//! What is killed, when, and what must hold afterwards stands in `crates/legwork/tests/program/crash.rs`.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

/// Rounds of each scene that one run of the tests plays.
const ROUNDS_AT_ONCE: u32 = 10;

/// Kills until the tally says that `kills` were survived.
///
/// # Errors
/// When a round did not hold, with what the tests printed above it, or the tests cannot be run.
pub fn run(root: &Path, kills: u64) -> Result<()> {
    let tally = tally(root);
    fs::create_dir_all(tally.parent().unwrap_or(root)).context("the folder of the tally")?;
    loop {
        let so_far = Tally::read(&tally)?;
        println!("crash: {} of {kills} kills in {} rounds held", so_far.kills, so_far.rounds);
        if so_far.kills >= kills {
            return Ok(());
        }
        play(root, &tally, so_far.next)?;
    }
}

fn tally(root: &Path) -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    target.join("crash/tally.txt")
}

fn play(root: &Path, tally: &Path, first: u32) -> Result<()> {
    let mut tests = Command::new("cargo");
    tests.args(["test", "--workspace", "--test", "program", "crash::"]).current_dir(root);
    tests.env("LEGWORK_CRASH_ROUNDS", format!("{first}..{}", first + ROUNDS_AT_ONCE));
    tests.env("LEGWORK_CRASH_TALLY", tally);
    let status = tests.status().context("cargo test cannot be started")?;
    if !status.success() {
        bail!("a round from {first} on did not hold; what it was is printed above");
    }
    Ok(())
}

/// What was played so far.
#[derive(Debug, PartialEq, Eq)]
struct Tally {
    kills: u64,
    rounds: u64,
    /// The first round that no scene has played.
    next: u32,
}

impl Tally {
    fn read(path: &Path) -> Result<Tally> {
        match fs::read_to_string(path) {
            Ok(text) => Tally::of(&text).with_context(|| format!("{} is no tally", path.display())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Ok(Tally { kills: 0, rounds: 0, next: 0 })
            }
            Err(error) => Err(error).with_context(|| path.display().to_string()),
        }
    }

    fn of(text: &str) -> Result<Tally> {
        let mut tally = Tally { kills: 0, rounds: 0, next: 0 };
        for line in text.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let [_scene, round, kills] = words.as_slice() else { bail!("{line:?}") };
            tally.kills += kills.parse::<u64>().context("the kills of a round")?;
            tally.rounds += 1;
            tally.next = tally.next.max(round.parse::<u32>().context("the number of a round")? + 1);
        }
        Ok(tally)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sweep_goes_on_after_the_last_round_that_was_played() {
        let tally = Tally::of("single 0 1\nbatch 0 1\nsingle 1 2\n").expect("it is a tally");
        assert_eq!(tally, Tally { kills: 4, rounds: 3, next: 2 });
        assert!(Tally::of("single x 1").is_err() && Tally::of("one two").is_err());
    }
}
