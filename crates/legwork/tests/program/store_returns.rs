//! A store that is in trouble while work runs, and comes back: people are told at once what is wrong, nothing is shown as a
//! result before it is stored, and the work ends as if nothing had been.

use std::any::Any;
use std::fs;
use std::process::Command;

use legwork_testkit::server::{Script, ScriptedServer, Scripts, call, gate, say};
use nix::sys::signal::Signal;

use crate::harness::{Home, Order, Running, until};

/// Takes the store away from a process that works, and gives what brings it back when that is dropped.
type Trouble = fn(&Home, &Running) -> Box<dyn Any>;

/// Runs something at its end.
struct AtEnd<F: FnMut()>(F);

impl<F: FnMut()> Drop for AtEnd<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// The files of the process may not grow any more; the signal of that is ignored.
fn full(_: &Home, running: &Running) -> Box<dyn Any> {
    let pid = running.pid().to_string();
    assert!(limit(&pid, "0"));
    // A process that has ended needs no room.
    Box::new(AtEnd(move || {
        limit(&pid, "unlimited");
    }))
}

fn limit(pid: &str, soft: &str) -> bool {
    let limit = format!("--fsize={soft}:unlimited");
    let set = Command::new("prlimit").args([&limit, "--pid", pid]).output();
    set.expect("prlimit is there").status.success()
}

/// Somebody has begun to write and does not end.
fn locked(home: &Home, _: &Running) -> Box<dyn Any> {
    Box::new(home.lock_database())
}

/// The folder was moved away.
fn gone(home: &Home, _: &Running) -> Box<dyn Any> {
    let (here, away) = (home.state(), home.project().join("moved away"));
    fs::rename(&here, &away).expect("it can be moved");
    Box::new(AtEnd(move || {
        // What was made in its place meanwhile is nobody's.
        fs::remove_dir_all(&here).ok();
        fs::rename(&away, &here).expect("it can be put back");
    }))
}

/// Two replies, one with a command and the answer. One of them waits at a gate.
fn server(at: usize) -> ScriptedServer {
    let script = Script::from_fn(move |talk| {
        let reply = if talk.step() == at { gate("here") } else { say("") };
        match talk.step() {
            0 => reply.call("terminal", serde_json::json!({"command": "echo more >>done.txt"})),
            _ => reply.say("the answer"),
        }
    });
    ScriptedServer::start(Scripts::default().otherwise(script))
}

/// In the middle of the work of a verb, and at its last reply, the store goes, the trouble is told, and the store comes back.
#[track_caller]
fn goes_and_comes_back(verb: fn(&Home) -> Order<'_>, trouble: Trouble, told: &str) {
    for at in [0, 1] {
        goes_at(at, verb, (trouble, told));
    }
}

#[track_caller]
fn goes_at(at: usize, verb: fn(&Home) -> Order<'_>, (trouble, told): (Trouble, &str)) {
    let server = server(at);
    let home = Home::with(&server);
    let running = verb(&home).after("trap '' XFSZ").start();
    server.gate("here").wait_reached();
    let back = trouble(&home, &running);
    server.gate("here").open();
    until("the trouble to be told", || {
        let said = running.stderr();
        (said.contains(told) && said.contains("offered again")).then_some(())
    });
    // A conversation shows a reply while it is said; a result is one only once it is stored.
    let shown = running.stdout();
    assert!(
        !shown.contains("results") && !shown.contains("completed"),
        "nothing is offered that is not recorded: {shown}"
    );
    drop(back);
    let ended = running.wait();
    assert_eq!(ended.code, 0, "{ended}");
    assert!(ended.stdout.contains("the answer"), "{ended}");
    assert_eq!(home.read("done.txt"), "more\n", "what was done was done once");
    assert_eq!(server.log().entries().len(), 2, "no reply was asked for twice: {}", server.log().summary());
    let doctor = home.legwork(&["doctor", "--offline"]).run();
    assert_eq!(doctor.code, 0, "{doctor}");
}

fn delegate(home: &Home) -> Order<'_> {
    home.legwork(&["delegate", "--goal", "work", "--json"])
}

fn run(home: &Home) -> Order<'_> {
    home.legwork(&["run", "work"])
}

fn chat(home: &Home) -> Order<'_> {
    home.legwork(&["chat"]).stdin("work\n")
}

#[test]
fn k35_a_delegation_outlives_a_full_disk() {
    goes_and_comes_back(delegate, full, "full");
}

#[test]
fn k35_a_delegation_outlives_a_lock() {
    goes_and_comes_back(delegate, locked, "locked by another process");
}

#[test]
fn k35_a_delegation_outlives_a_folder_that_was_moved_away() {
    goes_and_comes_back(delegate, gone, "removed, moved or replaced");
}

#[test]
fn k35_a_run_outlives_a_full_disk() {
    goes_and_comes_back(run, full, "full");
}

#[test]
fn k35_a_run_outlives_a_lock() {
    goes_and_comes_back(run, locked, "locked by another process");
}

#[test]
fn k35_a_run_outlives_a_folder_that_was_moved_away() {
    goes_and_comes_back(run, gone, "removed, moved or replaced");
}

#[test]
fn k35_a_conversation_outlives_a_full_disk() {
    goes_and_comes_back(chat, full, "full");
}

#[test]
fn k35_a_conversation_outlives_a_lock() {
    goes_and_comes_back(chat, locked, "locked by another process");
}

#[test]
fn k35_a_conversation_outlives_a_folder_that_was_moved_away() {
    goes_and_comes_back(chat, gone, "removed, moved or replaced");
}

/// Who does not want to wait for the store does not have to.
#[test]
fn k35_a_signal_ends_the_wait_for_a_store_in_trouble() {
    for (verb, code) in [(delegate as fn(&Home) -> Order<'_>, 130), (run, 130), (chat, 130)] {
        let server = server(0);
        let home = Home::with(&server);
        let running = verb(&home).after("trap '' XFSZ").start();
        server.gate("here").wait_reached();
        let back = full(&home, &running);
        server.gate("here").open();
        until("the trouble to be told", || running.stderr().contains("offered again").then_some(()));
        running.signal(Signal::SIGINT);
        let ended = running.wait();
        drop(back);
        assert_eq!(ended.code, code, "{ended}");
        home.assert_nothing_runs();
    }
}

/// What could not even begin is refused as such, by every verb.
#[test]
fn k35_nothing_is_started_where_nothing_can_be_stored() {
    let server = ScriptedServer::start(
        Scripts::default()
            .otherwise(Script::always(call("terminal", serde_json::json!({"command": "true"})))),
    );
    let home = Home::with(&server);
    assert_eq!(home.legwork(&["delegate", "--goal", "any"]).set("max_iterations", 1).run().code, 1);
    let asked = server.log().entries().len();
    for verb in [delegate as fn(&Home) -> Order<'_>, run, chat] {
        let ended = verb(&home).after("ulimit -S -f 0").run();
        assert_eq!(ended.code, 3, "{ended}");
        assert!(
            format!("{ended}").contains("full") && format!("{ended}").contains("free some space"),
            "{ended}"
        );
    }
    assert_eq!(server.log().entries().len(), asked, "nothing was asked");
}
