//! `kill -9` of the program at every place, with work that is not to be gone on with: what had finished is kept with its
//! text, the rest is settled when somebody asks for it, nothing lives on, and nothing is delivered twice (K02, K15).

use std::fs;
use std::io::{PipeReader, Read};

use legwork_testkit::server::{Reply, Script, ScriptedServer, Scripts, call, gate, say};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::harness::{Ended, Home, Order, Running, tasks_toml, until};

/// What is not to be gone on with is concluded by whoever asks for it.
const REPORT: (&str, &str) = ("LEGWORK_DELEGATION_ON_CRASH", "report");
const SLEEPS: &str = "sleep 997 & setsid sleep 997 & (trap '' TERM; sleep 997) & nohup setsid sleep 997";
const GOALS: [&str; 4] = ["first", "second", "third", "fourth"];

/// A program that was killed when two of its four children had finished.
struct Killed {
    home: Home,
    server: ScriptedServer,
    id: String,
}

/// Kills it when `third` and `fourth` wait at the gate `here` or in their commands.
fn killed_at(script: &Script, sleeps: usize) -> Killed {
    let scripts = Scripts::default()
        .agent("first", Script::new().step(say("the first answer")))
        .agent("second", Script::new().step(say("the second answer")))
        .agent("third", script.clone())
        .agent("fourth", script.clone());
    let server = ScriptedServer::start(scripts);
    let home = Home::with(&server);
    home.write("tasks.toml", tasks_toml(&GOALS));
    let running = home.legwork(&["delegate", "tasks.toml"]).env(REPORT.0, REPORT.1).start();
    home.wait_for_states(&["completed", "completed", "running", "running"]);
    match sleeps {
        0 => server.gate("here").wait_waiting(2),
        sleeps => home.wait_for_processes("sleep 997", sleeps),
    }
    let id = running.delegation();
    running.kill();
    Killed { home, server, id }
}

impl Killed {
    fn results(&self) -> Ended {
        self.home.legwork(&["results", &self.id, "--json"]).run()
    }

    fn ledger(&self) -> Vec<Value> {
        let shown = self.home.legwork(&["show", &self.id, "--json"]).run().json();
        shown["ledger"].as_array().expect("a ledger").clone()
    }

    /// The whole invariant, in the order in which a person would look.
    #[track_caller]
    fn assert_settled_by_results(&self, asked: usize) -> Vec<Value> {
        for _ in 0..2 {
            let looked = self.home.legwork(&["ps", "--json"]).run();
            assert_eq!(looked.json()["delegations"][0]["state"], json!("orphaned"), "{looked}");
            assert!(looked.stderr.contains("legwork results"), "{looked}");
        }
        let first = self.results();
        assert_eq!((first.code, &first.json()["complete"]), (1, &json!(true)), "{first}");
        assert_eq!(first.statuses(), ["completed", "completed", "unknown", "unknown"], "{first}");
        let entries = first.results();
        for (index, text) in ["the first answer", "the second answer"].iter().enumerate() {
            assert_eq!(entries[index]["summary"], json!(text), "{first}");
            assert_eq!(entries[index]["tokens"], json!({"input": 100, "output": 20}), "{first}");
            assert!(entries[index]["cost_usd"].is_number(), "{first}");
        }
        for entry in &entries[2..] {
            assert!(entry["error"].as_str().is_some_and(|text| text.contains("died")), "{first}");
            assert_eq!(entry["exit_reason"], json!("unknown"));
        }
        self.home.assert_nothing_runs();
        assert!(self.home.ps().is_empty(), "no ghost");
        let again = self.results();
        assert_eq!(again.results(), entries, "the same again and again");
        assert_eq!(self.server.log().entries().len(), asked, "nothing was asked by those who look");
        let delivered = self.ledger().iter().filter(|line| line["state"] == "delivered").count();
        assert_eq!(delivered, 1, "{:?}", self.ledger());
        entries[2..].to_vec()
    }
}

