//! Ctrl-C and the signals of the system: the work stops or is released within its bound, everything is stored, and no
//! process is left.

use std::io::Read;

use legwork_testkit::server::{Script, ScriptedServer, Scripts, call, gate, rate_limited, say};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::harness::{Ended, Home, PATIENCE, RELEASE_MAX, Running, STOP_MAX, release_max, tasks_toml, until};

/// A command that leaves one process in the background, one in a session of its own, and one in the foreground.
const THREE_SLEEPS: &str = "sleep 999 & setsid sleep 999 & sleep 999";

/// One task of each kind: done, in a tool, in a model call, in the middle of a reply, and waiting for a slot.
const GOALS: [&str; 5] = ["done", "tool", "call", "stream", "queued"];

fn scripts() -> Scripts {
    Scripts::default()
        .agent("done", Script::new().step(say("it is done")))
        .agent("tool", Script::new().step(call("terminal", json!({"command": THREE_SLEEPS}))))
        .agent("call", Script::new().step(gate("call").say("never said")))
        .agent("stream", Script::new().step(say("half of it").gate("stream").say("never said")))
}

/// Five tasks on three slots, when each has come to its place.
fn in_full_swing(server: &ScriptedServer, home: &Home, arguments: &[&str]) -> Running {
    home.write("tasks.toml", tasks_toml(&GOALS));
    let arguments = [&["delegate", "tasks.toml"], arguments].concat();
    let running = home
        .legwork(&arguments)
        .env("LEGWORK_DELEGATION_ON_CRASH", "report")
        .set("max_concurrent_children", 3)
        .start();
    server.gate("call").wait_reached();
    server.gate("stream").wait_reached();
    home.wait_for_processes("sleep 999", 3);
    home.wait_for_states(&["completed", "running", "running", "running", "queued"]);
    running
}

#[track_caller]
fn assert_stopped(ended: &Ended) {
    assert_eq!(
        ended.statuses(),
        ["completed", "interrupted", "interrupted", "interrupted", "interrupted"],
        "{ended}"
    );
    let results = ended.results();
    assert_eq!(results[0]["summary"], json!("it is done"));
    assert_eq!(results[3]["summary"], json!("half of it"), "what was said is kept: {ended}");
    assert!(results[1..].iter().all(|entry| entry["error"].is_string()), "{ended}");
}

#[test]
fn k12_ctrl_c_ends_everything_within_two_seconds_and_stores_it() {
    let server = ScriptedServer::start(scripts());
    let home = Home::with(&server);
    let running = in_full_swing(&server, &home, &["--json"]);
    running.signal(Signal::SIGINT);
    let ended = running.wait();
    assert!(ended.took < STOP_MAX, "{ended}");
    home.assert_nothing_runs();
    assert_eq!(ended.code, 130, "{ended}");
    assert_stopped(&ended);
    assert!(home.ps().is_empty());
    let id = ended.json()["delegation_id"].as_str().expect("an id").to_owned();
    let stored = home.legwork(&["results", &id, "--json"]).run();
    assert_eq!(stored.code, 1, "{stored}");
    assert_stopped(&stored);
    assert_eq!(stored.json()["complete"], json!(true));
    server.wait_for(|log| log.in_flight() == 0, PATIENCE);
    let asked = server.log().entries().len();
    assert_eq!(asked, 4, "the queued task never asked: {}", server.log().summary());
}

#[test]
fn a_second_ctrl_c_does_not_wait_for_anything() {
    let server = ScriptedServer::start(scripts());
    let home = Home::with(&server);
    let running = in_full_swing(&server, &home, &[]);
    // Nothing can be stored while somebody else holds the write lock, so the first signal alone cannot end it.
    let lock = home.lock_database();
    running.signal(Signal::SIGINT);
    until("the children to be told", || (home.commands().is_empty()).then_some(()));
    running.signal(Signal::SIGINT);
    let ended = running.wait();
    assert_eq!(ended.code, 130, "{ended}");
    assert!(ended.took < STOP_MAX, "{ended}");
    home.assert_nothing_runs();
    drop(lock);
    let stored = home.legwork(&["results", &home.only_delegation(), "--json"]).run();
    assert_eq!(stored.statuses()[0], "completed", "{stored}");
    assert_eq!(stored.json()["complete"], json!(true), "{stored}");
    assert!(home.ps().is_empty());
}

