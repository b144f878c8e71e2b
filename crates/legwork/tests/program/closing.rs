//! The end of the program after its work: hooks that are still to run hold it up for a moment, and signals are heard all the
//! while. The first tells it to be gone in time, another one at once; whatever is read or not, stored or not.

use std::fs;
use std::io::PipeReader;

use legwork_testkit::server::{Conversation, Script, ScriptedServer, Scripts, call, gate, say};
use nix::sys::signal::Signal;
use serde_json::json;

use crate::harness::{Ended, Home, Order, PATIENCE, RELEASE_MAX, Running, until};

const HANGS: &str = "sleep 996";
const VERBS: [&str; 5] = ["delegate", "run", "results", "worker", "chat"];
/// More than a pipe takes.
const LONG: usize = 40_000;

/// A prompt that is answered by way of a subagent, whose answer is so many words long.
fn server(words: usize) -> ScriptedServer {
    let main = Script::from_fn(move |talk: &Conversation| match talk.step() {
        0 => call("delegate_task", json!({"goal": "the piece"})),
        _ => say("whole ".repeat(words)),
    });
    let piece = Script::from_fn(move |_| gate("here").say("done ".repeat(words)));
    ScriptedServer::start(Scripts::default().agent("please", main).agent("the piece", piece))
}

/// A program whose work has ended and whose hook hangs.
struct Closing<'a> {
    home: &'a Home,
    server: &'a ScriptedServer,
}

impl Closing<'_> {
    fn order(&self, verb: &str) -> Order<'_> {
        let config = self.home.project().join("../hooks.toml");
        fs::write(&config, format!("[hooks]\nsubagent_stop = [\"{HANGS}\"]\n")).expect("it is written");
        let config = config.display().to_string();
        let legwork = |verb: &[&str]| self.home.legwork(&[verb, &["-v", "--config", &config]].concat());
        match verb {
            "delegate" => legwork(&["delegate", "--goal", "the piece", "--json"]),
            "run" => legwork(&["run", "please", "--json"]),
            "results" => legwork(&["results", &self.orphaned(), "--wait", "--json"]),
            "worker" => legwork(&["worker", "--only", &self.orphaned()]),
            _ => legwork(&["chat"]).stdin("please\n"),
        }
    }

    fn orphaned(&self) -> String {
        let first = self.home.legwork(&["delegate", "--goal", "the piece"]).start();
        let id = first.delegation();
        self.server.gate("here").wait_waiting(1);
        first.kill();
        id
    }

    /// Waits until all work has ended and the hook hangs still. From then on the hook has its time, so nothing is started to look.
    fn wait(&self) {
        self.server.gate("here").open();
        self.home.wait_for_processes(HANGS, 1);
        let open = "SELECT count(*) FROM delegations WHERE settled_at IS NULL";
        until("the work to end", || (self.home.count(open) == 0).then_some(()));
        self.server.wait_for(|log| log.in_flight() == 0, PATIENCE);
    }

    fn start(&self, verb: &str) -> Running {
        let running = self.order(verb).start();
        self.wait();
        until("its end to begin", || running.stderr().contains("this process ends").then_some(()));
        running
    }

    fn start_unread(&self, verb: &str) -> (Running, PipeReader) {
        let started = self.order(verb).start_with_stdout();
        self.wait();
        started
    }
}

