//! The worktree that a child has left whose process died: where it is, and nothing else. Nobody has looked into it, so
//! it is kept.
//!
//! It only looks at folders. Git is not asked: whoever settles the work of the dead runs nothing for it.

use super::names;
use legwork_core::aftermath;
use legwork_core::ids::ChildId;
use std::fs;
use std::path::{Path, PathBuf};

/// What is said of it.
const NOTE: &str = "it was kept: its subagent's process died, and nobody has looked into it";

/// The worktree of a child of a delegation in that folder, if it is still there.
pub(crate) fn remains(child: &ChildId, folder: &Path) -> Option<aftermath::Worktree> {
    let (name, branch) = names(child);
    let path = repository(folder)?.join(".worktrees").join(name);
    path.is_dir().then(|| aftermath::Worktree {
        path: path.display().to_string(),
        branch,
        commits: 0,
        dirty: true,
        pruned: false,
        inspection_failed: true,
        note: Some(NOTE.to_owned()),
    })
}

/// The repository's own folder, also for a folder in a worktree of it.
fn repository(folder: &Path) -> Option<PathBuf> {
    let top = folder.ancestors().find(|above| above.join(".git").exists())?;
    let git = top.join(".git");
    if git.is_dir() {
        return Some(top.to_owned());
    }
    let own = top.join(fs::read_to_string(git).ok()?.strip_prefix("gitdir:")?.trim());
    // A submodule has a folder of its own and is a repository of its own.
    let Ok(common) = fs::read_to_string(own.join("commondir")) else { return Some(top.to_owned()) };
    let common = fs::canonicalize(own.join(common.trim())).ok()?;
    if common.file_name().is_some_and(|name| name == ".git") {
        common.parent().map(Path::to_owned)
    } else {
        None
    }
}
