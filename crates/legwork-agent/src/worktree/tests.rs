//! Worktrees of a real repository: what is made, what is found in them, and that nothing which could be work is removed.

use super::{GIT_LIMIT, Need, Tenant, Worktree, Worktrees, inspect, state};
use crate::process::{End, Shells};
use crate::tools::tests::ledger::Ledger;
use crate::tools::{Commands, Errand};
use legwork_core::aftermath;
use legwork_core::ids::{ChildId, Epoch, OwnerId, SessionId};
use legwork_core::step::{Actor, Fence};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

struct Ground {
    root: TempDir,
    commands: Commands,
    worktrees: Worktrees,
    fence: Fence,
}

impl Ground {
    /// A repository with one commit, which has a hook that would be noticed.
    async fn new() -> Ground {
        let ground = Ground::bare();
        let hook = "printf '#!/bin/sh\\ntouch %s/hooked\\n' \"$PWD\" >.git/hooks/post-checkout; chmod +x .git/hooks/*";
        ground
            .run(&format!(
                "git init -q -b main . && echo one >file && mkdir sub && echo two >sub/file && echo '*.log' >.gitignore \
                 && git add . && git commit -qm first && {hook}"
            ))
            .await;
        ground
    }

    fn bare() -> Ground {
        let shells = Shells::new(std::env::vars_os()).expect("there is a shell");
        let commands = Commands::new(shells, Arc::new(Ledger::default()));
        let fence = Fence { owner: OwnerId::from_bits(1), epoch: Epoch(1) };
        let root = tempfile::tempdir().expect("a folder");
        Ground { root, worktrees: Worktrees::new(commands.clone()), commands, fence }
    }

    fn folder(&self) -> PathBuf {
        self.root.path().canonicalize().expect("it is there")
    }

    /// Runs a script in the repository.
    async fn run(&self, script: &str) -> String {
        self.run_in(&self.folder(), script).await
    }

    async fn run_in(&self, folder: &Path, script: &str) -> String {
        let actor = Actor::Child(ChildId::from_bits(9, 9));
        let names =
            "export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b;";
        let errand = Errand {
            script: format!("{names} {script}"),
            folder,
            actor: &actor,
            fence: &self.fence,
            limit: Duration::from_secs(20),
            output_bytes_max: 4096,
        };
        let ran = self.commands.errand(errand).await.expect("it runs");
        assert_eq!(ran.end, End::Exited(0), "{script}: {}", ran.output);
        ran.output
    }

    async fn take(&self, index: usize, folder: &Path, need: Need) -> Result<Worktree, String> {
        let child = ChildId::from_bits(index, 7);
        self.worktrees.take(Tenant { child: &child, fence: &self.fence, folder }, need).await
    }

    async fn made(&self, index: usize) -> Worktree {
        self.take(index, &self.folder(), Need::New).await.expect("it is made")
    }

    async fn inspected(&self, index: usize) -> aftermath::Worktree {
        let child = ChildId::from_bits(index, 7);
        let worktree = self.worktrees.leave(&child).expect("it was taken");
        let folder = self.folder();
        let tenant = Tenant { child: &child, fence: &self.fence, folder: &folder };
        inspect(&self.worktrees, &tenant, &worktree, GIT_LIMIT).await
    }
}

/// Proves WT-1, WT-2: a folder and a branch, ignored without a change of a tracked file, and no hook has run.
#[tokio::test]
async fn wt_01_a_worktree_stands_beside_the_work_and_begins_at_the_last_commit() {
    let ground = Ground::new().await;
    ground.run("echo changed >file").await;
    let worktree = ground.made(0).await;
    let expected = ground.folder().join(".worktrees/subagent-sa-0-00000007");
    assert_eq!((&worktree.path, &worktree.folder), (&expected, &expected));
    let branch = ground.run_in(&worktree.path, "git symbolic-ref --short HEAD").await;
    assert_eq!(branch.trim(), "legwork-subagent/subagent-sa-0-00000007");
    assert_eq!(ground.run_in(&worktree.path, "cat file").await, "one\n");
    assert_eq!(ground.run("git status --porcelain").await, " M file\n", "`.worktrees` is ignored");
    assert!(!worktree.path.join("hooked").exists() && !ground.folder().join("hooked").exists());
}

