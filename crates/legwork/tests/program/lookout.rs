//! Work that loses its process while somebody who would go on with it is at work already: an open conversation, a prompt that
//! waits for it, a worker whose state folder is in trouble.

use std::fs;

use legwork_testkit::server::{Conversation, Script, ScriptedServer, Scripts, call, gate, say};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rusqlite::Connection;
use serde_json::json;

use crate::harness::{Home, Running, Seen, until};

/// The process that runs the only open child of the delegation, once it is not `before`.
fn runner_of(home: &Home, id: &str) -> Option<i64> {
    let list = home.ps();
    let known = list.iter().find(|known| known["delegation_id"] == json!(id))?;
    known["units"][0]["children"][0]["owner_pid"].as_i64()
}

fn until_run_by(home: &Home, id: &str, pid: i32) {
    until(&format!("{pid} to run {id}"), || (runner_of(home, id) == Some(pid.into())).then_some(()));
}

fn the_worker(home: &Home) -> Seen {
    until("the worker to be seen", || {
        home.processes().into_iter().find(|seen| seen.command.contains("worker"))
    })
}

/// A conversation that takes note of what its piece of work brings; the piece waits at the gate `here`.
fn takes_note() -> ScriptedServer {
    ScriptedServer::start(Scripts::default().otherwise(Script::from_fn(|talk: &Conversation| {
        match talk.first_user_text() {
            text if text.starts_with("this is the piece") => gate("here").say("the piece is done"),
            _ if talk.last_text().contains("the piece is done") => say("Noted, it is there."),
            _ => say("hello"),
        }
    })))
}

/// Its session is open here and nowhere else, so nobody else would go on with it.
#[test]
fn k02_an_open_conversation_goes_on_with_work_of_it_that_loses_its_process() {
    let server = takes_note();
    let home = Home::with(&server);
    let order = home.legwork(&["chat", "--session", "x"]);
    let mut screen = order.env("NO_COLOR", "1").env("TERM", "xterm-256color").at_terminal(100, 30);
    screen.wait_for("›");
    let id = home.leave_piece("x", "this is the piece of work");
    server.gate("here").wait_reached();
    let worker = the_worker(&home);
    until_run_by(&home, &id, worker.pid);
    worker.kill();
    screen.wait_for("of a process that died");
    until_run_by(&home, &id, screen.pid());
    server.gate("here").open();
    screen.wait_for("Noted, it is there.");
    assert_eq!(screen.leave(), 0);
    let shown = home.legwork(&["show", &id, "--json"]).run().json();
    let ledger = shown["ledger"].as_array().expect("a ledger").clone();
    let delivered = ledger.iter().filter(|line| line["state"] == "delivered").count();
    assert_eq!(delivered, 1, "{ledger:?}");
    home.assert_nothing_runs();
}

/// A look that fails is not the last one.
#[test]
fn k35_an_open_conversation_looks_again_once_its_folder_is_put_back() {
    let server = takes_note();
    let home = Home::with(&server);
    let order = home.legwork(&["chat", "--session", "x"]);
    let mut screen = order.env("NO_COLOR", "1").env("TERM", "xterm-256color").at_terminal(100, 30);
    screen.wait_for("›");
    let id = home.leave_piece("x", "this is the piece of work");
    server.gate("here").wait_reached();
    let worker = the_worker(&home);
    until_run_by(&home, &id, worker.pid);
    let (here, away) = (home.state(), home.project().join("moved away"));
    fs::rename(&here, &away).expect("it can be moved");
    screen.wait_for("cannot be looked for now");
    // What was made in its place meanwhile is nobody's; something may appear there between the two.
    until("it to be put back", || {
        fs::remove_dir_all(&here).ok();
        fs::rename(&away, &here).ok()
    });
    screen.wait_for("is looked for again");
    worker.kill();
    screen.wait_for("of a process that died");
    until_run_by(&home, &id, screen.pid());
    server.gate("here").open();
    screen.wait_for("Noted, it is there.");
    assert_eq!(screen.leave(), 0);
    home.assert_nothing_runs();
}

