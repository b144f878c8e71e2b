//! Worktrees of children (WT-1…6): each has a folder and a branch of its own, made from the last commit, and kept unless it
//! is proved to hold nothing.
//!
//! It works with git alone and knows neither models nor the engine. Git runs as an errand: without hooks, prompts and pagers,
//! within a limit of time.

mod git;
mod gone;
mod inspect;
mod make;
mod remains;
mod state;
#[cfg(test)]
mod tests;

pub(crate) use gone::gone;
pub(crate) use inspect::inspect;
pub(crate) use remains::remains;
pub(crate) use state::state;

use crate::tools::{Commands, Errand, Ran};
use legwork_core::ids::ChildId;
use legwork_core::step::{Actor, Fence};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long git may take to make a worktree, or to look into one.
pub(crate) const GIT_LIMIT: Duration = Duration::from_secs(30);
/// Bytes of git's output that are read.
const OUTPUT_BYTES_MAX: usize = 16 * 1024;

/// The worktrees of the children of one process.
pub(crate) struct Worktrees {
    commands: Commands,
    /// How long git may take to make one, usually [`GIT_LIMIT`].
    limit: Duration,
    /// Those that are in use, each until its child has ended.
    used: Mutex<HashMap<ChildId, Worktree>>,
    /// Held while a repository is told not to look at worktrees, and no longer: to make one may take a while.
    excluding: tokio::sync::Mutex<()>,
}

/// A worktree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Worktree {
    /// Its folder.
    pub(crate) path: PathBuf,
    /// Its branch.
    pub(crate) branch: String,
    /// The folder in it that the child works in: the one that stands where the folder of the delegation stands.
    pub(crate) folder: PathBuf,
    /// The repository's own folder.
    pub(crate) repository: PathBuf,
}

/// For whom git runs.
pub(crate) struct Tenant<'a> {
    pub(crate) child: &'a ChildId,
    pub(crate) fence: &'a Fence,
    /// The folder of the delegation.
    pub(crate) folder: &'a Path,
}

/// Whether a child may get a new worktree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    /// It is its first attempt: a new one.
    New,
    /// It has not begun, but a process died that may have made one for it: that one, or a new one.
    Unbegun,
    /// It goes on from its journal: the one that it had.
    Known,
}

/// The names of a child's worktree and of its branch.
fn names(child: &ChildId) -> (String, String) {
    let name = format!("subagent-{child}");
    let branch = format!("legwork-subagent/{name}");
    (name, branch)
}

impl Worktrees {
    pub(crate) fn new(commands: Commands) -> Self {
        Worktrees::within(commands, GIT_LIMIT)
    }

    /// The same with another limit.
    pub(crate) fn within(commands: Commands, limit: Duration) -> Self {
        Worktrees { commands, limit, used: Mutex::default(), excluding: tokio::sync::Mutex::default() }
    }

    /// The worktree of a child.
    ///
    /// # Errors
    /// Why there is none, in words for whoever asked for the child. It must not work anywhere else then.
    pub(crate) async fn take(&self, tenant: Tenant<'_>, need: Need) -> Result<Worktree, String> {
        let made = match need {
            Need::New | Need::Unbegun => {
                let excluded = {
                    let _alone = self.excluding.lock().await;
                    make::exclude(self, &tenant).await
                };
                match excluded {
                    Ok(()) => make::make(self, &tenant, need).await,
                    Err(why) => Err(why),
                }
            }
            Need::Known => make::find(self, &tenant).await,
        };
        let worktree = made.map_err(|why| {
            format!(
                "there is no worktree of its own for it (delegation.worktree_isolation), and it must not share the \
                 folder {}: {why}",
                tenant.folder.display()
            )
        })?;
        self.used().insert(tenant.child.clone(), worktree.clone());
        Ok(worktree)
    }

    /// The worktree of a child that has ended, if it had one; nobody uses it any more.
    pub(crate) fn leave(&self, child: &ChildId) -> Option<Worktree> {
        self.used().remove(child)
    }

    async fn git(&self, tenant: &Tenant<'_>, script: String, limit: Duration) -> Result<Ran, String> {
        let actor = Actor::Child(tenant.child.clone());
        // The folder of the delegation may be gone; every script goes where it has to be by itself.
        let folder = Path::new("/");
        let errand = Errand {
            script: format!("{}{script}", git::HARDENED),
            folder,
            actor: &actor,
            fence: tenant.fence,
            limit,
            output_bytes_max: OUTPUT_BYTES_MAX,
        };
        self.commands.errand(errand).await
    }

    fn used(&self) -> MutexGuard<'_, HashMap<ChildId, Worktree>> {
        // The map is whole whatever its last user did: every change is a single insert or remove.
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a child is told about its worktree, at the end of its goal (WT-4).
pub(crate) fn note(worktree: &Worktree) -> String {
    let Worktree { path, branch, repository, .. } = worktree;
    format!(
        "[legwork: you have a git worktree of your own, {}, on the branch {branch}. It was made from the last commit of {}; \
         what was changed there and not committed is not in it. Work in it and nowhere else. Commit what is to be kept; \
         whoever gave you this task finds the branch. If you change nothing, it is removed.]",
        path.display(),
        repository.display(),
    )
}