/// Proves WT-2: whatever git waits for, it is ended at its limit, and nothing half made is left.
#[tokio::test]
async fn wt_02_git_asks_nothing_and_is_ended_at_its_limit() {
    let ground = Ground::new().await;
    let slow =
        "echo 'file filter=slow' >.git/info/attributes && git config filter.slow.smudge 'exec sleep 974'";
    ground.run(slow).await;
    let hurried = Worktrees::within(ground.commands.clone(), Duration::from_millis(100));
    let (child, folder) = (ChildId::from_bits(0, 7), ground.folder());
    let tenant = Tenant { child: &child, fence: &ground.fence, folder: &folder };
    let why = hurried.take(tenant, Need::New).await.expect_err("it cannot be made in time");
    assert!(why.contains("0.1 s"), "{why}");
    assert_eq!(ground.run("git worktree list --porcelain | grep -c ^worktree").await, "1\n");
    assert_eq!(ground.run("git branch --list 'legwork-subagent/*'").await, "");
}

#[tokio::test]
async fn wt_01_a_child_of_a_subfolder_starts_in_that_subfolder_and_one_of_a_worktree_beside_it() {
    let ground = Ground::new().await;
    let below = ground.take(0, &ground.folder().join("sub"), Need::New).await.expect("it is made");
    assert_eq!(below.folder, below.path.join("sub"));
    ground.run_in(&below.path, "echo more >>file && git commit -qam second").await;
    let nested = ground.take(1, &below.folder, Need::New).await.expect("it is made");
    assert_eq!(nested.path, ground.folder().join(".worktrees/subagent-sa-1-00000007"));
    assert_eq!(
        ground.run_in(&nested.path, "cat file").await,
        "one\nmore\n",
        "it begins where its parent stands"
    );
}

#[tokio::test]
async fn inv_31_what_cannot_be_isolated_is_an_error_that_says_why() {
    let ground = Ground::bare();
    let folder = ground.folder();
    let why = ground.take(0, &folder, Need::New).await.expect_err("there is no repository");
    assert!(why.contains("delegation.worktree_isolation") && why.contains("not a git repository"), "{why}");
    ground.run("git init -q .").await;
    let why = ground.take(0, &folder, Need::New).await.expect_err("there is nothing to begin from");
    assert!(why.contains("no commit yet"), "{why}");
    let ground = Ground::new().await;
    ground.run("git branch legwork-subagent/subagent-sa-0-00000007").await;
    let why = ground.take(0, &ground.folder(), Need::New).await.expect_err("the branch is somebody's");
    assert!(why.contains("is there already"), "{why}");
    ground.run("git show-ref --verify -q refs/heads/legwork-subagent/subagent-sa-0-00000007").await;
    ground.run("mkdir elsewhere && ln -s elsewhere .worktrees").await;
    let why = ground.take(1, &ground.folder(), Need::New).await.expect_err("the way leads elsewhere");
    assert!(why.contains("is a link"), "{why}");
}

/// Proves WT-5, WT-6.
#[tokio::test]
async fn wt_06_only_what_is_proved_to_hold_nothing_is_removed() {
    let ground = Ground::new().await;
    let cases = [
        ("true", (0, false, true), None),
        ("echo x >>file", (0, true, false), None),
        ("echo x >new", (0, true, false), None),
        ("echo x >>file && git commit -qam x", (1, false, false), None),
        ("git checkout -q --detach && echo x >>file && git commit -qam x", (1, false, false), None),
        ("echo x >out.log", (0, false, false), Some("git ignores")),
        (
            "echo x >>file && git commit -qam x && git reset -q --hard HEAD~",
            (0, false, false),
            Some("taken back"),
        ),
        ("rm \"$(git rev-parse --git-dir)/legwork-base\"", (0, false, false), Some("not known")),
        ("rm -r \"$(git rev-parse --git-dir)/logs\"", (0, false, false), Some("no log")),
    ];
    for (index, (script, (commits, dirty, pruned), words)) in cases.into_iter().enumerate() {
        let worktree = ground.made(index).await;
        ground.run_in(&worktree.path, script).await;
        let report = ground.inspected(index).await;
        assert_eq!(
            (report.commits, report.dirty, report.pruned),
            (commits, dirty, pruned),
            "{script}: {report:?}"
        );
        assert!(!report.inspection_failed, "{report:?}");
        assert_eq!(worktree.path.exists(), !pruned, "{script}");
        let branch = format!("git branch --list '{}'", report.branch);
        assert_eq!(ground.run(&branch).await.is_empty(), pruned, "{script}");
        match words {
            Some(words) => assert!(report.note.is_some_and(|note| note.contains(words)), "{script}"),
            None => assert_eq!(report.note, None, "{script}"),
        }
    }
}

