//! A process that stands still (SIGSTOP) and comes back: another one has taken its session and its work over meanwhile, and
//! nothing of the late one is stored (K34).

use std::fs;

use legwork_testkit::server::{Conversation, Script, ScriptedServer, Scripts, call, gate, say};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rusqlite::Connection;
use serde_json::{Value, json};

use crate::harness::{Ended, Home, Order, Running, until};

fn hasty(order: Order<'_>) -> Order<'_> {
    order.set("lease_seconds", 1)
}

/// How its model is recognised.
const PIECE: &str = "the piece";
/// Calls that the child makes, one a reply.
const STEPS: usize = 40;
/// The call before which its process stands still.
const STOPPED_AT: usize = 25;

fn assert_once(home: &Home, server: &ScriptedServer, late: &Ended) {
    assert!(late.stderr.contains("another one has taken its work over"), "{late}");
    let list = home.list();
    assert_eq!(list.len(), 1, "nothing was delegated twice: {list:?}");
    let id = list[0]["delegation_id"].as_str().expect("an id");
    let shown = home.legwork(&["show", id, "--json"]).run().json();
    let ledger = shown["ledger"].as_array().expect("a ledger").clone();
    let delivered = ledger.iter().filter(|line| line["state"] == "delivered").count();
    assert_eq!(delivered, 1, "{ledger:?}");
    let ended = home.legwork(&["results", id, "--json"]).run();
    assert_eq!(ended.statuses(), ["completed"], "{ended}");
    let entry = &ended.results()[0];
    assert_eq!(entry["summary"], json!("the answer"), "{ended}");
    assert_eq!(entry["api_calls"], json!(STEPS + 2), "one reply more for both attempts: {ended}");
    assert_eq!(entry["tokens"]["input"], json!(100 * (STEPS + 1)), "and no reply counts twice: {ended}");
    assert_eq!(entry["tool_trace"].as_array().map(Vec::len), Some(STEPS), "{ended}");
    let asked = server.log().entries().iter().filter(|entry| entry.agent.as_deref() == Some(PIECE)).count();
    assert_eq!(asked, STEPS + 2, "one call of the model more than without the stop");
    let steps: Vec<String> = (0..STEPS).map(|step| step.to_string()).collect();
    assert_eq!(home.read("steps.txt").lines().collect::<Vec<_>>(), steps, "each command ran once");
    home.assert_nothing_runs();
}

/// Waits until the lease of the only process is more than its period old.
fn until_stale(home: &Home) {
    until("the lease to look stale", || {
        let database = Connection::open(home.database()).expect("it opens");
        let sql = "SELECT max(renewed_at) < (unixepoch('subsec') - 1.1) * 1000 FROM owners";
        let stale: bool = database.query_row(sql, (), |row| row.get(0)).expect("it reads");
        stale.then_some(())
    });
}

/// A child of many steps that waits at the gate before one of its replies. Each step appends a line of its own.
fn child() -> Script {
    Script::from_fn(|talk: &Conversation| {
        let step = talk.step();
        let reply = match step {
            STEPS.. => say("the answer"),
            step => call("terminal", json!({"command": format!("echo {step} >> steps.txt")})),
        };
        if step == STOPPED_AT { gate("here").then(reply) } else { reply }
    })
}

/// Proves RECOV-1.
#[test]
fn k34_the_session_of_a_process_that_stands_still_goes_on_elsewhere_and_the_late_one_is_kept_out() {
    let scripts = Scripts::default().agent(PIECE, child()).agent(
        "the prompt",
        Script::from_fn(|talk: &Conversation| match talk.step() {
            0 => call("delegate_task", json!({"goal": "this is the piece of work"})),
            _ if talk.last_text().contains("the answer") => say("the first is done"),
            _ => say("the second is done"),
        }),
    );
    let server = ScriptedServer::start(scripts);
    let home = Home::with(&server);
    let late = hasty(home.legwork(&["run", "this is the prompt"])).start();
    server.gate("here").wait_reached();
    late.signal(Signal::SIGSTOP);
    until_stale(&home);
    let heir = hasty(home.legwork(&["run", "and now?", "--last"])).start();
    server.gate("here").wait_waiting(2);
    server.gate("here").open();
    let ended = heir.wait();
    assert_eq!((ended.code, ended.stdout.as_str()), (0, "the second is done\n"), "{ended}");
    assert!(ended.stderr.contains("does not renew its lease"), "{ended}");
    late.signal(Signal::SIGCONT);
    let late = late.wait();
    assert_once(&home, &server, &late);
    let shown = home.legwork(&["sessions", "--json"]).run().json()["sessions"].clone();
    let users: Vec<&Value> = shown.as_array().expect("a list").iter().collect();
    assert_eq!(users.len(), 1, "{shown}");
}

/// Proves K08.
#[test]
fn k34_a_session_whose_process_was_stopped_just_now_is_waited_for_and_it_is_said_how_long() {
    for choice in ["--last", "--resume"] {
        let prompt = Script::new().step(gate("here").say("the first answer")).step(say("the second answer"));
        let server = ScriptedServer::start(Scripts::default().otherwise(prompt));
        let home = Home::with(&server);
        let late = hasty(home.legwork(&["run", "this is the prompt"])).start();
        server.gate("here").wait_reached();
        late.signal(Signal::SIGSTOP);
        let heir = hasty(home.legwork(&["run", "and now?", choice])).start();
        server.gate("here").wait_waiting(2);
        server.gate("here").open();
        let ended = heir.wait();
        assert_eq!((ended.code, ended.stdout.as_str()), (0, "the second answer\n"), "{choice}: {ended}");
        assert!(ended.stderr.contains("is stopped and does not renew its lease of 1 s"), "{choice}: {ended}");
        assert!(ended.stderr.contains("watched for 4 s at most"), "{choice}: {ended}");
        late.signal(Signal::SIGCONT);
        late.wait();
        home.assert_nothing_runs();
    }
}

#[test]
fn k34_the_tasks_of_a_process_that_stands_still_go_on_elsewhere_and_the_late_one_is_kept_out() {
    let server = ScriptedServer::start(Scripts::default().agent(PIECE, child()));
    let home = Home::with(&server);
    let late = hasty(home.legwork(&["delegate", "--goal", "this is the piece of work"])).start();
    let id = late.delegation();
    server.gate("here").wait_reached();
    late.signal(Signal::SIGSTOP);
    let heir = hasty(home.legwork(&["results", &id, "--wait", "--json"])).start();
    server.gate("here").wait_waiting(2);
    server.gate("here").open();
    let ended = heir.wait();
    assert_eq!((ended.code, ended.statuses()), (0, vec!["completed".to_owned()]), "{ended}");
    late.signal(Signal::SIGCONT);
    let late = late.wait();
    assert_once(&home, &server, &late);
}

fn without_model(order: Order<'_>) -> Order<'_> {
    hasty(order).without("LEGWORK_MODEL").without("LEGWORK_BASE_URL").without("LEGWORK_API_KEY")
}

/// Whoever could not go on with the work declares nobody gone: it would be nobody's then.
#[test]
fn k34_who_has_no_model_waits_for_a_process_that_stands_still_and_takes_nothing_from_it() {
    let script = Script::new().step(gate("here").say("the answer"));
    let server = ScriptedServer::start(Scripts::default().otherwise(script));
    let home = Home::with(&server);
    let owner = hasty(home.legwork(&["delegate", "--goal", "this is the piece of work"])).start();
    let id = owner.delegation();
    server.gate("here").wait_reached();
    owner.signal(Signal::SIGSTOP);
    until_stale(&home);
    let waiting = without_model(home.legwork(&["results", &id, "--wait"])).start();
    let words = "it is waited for all the same";
    until("it to be said that nobody is watched", || waiting.stderr().contains(words).then_some(()));
    owner.signal(Signal::SIGCONT);
    server.gate("here").open();
    let late = owner.wait();
    assert_eq!(late.code, 0, "nothing was taken from it: {late}");
    let ended = waiting.wait();
    assert_eq!(ended.code, 0, "{ended}");
    assert!(ended.stdout.contains("the answer"), "{ended}");
}

/// The same for a session: who cannot talk in it takes it from nobody.
#[test]
fn k34_who_has_no_model_takes_no_session_from_a_process_that_stands_still() {
    let script = Script::new().step(gate("here").say("the answer"));
    let server = ScriptedServer::start(Scripts::default().otherwise(script));
    let home = Home::with(&server);
    let owner = hasty(home.legwork(&["run", "this is the prompt"])).start();
    server.gate("here").wait_reached();
    owner.signal(Signal::SIGSTOP);
    until_stale(&home);
    for order in [home.legwork(&["run", "and now?", "--last"]), home.legwork(&["chat", "--resume"])] {
        let refused = without_model(order).run();
        assert_eq!(refused.code, 3, "{refused}");
        assert!(refused.stderr.contains("no model"), "{refused}");
    }
    owner.signal(Signal::SIGCONT);
    server.gate("here").open();
    let ended = owner.wait();
    assert_eq!(
        (ended.code, ended.stdout.as_str()),
        (0, "the answer\n"),
        "nothing was taken from it: {ended}"
    );
}

/// What keeps somebody from talking in a session.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Lacking {
    Model,
    Key,
    /// The one that it belongs to.
    Folder,
    /// What was said in it cannot be read.
    Words,
}

/// Whoever is refused has declared nobody gone before: that would cost the other process its work for nothing.
#[test]
fn k34_who_cannot_talk_in_a_session_takes_it_from_nobody_whatever_is_lacking() {
    let verbs: [&[&str]; 3] =
        [&["run", "and now?", "--resume"], &["chat", "--resume"], &["chat", "--session"]];
    for lacking in [Lacking::Model, Lacking::Key, Lacking::Folder, Lacking::Words] {
        for verb in verbs.iter().filter(|verb| lacking != Lacking::Folder || verb[1] != "--session") {
            refused_beside_one_that_stands_still(lacking, verb);
        }
    }
}

#[track_caller]
fn refused_beside_one_that_stands_still(lacking: Lacking, verb: &[&str]) {
    let script = Script::from_fn(|talk: &Conversation| match talk.step() {
        0 => say("hello"),
        _ => gate("here").say("the answer"),
    });
    let server = ScriptedServer::start(Scripts::default().otherwise(script));
    let home = Home::with(&server);
    fs::create_dir(home.project().join("place")).expect("it is made");
    let in_place = |order: &[&str]| hasty(home.legwork(&[order, &["--cwd", "place"]].concat()));
    let holder = in_place(&["chat", "--session", "known"]).stdin("hi\nthis is the prompt\n").start();
    server.gate("here").wait_reached();
    holder.signal(Signal::SIGSTOP);
    until_stale(&home);
    let moved = home.project().join("moved");
    let database = Connection::open(home.database()).expect("it opens");
    let order = hasty(home.legwork(&[verb, &["known"]].concat()));
    let order = match lacking {
        Lacking::Model => without_model(in_place(&[verb, &["known"]].concat())),
        Lacking::Key => {
            without_model(in_place(&[verb, &["known"]].concat())).env("LEGWORK_MODEL", "openai/other")
        }
        Lacking::Folder => {
            fs::rename(home.project().join("place"), moved).expect("it can be moved");
            order
        }
        Lacking::Words => {
            let damage = "UPDATE messages SET body = 'no JSON' WHERE seq = 1";
            assert_eq!(database.execute(damage, ()), Ok(1));
            in_place(&[verb, &["known"]].concat())
        }
    };
    let refused = order.run();
    assert_ne!(refused.code, 0, "{lacking:?} {verb:?}: {refused}");
    holder.signal(Signal::SIGCONT);
    server.gate("here").open();
    let ended = holder.wait();
    let told = format!("{lacking:?} {verb:?}: {refused}\n{ended}");
    assert_eq!(
        (ended.code, ended.stdout.as_str()),
        (0, "hello\nthe answer\n"),
        "something was taken from it: {told}"
    );
}

/// Who has another model to talk with takes the session, and leaves the work that asks the first one to whoever has
/// that: nothing of it is lost or done twice.
#[test]
fn k34_who_has_another_model_takes_the_session_and_leaves_work_that_it_cannot_go_on_with() {
    let piece = Script::new().step(gate("here").say("the answer"));
    let prompt = Script::from_fn(|talk: &Conversation| match talk.last_text() {
        text if text.contains("this is the prompt") => {
            call("delegate_task", json!({"goal": "this is the piece of work"}))
        }
        text if text.contains("do not delegate it again") => say("it waits"),
        text if text.contains("the answer") => say("noted"),
        text => say(format!("heard: {text}")),
    });
    let scripts = Scripts::default().agent(PIECE, piece).agent("the prompt", prompt);
    let server = ScriptedServer::start(scripts);
    let home = Home::with(&server);
    let owner = hasty(home.legwork(&["run", "this is the prompt"])).start();
    server.gate("here").wait_reached();
    owner.signal(Signal::SIGSTOP);
    until_stale(&home);
    let other = home.legwork(&["run", "and now?", "--last", "--json"]).env("LEGWORK_MODEL", "openai/another");
    let taken = hasty(other).run();
    // Of what was delegated before, one subagent has not ended.
    assert_eq!((taken.code, taken.json()["answer"].as_str()), (1, Some("heard: and now?")), "{taken}");
    let id = home.only_delegation();
    let command = format!("`legwork results {id} --wait --model openai/test` goes on with it");
    assert!(taken.stderr.contains(&command), "{taken}");
    owner.signal(Signal::SIGCONT);
    let late = owner.wait();
    assert!(late.stderr.contains("another one has taken its work over"), "{late}");
    server.gate("here").open();
    let ended = home.legwork(&["results", &id, "--wait", "--json"]).run();
    assert_eq!((ended.code, ended.statuses()), (0, vec!["completed".to_owned()]), "{ended}");
    assert_eq!(home.legwork(&["run", "and then?", "--last"]).run().stdout, "heard: and then?\n");
    let shown = home.legwork(&["show", &id, "--json"]).run().json();
    assert_eq!(shown["units"][0]["delivery"], "delivered", "{}", shown["ledger"]);
    assert_eq!(
        server.log().entries().iter().filter(|entry| entry.agent.as_deref() == Some(PIECE)).count(),
        2
    );
    home.assert_nothing_runs();
}

/// Whoever waits for results watches the process that works on them, and goes on with them when that stands still.
#[test]
fn k34_a_wait_for_results_goes_on_with_work_of_a_process_that_stands_still() {
    let server = ScriptedServer::start(
        Scripts::default().otherwise(Script::from_fn(|_: &Conversation| gate("here").say("the answer"))),
    );
    let home = Home::with(&server);
    let first = hasty(home.legwork(&["delegate", "--goal", "any", "--json"])).start();
    let id = first.delegation();
    server.gate("here").wait_waiting(1);
    first.signal(Signal::SIGSTOP);
    let second = hasty(home.legwork(&["results", &id, "--wait", "--json"])).start();
    server.gate("here").wait_waiting(2);
    server.gate("here").open();
    let ended = second.wait();
    assert_eq!((ended.code, ended.statuses()), (0, vec!["completed".to_owned()]), "{ended}");
    first.signal(Signal::SIGCONT);
    let late = first.wait();
    assert!(late.stderr.contains("another one has taken its work over"), "{late}");
    home.assert_nothing_runs();
}

/// As long as it does not, that is what is waited for, and the line says so once.
#[test]
fn k34_a_wait_for_results_says_which_process_it_waits_for() {
    let server = ScriptedServer::start(
        Scripts::default().otherwise(Script::from_fn(|_: &Conversation| gate("here").say("the answer"))),
    );
    let home = Home::with(&server);
    let first = home.legwork(&["delegate", "--goal", "any"]).start();
    let id = first.delegation();
    server.gate("here").wait_waiting(1);
    let second = home.legwork(&["results", &id, "--wait"]).start();
    let note = format!("note: waits for process {}, which runs {id}", first.pid());
    until("the note", || second.stderr().contains(&note).then_some(()));
    server.gate("here").open();
    let (first, second) = (first.wait(), second.wait());
    assert_eq!((first.code, second.code), (0, 0), "{first}\n{second}");
    assert_eq!(second.stderr.matches("waits for process").count(), 1, "{second}");
    assert!(second.stdout.contains("the answer"), "{second}");
    assert_eq!(server.log().entries().len(), 1, "nobody began it once more");
}

/// A piece of work that makes two replies, each of which waits at a gate.
fn two_replies() -> ScriptedServer {
    let script = Script::new()
        .step(gate("here").then(call("terminal", json!({"command": "true"}))))
        .step(gate("there").say("the answer"));
    ScriptedServer::start(Scripts::default().otherwise(script))
}

fn stands_still(pid: i32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| stat.contains(") T "))
}