/// Proves KILL-4: `nohup` and `trap '' HUP` say that the program outlives its terminal.
#[test]
fn whoever_starts_the_program_deaf_to_the_hang_up_has_it_go_on() {
    let server = ScriptedServer::start(scripts());
    let home = Home::with(&server);
    let running = home.legwork(&["delegate", "--goal", "stream"]).after("trap '' HUP").start();
    server.gate("stream").wait_reached();
    running.signal(Signal::SIGHUP);
    server.gate("stream").open();
    let ended = running.wait();
    assert_eq!(ended.code, 0, "{ended}");
    assert!(ended.stdout.contains("never said"), "{ended}");
}

/// Proves KILL-4.
#[test]
fn sigterm_releases_the_work_within_its_grace() {
    for signal in [Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT] {
        let server = ScriptedServer::start(scripts());
        let home = Home::with(&server);
        let running = in_full_swing(&server, &home, &["--json"]);
        running.signal(signal);
        let ended = running.wait();
        assert_eq!(ended.code, 143, "{ended}");
        assert!(ended.took < RELEASE_MAX, "{ended}");
        home.assert_nothing_runs();
        assert_eq!(ended.statuses(), ["completed"], "what is known is printed: {ended}");
        let id = home.only_delegation();
        let stored = home.legwork(&["results", &id, "--json"]).run();
        assert_eq!(stored.code, 1, "{stored}");
        assert_eq!(
            stored.statuses(),
            ["completed", "unknown", "unknown", "unknown", "interrupted"],
            "{stored}"
        );
        let results = stored.results();
        assert_eq!(results[0]["summary"], json!("it is done"));
        assert_eq!(results[1]["tokens"], json!({"input": 100, "output": 20}), "{stored}");
        assert!(results[4]["error"].as_str().is_some_and(|text| text.contains("never started")), "{stored}");
        assert!(home.ps().is_empty());
        assert_eq!(
            server.log().entries().len(),
            4,
            "nothing was begun after the signal: {}",
            server.log().summary()
        );
    }
}

#[test]
fn kill_04_a_model_call_that_does_not_end_is_cut_off_when_the_grace_is_over() {
    let server = ScriptedServer::start(Scripts::default().agent("call", Script::new().step(gate("call"))));
    let home = Home::with(&server);
    let running = home
        .legwork(&["delegate", "--goal", "call"])
        .env("LEGWORK_DELEGATION_ON_CRASH", "report")
        .set("stop_grace_ms", 300)
        .start();
    server.gate("call").wait_reached();
    running.signal(Signal::SIGTERM);
    let ended = running.wait();
    assert_eq!(ended.code, 143, "{ended}");
    assert!(ended.took < release_max(300), "{ended}");
    let value: Value = home.legwork(&["results", &home.only_delegation(), "--json"]).run().json();
    assert_eq!(value["results"][0]["status"], json!("unknown"));
}

#[test]
fn ctrl_c_is_heard_while_nobody_reads_the_answer() {
    let long = Script::always(say("word ".repeat(40_000)));
    let server = ScriptedServer::start(Scripts::default().otherwise(long));
    for (arguments, signal, code) in [
        (&["delegate", "--goal", "any"][..], Signal::SIGINT, 130),
        (&["delegate", "--goal", "any", "--json"], Signal::SIGTERM, 143),
        (&["run", "any"], Signal::SIGINT, 130),
    ] {
        let home = Home::with(&server);
        let (running, mut out) = home.legwork(arguments).start_with_stdout();
        out.read_exact(&mut [0]).expect("something is written");
        running.signal(signal);
        let ended = running.wait();
        assert_eq!(ended.code, code, "{ended}");
        assert!(ended.took < STOP_MAX, "{ended}");
        if arguments[0] == "delegate" {
            let id = home.only_delegation();
            assert_eq!(home.legwork(&["results", &id]).run().code, 0);
            let shown = home.legwork(&["show", &id, "--json"]).run().json();
            assert_eq!(shown["units"][0]["delivery"], json!("delivered"), "{shown}");
        }
    }
}