/// Proves WT-6 where the user has git keep no logs of branches.
#[tokio::test]
async fn wt_06_commits_that_were_taken_back_are_noticed_where_git_keeps_no_logs() {
    let ground = Ground::new().await;
    ground.run("git config core.logAllRefUpdates false").await;
    let taken_back = "echo x >>file && git commit -qam x && git reset -q --hard HEAD~";
    for (index, (script, pruned)) in [("true", true), (taken_back, false)].into_iter().enumerate() {
        let worktree = ground.made(index).await;
        ground.run_in(&worktree.path, script).await;
        let report = ground.inspected(index).await;
        assert_eq!((report.pruned, worktree.path.exists()), (pruned, !pruned), "{script}: {report:?}");
    }
}

#[tokio::test]
async fn wt_06_what_was_removed_is_said_to_be_removed_whatever_became_of_its_branch() {
    let ground = Ground::new().await;
    let worktree = ground.made(0).await;
    let branch = &worktree.branch;
    ground.run_in(&worktree.path, &format!("git checkout -q --detach && git branch -q -D {branch}")).await;
    let report = ground.inspected(0).await;
    assert!(report.pruned && report.note.is_none() && !worktree.path.exists(), "{report:?}");
}

/// Proves WT-2 after a crash: whatever `git worktree add` had done when it was killed, a whole one is there afterwards.
#[tokio::test]
async fn k02_a_worktree_that_was_not_finished_is_made_anew() {
    let base = "rm \"$(git -C \"$place\" rev-parse --git-dir)/legwork-base\"";
    let noted = ".git/worktrees/subagent-sa-0-00000007";
    let left = [
        (
            "half of the files".to_owned(),
            format!("{base}; touch {noted}/index.lock {noted}/locked; rm -r \"$place\"/*"),
        ),
        ("no mark".to_owned(), base.to_owned()),
        ("an empty mark".to_owned(), format!(": >{noted}/legwork-base")),
        (
            "an empty folder".to_owned(),
            format!("{base}; touch {noted}/locked; rm -r \"$place\"; mkdir \"$place\""),
        ),
        ("notes without a folder".to_owned(), format!("{base}; touch {noted}/locked; rm -r \"$place\"")),
        (
            "the first note".to_owned(),
            format!("rm -r \"$place\" {noted}; mkdir {noted}; touch {noted}/locked"),
        ),
        ("the branch".to_owned(), format!("rm -r \"$place\" {noted}")),
    ];
    for (what, script) in left {
        let ground = Ground::new().await;
        let made = ground.made(0).await;
        ground.run(&format!("place='{}'; {script}", made.path.display())).await;
        let again = ground.take(0, &ground.folder(), Need::Unbegun).await;
        assert_eq!(again, Ok(made.clone()), "{what}");
        assert_eq!(
            ground.run_in(&made.path, "git status --porcelain; cat file sub/file").await,
            "one\ntwo\n",
            "{what}"
        );
        assert!(ground.inspected(0).await.pruned, "{what}: what it began from is known");
    }
}

