//! Children that work in git worktrees of their own: nothing that one of them does is lost or in the way of another.

use std::fs;
use std::path::Path;

use legwork_testkit::server::{Script, ScriptedServer, Scripts, call, gate, say};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::harness::{Home, tasks_toml};

/// A machine whose project is a repository with one commit.
fn home_with_repository(server: &ScriptedServer) -> Home {
    let home = Home::with(server);
    home.write("file.txt", "first line\n");
    git(&home, &["init", "-q", "-b", "main", "."]);
    git(&home, &["add", "."]);
    git(&home, &["commit", "-qm", "first"]);
    home
}

fn git(home: &Home, arguments: &[&str]) -> String {
    let mut git = std::process::Command::new("git");
    git.current_dir(home.project()).args(["-c", "user.name=a", "-c", "user.email=a@b"]).args(arguments);
    let output = git.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1").output();
    let output = output.expect("there is a git");
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("it is text")
}

fn shell(command: &str) -> Script {
    Script::new().step(call("terminal", json!({"command": command}))).step(say("done"))
}

fn isolated(home: &Home, names: &[&str]) -> crate::harness::Ended {
    home.write("tasks.toml", tasks_toml(names));
    home.legwork(&["delegate", "tasks.toml", "--json"])
        .env("LEGWORK_DELEGATION_WORKTREE_ISOLATION", "true")
        .run()
}

fn worktree(entry: &Value) -> &Value {
    &entry["worktree"]
}

/// Proves WT-1, WT-4, WT-5, WT-6: two that edit the same file, and one that changes nothing.
#[test]
fn wt_05_two_children_edit_the_same_file_and_nothing_is_lost() {
    let scripts = Scripts::default()
        .agent(
            "left",
            shell("echo from left >>file.txt && git -c user.name=a -c user.email=a@b commit -qam left"),
        )
        .agent("right", shell("echo from right >>file.txt"))
        .agent("looker", shell("cat file.txt; pwd"));
    let server = ScriptedServer::start(scripts);
    let home = home_with_repository(&server);
    let ended = isolated(&home, &["left", "right", "looker"]);
    assert_eq!(ended.code, 0, "{ended}");
    let results = ended.results();
    let [left, right, looker] = results.as_slice() else { panic!("three entries: {ended}") };
    let facts = |entry: &Value| {
        let found = worktree(entry);
        (found["commits"].clone(), found["dirty"].clone(), found["pruned"].clone())
    };
    assert_eq!(facts(left), (json!(1), json!(false), json!(false)), "{left}");
    assert_eq!(facts(right), (json!(0), json!(true), json!(false)), "{right}");
    assert_eq!(facts(looker), (json!(0), json!(false), json!(true)), "{looker}");
    let path = |entry: &Value| worktree(entry)["path"].as_str().expect("a path").to_owned();
    assert_eq!(
        fs::read_to_string(format!("{}/file.txt", path(left))).expect("kept"),
        "first line\nfrom left\n"
    );
    assert_eq!(
        fs::read_to_string(format!("{}/file.txt", path(right))).expect("kept"),
        "first line\nfrom right\n"
    );
    assert!(!Path::new(&path(looker)).exists());
    let branch = worktree(left)["branch"].as_str().expect("a branch").to_owned();
    assert!(branch.starts_with("legwork-subagent/subagent-sa-0-"), "{branch}");
    assert_eq!(git(&home, &["show", &format!("{branch}:file.txt")]), "first line\nfrom left\n");
    assert_eq!(home.read("file.txt"), "first line\n", "the folder of the delegation is as it was");
    assert_eq!(git(&home, &["status", "--porcelain"]), "?? tasks.toml\n");
    let log = server.log();
    let goal = log.of("looker")[0].body.to_string();
    assert!(goal.contains("git worktree of your own") && goal.contains(&path(looker)), "{goal}");
    home.assert_nothing_runs();
}

#[test]
fn build_26_the_text_before_the_pictures_tells_of_the_worktree() {
    let server = ScriptedServer::start(Scripts::default().agent("look at", Script::new().step(say("seen"))));
    let home = home_with_repository(&server);
    let picture = "data:image/png;base64,iVBORw0KGgo=";
    home.write("tasks.json", json!({"tasks": [{"goal": "look at it", "images": [picture]}]}).to_string());
    let order = home.legwork(&["delegate", "tasks.json", "--json"]);
    let ended = order.env("LEGWORK_DELEGATION_WORKTREE_ISOLATION", "true").run();
    assert_eq!(ended.code, 0, "{ended}");
    let path = worktree(&ended.results()[0])["path"].as_str().expect("a path").to_owned();
    let log = server.log();
    let parts = log.of("look at")[0].body["messages"][1]["content"].as_array().expect("parts").clone();
    let [text, image] = parts.as_slice() else { panic!("two parts: {parts:?}") };
    let said = text["text"].as_str().expect("text first");
    assert!(said.contains("git worktree of your own") && said.contains(&path), "{said}");
    assert_eq!(image["image_url"]["url"], picture);
}