#[test]
fn a_reader_of_stderr_that_leaves_ends_nothing() {
    let scripts = Scripts::default()
        .agent("held", Script::new().step(gate("held").then(rate_limited(0)).on_retry(say("held is done"))));
    for arguments in [&["-vv", "delegate", "--goal", "held"][..], &["-vv", "run", "held"]] {
        let server = ScriptedServer::start(scripts.clone());
        let home = Home::with(&server);
        let (running, err) = home.legwork(arguments).start_with_stderr();
        server.gate("held").wait_reached();
        drop(err);
        server.gate("held").open();
        let ended = running.wait();
        assert_eq!(ended.code, 0, "{ended}");
        assert!(ended.stdout.contains("held is done"), "{ended}");
    }
}

/// Every verb that works: once it was told to end, another signal ends the wait for that.
#[test]
fn a_second_signal_after_sigterm_ends_the_program_at_once() {
    for verb in ["delegate", "run", "worker", "results"] {
        let works = Script::always(call("terminal", json!({"command": "sleep 999"})));
        let server = ScriptedServer::start(Scripts::default().agent("works", works));
        let home = Home::with(&server);
        let start = |arguments: &[&str]| {
            let running = home.legwork(arguments).set("stop_grace_ms", 3_600_000).start();
            home.wait_for_processes("sleep 999", 1);
            running
        };
        let orphaned = || {
            let first = start(&["delegate", "--goal", "works"]);
            let id = first.delegation();
            first.kill();
            home.commands().iter().for_each(|seen| seen.kill());
            until("its commands to end", || home.commands().is_empty().then_some(()));
            id
        };
        let running = match verb {
            "delegate" => start(&["delegate", "--goal", "works"]),
            "run" => start(&["run", "works"]),
            "worker" => start(&["worker", "--only", &orphaned()]),
            _ => start(&["results", &orphaned(), "--wait"]),
        };
        // What was cut off cannot be stored while somebody else holds the write lock, so the first signal alone ends nothing.
        let lock = home.lock_database();
        running.signal(Signal::SIGTERM);
        running.signal(Signal::SIGHUP);
        let ended = running.wait();
        assert_eq!(ended.code, 143, "{verb}: {ended}");
        drop(lock);
        home.assert_nothing_runs();
    }
}

#[test]
fn results_that_were_waited_for_hear_a_signal_while_nobody_reads_them() {
    let long = Script::always(say("word ".repeat(40_000)));
    let server = ScriptedServer::start(Scripts::default().otherwise(long));
    for form in [&[][..], &["--json"]] {
        let home = Home::with(&server);
        let left = home.legwork(&["delegate", "--goal", "any", "--detach", "--json"]).run();
        let id = left.json()["delegation_id"].as_str().expect("an id").to_owned();
        home.wait_until_nothing_runs();
        let (running, mut out) =
            home.legwork(&[&["results", &id, "--wait"], form].concat()).start_with_stdout();
        out.read_exact(&mut [0]).expect("something is written");
        running.signal(Signal::SIGTERM);
        let ended = running.wait();
        assert_eq!(ended.code, 143, "{ended}");
        let shown = || home.legwork(&["show", &id, "--json"]).run().json()["units"][0]["delivery"].clone();
        assert_ne!(shown(), json!("delivered"), "nobody has read them");
        assert_eq!(home.legwork(&["results", &id]).run().code, 0);
        assert_eq!(shown(), json!("delivered"));
    }
}