#[test]
fn k02_killed_before_the_first_word_of_a_reply() {
    let killed = killed_at(&Script::new().step(gate("here")), 0);
    killed.assert_settled_by_results(4);
}

#[test]
fn k02_killed_in_the_middle_of_a_reply() {
    let killed = killed_at(&Script::new().step(say("half of it").gate("here")), 0);
    killed.assert_settled_by_results(4);
}

#[test]
fn k15_killed_in_a_command_that_left_its_group_and_ignores_signals() {
    let killed = killed_at(&Script::new().step(call("terminal", json!({"command": SLEEPS}))), 8);
    assert_eq!(killed.home.commands().iter().filter(|seen| seen.command == "sleep 997").count(), 8);
    let lost = killed.assert_settled_by_results(4);
    for entry in lost {
        assert_eq!(entry["tokens"], json!({"input": 100, "output": 20}), "what is known is told: {entry}");
        assert_eq!(entry["api_calls"], json!(1), "{entry}");
    }
}

#[test]
fn k15_killed_in_a_command_whose_child_has_no_mark_and_a_group_of_its_own() {
    let starts: [fn(Order<'_>) -> Running; 2] =
        [|order| order.in_a_session_of_its_own(&[]).start(), |order| order.start_within_terminal()];
    for start in starts {
        check_lost_child(start);
    }
}

/// With and without a terminal of the program's own.
#[track_caller]
fn check_lost_child(start: fn(Order<'_>) -> Running) {
    let command = "env -i bash -c 'set -m; sleep 998 & echo $! >pid; wait'";
    let script = Script::new().step(call("terminal", json!({"command": command})));
    let server = ScriptedServer::start(Scripts::default().otherwise(script));
    let home = Home::with(&server);
    let running = start(home.legwork(&["delegate", "--goal", "any"]).env(REPORT.0, REPORT.1));
    let file = home.project().join("pid");
    let pid = until("the process id", || fs::read_to_string(&file).ok().filter(|text| text.ends_with('\n')));
    // A dead process that nobody has reaped yet has no command line.
    let line = || fs::read_to_string(format!("/proc/{}/cmdline", pid.trim())).unwrap_or_default();
    running.kill();
    assert!(line().contains("998"), "it outlives the program");
    home.legwork(&["results", &home.only_delegation()]).run();
    assert_eq!(line(), "");
}

#[test]
fn k02_killed_between_a_command_and_the_next_reply() {
    let tool = say("I look around").call("terminal", json!({"command": "echo here"}));
    let killed = killed_at(&Script::new().step(tool).step(gate("here").say("never")), 0);
    let lost = killed.assert_settled_by_results(6);
    for entry in lost {
        assert_eq!(entry["summary"], json!("I look around"), "{entry}");
        assert_eq!(entry["tool_trace"][0]["tool"], json!("terminal"), "{entry}");
    }
}

/// Proves EVT-8.
#[test]
fn k02_what_had_not_begun_is_told_apart_from_what_is_lost() {
    let scripts = Scripts::default().agent("third", Script::new().step(gate("here")));
    let server = ScriptedServer::start(scripts);
    let home = Home::with(&server);
    home.write("tasks.toml", tasks_toml(&GOALS));
    let running = home
        .legwork(&["delegate", "tasks.toml"])
        .env(REPORT.0, REPORT.1)
        .set("max_concurrent_children", 1)
        .start();
    home.wait_for_states(&["completed", "completed", "running", "queued"]);
    running.kill();
    let ended = home.legwork(&["results", &home.only_delegation(), "--json"]).run();
    assert_eq!(ended.statuses(), ["completed", "completed", "unknown", "interrupted"], "{ended}");
    assert!(
        ended.results()[3]["error"].as_str().is_some_and(|text| text.contains("never started")),
        "{ended}"
    );
    assert!(ended.stderr.contains("1 subagent(s) lost, 1 subagent(s) never started"), "{ended}");
}

#[test]
fn k02_killed_the_moment_it_was_accepted() {
    for _ in 0..5 {
        let server = ScriptedServer::start(Scripts::default().otherwise(Script::always(gate("never"))));
        let home = Home::with(&server);
        home.write("tasks.toml", tasks_toml(&GOALS));
        let running = home.legwork(&["delegate", "tasks.toml"]).env(REPORT.0, REPORT.1).start();
        let id = running.delegation();
        running.kill();
        let ended = home.legwork(&["results", &id, "--json"]).run();
        assert_eq!((ended.code, ended.results().len()), (1, 4), "{ended}");
        assert_eq!(ended.json()["complete"], json!(true), "{ended}");
        let known = ["unknown".to_owned(), "interrupted".to_owned()];
        assert!(ended.statuses().iter().all(|status| known.contains(status)), "{ended}");
        home.assert_nothing_runs();
    }
}

#[test]
fn k02_killed_at_any_moment_of_its_start() {
    // Each round kills a little later: when so many bytes of state are on the disk.
    for round in 0..8_u64 {
        let server = ScriptedServer::start(Scripts::default());
        let home = Home::with(&server);
        let running = home.legwork(&["delegate", "--goal", "any"]).env(REPORT.0, REPORT.1).start();
        until("the state to grow", || (home.state_bytes() > round * 16 * 1024).then_some(()));
        running.kill();
        let listed = home.legwork(&["ps", "--all", "--json"]).run();
        assert_eq!(listed.code, 0, "{listed}");
        for delegation in listed.json()["delegations"].as_array().expect("a list") {
            let id = delegation["delegation_id"].as_str().expect("an id");
            let ended = home.legwork(&["results", id, "--json"]).run();
            assert_eq!(ended.json()["complete"], json!(true), "{ended}");
        }
        let later = home.legwork(&["delegate", "--goal", "other", "--json"]).env(REPORT.0, REPORT.1).run();
        assert_eq!(later.code, 0, "{later}");
        assert!(home.ps().is_empty());
    }
}

/// Whoever wrote this byte is still writing: the rest does not fit into the pipe.
fn wait_for_first_byte(mut out: &PipeReader) {
    out.read_exact(&mut [0]).expect("something is written");
}

/// An answer that does not fit into a pipe.
fn long(word: &str) -> Reply {
    say(word.repeat(200_000 / word.len()))
}

/// Proves DISP-13.
#[test]
fn k02_killed_while_it_writes_the_results_out() {
    let server = ScriptedServer::start(Scripts::default().otherwise(Script::always(long("word "))));
    let home = Home::with(&server);
    let (running, out) =
        home.legwork(&["delegate", "--goal", "any", "--json"]).env(REPORT.0, REPORT.1).start_with_stdout();
    let id = running.delegation();
    wait_for_first_byte(&out);
    running.kill();
    drop(out);
    let first = home.legwork(&["results", &id, "--json"]).run();
    assert_eq!((first.code, first.statuses()), (0, vec!["completed".to_owned()]), "{}", first.stderr);
    let shown = home.legwork(&["show", &id, "--json"]).run().json();
    assert_eq!(shown["units"][0]["delivery"], json!("delivered"), "{}", shown["ledger"]);
}

#[test]
fn k02_a_reader_that_leaves_early_leaves_the_results_in_the_store() {
    let server = ScriptedServer::start(Scripts::default().otherwise(Script::always(long("word "))));
    let home = Home::with(&server);
    let (running, out) =
        home.legwork(&["delegate", "--goal", "any"]).env(REPORT.0, REPORT.1).start_with_stdout();
    let id = running.delegation();
    drop(out);
    let ended = running.wait();
    assert_eq!(ended.code, 1, "{ended}");
    assert!(ended.stderr.contains(&format!("legwork results {id}")), "{ended}");
    let state =
        |home: &Home| home.legwork(&["show", &id, "--json"]).run().json()["units"][0]["delivery"].clone();
    assert_eq!(state(&home), json!("parked"));
    assert_eq!(home.legwork(&["results", &id]).run().code, 0);
    assert_eq!(state(&home), json!("delivered"));
}

#[test]
fn k02_a_second_kill_while_the_dead_are_settled_is_harmless() {
    let killed = killed_at(&Script::new().step(call("terminal", json!({"command": "sleep 997"}))), 2);
    for _ in 0..3 {
        killed.home.legwork(&["results", &killed.id]).start().kill();
    }
    let lock = killed.home.lock_database();
    let settling = killed.home.legwork(&["results", &killed.id]).start();
    killed.home.wait_for_open_file(settling.pid(), &killed.home.database());
    settling.kill();
    drop(lock);
    let ended = killed.results();
    assert_eq!(ended.statuses(), ["completed", "completed", "unknown", "unknown"], "{ended}");
    killed.home.assert_nothing_runs();
    assert!(killed.home.ps().is_empty());
    assert_eq!(killed.ledger().iter().filter(|line| line["state"] == "delivered").count(), 1);
}

#[test]
fn k02_killed_while_results_writes_them_out() {
    let server = ScriptedServer::start(Scripts::default().otherwise(Script::always(long("word "))));
    let home = Home::with(&server);
    let (running, out) =
        home.legwork(&["delegate", "--goal", "any"]).env(REPORT.0, REPORT.1).start_with_stdout();
    let id = running.delegation();
    drop(out);
    running.wait();
    let (printing, out) = home.legwork(&["results", &id]).start_with_stdout();
    wait_for_first_byte(&out);
    printing.kill();
    drop(out);
    let again = home.legwork(&["results", &id, "--json"]).run();
    assert_eq!(again.code, 0, "{}", again.stderr);
    let shown = home.legwork(&["show", &id, "--json"]).run().json();
    assert_eq!(shown["units"][0]["delivery"], json!("delivered"), "{}", shown["ledger"]);
}

#[test]
fn k34_the_next_work_ends_the_processes_of_the_dead_and_leaves_work_and_the_living_alone() {
    for verb in ["delegate", "run"] {
        let killed = killed_at(&Script::new().step(call("terminal", json!({"command": SLEEPS}))), 8);
        let home = &killed.home;
        let scripts = Scripts::default().agent("held", Script::new().step(gate("held").say("held is done")));
        let other = ScriptedServer::start(scripts);
        let address = other.base_url();
        let living = home
            .legwork(&["delegate", "--goal", "held", "--json"])
            .env(REPORT.0, REPORT.1)
            .env("LEGWORK_BASE_URL", &address)
            .start();
        other.gate("held").wait_reached();
        assert!(!living.stderr().contains("died"), "nobody named that work: {}", living.stderr());
        assert!(home.commands().is_empty(), "{:?}", home.commands());
        let order = match verb {
            "run" => home.legwork(&["run", "anything"]),
            verb => home.legwork(&[verb, "--goal", "anything"]),
        };
        let ended = order.env("LEGWORK_BASE_URL", &address).run();
        assert_eq!(ended.code, 0, "{ended}");
        other.gate("held").open();
        let ended = living.wait();
        assert_eq!((ended.code, ended.statuses()), (0, vec!["completed".to_owned()]), "{ended}");
        assert_eq!(killed.results().statuses(), ["completed", "completed", "unknown", "unknown"]);
        home.assert_nothing_runs();
    }
}

#[test]
fn k39_the_ledger_says_in_plain_words_where_a_result_is() {
    let killed = killed_at(&Script::new().step(gate("here")), 0);
    let before = killed.home.legwork(&["show", &killed.id]).run();
    assert_eq!(before.code, 0, "{before}");
    assert!(before.stdout.contains("delivery: held"), "{before}");
    killed.results();
    let after = killed.home.legwork(&["show", &killed.id]).run();
    for part in ["delivery: delivered", "state: ready", "state: delivered", "claimant: own_"] {
        assert!(after.stdout.contains(part), "{part:?}: {after}");
    }
}

#[test]
fn k15_a_dead_process_that_nobody_has_reaped_counts_as_dead() {
    let server = ScriptedServer::start(Scripts::default().otherwise(Script::always(gate("here"))));
    let home = Home::with(&server);
    let running = home.legwork(&["delegate", "--goal", "any"]).env(REPORT.0, REPORT.1).start();
    let id = running.delegation();
    server.gate("here").wait_reached();
    running.signal(Signal::SIGKILL);
    let stat = format!("/proc/{}/stat", running.pid());
    until("the death", || fs::read_to_string(&stat).ok()?.contains(") Z ").then_some(()));
    let ended = home.legwork(&["results", &id, "--json"]).run();
    assert_eq!((ended.code, ended.statuses()), (1, vec!["unknown".to_owned()]), "{ended}");
    running.wait();
}

#[test]
fn k34_a_process_that_only_stands_still_is_not_dead() {
    let server =
        ScriptedServer::start(Scripts::default().otherwise(Script::always(gate("here").say("it is done"))));
    let home = Home::with(&server);
    let running = home.legwork(&["delegate", "--goal", "any", "--json"]).env(REPORT.0, REPORT.1).start();
    let id = running.delegation();
    server.gate("here").wait_reached();
    running.signal(Signal::SIGSTOP);
    let looked = home.legwork(&["results", &id, "--json"]).run();
    assert_eq!((looked.code, &looked.json()["complete"]), (1, &json!(false)), "{looked}");
    let other = home.legwork(&["run", "any"]).start();
    server.gate("here").wait_waiting(2);
    assert!(!other.stderr().contains("died"), "{}", other.stderr());
    running.signal(Signal::SIGCONT);
    server.gate("here").open();
    let ended = running.wait();
    assert_eq!((ended.code, ended.statuses()), (0, vec!["completed".to_owned()]), "{ended}");
    assert_eq!(other.wait().code, 0);
}

#[test]
fn k34_many_that_settle_the_dead_at_once_agree() {
    let killed = killed_at(&Script::new().step(call("terminal", json!({"command": SLEEPS}))), 8);
    let home = &killed.home;
    let all: Vec<_> = (0..6).map(|_| home.legwork(&["results", &killed.id, "--json"]).start()).collect();
    let entries: Vec<Vec<Value>> = all
        .into_iter()
        .map(|running| {
            let ended = running.wait();
            assert_eq!(ended.statuses(), ["completed", "completed", "unknown", "unknown"], "{ended}");
            ended.results()
        })
        .collect();
    assert!(entries.iter().all(|one| *one == entries[0]), "{entries:?}");
    home.assert_nothing_runs();
    assert_eq!(killed.ledger().iter().filter(|line| line["state"] == "delivered").count(), 1);
}

#[test]
fn k02_results_that_nobody_could_be_given_are_kept_until_somebody_asks() {
    for stdout in ["exec >&-", "exec 1<>/dev/null"] {
        let server = ScriptedServer::start(Scripts::default().otherwise(Script::always(say("the answer"))));
        let home = Home::with(&server);
        let ended = home.legwork(&["delegate", "--goal", "do one thing"]).after(stdout).run();
        assert_eq!(ended.code, 0, "it was carried out: {ended}");
        let id = home.only_delegation();
        assert!(ended.stderr.contains(&format!("legwork results {id}")), "{ended}");
        let delivery = || home.legwork(&["results", &id, "--json"]).run().json()["delivery"].clone();
        let shown = home.legwork(&["show", &id, "--json"]).run();
        assert_eq!(shown.json()["units"][0]["delivery"], "parked", "{shown}");
        assert_eq!(delivery(), "parked", "they were parked when they were read");
        assert_eq!(delivery(), "delivered", "and delivered by being printed");
    }
}
