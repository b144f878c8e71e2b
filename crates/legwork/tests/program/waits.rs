//! Waits for results: what somebody who waits has taken up on the way is brought to its end, and what another process works on is
//! waited for as long as it can be read, whatever the store takes.

use std::fs::File;
use std::process::Command;

use legwork_testkit::server::{Conversation, Script, ScriptedServer, Scripts, call, gate, say};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::harness::{Home, Order, PATIENCE, RELEASE_MAX, Running, Seen, until};

const BOSS: &str = "the upper piece of work";
const LOW: &str = "the lower piece of work";

fn deep(order: Order<'_>) -> Order<'_> {
    order.set("max_spawn_depth", 2)
}

/// A subagent that has sent out another one, both of which lost their process.
struct Nested {
    server: ScriptedServer,
    home: Home,
    boss: String,
    low: String,
}

impl Nested {
    fn killed() -> Nested {
        let boss = Script::from_fn(|talk: &Conversation| match talk.step() {
            0 => call("delegate_task", json!({"goal": LOW})),
            _ => gate("boss").say(format!("above: {}", talk.last_text().contains("below"))),
        });
        let low = Script::from_fn(|_: &Conversation| gate("low").say("below"));
        let server = ScriptedServer::start(Scripts::default().agent(LOW, low).agent(BOSS, boss));
        let home = Home::with(&server);
        let running = deep(home.legwork(&["delegate", "--goal", BOSS])).start();
        let boss = running.delegation();
        server.gate("low").wait_waiting(1);
        running.kill();
        server.wait_for(|log| log.in_flight() == 0, PATIENCE);
        let known = home.list();
        let low = known.iter().filter_map(|one| one["delegation_id"].as_str()).find(|id| *id != boss);
        let low = low.unwrap_or_else(|| panic!("nothing was sent out: {known:?}")).to_owned();
        Nested { server, home, boss, low }
    }

    /// Both go on in this process, the lower one ends, and the upper one asks its model.
    fn until_the_boss_asks(&self) {
        self.server.gate("low").wait_waiting(1);
        self.server.gate("low").open();
        self.server.gate("boss").wait_waiting(1);
    }

    /// Both have ended, each result has arrived once, and no reply was paid for that nobody got.
    fn assert_brought(&self, asked_of_boss: usize) {
        let Nested { server, home, boss, low } = self;
        let ended = home.legwork(&["results", boss, "--json"]).run();
        assert_eq!((ended.code, ended.statuses()), (0, vec!["completed".to_owned()]), "{ended}");
        assert_eq!(ended.results()[0]["summary"], json!("above: true"), "{ended}");
        let log = server.log();
        assert_eq!(log.of(BOSS).len(), asked_of_boss, "{}", log.summary());
        assert_eq!(log.of(LOW).len(), 2, "{}", log.summary());
        for id in [boss, low] {
            let shown = home.legwork(&["show", id, "--json"]).run().json();
            let ledger = shown["ledger"].as_array().expect("a ledger").clone();
            let delivered = ledger.iter().filter(|line| line["state"] == "delivered").count();
            assert_eq!((&shown["units"][0]["delivery"], delivered), (&json!("delivered"), 1), "{ledger:?}");
        }
        home.assert_nothing_runs();
    }
}

#[test]
fn k02_a_wait_for_a_nested_result_brings_the_subagent_that_asked_for_it_to_its_end() {
    let nested = Nested::killed();
    let (home, low) = (&nested.home, &nested.low);
    let mut running = deep(home.legwork(&["results", low, "--wait", "--json"])).start();
    nested.until_the_boss_asks();
    // Whoever waits has what was asked for at once.
    until("the result", || running.stdout().contains("\n").then_some(()));
    let note = format!("{} was taken up with it and goes on here", nested.boss);
    until("what goes on to be told", || {
        assert!(!running.has_ended(), "it ended: {}\n{}", running.stderr(), nested.server.log().summary());
        running.stderr().contains(&note).then_some(())
    });
    nested.server.gate("boss").open();
    let ended = running.wait();
    assert_eq!((ended.code, ended.statuses()), (0, vec!["completed".to_owned()]), "{ended}");
    assert_eq!(ended.results()[0]["summary"], json!("below"), "{ended}");
    nested.assert_brought(2);
}

#[test]
fn k02_a_worker_for_a_nested_result_brings_the_subagent_that_asked_for_it_to_its_end() {
    let nested = Nested::killed();
    let mut running =
        deep(nested.home.legwork(&["worker", "--only", &nested.low])).set("lease_seconds", 1).start();
    nested.until_the_boss_asks();
    let settled = "SELECT count(*) FROM children WHERE state LIKE '%ettled%'";
    until("the lower one to be stored", || (nested.home.count(settled) == 1).then_some(()));
    // It would end with the lower one, at its next look and after the grace of the upper one.
    let before = nested.home.renewals();
    until("it to have looked again", || {
        assert!(!running.has_ended(), "it ended: {}\n{}", running.stderr(), nested.server.log().summary());
        (nested.home.renewals() > before + 8).then_some(())
    });
    nested.server.gate("boss").open();
    let ended = running.wait();
    assert_eq!(ended.code, 0, "{ended}");
    nested.assert_brought(2);
}

/// Whoever does not want to wait for the rest leaves it, and it is said how it goes on.
#[test]
fn k33_who_is_told_to_end_behind_a_nested_result_leaves_the_subagent_that_asked_for_it() {
    for (signal, code) in [(Signal::SIGTERM, 143), (Signal::SIGINT, 130)] {
        let nested = Nested::killed();
        let (home, low, boss) = (&nested.home, &nested.low, &nested.boss);
        let mut running = deep(home.legwork(&["results", low, "--wait"])).start();
        nested.until_the_boss_asks();
        until("what goes on to be told", || {
            assert!(!running.has_ended(), "it ended: {}", running.stderr());
            running.stderr().contains("goes on here until its end").then_some(())
        });
        running.signal(signal);
        let ended = running.wait();
        assert_eq!(ended.code, code, "{ended}");
        assert!(ended.stdout.contains("below") && ended.took < RELEASE_MAX, "{ended}");
        assert!(
            ended.stderr.contains(&format!("`legwork results {boss} --wait` goes on with it")),
            "{ended}"
        );
        home.assert_nothing_runs();
        nested.server.gate("boss").open();
        assert_eq!(deep(home.legwork(&["results", boss, "--wait"])).run().code, 0);
        nested.assert_brought(3);
    }
}

/// The files of the process may not grow any more, or may again; the signal of that must be ignored.
fn may_grow(pid: i32, how: &str) {
    let (limit, pid) = (format!("--fsize={how}:unlimited"), pid.to_string());
    let set = Command::new("prlimit").args([&limit, "--pid", &pid]).output();
    assert!(set.expect("prlimit is there").status.success());
}

/// Leases that nobody lets run out by chance, and one that is soon seen not to be renewed.
const LONG: u64 = 60;
const SHORT: u64 = 1;

/// A piece of work that a worker has, which waits at a gate before its answer.
struct Worked {
    server: ScriptedServer,
    home: Home,
    id: String,
    worker: Running,
}

impl Worked {
    fn begun(lease_seconds: u64) -> Worked {
        let script = Script::from_fn(|_: &Conversation| gate("here").say("the answer"));
        let server = ScriptedServer::start(Scripts::default().otherwise(script));
        let home = Home::with(&server);
        let first = home.legwork(&["delegate", "--goal", "any"]).start();
        let id = first.delegation();
        server.gate("here").wait_waiting(1);
        first.kill();
        server.wait_for(|log| log.in_flight() == 0, PATIENCE);
        let order = home.legwork(&["worker", "--only", &id]).set("lease_seconds", lease_seconds);
        let worker = order.after("trap '' XFSZ").start();
        server.gate("here").wait_waiting(1);
        Worked { server, home, id, worker }
    }

    fn waits(&self) -> Running {
        let order = self.home.legwork(&["results", &self.id, "--wait", "--json"]);
        order.after("trap '' XFSZ").start()
    }

    /// The result comes to whoever waits, and was asked for by the worker alone.
    fn assert_comes_to(self, waiting: Running) {
        self.server.gate("here").open();
        let worked = self.worker.wait();
        assert_eq!(worked.code, 0, "{worked}");
        let ended = waiting.wait();
        assert_eq!((ended.code, ended.statuses()), (0, vec!["completed".to_owned()]), "{ended}");
        assert_eq!(ended.results()[0]["summary"], json!("the answer"), "{ended}");
        assert_eq!(self.server.log().entries().len(), 2, "{}", self.server.log().summary());
        self.home.assert_nothing_runs();
    }
}

/// What was seen: it ended with exit code 3 as soon as the worker had not renewed its lease for four periods.
#[test]
fn k35_a_wait_beside_a_worker_outlives_a_store_that_takes_nothing() {
    let worked = Worked::begun(SHORT);
    let mut waiting = worked.waits();
    until("it to wait", || waiting.stderr().contains("waits for process").then_some(()));
    may_grow(worked.worker.pid(), "0");
    may_grow(waiting.pid(), "0");
    until("it to be told that the store takes nothing", || {
        assert!(!waiting.has_ended(), "it ended: {} {}", waiting.stdout(), waiting.stderr());
        waiting.stderr().contains("the disk or the database is full").then_some(())
    });
    // It has come so far that it would have declared the worker gone, and could not.
    let line = waiting.stderr();
    assert!(line.contains("is waited for all the same") && !line.contains("cannot be read now"), "{line}");
    // Whoever waits goes on being unable to write, and so does not come between.
    may_grow(worked.worker.pid(), "unlimited");
    worked.assert_comes_to(waiting);
}

/// Whoever can only look gets what another process works on, and nothing counts as delivered by that.
#[test]
fn k35_a_wait_that_can_write_nothing_gets_what_another_process_works_on() {
    for is_full_from_the_start in [true, false] {
        let worked = Worked::begun(LONG);
        let order = worked.home.legwork(&["results", &worked.id, "--wait", "--json"]);
        let waiting = match is_full_from_the_start {
            true => order.after("trap '' XFSZ; ulimit -S -f 0").start(),
            false => worked.waits(),
        };
        until("it to wait", || waiting.stderr().contains("waits for process").then_some(()));
        may_grow(waiting.pid(), "0");
        let (home, id) = (&worked.home, worked.id.clone());
        worked.server.gate("here").open();
        let worked_on = worked.worker.wait();
        assert_eq!(worked_on.code, 0, "{worked_on}");
        let ended = waiting.wait();
        assert_eq!((ended.code, ended.statuses()), (0, vec!["completed".to_owned()]), "{ended}");
        assert!(ended.stderr.contains("nothing new is taken"), "{ended}");
        let shown = home.legwork(&["show", &id, "--json"]).run().json();
        assert_eq!(shown["units"][0]["delivery"], json!("parked"), "{shown}");
    }
}

/// Work that is left to a worker which has not begun, perhaps because the store takes nothing of it either.
#[test]
fn k35_a_wait_that_can_write_nothing_gets_what_a_worker_has_not_begun_yet() {
    for is_full_from_the_start in [true, false] {
        let worked = Worked::begun(LONG);
        let Worked { server, home, id, worker } = worked;
        worker.kill();
        server.wait_for(|log| log.in_flight() == 0, PATIENCE);
        let log = home.state().join("log").join(format!("worker-{id}.log"));
        let log = File::options().create(true).append(true).open(log).expect("it is made");
        log.lock().expect("nobody else has it");
        let database = (!is_full_from_the_start).then(|| home.lock_database());
        let order = home.legwork(&["results", &id, "--wait", "--json"]);
        let order = if is_full_from_the_start { order.after("trap '' XFSZ; ulimit -S -f 0") } else { order };
        let waiting = order.start();
        until("it to wait for the worker", || waiting.stderr().contains("is left to a worker").then_some(()));
        drop(database);
        let worker = home.legwork(&["worker", "--only", &id]).start();
        server.gate("here").wait_waiting(1);
        drop(log);
        server.gate("here").open();
        let ended = waiting.wait();
        assert_eq!((ended.code, ended.statuses()), (0, vec!["completed".to_owned()]), "{ended}");
        let worked = worker.wait();
        assert_eq!(worked.code, 0, "{worked}");
        home.assert_nothing_runs();
    }
}

/// What nobody works on would have to be taken over.
#[test]
fn k35_a_wait_that_can_write_nothing_ends_with_the_reason_where_nobody_works() {
    let worked = Worked::begun(LONG);
    let id = worked.id.clone();
    worked.worker.kill();
    let order = worked.home.legwork(&["results", &id, "--wait", "--json"]);
    let ended = order.after("trap '' XFSZ; ulimit -S -f 0").run();
    ended.assert_refused(3, "state", &["full"]);
    worked.server.gate("here").open();
    assert_eq!(worked.home.legwork(&["results", &id, "--wait"]).run().code, 0);
}

/// Everybody who may go on with a piece of work is after it at once: two waits, a worker and the conversation that owns it. One of
/// them does it, then the next when that one is killed, and all learn of its end.
#[test]
fn k43_two_waits_a_worker_and_a_conversation_are_after_the_same_work_and_one_does_it() {
    let piece = Script::from_fn(|_: &Conversation| gate("held").say("the piece is done"));
    let session = Script::from_fn(|talk: &Conversation| match talk.last_text() {
        text if text.contains("the piece is done") => say("noted"),
        text => say(format!("heard: {text}")),
    });
    let server = ScriptedServer::start(Scripts::default().agent("a piece of work", piece).otherwise(session));
    let home = Home::with(&server);
    let session = home.conversation();
    let id = home.leave_piece(&session, "a piece of work");
    server.gate("held").wait_waiting(1);
    home.processes().iter().for_each(Seen::kill);
    server.wait_for(|log| log.in_flight() == 0, PATIENCE);
    let verbs: [&[&str]; 3] =
        [&["results", &id, "--wait"], &["results", &id, "--wait"], &["worker", "--only", &id]];
    let mut running: Vec<Running> = verbs.iter().map(|verb| home.legwork(verb).start()).collect();
    let order =
        home.legwork(&["chat", "--resume", &session]).env("NO_COLOR", "1").env("TERM", "xterm-256color");
    let mut screen = order.at_terminal(120, 30);
    server.gate("held").wait_waiting(1);
    screen.wait_for("›");
    let at_work = |home: &Home| {
        let known = home.ps().into_iter().find(|known| known["delegation_id"] == json!(id))?;
        known["units"][0]["children"][0]["owner_pid"].as_i64()
    };
    let first = until("one to be at work", || at_work(&home));
    let is_of_a_verb = running.iter().position(|one| i64::from(one.pid()) == first);
    if let Some(place) = is_of_a_verb {
        running.remove(place).kill();
        server.wait_for(|log| log.in_flight() == 0 || log.of("a piece of work").len() > 2, PATIENCE);
        server.gate("held").wait_waiting(1);
    }
    server.gate("held").open();
    for one in running {
        let ended = one.wait();
        assert_eq!(ended.code, 0, "{ended}");
    }
    screen.wait_for("noted");
    assert_eq!(screen.leave(), 0);
    let cut = if is_of_a_verb.is_some() { 2 } else { 1 };
    assert_eq!(server.log().of("a piece of work").len(), cut + 1, "{}", server.log().summary());
    let shown = home.legwork(&["show", &id, "--json"]).run().json();
    let ledger: Vec<Value> = shown["ledger"].as_array().expect("a ledger").clone();
    let delivered = ledger.iter().filter(|line| line["state"] == "delivered").count();
    assert_eq!((&shown["units"][0]["delivery"], delivered), (&json!("delivered"), 1), "{ledger:?}");
    home.assert_nothing_runs();
}