/// A prompt that rejoins what a worker runs, when that worker dies.
#[test]
fn k02_a_prompt_goes_on_with_what_it_waits_for_when_that_loses_its_process() {
    let scripts = Scripts::default()
        .agent("the piece", Script::from_fn(|_: &Conversation| gate("here").say("the answer")))
        .otherwise(Script::from_fn(|talk: &Conversation| match talk.step() {
            0 => call("delegate_task", json!({"goal": "this is the piece of work"})),
            _ => say(format!(
                "got it: {}",
                talk.tool_results().iter().any(|result| result.contains("the answer"))
            )),
        }));
    let server = ScriptedServer::start(scripts);
    let home = Home::with(&server);
    let first = home.legwork(&["run", "send it out"]).start();
    server.gate("here").wait_reached();
    let id = home.only_delegation();
    first.kill();
    let worker = home.legwork(&["worker"]).start();
    until_run_by(&home, &id, worker.pid());
    let second = home.legwork(&["run", "--last", "and?"]).start();
    until("the session to be open", || {
        home.legwork(&["sessions", "--json"]).run().stdout.contains(&second.pid().to_string()).then_some(())
    });
    worker.kill();
    until_run_by(&home, &id, second.pid());
    server.gate("here").open();
    let ended = second.wait();
    assert_eq!(ended.code, 0, "{ended}");
    assert!(ended.stdout.contains("got it: true"), "{ended}");
    home.assert_nothing_runs();
}

fn told(worker: &mut Running, words: &str) {
    until(&format!("{words:?} of the worker"), || {
        assert!(!worker.has_ended(), "it ended: {}", worker.stderr());
        worker.stderr().contains(words).then_some(())
    });
}

/// A delegation of one child that waits at the gate `here`, and its program.
fn started(home: &Home, server: &ScriptedServer, waiting: usize) -> (Running, String) {
    let running = home.legwork(&["delegate", "--goal", "a piece of work"]).start();
    let id = running.delegation();
    server.gate("here").wait_waiting(waiting);
    (running, id)
}

/// Begins something that the state folder suffers from, and gives what ends it.
type Trouble = fn(&Home) -> Box<dyn FnOnce()>;

/// Proves K02 for a worker: what it runs has nobody else.
#[test]
fn k35_a_worker_outlives_a_database_that_is_locked_for_long() {
    outlives(|home| {
        let lock = home.lock_database();
        Box::new(move || drop(lock))
    });
}

/// Proves K02 for a worker whose folder is put back while its engine waits for that.
#[test]
fn k35_a_worker_outlives_a_folder_that_was_moved_away() {
    outlives(|home| {
        let (here, away) = (home.state(), home.project().join("moved away"));
        fs::rename(&here, &away).expect("it can be moved");
        Box::new(move || {
            // What was made in its place meanwhile is nobody's.
            fs::remove_dir_all(&here).ok();
            fs::rename(&away, &here).expect("it can be put back");
        })
    });
}

#[track_caller]
fn outlives(trouble: Trouble) {
    let server = ScriptedServer::start(
        Scripts::default().otherwise(Script::from_fn(|_: &Conversation| gate("here").say("the answer"))),
    );
    let home = Home::with(&server);
    let (running, first) = started(&home, &server, 1);
    running.kill();
    let mut worker = home.legwork(&["worker"]).start();
    until_run_by(&home, &first, worker.pid());
    server.gate("here").wait_waiting(1);
    let (running, second) = started(&home, &server, 2);
    let back = trouble(&home);
    running.kill();
    told(&mut worker, "cannot be looked for now; it is tried again");
    back();
    told(&mut worker, "is looked for again");
    until_run_by(&home, &second, worker.pid());
    server.gate("here").open();
    for id in [&first, &second] {
        let ended = home.legwork(&["results", id, "--wait", "--json"]).run();
        assert_eq!(ended.statuses(), ["completed"], "{ended}");
    }
    until("the results that were printed to count as delivered", || {
        let shown = home.legwork(&["show", &first, "--json"]).run().json();
        (shown["units"][0]["delivery"] == json!("delivered")).then_some(())
    });
    assert_eq!(worker.stderr().matches("cannot be looked for now").count(), 1, "{}", worker.stderr());
    worker.signal(Signal::SIGTERM);
    assert_eq!(worker.wait().code, 143);
}

/// Whoever detached the work has gone: the worker is the only hand that it has.
#[test]
fn k35_a_worker_that_is_started_beside_a_lock_waits_for_its_end() {
    waits_for_the_end_of(|home| {
        let lock = home.lock_database();
        Box::new(move || drop(lock))
    });
}

/// The same for a lock beside which nothing can be read, such as that of a backup.
#[test]
fn k35_a_worker_that_is_started_where_nothing_can_be_read_waits_for_the_end_of_that() {
    waits_for_the_end_of(|home| {
        let lock = Connection::open(home.database()).expect("the database opens");
        lock.pragma_update_and_check(None, "locking_mode", "exclusive", |_| Ok(())).expect("a mode it has");
        lock.execute_batch("BEGIN EXCLUSIVE").expect("the lock is free");
        Box::new(move || drop(lock))
    });
}

