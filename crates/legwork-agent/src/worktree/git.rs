//! Git as a script uses it: with nothing of a repository or a system that could ask, show pages or run programs of
//! others.
//!
//! The user's own configuration counts, because filters such as that of large files are in it.

use super::Worktree;
use crate::process::End;
use crate::tools::Ran;
use std::path::PathBuf;
use std::time::Duration;

/// Stands before every script.
pub(super) const HARDENED: &str = r#"
export GIT_TERMINAL_PROMPT=0 GIT_CONFIG_NOSYSTEM=1 GIT_ASKPASS=false SSH_ASKPASS=false GIT_EDITOR=false
export GIT_PAGER=cat GIT_OPTIONAL_LOCKS=0 GIT_SSH_COMMAND='ssh -o BatchMode=yes' LC_ALL=C
g() {
  command git -c core.hooksPath=/dev/null -c core.fsmonitor=false -c core.pager=cat -c core.askPass=false     -c credential.helper= -c gc.auto=0 -c maintenance.auto=false -c commit.gpgSign=false -c submodule.recurse=false     -c advice.detachedHead=false -c core.quotePath=true --no-pager "$@"
}
"#;

/// Where a worktree is, worked out from the folder of the delegation: sets `common`, `repo`, `prefix` and `place`.
pub(super) fn whereabouts(folder: &str, name: &str) -> String {
    let (folder, name) = (crate::tools::word(folder), crate::tools::word(name));
    format!(
        r#"
cd -- {folder} || exit 1
top=$(g rev-parse --show-toplevel) || exit 1
prefix=$(g rev-parse --show-prefix) || exit 1
common=$(g rev-parse --path-format=absolute --git-common-dir) || exit 1
case $common in */.git) repo=${{common%/.git}} ;; *) repo=$top ;; esac
if [ -L "$repo/.worktrees" ]; then echo "$repo/.worktrees is a link"; exit 1; fi
place=$repo/.worktrees/{name}
"#
    )
}

/// Says where the worktree is; see [`told`].
pub(super) const TELL: &str = r#"
printf 'legwork-place %s
legwork-repo %s
legwork-prefix %s
' "$place" "$repo" "$prefix"
"#;

/// What a script told of itself: the rest of the last line that begins with `name`.
pub(super) fn told<'a>(output: &'a str, name: &str) -> Option<&'a str> {
    output.lines().rev().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))
}

/// The worktree that [`TELL`] told of.
pub(super) fn worktree(ran: &Ran, branch: String) -> Option<Worktree> {
    let path = PathBuf::from(told(&ran.output, "legwork-place")?);
    let repository = PathBuf::from(told(&ran.output, "legwork-repo")?);
    let folder = path.join(told(&ran.output, "legwork-prefix").unwrap_or_default());
    let folder = if folder.is_dir() { folder.components().collect() } else { path.clone() };
    Some(Worktree { path, branch, folder, repository })
}

/// Why a script failed, in git's words.
pub(super) fn failure(ran: &Ran, limit: Duration) -> String {
    match ran.end {
        End::TimedOut => format!("git took longer than {} s", limit.as_secs_f32()),
        End::Exited(_) | End::Signalled(_) | End::Stopped | End::Untold => {
            let words: Vec<&str> =
                ran.output.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
            match words.as_slice() {
                [] => "git failed without a word".to_owned(),
                words => words.join("; "),
            }
        }
    }
}