/// How often the thread of this process that writes into the database has given its turn away.
#[track_caller]
fn rests_of_the_writer(pid: i32) -> u64 {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).expect("the process is there");
    let mut known = threads.filter_map(|thread| fs::read_to_string(thread.ok()?.path().join("status")).ok());
    let writer = known.find(|status| status.starts_with("Name:\tstore-writer\n")).expect("it writes");
    let rests = writer.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    rests.expect("the system counts them").trim().parse().expect("a number")
}

/// Waits until a commit of the process has looked for the lock again and again. It rests between two looks, and does nothing
/// while there is nothing to commit.
#[track_caller]
fn until_a_commit_waits(pid: i32) {
    let before = rests_of_the_writer(pid);
    until("a commit to wait for the lock", || (rests_of_the_writer(pid) > before + 40).then_some(()));
}

/// A process that a shell with job control has started, and that was told to suspend itself while its first reply waits for
/// the returned lock to be stored.
#[track_caller]
fn suspended_in_mid_commit(home: &Home, server: &ScriptedServer) -> (Running, Connection) {
    let owner =
        home.legwork(&["delegate", "--goal", "this is the piece of work"]).in_a_group_of_its_own().start();
    server.gate("here").wait_reached();
    let lock = home.lock_database();
    server.gate("here").open();
    until_a_commit_waits(owner.pid());
    owner.signal(Signal::SIGTSTP);
    until_a_commit_waits(owner.pid());
    assert!(!stands_still(owner.pid()), "its commit is under way");
    (owner, lock)
}

