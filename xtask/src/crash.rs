//! `cargo xtask crash`: plays the kill sweep of the program's tests for so long that it has killed so often. It can be broken
//! off and goes on where it was: the tally in the target folder counts.
//!
//! What is killed, when, and what must hold afterwards stands in `crates/legwork/tests/program/crash.rs`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

/// Rounds of each scene that one run of the tests plays.
const ROUNDS_AT_ONCE: u32 = 10;

/// Kills until the tally of the commit that is checked out says that `kills` were survived. What other commits survived does
/// not count. A round that did not hold is not in the tally, so that the next call plays it again.
///
/// # Errors
/// When a round did not hold, with what the tests printed above it, when the tests cannot be run, or when they play nothing.
pub fn run(root: &Path, kills: u64) -> Result<()> {
    let tally = tally(root)?;
    fs::create_dir_all(tally.parent().unwrap_or(root)).context("the folder of the tally")?;
    let mut so_far = Tally::read(&tally)?;
    loop {
        println!(
            "crash: {} of {kills} kills in {} rounds held ({})",
            so_far.kills,
            so_far.rounds(),
            tally.display()
        );
        if so_far.kills >= kills {
            return Ok(());
        }
        play(root, &tally, so_far.next())?;
        let now = Tally::read(&tally)?;
        if now.rounds() == so_far.rounds() {
            bail!("the tests played no round: does the filter of this command still find them?");
        }
        so_far = now;
    }
}

/// The tally of the commit that is checked out. Changes that are not committed count for it as well.
fn tally(root: &Path) -> Result<PathBuf> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let told = Command::new("git").args(["rev-parse", "--short=12", "HEAD"]).current_dir(root).output();
    let told = told.context("git cannot be started")?;
    if !told.status.success() {
        bail!("git does not tell the commit: {}", String::from_utf8_lossy(&told.stderr).trim());
    }
    let commit = String::from_utf8_lossy(&told.stdout).trim().to_owned();
    Ok(target.join("crash").join(format!("{commit}.txt")))
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
#[derive(Debug, Default, PartialEq, Eq)]
struct Tally {
    kills: u64,
    /// The rounds that held, of each scene.
    played: BTreeMap<String, BTreeSet<u32>>,
}

impl Tally {
    fn read(path: &Path) -> Result<Tally> {
        match fs::read_to_string(path) {
            Ok(text) => Tally::of(&text).with_context(|| format!("{} is no tally", path.display())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Tally::default()),
            Err(error) => Err(error).with_context(|| path.display().to_string()),
        }
    }

    fn of(text: &str) -> Result<Tally> {
        let mut tally = Tally::default();
        for line in text.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let [scene, round, kills] = words.as_slice() else { bail!("{line:?}") };
            let round = round.parse().context("the number of a round")?;
            if tally.played.entry((*scene).to_owned()).or_default().insert(round) {
                tally.kills += kills.parse::<u64>().context("the kills of a round")?;
            }
        }
        Ok(tally)
    }

    fn rounds(&self) -> usize {
        self.played.values().map(BTreeSet::len).sum()
    }

    /// The first round that some scene has not played. The tests leave out what the others have played of what follows.
    fn next(&self) -> u32 {
        let first_missing = |played: &BTreeSet<u32>| (0..).find(|round| !played.contains(round)).unwrap_or(0);
        self.played.values().map(first_missing).min().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sweep_goes_on_with_the_first_round_that_did_not_hold() {
        let tally = Tally::of("single 0 1\nbatch 0 1\nsingle 1 2\nsingle 1 2\n").expect("it is a tally");
        assert_eq!((tally.kills, tally.rounds(), tally.next()), (4, 3, 1));
        let failed = Tally::of("single 0 1\nbatch 1 2\nsingle 1 2\n").expect("it is a tally");
        assert_eq!((failed.kills, failed.rounds(), failed.next()), (5, 3, 0));
        assert_eq!(Tally::default().next(), 0);
        assert!(Tally::of("single x 1").is_err() && Tally::of("one two").is_err());
    }
}