/// Proves WT-3: isolation that cannot be given is an error, and the child has not run.
#[test]
fn wt_03_without_a_repository_nothing_runs_in_the_shared_folder() {
    let server = ScriptedServer::start(Scripts::default().agent("maker", shell("echo x >made.txt")));
    let home = Home::with(&server);
    let ended = isolated(&home, &["maker"]);
    assert_eq!(ended.code, 1, "{ended}");
    let entry = &ended.results()[0];
    assert_eq!(entry["status"], "error", "{entry}");
    assert!(entry["error"].as_str().is_some_and(|error| error.contains("not a git repository")), "{entry}");
    assert!(!home.project().join("made.txt").exists() && server.log().entries().is_empty());
}

/// Proves WT-5 for children that fail and that are stopped.
/// Proves TOOL-20: a child whose place is taken is an entry of its own.
#[test]
fn tool_20_a_child_that_cannot_be_set_up_fails_alone() {
    let left = Script::new().step(gate("left").say("left is done"));
    let server = ScriptedServer::start(Scripts::default().agent("left", left));
    let home = home_with_repository(&server);
    home.write("tasks.toml", tasks_toml(&["left", "right"]));
    let order = home.legwork(&["delegate", "tasks.toml", "--json"]);
    let order = order.env("LEGWORK_DELEGATION_WORKTREE_ISOLATION", "true");
    let running = order.set("max_concurrent_children", 1).start();
    server.gate("left").wait_reached();
    let blocked = format!(".worktrees/subagent-{}", home.only_child(1));
    home.write(&blocked, "in the way");
    server.gate("left").open();
    let ended = running.wait();
    assert_eq!(
        (ended.code, ended.statuses()),
        (1, vec!["completed".to_owned(), "error".to_owned()]),
        "{ended}"
    );
    let error = ended.results()[1]["error"].as_str().expect("why").to_owned();
    assert!(error.contains("is there already"), "{error}");
}

#[test]
fn wt_05_a_child_that_fails_keeps_what_it_has_changed() {
    let broken =
        Script::new().step(call("terminal", json!({"command": "echo half >half.txt"}))).step(say(""));
    let server = ScriptedServer::start(Scripts::default().agent("broken", broken));
    let home = home_with_repository(&server);
    let ended = isolated(&home, &["broken"]);
    let entry = &ended.results()[0];
    assert_eq!((ended.code, entry["status"].as_str()), (1, Some("failed")), "{ended}");
    assert_eq!(worktree(entry)["dirty"], true, "{entry}");
    let path = worktree(entry)["path"].as_str().expect("a path");
    assert_eq!(fs::read_to_string(format!("{path}/half.txt")).expect("kept"), "half\n");
}

/// Proves WT-5 for children that are stopped, and for those that stand still.
#[test]
fn wt_05_a_child_that_is_ended_keeps_what_it_has_changed() {
    let work = || shell("echo half >half.txt; sleep 999");
    let server = ScriptedServer::start(Scripts::default().agent("sleeper", work()));
    for (key, status) in [("stall_grace_seconds", "interrupted"), ("stall_tool_seconds", "stalled")] {
        let home = home_with_repository(&server);
        home.write("tasks.toml", tasks_toml(&["sleeper"]));
        let order = home.legwork(&["delegate", "tasks.toml", "--json"]).set(key, 1);
        let running = order.env("LEGWORK_DELEGATION_WORKTREE_ISOLATION", "true").start();
        home.wait_for_processes("sleep 999", 1);
        if status == "interrupted" {
            running.signal(Signal::SIGINT);
        }
        let ended = running.wait();
        let entry = &ended.results()[0];
        assert_eq!(entry["status"], status, "{ended}");
        assert_eq!(worktree(entry)["dirty"], true, "{entry}");
        let path = worktree(entry)["path"].as_str().expect("a path");
        assert_eq!(fs::read_to_string(format!("{path}/half.txt")).expect("kept"), "half\n");
        home.assert_nothing_runs();
    }
}

/// Proves WT-5.
#[test]
fn wt_05_the_worktree_of_a_child_that_was_lost_is_named_so_that_its_work_is_found() {
    for (verb, status) in [("results", "unknown"), ("stop", "interrupted")] {
        let child = Script::new()
            .step(call("terminal", json!({"command": "echo work >> file.txt"})))
            .step(gate("here").say("never"));
        let server = ScriptedServer::start(Scripts::default().otherwise(child));
        let home = home_with_repository(&server);
        let order = home.legwork(&["delegate", "--goal", "any"]);
        let order = order.env("LEGWORK_DELEGATION_WORKTREE_ISOLATION", "true");
        let running = order.env("LEGWORK_DELEGATION_ON_CRASH", "report").start();
        let id = running.delegation();
        server.gate("here").wait_reached();
        running.kill();
        home.legwork(&[verb, &id]).run();
        let ended = home.legwork(&["results", &id, "--json"]).run();
        assert_eq!(ended.statuses(), [status], "{ended}");
        let left = worktree(&ended.results()[0]).clone();
        let path = Path::new(left["path"].as_str().expect("it is named"));
        assert_eq!(fs::read_to_string(path.join("file.txt")).expect("it is there"), "first line\nwork\n");
        let branch = left["branch"].as_str().expect("it is named");
        assert!(git(&home, &["branch", "--list", branch]).contains(branch), "{left}");
        let flags = [&left["pruned"], &left["dirty"], &left["inspection_failed"]];
        assert_eq!(flags, [&json!(false), &json!(true), &json!(true)], "{left}");
    }
}
