//! Brings together what the page is written from. It writes nothing to disk.

use super::decisions::Decisions;
use super::page;
use super::proofs::Proofs;
use super::requirements::Requirements;
use crate::tidy::Tree;

/// The page that is written.
pub const PAGE: &str = "docs/traceability.md";
/// The page that defines the requirements.
pub const REQUIREMENTS: &str = "docs/requirements.md";
/// What cannot be read off a test's name.
pub const DECISIONS: &str = "docs/traceability-decisions.txt";

/// The page as it should be, for this tree.
///
/// # Errors
///
/// What is wrong with the decisions, one line each: a line that cannot be read, an id that does not exist, a test that
/// does not exist.
pub fn written(tree: &Tree) -> Result<String, Vec<String>> {
    let (Some(requirements), Some(decisions)) = (tree.text(REQUIREMENTS), tree.text(DECISIONS)) else {
        return Err(vec![format!("{REQUIREMENTS} or {DECISIONS} is missing")]);
    };
    let requirements = Requirements::read(requirements);
    let proofs = Proofs::of(tree);
    let decisions = Decisions::read(decisions, &requirements, &proofs)?;
    Ok(page::write(&requirements, &proofs, &decisions))
}