/// A worker that is started apart while something keeps the database from it, until that is taken away.
#[track_caller]
fn waits_for_the_end_of(trouble: Trouble) {
    let server = ScriptedServer::start(
        Scripts::default().otherwise(Script::from_fn(|_: &Conversation| gate("here").say("the answer"))),
    );
    let home = Home::with(&server);
    let (running, id) = started(&home, &server, 1);
    running.kill();
    let back = trouble(&home);
    let mut worker = home.legwork(&["worker", "--apart", "--only", &id]).start();
    told(&mut worker, "it cannot begin yet and tries again");
    back();
    server.gate("here").open();
    let ended = worker.wait();
    assert_eq!(ended.code, 0, "{ended}");
    let results = home.legwork(&["results", &id, "--json"]).run();
    assert_eq!(results.statuses(), ["completed"], "{results}");
}

/// A conversation whose work is run by a process that stands still, which is watched before that is taken over.
#[test]
fn k33_a_signal_is_heard_while_a_conversation_is_opened() {
    let server = ScriptedServer::start(
        Scripts::default()
            .agent("the piece", Script::from_fn(|_: &Conversation| gate("here").say("the answer")))
            .otherwise(Script::always(say("hello"))),
    );
    let home = Home::with(&server);
    assert_eq!(home.legwork(&["chat", "--session", "x"]).stdin("hi\n").run().code, 0);
    let goal = ["delegate", "--goal", "this is the piece of work", "--detach", "--session", "x", "--json"];
    let handle = home.legwork(&goal).set("lease_seconds", 4).run();
    let id = handle.json()["delegation_id"].as_str().expect("an id").to_owned();
    server.gate("here").wait_reached();
    let worker = the_worker(&home);
    until_run_by(&home, &id, worker.pid);
    kill(Pid::from_raw(worker.pid), Signal::SIGSTOP).expect("it is there");
    until("its lease to look stale", || {
        let database = Connection::open(home.database()).expect("it opens");
        let sql = "SELECT max(renewed_at) < (unixepoch('subsec') - 4.2) * 1000 FROM owners";
        let stale: bool = database.query_row(sql, (), |row| row.get(0)).expect("it reads");
        stale.then_some(())
    });
    let order = home.legwork(&["chat", "--session", "x"]).set("lease_seconds", 4).env("NO_COLOR", "1");
    let mut screen = order.env("TERM", "xterm-256color").at_terminal(100, 30);
    until("the session to be open", || {
        let held = home.legwork(&["sessions", "--json"]).run();
        held.stdout.contains(&screen.pid().to_string()).then_some(())
    });
    screen.signal(Signal::SIGTERM);
    assert_eq!(screen.wait_for_end(), 143);
    let said = screen.everything();
    assert!(!said.contains("›"), "it was not open yet: {said}");
    worker.kill();
    server.gate("here").open();
    let ended = home.legwork(&["results", &id, "--wait", "--json"]).run();
    assert_eq!(ended.statuses(), ["completed"], "{ended}");
}

/// What a worker was started for is left to it also while it cannot begin.
#[test]
fn k39_an_open_conversation_leaves_work_to_the_worker_that_was_started_for_it() {
    let server =
        ScriptedServer::start(Scripts::default().otherwise(Script::from_fn(|talk: &Conversation| {
            match talk.first_user_text() {
                text if text.starts_with("this is the piece") => say("the piece is done"),
                _ if talk.last_text().contains("the piece is done") => say("Noted, it is there."),
                _ => say("hello"),
            }
        })));
    let home = Home::with(&server);
    let order = home.legwork(&["chat", "--session", "x"]).set("lease_seconds", 1);
    let mut screen = order.env("NO_COLOR", "1").env("TERM", "xterm-256color").at_terminal(100, 30);
    screen.wait_for("›");
    // The worker reads the configuration before anything else, and waits for somebody who writes it.
    let config = home.project().join("config.toml");
    nix::unistd::mkfifo(&config, nix::sys::stat::Mode::S_IRWXU).expect("it can be made");
    let path = config.display().to_string();
    let goal = ["delegate", "--goal", "this is the piece of work", "--detach", "--session", "x"];
    let detaching = home.legwork(&[&goal[..], &["--json", "--config", &path]].concat()).start();
    fs::write(&config, "").expect("the program reads it");
    assert_eq!(detaching.wait().code, 0);
    the_worker(&home);
    let last_sign_of_life = || {
        let database = Connection::open(home.database()).expect("it opens");
        let sql = "SELECT max(renewed_at) FROM owners";
        database.query_row(sql, (), |row| row.get::<_, i64>(0)).expect("it reads")
    };
    let begun = last_sign_of_life();
    until("the conversation to have looked three times", || {
        (last_sign_of_life() > begun + 7000).then_some(())
    });
    fs::write(&config, "").expect("the worker reads it");
    screen.wait_for("Noted, it is there.");
    assert!(!screen.everything().contains("of a process that died"), "{}", screen.everything());
    assert_eq!(screen.leave(), 0);
    home.wait_until_nothing_runs();
}
