//! Makes a worktree, or finds the one that a child had before its process died.

use super::git::{TELL, failure, whereabouts, worktree};
use super::{GIT_LIMIT, Need, Tenant, Worktree, Worktrees, names};
use crate::process::End;
use crate::tools::word;

/// What a script exits with when it began to make something that is not whole.
const HALF_MADE: i32 = 3;

/// Has git leave worktrees out of what it shows of the repository. At one time only once: two at once could spoil the list.
pub(super) async fn exclude(worktrees: &Worktrees, tenant: &Tenant<'_>) -> Result<(), String> {
    let name = names(tenant.child).0;
    let (place, name) = (whereabouts(&tenant.folder.display().to_string(), &name), word(&name));
    let script = format!(
        r#"{place}
if g -C "$repo" check-ignore -q -- .worktrees/{name}; then exit 0; fi
mkdir -p -- "$common/info" || exit 1
list=$common/info/exclude
if [ -n "$(tail -c 1 -- "$list" 2>/dev/null)" ]; then echo >>"$list"; fi
echo /.worktrees/ >>"$list" || exit 1
"#
    );
    let ran = worktrees.git(tenant, script, GIT_LIMIT).await?;
    if ran.end == End::Exited(0) { Ok(()) } else { Err(failure(&ran, GIT_LIMIT)) }
}

/// Makes the worktree, or takes the one that is there already where it may have been made for this child before. What is
/// left of one that was not finished is made anew: its last mark, from what it began, is not there.
pub(super) async fn make(worktrees: &Worktrees, tenant: &Tenant<'_>, need: Need) -> Result<Worktree, String> {
    let (name, branch) = names(tenant.child);
    let place = whereabouts(&tenant.folder.display().to_string(), &name);
    let earlier = match need {
        Need::New => String::new(),
        Need::Unbegun | Need::Known => {
            let undo = undo(&name, &branch);
            format!(
                r#"own=$(g -C "$place" rev-parse --absolute-git-dir 2>/dev/null)
if [ "$(g -C "$place" rev-parse --show-toplevel 2>/dev/null)" = "$place" ] && [ -s "$own/legwork-base" ]; then
  {TELL} exit 0
fi
{{ {undo} }} >/dev/null 2>&1"#
            )
        }
    };
    let quoted_branch = word(&branch);
    // The log of the worktree shows later whether commits were taken back, also where the user keeps no such logs.
    let script = format!(
        r#"{place}
{earlier}
base=$(g rev-parse --verify -q "HEAD^{{commit}}") || {{ echo "the repository has no commit yet"; exit 1; }}
if [ -e "$place" ] || g show-ref -q --verify refs/heads/{quoted_branch}; then
  echo "$place or the branch "{quoted_branch}" is there already and is not a worktree of it"; exit 1
fi
g -c core.logAllRefUpdates=true worktree add --no-track -q -b {quoted_branch} -- "$place" "$base" || exit {HALF_MADE}
own=$(g -C "$place" rev-parse --absolute-git-dir) || exit {HALF_MADE}
printf %s "$base" >"$own/legwork-base" || exit {HALF_MADE}
{TELL}"#
    );
    let ran = worktrees.git(tenant, script, worktrees.limit).await?;
    if ran.end == End::Exited(0) {
        return worktree(&ran, branch).ok_or_else(|| format!("git did not say where it is: {}", ran.output));
    }
    let why = failure(&ran, worktrees.limit);
    if matches!(ran.end, End::Exited(HALF_MADE) | End::TimedOut | End::Signalled(_)) {
        unmake(worktrees, tenant).await;
    }
    Err(why)
}

/// Removes what was half made. Nobody has worked in it, so it holds no work.
async fn unmake(worktrees: &Worktrees, tenant: &Tenant<'_>) {
    let (name, branch) = names(tenant.child);
    let place = whereabouts(&tenant.folder.display().to_string(), &name);
    let script = format!("{place}\n{}", undo(&name, &branch));
    match worktrees.git(tenant, script, GIT_LIMIT).await {
        Ok(ran) if ran.end == End::Exited(0) => {}
        Ok(ran) => {
            tracing::info!(child = %tenant.child, words = failure(&ran, GIT_LIMIT), "half a worktree stays")
        }
        Err(error) => tracing::warn!(child = %tenant.child, error, "half a worktree stays"),
    }
}

/// Removes a worktree that nobody has worked in, wherever git was when it made it: the branch comes first, then what git
/// notes of the worktree, then its folder and the files. The branch goes only if it holds no commit of its own.
fn undo(name: &str, branch: &str) -> String {
    let (name, branch) = (word(name), word(branch));
    format!(
        r#"
noted=$common/worktrees/{name}
if [ -e "$noted" ]; then
  rm -f -- "$noted/locked"
  g -C "$repo" worktree remove --force --force -- "$place"
  if [ -d "$place" ]; then rmdir -- "$place"; fi
  if [ ! -e "$place" ]; then rm -rf -- "$noted"; fi
fi
if g show-ref -q --verify refs/heads/{branch}; then
  own=$(g rev-list -n 1 refs/heads/{branch} --not --exclude={branch} --branches --tags --remotes HEAD) &&
    [ -z "$own" ] && g -C "$repo" branch -q -D {branch}
fi
"#
    )
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