/// Proves invariant 31: only its own goes, and never work.
#[tokio::test]
async fn inv_31_a_branch_with_commits_of_its_own_and_a_folder_that_is_no_worktree_are_left_alone() {
    let branch = "legwork-subagent/subagent-sa-0-00000007";
    let there = [
        format!("git checkout -q -b {branch} && echo x >>file && git commit -qam x && git checkout -q main"),
        "mkdir -p .worktrees/subagent-sa-0-00000007 && echo mine >.worktrees/subagent-sa-0-00000007/mine"
            .to_owned(),
    ];
    for script in there {
        let ground = Ground::new().await;
        ground.run(&script).await;
        let before = ground.run("git show-ref; find .worktrees -type f 2>/dev/null | sort").await;
        let why = ground.take(0, &ground.folder(), Need::Unbegun).await.expect_err("it is somebody's");
        assert!(why.contains("is there already"), "{why}");
        assert_eq!(ground.run("git show-ref; find .worktrees -type f 2>/dev/null | sort").await, before);
    }
}

#[tokio::test]
async fn wt_02_a_worktree_that_takes_long_holds_no_other_one_back() {
    let ground = Ground::new().await;
    let waits = "case $PWD in *subagent-sa-0-*) : >../../reached; until [ -e ../../go ]; do sleep 0.02; done;; esac; cat";
    ground
        .run(&format!(
            "git config filter.slow.smudge '{waits}'; echo 'file filter=slow' >>.git/info/attributes"
        ))
        .await;
    let folder = ground.folder();
    let slow = ground.take(0, &folder, Need::New);
    let other = async {
        // Deadline: the first one has so long to begin with its files.
        let reached = tokio::time::timeout(Duration::from_secs(20), async {
            while !folder.join("reached").exists() {
                tokio::task::yield_now().await;
            }
        });
        reached.await.expect("it is reached");
        let other = ground.take(1, &folder, Need::New).await;
        std::fs::write(folder.join("go"), "").expect("it is written");
        other
    };
    let (slow, other) = tokio::join!(slow, other);
    assert!(slow.is_ok() && other.is_ok(), "{slow:?} {other:?}");
}

#[tokio::test]
async fn wt_05_what_cannot_be_looked_into_is_kept_and_says_so() {
    let ground = Ground::new().await;
    let worktree = ground.made(0).await;
    ground.run_in(&worktree.path, "echo broken >.git").await;
    let report = ground.inspected(0).await;
    assert!(report.inspection_failed && report.dirty && !report.pruned, "{report:?}");
    assert!(report.note.is_some_and(|note| note.contains("could not be looked into")));
    assert!(worktree.path.join("file").exists());
}

#[tokio::test]
async fn k02_who_goes_on_finds_its_worktree_again_or_fails() {
    let ground = Ground::new().await;
    let made = ground.made(0).await;
    ground.run_in(&made.path, "echo half >half").await;
    let again = ground.take(0, &ground.folder(), Need::Known).await.expect("it is there");
    assert_eq!(again, made);
    assert_eq!(ground.take(0, &ground.folder(), Need::Unbegun).await, Ok(made.clone()));
    ground.run("rm -r .worktrees/*").await;
    let why = ground.take(0, &ground.folder(), Need::Known).await.expect_err("it is gone");
    assert!(why.contains("is gone") && why.contains("must not share"), "{why}");
}

/// Proves EVT-7.
#[tokio::test]
async fn the_state_of_a_repository_is_told_and_nothing_of_it_is_changed() {
    let ground = Ground::new().await;
    let actor = Actor::Session(SessionId::from_bits(1));
    let told = async |folder: &Path| {
        state(&ground.commands, &actor, &ground.fence, folder.to_str().expect("text")).await
    };
    let clean = told(&ground.folder()).await.expect("it is a repository");
    assert!(
        clean.starts_with("branch: main\ncommit: ") && clean.ends_with(" first\nnothing is changed"),
        "{clean}"
    );
    ground.run("echo more >>file; echo new >new; for n in $(seq 40); do echo x >many$n; done").await;
    let before = ground.run("git status --porcelain | wc -l").await;
    let changed = told(&ground.folder().join("sub")).await.expect("it is below a repository");
    assert!(changed.contains("\n M file\n") && changed.lines().count() == 22, "{changed}");
    assert_eq!(ground.run("git status --porcelain | wc -l").await, before);
    let bare = Ground::bare();
    let nothing = state(&bare.commands, &actor, &bare.fence, bare.folder().to_str().expect("text")).await;
    assert_eq!(nothing, None, "there is no repository");
}
