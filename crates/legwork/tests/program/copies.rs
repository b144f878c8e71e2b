//! A state folder that was copied or moved: a copy has the ids of the original and nothing of what runs for it, and a folder
//! that has moved has all of its own (invariants 12 and 30).

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use legwork_testkit::server::{Reply, Script, ScriptedServer, Scripts, call, say};
use serde_json::json;

use crate::harness::{Home, Order};

/// The commands of one agent, one after the other.
const FIRST: &str = "sleep 994";
const SECOND: &str = "sleep 995";

fn two_commands() -> Scripts {
    let run = |command: &str| -> Reply { call("terminal", json!({"command": command})) };
    Scripts::default()
        .otherwise(Script::new().step(run(FIRST)).step(run(SECOND)).step(say("both have ended")))
}

/// Copies the state folder as a backup does, while it may be in use. The index of the log is made anew when it is opened.
fn copy(home: &Home, name: &str) -> PathBuf {
    let copy = home.project().join(name);
    let copied = Command::new("cp").arg("-a").arg(home.state()).arg(&copy).status();
    assert!(copied.expect("cp can be started").success());
    // Where the last process has closed the database there is none.
    fs::remove_file(copy.join("legwork.db-shm")).ok();
    copy
}

/// The program on another state folder than that of the machine.
fn on<'a>(home: &'a Home, folder: &Path, arguments: &[&str]) -> Order<'a> {
    home.legwork(arguments).env("LEGWORK_STATE_DIR", folder.to_str().expect("text"))
}

#[track_caller]
fn assert_runs(home: &Home, command: &str) {
    assert_eq!(home.commands().iter().filter(|seen| seen.command == command).count(), 1, "{command} runs on");
}

#[test]
fn inv_30_a_copy_ends_nothing_that_runs_for_the_original() {
    let server = ScriptedServer::start(two_commands());
    let home = Home::with(&server);
    let first = home.legwork(&["delegate", "--goal", "two commands"]).start();
    home.wait_for_processes(FIRST, 1);
    let id = home.only_delegation();
    let (stopped, worked) = (copy(&home, "stopped"), copy(&home, "worked"));
    first.kill();
    let second = home.legwork(&["results", &id, "--wait"]).start();
    home.wait_for_processes(SECOND, 1);
    home.wait_for_processes(FIRST, 0);

    // The copies know the child, whose mark the command carries.
    let ended = on(&home, &stopped, &["stop", &id]).run();
    assert_eq!(ended.code, 0, "{ended}");
    assert_runs(&home, SECOND);
    let worker = on(&home, &worked, &["worker", "--only", &id]).start();
    home.wait_for_processes(SECOND, 2);
    // So does the group that runs for another copy.
    let (later, moved) = (copy(&home, "later"), home.project().join("moved"));
    worker.kill();
    on(&home, &worked, &["stop", &id]).run();
    home.wait_for_processes(SECOND, 1);

    // Nobody of the original lives, and the copy has the group of its command.
    second.kill();
    assert_runs(&home, SECOND);
    let refused = on(&home, &later, &["results", &id, "--wait"]).run();
    assert!(refused.stderr.contains("another state folder"), "{refused}");
    assert_runs(&home, SECOND);
    let ended = on(&home, &later, &["stop", &id]).run();
    assert_eq!(ended.code, 0, "{ended}");
    assert_runs(&home, SECOND);

    // The original has it still, also under another name.
    fs::rename(home.state(), &moved).expect("it can be moved");
    let ended = on(&home, &moved, &["stop", &id]).run();
    assert_eq!(ended.code, 0, "{ended}");
    home.assert_nothing_runs();
}

#[test]
fn live_13_transcripts_are_found_where_the_folder_is_now() {
    let server = ScriptedServer::start(Scripts::default().otherwise(Script::new().step(say("all is well"))));
    let home = Home::with(&server);
    let done = home.legwork(&["delegate", "--goal", "any"]).run();
    assert_eq!(done.code, 0, "{done}");
    let id = home.only_delegation();
    let (copied, linked, moved) =
        (copy(&home, "copied"), copy(&home, "linked"), home.project().join("moved"));
    fs::rename(home.state(), &moved).expect("it can be moved");
    let elsewhere = home.project().join("elsewhere.db");
    fs::rename(linked.join("legwork.db"), &elsewhere).expect("it can be moved");
    symlink(&elsewhere, linked.join("legwork.db")).expect("a link can be made");
    for folder in [&copied, &linked, &moved] {
        let told = on(&home, folder, &["tail", &id]).run();
        assert!(told.stdout.contains("all is well"), "{told}");
        let shown = on(&home, folder, &["show", &id, "--json"]).run().json();
        let path = shown["children"][0]["transcript"].as_str().map(PathBuf::from).expect("a path");
        assert!(path.starts_with(folder) && path.exists(), "{}", path.display());
        let result = on(&home, folder, &["results", &id, "--json"]).run();
        assert_eq!(result.results()[0]["live_transcript"], json!(path), "{result}");
    }
}
