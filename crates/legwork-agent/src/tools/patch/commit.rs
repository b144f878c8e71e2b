//! Puts all changes of a call in place, or none: first every new text is written beside its place, then each is moved
//! there, and what was moved already goes back when a later one cannot be.
//!
//! Only a crash in the middle of the moves can leave some done and others not.

use super::original::Original;
use crate::tools::beside::{Aside, Beside, target};
use crate::tools::off_thread::Abandoned;
use crate::tools::place;
use std::fs::{self, Permissions};
use std::path::{Path, PathBuf};

/// What becomes of one file. Its path is as the model knows it.
#[derive(Debug)]
pub(super) enum Change {
    /// It gets this text; without a text before it is new.
    Write { path: PathBuf, before: Option<Original>, mode: Option<Permissions>, after: String },
    /// It goes.
    Remove { path: PathBuf, before: Original },
}

impl Change {
    /// A file that is there gets another text and keeps its mode.
    pub(super) fn rewrite(path: PathBuf, before: Original, after: String) -> Self {
        let mode = Some(before.facts.permissions());
        Change::Write { path, before: Some(before), mode, after }
    }

    pub(super) fn path(&self) -> &Path {
        match self {
            Change::Write { path, .. } | Change::Remove { path, .. } => path,
        }
    }

    fn before(&self) -> Option<&Original> {
        match self {
            Change::Write { before, .. } => before.as_ref(),
            Change::Remove { before, .. } => Some(before),
        }
    }

    /// Whether what it was made for is still so.
    fn still_fits(&self) -> bool {
        match self.before() {
            Some(before) => before.is_current(),
            None => self.path().symlink_metadata().is_err(),
        }
    }
}

/// Carries all changes out.
///
/// # Errors
/// A sentence for the model that says what was and was not done.
pub(super) fn all(changes: &[Change], abandoned: &Abandoned) -> Result<(), String> {
    let mut folders = Folders::default();
    let placed = staged(changes, &mut folders).and_then(|staged| {
        if abandoned.is_set() {
            return Err("the call was given up".to_owned());
        }
        place_all(changes, staged)
    });
    placed.map_err(|problem| {
        folders.remove();
        if problem.ends_with(STUCK) { problem } else { format!("{problem}. Nothing was changed") }
    })
}

/// How the sentence ends when something could not be taken back.
const STUCK: &str = "check these files before you go on";

/// A change that is ready to be put in place.
enum Staged {
    Write { beside: Beside, target: PathBuf },
    Remove,
}

fn staged(changes: &[Change], folders: &mut Folders) -> Result<Vec<Staged>, String> {
    changes.iter().map(|change| stage(change, folders)).collect()
}

fn stage(change: &Change, folders: &mut Folders) -> Result<Staged, String> {
    let Change::Write { path, mode, after, .. } = change else { return Ok(Staged::Remove) };
    let target = target(path)?;
    let folder = target.parent().ok_or_else(|| format!("{} is a folder", path.display()))?;
    folders.make(folder)?;
    let explain = |error| place::explain(path, &error);
    let beside = Beside::create(folder).map_err(explain)?;
    beside.fill(after, mode.clone()).map_err(explain)?;
    Ok(Staged::Write { beside, target })
}

/// A change that is in place and can be taken back.
enum Placed<'a> {
    Written { target: PathBuf, before: Option<&'a Original> },
    Removed(Aside),
}

fn place_all(changes: &[Change], staged: Vec<Staged>) -> Result<(), String> {
    if let Some(change) = changes.iter().find(|change| !change.still_fits()) {
        return Err(format!(
            "{} was changed by somebody else meanwhile: read it again",
            change.path().display()
        ));
    }
    let mut placed = Vec::new();
    for (change, staged) in changes.iter().zip(staged) {
        match put(change, staged) {
            Ok(done) => placed.push(done),
            Err(problem) => return Err(take_back(placed, problem)),
        }
    }
    for done in placed {
        if let Placed::Removed(aside) = done
            && let Err(error) = aside.remove()
        {
            tracing::warn!(%error, "a file that was taken out of its place could not be removed");
        }
    }
    Ok(())
}

fn put(change: &Change, staged: Staged) -> Result<Placed<'_>, String> {
    let explain = |error| place::explain(change.path(), &error);
    match staged {
        Staged::Write { beside, target } => {
            beside.put(&target).map_err(explain)?;
            Ok(Placed::Written { target, before: change.before() })
        }
        Staged::Remove => Aside::take(change.path()).map(Placed::Removed).map_err(explain),
    }
}

/// Undoes what is in place, last first, and says what could not be undone.
fn take_back(placed: Vec<Placed<'_>>, problem: String) -> String {
    let mut stuck = Vec::new();
    for done in placed.into_iter().rev() {
        // What was removed goes back when it is dropped.
        let Placed::Written { target, before } = done else { continue };
        let undone = match before {
            None => fs::remove_file(&target),
            Some(before) => restore(&target, before),
        };
        if let Err(error) = undone {
            stuck.push(format!("{} ({error})", target.display()));
        }
    }
    if stuck.is_empty() {
        return problem;
    }
    format!(
        "{problem}. Other files were changed before that and could not be put back: {}; {STUCK}",
        stuck.join(", ")
    )
}

fn restore(target: &Path, before: &Original) -> std::io::Result<()> {
    let beside = Beside::create(target.parent().unwrap_or(target))?;
    beside.fill(&before.text, Some(before.facts.permissions()))?;
    beside.put(target)
}

/// Folders that were made for new files.
#[derive(Default)]
struct Folders(Vec<PathBuf>);

impl Folders {
    fn make(&mut self, folder: &Path) -> Result<(), String> {
        let missing = folder.ancestors().take_while(|folder| !folder.exists()).map(Path::to_owned);
        let mut missing: Vec<PathBuf> = missing.collect();
        missing.reverse();
        fs::create_dir_all(folder).map_err(|error| place::explain(folder, &error))?;
        self.0.append(&mut missing);
        Ok(())
    }

    /// Removes those that are still empty.
    fn remove(&self) {
        for folder in self.0.iter().rev() {
            if let Err(error) = fs::remove_dir(folder) {
                tracing::debug!(folder = %folder.display(), %error, "a new folder stays");
            }
        }
    }
}
