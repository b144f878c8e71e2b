//! Looks into the worktree of a child that has ended, and removes it if it is proved to hold nothing (WT-5, WT-6).
//!
//! The proof: what it began from is known, no commit was made on its branch or elsewhere in it, as far back as git's
//! log of it tells, which begins there too, nothing is changed, untracked or ignored in it, and git could look at all
//! of that. Anything less keeps it.

use super::git::{failure, told};
use super::{Tenant, Worktree, Worktrees};
use crate::process::End;
use crate::tools::word;
use legwork_core::aftermath;
use std::time::Duration;

/// The report of a worktree. It takes at most twice the limit.
pub(crate) async fn inspect(
    worktrees: &Worktrees,
    tenant: &Tenant<'_>,
    worktree: &Worktree,
    limit: Duration,
) -> aftermath::Worktree {
    let report = aftermath::Worktree {
        path: worktree.path.display().to_string(),
        branch: worktree.branch.clone(),
        commits: 0,
        dirty: true,
        pruned: false,
        inspection_failed: false,
        note: None,
    };
    match look(worktrees, tenant, worktree, limit).await {
        Err(why) => aftermath::Worktree {
            inspection_failed: true,
            note: Some(format!("it was kept, because it could not be looked into: {why}")),
            ..report
        },
        Ok(found) => {
            let report = aftermath::Worktree { commits: found.commits, dirty: found.dirty, ..report };
            if let Some(why) = found.why_kept() {
                return aftermath::Worktree { note: why, ..report };
            }
            match prune(worktrees, tenant, (worktree, &found.base, limit)).await {
                Ok(note) => aftermath::Worktree { pruned: true, note, ..report },
                Err(why) => {
                    aftermath::Worktree { note: Some(format!("it could not be removed: {why}")), ..report }
                }
            }
        }
    }
}

/// What is in a worktree.
struct Found {
    base: String,
    commits: u64,
    dirty: bool,
    ignored: bool,
    moved: bool,
    /// Whether git's log of it begins where it began.
    logged: bool,
}

impl Found {
    /// Whether it stays, and what has to be said about that besides the counts.
    fn why_kept(&self) -> Option<Option<String>> {
        if self.commits > 0 || self.dirty {
            return Some(None);
        }
        let why = if self.base.is_empty() {
            "what it began from is not known"
        } else if self.ignored {
            "it holds files that git ignores"
        } else if self.moved {
            "commits were made in it and taken back"
        } else if !self.logged {
            "git has no log of what was done in it"
        } else {
            return None;
        };
        Some(Some(format!("it was kept: {why}")))
    }
}

async fn look(
    worktrees: &Worktrees,
    tenant: &Tenant<'_>,
    worktree: &Worktree,
    limit: Duration,
) -> Result<Found, String> {
    let (path, branch) = (word(&worktree.path.display().to_string()), word(&worktree.branch));
    let script = format!(
        r#"
cd -- {path} || exit 1
own=$(g rev-parse --absolute-git-dir) || exit 1
base=$(cat -- "$own/legwork-base" 2>/dev/null)
tips=$(g rev-parse --verify -q HEAD; g rev-parse --verify -q refs/heads/{branch})
commits=0
if [ -n "$base" ]; then commits=$(g rev-list --count $tips "^$base" --) || exit 1; fi
all=$(g status --porcelain --untracked-files=normal --ignored=traditional) || exit 1
changed=$(printf '%s\n' "$all" | grep -v '^!!' | grep . | head -n 1)
ignored=$(printf '%s\n' "$all" | grep '^!!' | head -n 1)
log=
if g reflog exists HEAD; then log=$(g reflog show --format=%H HEAD) || log=; fi
logged=$(printf '%s\n' "$log" | grep -x -- "${{base:-none}}" | head -n 1)
moved=$(printf '%s\n' "$log" | grep . | grep -vx -- "${{base:-none}}" | head -n 1)
printf 'legwork-base %s
legwork-commits %s
legwork-changed %s
' "$base" "$commits" "${{changed:+yes}}"
printf 'legwork-ignored %s
legwork-moved %s
legwork-logged %s
legwork-done yes
' "${{ignored:+yes}}" "${{moved:+yes}}" "${{logged:+yes}}"
"#
    );
    let ran = worktrees.git(tenant, script, limit).await?;
    if ran.end != End::Exited(0) || told(&ran.output, "legwork-done").is_none() {
        return Err(failure(&ran, limit));
    }
    let says = |name| told(&ran.output, name).is_some_and(|value| value == "yes");
    let commits = told(&ran.output, "legwork-commits").and_then(|count| count.parse().ok());
    Ok(Found {
        base: told(&ran.output, "legwork-base").unwrap_or_default().to_owned(),
        commits: commits.ok_or("git did not count the commits")?,
        dirty: says("legwork-changed"),
        ignored: says("legwork-ignored"),
        moved: says("legwork-moved"),
        logged: says("legwork-logged"),
    })
}

/// Git looks again by itself before it removes a worktree, and the branch goes only if it is still where it began. Answers
/// what has to be said of a branch that stays.
async fn prune(
    worktrees: &Worktrees,
    tenant: &Tenant<'_>,
    (worktree, base, limit): (&Worktree, &str, Duration),
) -> Result<Option<String>, String> {
    let path = word(&worktree.path.display().to_string());
    let repository = word(&worktree.repository.display().to_string());
    let (branch, base) = (word(&worktree.branch), word(base));
    let script = format!(
        "cd -- {repository} || exit 1\ng worktree remove -- {path} || exit 1\n\
         if g show-ref -q --verify refs/heads/{branch}; then\n\
         g update-ref -d refs/heads/{branch} {base} || echo 'legwork-branch stays'\nfi\n"
    );
    let ran = worktrees.git(tenant, script, limit).await?;
    if ran.end != End::Exited(0) {
        return Err(failure(&ran, limit));
    }
    let stays = told(&ran.output, "legwork-branch").is_some();
    Ok(stays.then(|| "its branch was kept: it is not where it began any more".to_owned()))
}
