//! The end of the program after its work: hooks that are still to run hold it up for a moment, and signals are heard all the
//! while. The first tells it to be gone in time, another one at once; whatever is read or not, stored or not.

use std::fs;
use std::io::PipeReader;
use std::time::Duration;

use legwork_testkit::server::{Conversation, Script, ScriptedServer, Scripts, call, gate, say};
use nix::sys::signal::Signal;
use serde_json::json;

use crate::harness::{Ended, Home, Order, Running, SLACK, until};

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
        // What goes on in another process has begun before.
        let hook = if ["results", "worker"].contains(&verb) { "subagent_stop" } else { "subagent_start" };
        fs::write(&config, format!("[hooks]\n{hook} = [\"{HANGS}\"]\n")).expect("it is written");
        let config = config.display().to_string();
        match verb {
            "delegate" => {
                self.home.legwork(&["delegate", "--goal", "the piece", "--json", "--config", &config])
            }
            "run" => self.home.legwork(&["run", "please", "--json", "--config", &config]),
            "results" => {
                self.home.legwork(&["results", &self.orphaned(), "--wait", "--json", "--config", &config])
            }
            "worker" => self.home.legwork(&["worker", "--only", &self.orphaned(), "--config", &config]),
            _ => self.home.legwork(&["chat", "--config", &config]).stdin("please\n"),
        }
    }

    fn orphaned(&self) -> String {
        let first = self.home.legwork(&["delegate", "--goal", "the piece"]).start();
        let id = first.delegation();
        self.server.gate("here").wait_waiting(1);
        first.kill();
        id
    }

    /// Waits until all work has ended and the hook hangs still.
    fn wait(&self) {
        self.server.gate("here").open();
        until("the work to end", || {
            let list = self.home.list();
            (list.first()?["state"] == "settled" || self.home.ps().is_empty()).then_some(())
        });
        self.home.wait_for_processes(HANGS, 1);
        self.server.wait_for(|log| log.in_flight() == 0, Duration::from_secs(10));
    }

    fn start(&self, verb: &str) -> Running {
        let running = self.order(verb).start();
        self.wait();
        if ["run", "chat"].contains(&verb) {
            until("the answer to be stored", || {
                let sessions = self.home.legwork(&["sessions", "--json"]).run().json();
                let id = sessions["sessions"][0]["session_id"].as_str()?.to_owned();
                let exported = self.home.legwork(&["sessions", "export", &id, "--json"]).run().json();
                let last = exported["history"].as_array()?.last()?;
                (last["author"] == "assistant" && last.to_string().contains("whole")).then_some(())
            });
        }
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
            // A conversation over lines may still be there to hear Ctrl-C itself, and gives its hooks their time then.
            let hears = verb == "chat" && signal == Signal::SIGINT;
            assert!(hears || ended.stderr.contains(cut), "{verb}: {ended}");
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
        assert!(ended.took < Duration::from_millis(1500 + 1000) + SLACK, "{verb}: {ended}");
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
        assert!(ended.took < Duration::from_millis(1500 + 1000) + SLACK, "{ended}");
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
        assert!(ended.took < Duration::from_millis(1500 + 1000) + SLACK, "{verb}: {ended}");
        drop(lock);
        home.assert_nothing_runs();
    }
}
