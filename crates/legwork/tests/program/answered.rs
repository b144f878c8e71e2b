//! Killed after a subagent's answer was stored and before its end was: the answer comes out whatever is gone or not
//! configured by then, and nobody is asked once more.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use legwork_testkit::server::{Script, ScriptedServer, Scripts, call, say};
use serde_json::json;

use crate::harness::{Home, Order};

/// What is lacking when somebody asks for the results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lacking {
    Nothing,
    /// The process died while it removed the worktree, in which nothing was changed.
    Pruned,
    /// Somebody has removed the worktree, with what had been changed in it.
    Worktree,
    Folder,
    Model,
    Key,
    /// The model that it was begun with.
    SameModel,
}

use Lacking::{Folder, Key, Model, Nothing, Pruned, SameModel, Worktree};

fn git(folder: &Path, arguments: &[&str]) -> String {
    let mut git = std::process::Command::new("git");
    git.current_dir(folder).args(["-c", "user.name=a", "-c", "user.email=a@b"]).args(arguments);
    let output = git.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1").output();
    let output = output.expect("there is a git");
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("it is text")
}

/// A folder of the project that is a repository with one commit.
fn repository(home: &Home) -> PathBuf {
    let folder = home.project().join("inner");
    fs::create_dir(&folder).expect("it is made");
    home.write("inner/file.txt", "first line\n");
    git(&folder, &["init", "-q", "-b", "main", "."]);
    git(&folder, &["add", "."]);
    git(&folder, &["commit", "-qm", "first"]);
    folder
}

/// A path on which a git comes first that stands still once it has done `what`.
fn slow_git(home: &Home, what: &str) -> String {
    let path = std::env::var("PATH").expect("there is a PATH");
    let script = format!(
        "#!/bin/sh\nPATH='{path}' git \"$@\"\ncode=$?\ncase \" $* \" in *' {what} '*) exec sleep 991 ;; esac\nexit $code\n"
    );
    let folder = home.project().join("slow");
    fs::create_dir_all(&folder).expect("it is made");
    home.write("slow/git", script);
    fs::set_permissions(folder.join("git"), fs::Permissions::from_mode(0o755)).expect("it is ours");
    format!("{}:{path}", folder.display())
}

fn lack<'a>(order: Order<'a>, lacking: Lacking) -> Order<'a> {
    match lacking {
        Nothing | Pruned | Worktree | Folder => order,
        Model => order.without("LEGWORK_MODEL").without("LEGWORK_BASE_URL").without("LEGWORK_API_KEY"),
        Key => {
            order.env("LEGWORK_MODEL", "openai/test").without("LEGWORK_BASE_URL").without("LEGWORK_API_KEY")
        }
        SameModel => order.env("LEGWORK_MODEL", "openai/another"),
    }
}

/// Runs a subagent until its answer is stored, and kills the program while git is at `what`.
fn killed(home: &Home, what: &str) -> String {
    let order = home.legwork(&["delegate", "--goal", "any", "--cwd", "inner"]);
    let order = order.env("LEGWORK_DELEGATION_WORKTREE_ISOLATION", "true");
    let running = order.env("PATH", &slow_git(home, what)).start();
    let id = running.delegation();
    home.wait_for_processes("sleep 991", 1);
    running.kill();
    id
}

/// Proves RECOV-2.
#[test]
fn k02_wt_05_an_answer_that_is_stored_comes_out_whatever_is_lacking_by_then() {
    for lacking in [Nothing, Pruned, Worktree, Folder, Model, Key, SameModel] {
        let command = if lacking == Pruned { "cat file.txt" } else { "echo more >> file.txt" };
        let child = Script::new().step(call("terminal", json!({"command": command}))).step(say("it is blue"));
        let server = ScriptedServer::start(Scripts::default().otherwise(child));
        let home = Home::with(&server);
        let folder = repository(&home);
        let id = killed(&home, if lacking == Pruned { "worktree remove" } else { "status --porcelain" });
        let place = folder.join(format!(".worktrees/subagent-{}", home.only_child(0)));
        match lacking {
            Pruned => assert!(!place.exists(), "the kill came too early"),
            Worktree => drop(git(&folder, &["worktree", "remove", "--force", &place.display().to_string()])),
            Folder => fs::remove_dir_all(&folder).expect("it is ours"),
            Nothing | Model | Key | SameModel => {}
        }
        let asked = server.log().entries().len();
        let ended = lack(home.legwork(&["results", &id, "--wait", "--json"]), lacking).run();
        assert_eq!((ended.code, ended.statuses()), (0, vec!["completed".to_owned()]), "{lacking:?}: {ended}");
        let entry = &ended.results()[0];
        assert_eq!(entry["summary"], "it is blue", "{lacking:?}: {ended}");
        assert_eq!(entry["tool_trace"].as_array().map(Vec::len), Some(1), "{lacking:?}: {ended}");
        assert_eq!(server.log().entries().len(), asked, "{lacking:?}: nobody is asked once more");
        let worktree = &entry["worktree"];
        match lacking {
            Pruned | Worktree => {
                assert_eq!(worktree["pruned"], true, "{lacking:?}: {ended}");
                assert_eq!(git(&folder, &["branch", "--list", "legwork-*"]), "", "{lacking:?}");
            }
            Folder => assert!(worktree.is_null(), "{ended}"),
            Nothing | Model | Key | SameModel => {
                assert_eq!(worktree["dirty"], true, "{lacking:?}: {ended}");
                let kept = fs::read_to_string(place.join("file.txt")).expect("it is kept");
                assert_eq!(kept, "first line\nmore\n", "{lacking:?}");
            }
        }
        home.assert_nothing_runs();
    }
}

