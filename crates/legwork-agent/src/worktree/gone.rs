//! A worktree that is not there any more although its child had answered: the process died while it removed it, or
//! somebody else did. A removal that was begun is brought to its end, and what is left is told.

use super::git::{TELL, failure, told, whereabouts};
use super::{GIT_LIMIT, Tenant, Worktrees, names};
use crate::process::End;
use crate::tools::word;
use legwork_core::aftermath;

/// What is said where nothing is left.
const REMOVED: &str = "it is gone: one in which nothing was changed is removed";
/// What is said where there is work on the branch.
const BRANCH_STAYS: &str = "its folder is gone, and what was committed in it is on its branch";

/// What is left of it. The branch goes with it when it holds no commit of its own. `None` when git could not look.
pub(crate) async fn gone(worktrees: &Worktrees, tenant: &Tenant<'_>) -> Option<aftermath::Worktree> {
    let (name, branch) = names(tenant.child);
    let (place, quoted) = (whereabouts(&tenant.folder.display().to_string(), &name), word(&branch));
    let script = format!(
        r#"{place}
[ ! -e "$place" ] || {{ echo "$place is there, and is not a worktree of it"; exit 1; }}
own=0
if g show-ref -q --verify refs/heads/{quoted}; then
  own=$(g rev-list --count refs/heads/{quoted} --not --exclude={quoted} --branches --tags --remotes HEAD) || exit 1
  if [ "$own" = 0 ]; then g -C "$repo" branch -q -D {quoted} || exit 1; fi
fi
printf 'legwork-own %s
' "$own"
{TELL}"#
    );
    let ran = worktrees.git(tenant, script, GIT_LIMIT).await;
    let ran = match ran {
        Ok(ran) if ran.end == End::Exited(0) => ran,
        Ok(ran) => {
            tracing::info!(child = %tenant.child, words = failure(&ran, GIT_LIMIT), "nothing is said of its worktree");
            return None;
        }
        Err(error) => {
            tracing::warn!(child = %tenant.child, error, "git cannot look for its worktree");
            return None;
        }
    };
    let commits = told(&ran.output, "legwork-own")?.parse().ok()?;
    Some(aftermath::Worktree {
        path: told(&ran.output, "legwork-place")?.to_owned(),
        branch,
        commits,
        dirty: false,
        pruned: commits == 0,
        inspection_failed: commits > 0,
        note: Some(if commits > 0 { BRANCH_STAYS } else { REMOVED }.to_owned()),
    })
}
