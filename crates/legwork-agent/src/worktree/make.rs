//! Makes a worktree, or finds the one that a child had before its process died.

use super::git::{TELL, failure, whereabouts, worktree};
use super::{GIT_LIMIT, Need, Tenant, Worktree, Worktrees, names};
use crate::process::End;
use crate::tools::word;

/// What a script exits with when it began to make something that is not whole.
const HALF_MADE: i32 = 3;

/// Makes the worktree, or takes the one that is there already where it may have been made for this child before.
pub(super) async fn make(worktrees: &Worktrees, tenant: &Tenant<'_>, need: Need) -> Result<Worktree, String> {
    let (name, branch) = names(tenant.child);
    let (quoted_name, quoted_branch) = (word(&name), word(&branch));
    let place = whereabouts(&tenant.folder.display().to_string(), &name);
    let earlier = match need {
        Need::New => String::new(),
        Need::Unbegun | Need::Known => format!(
            r#"if [ "$(g -C "$place" rev-parse --show-toplevel 2>/dev/null)" = "$place" ]; then {TELL} exit 0; fi"#
        ),
    };
    let script = format!(
        r#"{place}
{earlier}
base=$(g rev-parse --verify -q "HEAD^{{commit}}") || {{ echo "the repository has no commit yet"; exit 1; }}
if ! g -C "$repo" check-ignore -q -- .worktrees/{quoted_name}; then
  mkdir -p -- "$common/info" || exit 1
  list=$common/info/exclude
  if [ -n "$(tail -c 1 -- "$list" 2>/dev/null)" ]; then echo >>"$list"; fi
  echo /.worktrees/ >>"$list" || exit 1
fi
if [ -e "$place" ] || g show-ref -q --verify refs/heads/{quoted_branch}; then
  echo "$place or the branch "{quoted_branch}" is there already and is not a worktree of it"; exit 1
fi
g worktree add --no-track -q -b {quoted_branch} -- "$place" "$base" || exit {HALF_MADE}
own=$(g -C "$place" rev-parse --absolute-git-dir) || exit {HALF_MADE}
printf %s "$base" >"$own/legwork-base" || exit {HALF_MADE}
{TELL}"#
    );
    let ran = worktrees.git(tenant, script, GIT_LIMIT).await?;
    if ran.end == End::Exited(0) {
        return worktree(&ran, branch).ok_or_else(|| format!("git did not say where it is: {}", ran.output));
    }
    let why = failure(&ran, GIT_LIMIT);
    if matches!(ran.end, End::Exited(HALF_MADE) | End::TimedOut | End::Signalled(_)) {
        unmake(worktrees, tenant).await;
    }
    Err(why)
}

/// Removes what was half made. Nobody has worked in it, so it holds no work.
async fn unmake(worktrees: &Worktrees, tenant: &Tenant<'_>) {
    let (name, branch) = names(tenant.child);
    let (place, branch) = (whereabouts(&tenant.folder.display().to_string(), &name), word(&branch));
    let script = format!(
        "{place}\ng -C \"$repo\" worktree remove --force --force -- \"$place\"\n\
         g -C \"$repo\" worktree prune\ng -C \"$repo\" branch -q -D {branch}\n"
    );
    match worktrees.git(tenant, script, GIT_LIMIT).await {
        Ok(ran) if ran.end == End::Exited(0) => {}
        Ok(ran) => {
            tracing::info!(child = %tenant.child, words = failure(&ran, GIT_LIMIT), "half a worktree stays")
        }
        Err(error) => tracing::warn!(child = %tenant.child, error, "half a worktree stays"),
    }
}

/// The worktree that the child has worked in before.
pub(super) async fn find(worktrees: &Worktrees, tenant: &Tenant<'_>) -> Result<Worktree, String> {
    let (name, branch) = names(tenant.child);
    let place = whereabouts(&tenant.folder.display().to_string(), &name);
    let script = format!(
        r#"{place}
if [ "$(g -C "$place" rev-parse --show-toplevel 2>/dev/null)" != "$place" ]; then
  echo "the worktree in which it had worked, $place, is gone"; exit 1
fi
{TELL}"#
    );
    let ran = worktrees.git(tenant, script, GIT_LIMIT).await?;
    let found = (ran.end == End::Exited(0)).then(|| worktree(&ran, branch)).flatten();
    found.ok_or_else(|| failure(&ran, GIT_LIMIT))
}