/// The same for a worker that has no model of its own; where there is no answer yet it says what is needed.
#[test]
fn k29_a_worker_without_a_model_concludes_what_was_answered_and_names_what_the_rest_needs() {
    let done = Script::new().step(say("it is blue"));
    let server = ScriptedServer::start(Scripts::default().otherwise(done));
    let home = Home::with(&server);
    repository(&home);
    let id = killed(&home, "status --porcelain");
    let worker = lack(home.legwork(&["worker", "--only", &id]), Model).run();
    assert_eq!(worker.code, 0, "{worker}");
    let ended = home.legwork(&["results", &id, "--json"]).run();
    assert_eq!((ended.code, ended.statuses()), (0, vec!["completed".to_owned()]), "{ended}");
    assert_eq!(server.log().entries().len(), 1);
    for (verb, id) in [("worker", killed(&home, "rev-parse --absolute-git-dir")), ("results", String::new())]
    {
        let id = if id.is_empty() { unanswered(&home) } else { id };
        let arguments: &[&str] = if verb == "worker" {
            &["worker", "--only", &id, "--json"]
        } else {
            &["results", &id, "--wait", "--json"]
        };
        let refused = lack(home.legwork(arguments), Model).run();
        refused.assert_refused(3, "no_model", &[&id, "openai/test", "no model is configured"]);
    }
}

/// The delegation that has not ended.
fn unanswered(home: &Home) -> String {
    let open = home.ps();
    let [delegation] = open.as_slice() else { panic!("one is open: {open:?}") };
    delegation["delegation_id"].as_str().expect("an id").to_owned()
}

/// What was written in a worktree that is gone is nowhere: no file of the asker is out of date for it.
#[test]
fn run_26_wt_05_nothing_that_was_written_in_a_worktree_that_is_gone_makes_a_file_of_the_asker_stale() {
    let child = Script::new()
        .step(call("write_file", json!({"path": "file.txt", "content": "new"})))
        .step(say("written"));
    let asker = Script::new()
        .step(call("read_file", json!({"path": "file.txt"})))
        .step(call("delegate_task", json!({"goal": "writer: change the file"})))
        .step(say("done"));
    let server = ScriptedServer::start(Scripts::default().agent("writer:", child).otherwise(asker));
    let home = Home::with(&server);
    let folder = repository(&home);
    let order = home.legwork(&["run", "look and delegate", "--cwd", "inner"]);
    let order = order.env("LEGWORK_DELEGATION_WORKTREE_ISOLATION", "true");
    let running = order.env("PATH", &slow_git(&home, "status --porcelain")).start();
    home.wait_for_processes("sleep 991", 1);
    running.kill();
    let id = home.only_delegation();
    let place = folder.join(format!(".worktrees/subagent-{}", home.only_child(0)));
    git(&folder, &["worktree", "remove", "--force", &place.display().to_string()]);
    let ended = home.legwork(&["results", &id, "--wait", "--json"]).run();
    let entry = &ended.results()[0];
    assert_eq!(
        (&entry["summary"], &entry["worktree"]["pruned"]),
        (&json!("written"), &json!(true)),
        "{ended}"
    );
    assert_eq!(entry["stale_paths"], json!(null), "{ended}");
    let text = fs::read_to_string(folder.join("file.txt")).expect("it is there");
    assert_eq!(text, "first line\n", "what the asker had read still holds");
}
