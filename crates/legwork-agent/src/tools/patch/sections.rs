//! What the sections of a patch come to: every file is read and every place found. Nothing is written here.

use super::commit::Change;
use super::hunks;
use super::original::Original;
use super::parse::{Hunk, Section};
use super::replace::check_size;
use crate::tools::beside::target;
use crate::tools::off_thread::Abandoned;
use crate::tools::place;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The changes of all sections, for a caller in `folder`.
///
/// # Errors
/// A sentence for the model.
pub(super) fn changes(
    folder: &Path,
    sections: Vec<Section>,
    abandoned: &Abandoned,
) -> Result<Vec<Change>, String> {
    let mut changes = Vec::new();
    for section in sections {
        if abandoned.is_set() {
            return Err("the call was given up".to_owned());
        }
        match section {
            Section::Add { path, text } => changes.push(add(place::resolve_in(folder, &path), text)?),
            Section::Delete { path } => {
                let path = place::resolve_in(folder, &path);
                changes.push(Change::Remove { before: Original::read(&path)?, path });
            }
            Section::Update { path, move_to, hunks } => {
                let path = place::resolve_in(folder, &path);
                let move_to = move_to.map(|path| place::resolve_in(folder, &path));
                changes.extend(update(path, move_to, &hunks)?);
            }
        }
    }
    check_distinct(&changes)?;
    Ok(changes)
}

fn add(path: PathBuf, text: String) -> Result<Change, String> {
    check_free(&path)?;
    check_size(&path, text.len())?;
    Ok(Change::Write { path, before: None, mode: None, after: text })
}

fn check_free(path: &Path) -> Result<(), String> {
    if path.symlink_metadata().is_err() {
        return Ok(());
    }
    Err(format!(
        "{} is there already: change it with *** Update File, or replace it whole with write_file",
        path.display()
    ))
}

fn update(path: PathBuf, move_to: Option<PathBuf>, hunks: &[Hunk]) -> Result<Vec<Change>, String> {
    let before = Original::read(&path)?;
    let after = hunks::apply(&before, hunks).map_err(|problem| format!("{}: {problem}", path.display()))?;
    check_size(&path, after.len())?;
    match move_to {
        None if after == before.text => Err(format!("{}: the patch leaves it as it is", path.display())),
        None => Ok(vec![Change::rewrite(path, before, after)]),
        Some(new) if new == path => Err(format!("{} cannot be moved to itself", path.display())),
        Some(new) => {
            check_free(&new)?;
            let mode = Some(before.facts.permissions());
            let written = Change::Write { path: new, before: None, mode, after };
            Ok(vec![written, Change::Remove { path, before }])
        }
    }
}

/// Two sections about one file would each be right alone.
fn check_distinct(changes: &[Change]) -> Result<(), String> {
    let mut seen = BTreeSet::new();
    for change in changes {
        let path = change.path();
        let real = target(path).unwrap_or_else(|_| path.to_owned());
        let real = real.canonicalize().unwrap_or(real);
        if !seen.insert(real) {
            return Err(format!(
                "{} is named twice: put all its parts below one *** Update File line, in the order of the file",
                path.display()
            ));
        }
    }
    Ok(())
}