/// Proves K35.
#[test]
fn k35_ctrl_z_suspends_the_work_after_its_commit_keeps_nobody_from_writing_and_it_goes_on() {
    let server = two_replies();
    let home = Home::with(&server);
    let (owner, lock) = suspended_in_mid_commit(&home, &server);
    drop(lock);
    until("it to stand still", || stands_still(owner.pid()).then_some(()));
    assert_eq!(home.legwork(&["pause", "on"]).run().code, 0);
    assert_eq!(home.legwork(&["pause", "off"]).run().code, 0);
    server.gate("there").open();
    owner.signal(Signal::SIGCONT);
    let ended = owner.wait();
    assert_eq!(ended.code, 0, "{ended}");
}

/// The stop that it was still to make would come after the end of all stops.
#[test]
fn k35_who_is_continued_before_it_could_suspend_itself_does_not_stop() {
    let server = two_replies();
    let home = Home::with(&server);
    let (owner, lock) = suspended_in_mid_commit(&home, &server);
    owner.signal(Signal::SIGCONT);
    until_a_commit_waits(owner.pid());
    drop(lock);
    server.gate("there").wait_reached();
    server.gate("there").open();
    let ended = owner.wait();
    assert_eq!(ended.code, 0, "{ended}");
}

/// As under `ssh -t` and `xterm -e`, where it is the first process of its session or the child of a shell that is.
#[test]
fn k35_ctrl_z_does_not_stop_what_nobody_could_continue() {
    for first in [&[][..], &["bash", "-c", "\"$0\" \"$@\"; exit $?"]] {
        let server = two_replies();
        let home = Home::with(&server);
        let order = home.legwork(&["delegate", "--goal", "this is the piece of work"]);
        let running = order.in_a_session_of_its_own(first).start();
        server.gate("here").wait_reached();
        let program = env!("CARGO_BIN_EXE_legwork");
        let found = home.processes().into_iter().find(|seen| seen.command.starts_with(program));
        let pid = found.expect("it runs").pid;
        kill(Pid::from_raw(pid), Signal::SIGTSTP).expect("it is there");
        server.gate("here").open();
        server.gate("there").wait_reached();
        server.gate("there").open();
        let ended = running.wait();
        assert_eq!(ended.code, 0, "{first:?}: {ended}");
    }
}