fn each(words: usize, mut verify: impl FnMut(&str, Closing<'_>)) {
    for verb in VERBS {
        let server = server(words);
        let home = Home::with(&server);
        verify(verb, Closing { home: &home, server: &server });
        home.assert_nothing_runs();
    }
}

/// Proves KILL-4.
#[test]
fn k33_a_hook_that_hangs_after_the_work_does_not_hold_up_a_program_that_is_told_to_end() {
    for (signal, code) in [(Signal::SIGTERM, 143), (Signal::SIGINT, 130)] {
        each(1, |verb, closing| {
            let running = closing.start(verb);
            running.signal(signal);
            let ended = running.wait();
            assert_eq!(ended.code, code, "{verb}: {ended}");
            let cut = "hooks were cut with the end of the program: they had 0.2 s";
            assert!(ended.stderr.contains(cut), "{verb}: {ended}");
            assert_told(verb, &ended);
        });
    }
}

/// What had ended is printed by those who had it in hand.
#[track_caller]
fn assert_told(verb: &str, ended: &Ended) {
    match verb {
        "delegate" => assert_eq!(ended.statuses(), ["completed"], "{ended}"),
        "run" => assert_eq!(ended.json()["answer"], json!("whole "), "{ended}"),
        _ => {}
    }
}

#[test]
fn a_second_signal_after_the_work_ends_the_program_at_once() {
    each(1, |verb, closing| {
        let running = closing.start(verb);
        let before = running.stdout();
        running.signal(Signal::SIGTERM);
        running.signal(Signal::SIGHUP);
        let ended = running.wait();
        assert_eq!((ended.code, ended.stdout.as_str()), (143, before.as_str()), "{verb}: {ended}");
        assert!(!ended.stderr.contains("hooks were cut"), "{verb}: {ended}");
        let found = closing.home.legwork(&["results", &closing.home.only_delegation(), "--json"]).run();
        assert_eq!(found.statuses(), ["completed"], "nothing stored is lost: {verb}: {found}");
    });
}

#[test]
fn a_program_that_is_told_to_end_after_its_work_does_not_wait_for_a_reader() {
    each(LONG, |verb, closing| {
        let (running, _unread) = closing.start_unread(verb);
        running.signal(Signal::SIGTERM);
        let ended = running.wait();
        assert_eq!(ended.code, 143, "{verb}: {ended}");
        assert!(ended.took < RELEASE_MAX, "{verb}: {ended}");
    });
}

#[test]
fn what_is_printed_of_released_work_does_not_wait_for_a_reader() {
    let held = Script::always(gate("never"));
    let long = Script::always(say("word ".repeat(LONG)));
    let server = ScriptedServer::start(Scripts::default().agent("long", long).agent("held", held));
    for form in [&["--json"][..], &[]] {
        let home = Home::with(&server);
        let arguments = [&["delegate", "--goal", "long", "--goal", "held"], form].concat();
        let (running, _unread) = home.legwork(&arguments).start_with_stdout();
        let id = home.wait_for_states(&["completed", "running"]);
        server.gate("never").wait_reached();
        running.signal(Signal::SIGTERM);
        let ended = running.wait();
        assert_eq!(ended.code, 143, "{ended}");
        assert!(ended.took < RELEASE_MAX, "{ended}");
        let stored = home.legwork(&["show", &id, "--json"]).run();
        assert!(stored.stdout.contains("completed"), "{stored}");
        home.assert_nothing_runs();
    }
}

/// Every verb that works is gone in time, whatever the database does.
#[test]
fn k33_a_program_that_is_told_to_end_is_gone_in_time_where_nothing_can_be_stored() {
    for verb in ["delegate", "run", "chat"] {
        let works = Script::always(call("terminal", json!({"command": "sleep 995"})));
        let sends = Script::new().step(call("delegate_task", json!({"goal": "works"})));
        let server = ScriptedServer::start(Scripts::default().agent("works", works).otherwise(sends));
        let home = Home::with(&server);
        let running = match verb {
            "delegate" => home.legwork(&["delegate", "--goal", "works"]).start(),
            "run" => home.legwork(&["run", "please"]).start(),
            _ => home.legwork(&["chat"]).stdin("please\n").start(),
        };
        home.wait_for_processes("sleep 995", 1);
        let lock = home.lock_database();
        running.signal(Signal::SIGTERM);
        let ended = running.wait();
        assert_eq!(ended.code, 143, "{verb}: {ended}");
        assert!(ended.took < RELEASE_MAX, "{verb}: {ended}");
        drop(lock);
        home.assert_nothing_runs();
    }
}
