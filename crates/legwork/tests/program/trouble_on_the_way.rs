//! A state folder that becomes unusable while work runs: no room, a foreign lock, damage, a folder that vanishes. What runs
//! loses nothing but time where that passes; otherwise it is told, and the exit code is that of the end.

use std::fs;
use std::os::unix::fs::FileExt;
use std::process::Command;

use legwork_testkit::server::{Conversation, Script, ScriptedServer, Scripts, call, gate, say};
use nix::sys::signal::Signal;
use rusqlite::Connection;
use serde_json::json;

use crate::harness::{Ended, Home, Order, RELEASE_MAX, Running, STOP_MAX, Seen, tasks_toml, until};
use crate::state_trouble::delegate;

/// A disk with so many bytes left: the shell counts in blocks of 1024, and a program that ignores the signal sees an error.
fn on_a_disk_of(order: Order<'_>, bytes: u64) -> Order<'_> {
    order.after(&format!("ulimit -S -f {}", bytes / 1024))
}

/// A database that may have so many bytes.
fn in_a_database_of(order: Order<'_>, bytes: u64) -> Order<'_> {
    order.env("LEGWORK_STATE_MAX_PAGES", &(bytes / 4096).max(1).to_string())
}

/// Children that write much into the store and then answer.
fn writers() -> ScriptedServer {
    let long = "a step of many words ".repeat(400);
    ScriptedServer::start(Scripts::default().otherwise(Script::from_fn(move |talk| match talk.step() {
        step @ 0..8 => say(&long).call("terminal", json!({"command": format!("echo {step}")})),
        _ => say("done"),
    })))
}

#[test]
fn k27_a_database_at_its_page_limit_is_told_and_nothing_is_half_done() {
    without_room(in_a_database_of);
}

#[test]
fn k27_a_full_disk_is_told_and_nothing_is_half_done() {
    without_room(on_a_disk_of);
}

/// Runs out of room at many places, from the first page on, is interrupted where it waits for room, and looks each time
/// at what is left.
fn without_room(limit: fn(Order<'_>, u64) -> Order<'_>) {
    let server = writers();
    let (mut refused, mut waited) = (0, 0);
    for kib in (4..400).step_by(36) {
        let home = Home::with(&server);
        home.write("tasks.toml", tasks_toml(&["first", "second"]));
        let mut running = limit(home.legwork(&["delegate", "tasks.toml", "--json"]), kib * 1024).start();
        let waits = until("an end or a warning", || match running.has_ended() {
            true => Some(false),
            false => running.stderr().contains("kept and offered again").then_some(true),
        });
        if waits {
            running.signal(Signal::SIGINT);
        }
        let ended = running.wait();
        assert!(!waits || ended.took < STOP_MAX, "{ended}");
        check_what_is_left(&home, &ended);
        refused += usize::from(ended.code == 3);
        waited += usize::from(waits);
        assert!(ended.code != 0 || !ended.stderr.contains("full"), "{ended}");
    }
    assert!(refused > 0, "some had no room to begin");
    assert!(waited > 0, "some had no room to go on");
}

/// Either nothing exists, or the delegation is whole: every task has an ending, and all of it can be read later.
#[track_caller]
fn check_what_is_left(home: &Home, ended: &Ended) {
    home.assert_nothing_runs();
    match ended.code {
        3 => ended.assert_refused(3, "state", &["full", "free some space"]),
        0 | 130 => assert!(ended.json()["results"].is_array(), "{ended}"),
        code => panic!("{code}: {ended}"),
    }
    assert!(ended.code != 130 || ended.stderr.contains("free some space"), "{ended}");
    for delegation in home.list() {
        let id = delegation["delegation_id"].as_str().expect("an id").to_owned();
        let stored = home.legwork(&["results", &id, "--wait", "--json"]).run();
        assert_eq!(stored.json()["complete"], json!(true), "{ended}\nlater {stored}");
        assert_eq!(stored.results().len(), 2);
        for status in stored.statuses() {
            let was_stopped = ended.code == 130 && status == "interrupted";
            assert!(status == "completed" || was_stopped, "{ended}\nlater {stored}");
        }
        if ended.code == 0 {
            assert_eq!(stored.results(), ended.results(), "what was shown is what is stored");
        }
    }
    let later = delegate(home).run();
    assert_eq!(later.code, 0, "a later run with room works: {later}");
    assert!(home.ps().is_empty());
}

/// A program that was accepted and then found the disk full: the first of many sizes for which that is so.
fn out_of_room_on_the_way(home: &Home) -> Running {
    for kib in (100..1000).step_by(50) {
        let order = home.legwork(&["delegate", "tasks.toml", "--json"]);
        let mut running = on_a_disk_of(order, kib * 1024).start();
        let waits = until("an end or a warning", || match running.has_ended() {
            true => Some(false),
            false => {
                let said = running.stderr();
                (said.contains("deleg_") && said.contains("kept and offered again")).then_some(true)
            }
        });
        if waits {
            return running;
        }
        let ended = running.wait();
        assert_eq!(ended.code, 3, "there was room for all of it: {ended}");
    }
    panic!("no disk was large enough to begin");
}

#[test]
fn k35_what_waits_for_room_goes_on_when_there_is_some() {
    let server = writers();
    let home = Home::with(&server);
    home.write("tasks.toml", tasks_toml(&["first", "second"]));
    let running = out_of_room_on_the_way(&home);
    let freed =
        Command::new("prlimit").args(["--fsize=unlimited", "--pid", &running.pid().to_string()]).status();
    assert!(freed.expect("prlimit is there").success());
    let ended = running.wait();
    let id = ended.json()["delegation_id"].as_str().expect("an id").to_owned();
    assert_eq!(ended.statuses(), ["completed", "completed"], "{ended}");
    assert_eq!(ended.code, 0, "{ended}");
    assert_eq!(server.log().entries().len(), 2 * 9, "no reply was asked for twice");
    let stored = home.legwork(&["results", &id, "--json"]).run();
    assert_eq!(stored.results(), ended.results(), "{ended}\n{stored}");
    assert!(home.ps().is_empty());
}

/// Three commands that each leave a line, and an answer. The second reply waits at a gate, and the second command for a file.
fn three_commands() -> ScriptedServer {
    let command = |line: &str| call("terminal", json!({"command": format!("echo {line} >>effects")}));
    let waits = json!({"command": "echo two >>effects; until [ -e go ]; do sleep 0.01; done"});
    let script = Script::new()
        .step(command("one"))
        .step(gate("held").call("terminal", waits))
        .step(command("three"))
        .step(say("the answer"));
    ScriptedServer::start(Scripts::default().otherwise(script))
}

/// Somebody else writes for longer than the store waits, from the middle of a reply or of a command on.
#[track_caller]
fn under_a_foreign_lock(arguments: &[&str], locked_in: &str) -> (Home, Ended) {
    let server = three_commands();
    let home = Home::with(&server);
    let running = home.legwork(arguments).start();
    server.gate("held").wait_reached();
    let mut lock = None;
    if locked_in == "reply" {
        lock = Some(home.lock_database());
        home.write("go", "");
    }
    server.gate("held").open();
    if locked_in == "command" {
        until("the second command to run", || home.read("effects").contains("two").then_some(()));
        lock = Some(home.lock_database());
        home.write("go", "");
    }
    until("the trouble to be told", || running.stderr().contains("kept and offered again").then_some(()));
    drop(lock);
    let ended = running.wait();
    assert_eq!(ended.code, 0, "{ended}");
    assert_eq!(home.read("effects"), "one\ntwo\nthree\n", "{ended}");
    assert_eq!(server.log().entries().len(), 4, "no reply was asked for twice: {}", server.log().summary());
    home.assert_nothing_runs();
    (home, ended)
}

#[test]
fn k35_a_foreign_lock_in_a_reply_costs_a_subagent_nothing_but_time() {
    let (home, ended) = under_a_foreign_lock(&["delegate", "--goal", "work", "--json"], "reply");
    assert_eq!(ended.statuses(), ["completed"], "{ended}");
    assert_eq!(ended.stderr.matches("kept and offered again").count(), 1, "told once: {ended}");
    let stored = home.legwork(&["results", &home.only_delegation(), "--json"]).run();
    assert_eq!(stored.results(), ended.results());
}

#[test]
fn k35_a_foreign_lock_in_a_command_costs_a_subagent_nothing_but_time() {
    let (_, ended) = under_a_foreign_lock(&["delegate", "--goal", "work", "--json"], "command");
    assert_eq!(ended.statuses(), ["completed"], "{ended}");
    assert_eq!(ended.results()[0]["in_doubt"], json!(null), "{ended}");
}

#[test]
fn k35_a_foreign_lock_costs_a_conversation_nothing_but_time() {
    for locked_in in ["reply", "command"] {
        let (_, ended) = under_a_foreign_lock(&["run", "work"], locked_in);
        assert_eq!(ended.stdout, "the answer\n", "{ended}");
    }
}

#[test]
fn k35_sigterm_on_a_full_disk_ends_in_time() {
    let server = writers();
    let home = Home::with(&server);
    home.write("tasks.toml", tasks_toml(&["first", "second"]));
    let running = out_of_room_on_the_way(&home);
    running.signal(Signal::SIGTERM);
    let ended = running.wait();
    assert_eq!(ended.code, 143, "{ended}");
    assert!(ended.json()["results"].is_array(), "one document all the same: {ended}");
    assert!(ended.took < RELEASE_MAX, "{ended}");
    home.assert_nothing_runs();
    let stored = home.legwork(&["results", &home.only_delegation(), "--wait", "--json"]).run();
    assert_eq!(stored.json()["complete"], json!(true), "{stored}");
}

/// What had begun is not a start that failed, also when nothing of it can be read any more.
#[test]
fn k35_damage_while_work_runs_is_told_and_the_exit_code_is_that_of_its_end() {
    let script = Script::new()
        .step(gate("here").call("terminal", json!({"command": "echo more"})))
        .step(say("the answer"));
    let server = ScriptedServer::start(Scripts::default().otherwise(script));
    let home = Home::with(&server);
    let running = home.legwork(&["delegate", "--goal", "work", "--json"]).start();
    server.gate("here").wait_reached();
    for name in ["legwork.db", "legwork.db-wal"] {
        let file = fs::OpenOptions::new().write(true).open(home.state().join(name)).expect("it is there");
        let bytes = file.metadata().expect("it is there").len();
        file.write_all_at(&vec![0x5a; usize::try_from(bytes).expect("a small file")], 0).expect("ours");
    }
    server.gate("here").open();
    let ended = running.wait();
    assert_eq!((ended.code, ended.results().len()), (1, 0), "{ended}");
    assert!(ended.stderr.contains("`legwork doctor`"), "{ended}");
    home.assert_nothing_runs();
}

/// The same for a prompt: its answer is there.
#[test]
fn k35_an_answer_is_printed_when_what_was_delegated_for_it_cannot_be_read_any_more() {
    let main = Script::new()
        .step(call("delegate_task", json!({"goal": "this is the piece"})))
        .step(gate("here").say("the answer"));
    let piece = Script::always(say("the piece is done"));
    let server = ScriptedServer::start(Scripts::default().agent("the piece", piece).otherwise(main));
    for form in [&["--json"][..], &[]] {
        let home = Home::with(&server);
        let running = home.legwork(&[&["run", "please"], form].concat()).start();
        server.gate("here").wait_waiting(1);
        let database = Connection::open(home.database()).expect("it opens");
        assert_eq!(database.execute("DELETE FROM children", ()), Ok(1));
        server.gate("here").let_through(1);
        let ended = running.wait();
        assert_eq!(ended.code, 1, "{ended}");
        assert!(ended.stdout.contains("the answer"), "{ended}");
        assert!(ended.stderr.contains("cannot be read"), "{ended}");
        home.assert_nothing_runs();
    }
}

/// Moves, removes or replaces the state folder while a subagent works, and lets that one finish.
#[track_caller]
fn without_its_folder(take_away: impl FnOnce(&Home)) -> (Home, Ended) {
    let script = Script::new()
        .step(gate("here").call("terminal", json!({"command": "echo more"})))
        .step(say("the answer"));
    let server = ScriptedServer::start(Scripts::default().otherwise(script));
    let home = Home::with(&server);
    let running = home.legwork(&["delegate", "--goal", "work", "--json"]).start();
    server.gate("here").wait_reached();
    take_away(&home);
    server.gate("here").open();
    until("the trouble to be told", || running.stderr().contains("removed, moved or replaced").then_some(()));
    running.signal(Signal::SIGTERM);
    let ended = running.wait();
    (home, ended)
}

/// Proves DUR-19.
#[test]
fn k35_a_state_folder_that_vanishes_is_told_at_the_next_write() {
    let (home, ended) = without_its_folder(|home| {
        fs::rename(home.state(), home.project().join("moved away")).expect("it can be moved");
    });
    assert_eq!(ended.code, 143, "{ended}");
    assert!(ended.stderr.contains(&home.database().display().to_string()), "{ended}");
    home.assert_nothing_runs();
    fs::remove_dir_all(home.state()).ok();
    fs::rename(home.project().join("moved away"), home.state()).expect("it can be put back");
    assert_eq!(home.list().len(), 1, "what was stored before is there");
}

#[test]
fn k35_a_database_that_is_replaced_is_told_and_its_transcripts_give_it_away() {
    let (home, ended) = without_its_folder(|home| {
        for suffix in ["", "-wal", "-shm"] {
            fs::remove_file(home.state().join(format!("legwork.db{suffix}"))).ok();
        }
        let server = ScriptedServer::start(Scripts::default());
        let other =
            home.legwork(&["delegate", "--goal", "other"]).env("LEGWORK_BASE_URL", &server.base_url());
        assert_eq!(other.run().code, 0);
    });
    assert!(ended.stderr.contains("is another file now"), "{ended}");
    let doctor = home.legwork(&["doctor", "--offline"]).run();
    assert!(doctor.stdout.contains("transcripts of 1 delegation(s)"), "{doctor}");
}

/// They stay where they are, and everything else of their conversation arrives.
#[test]
fn inv_03_results_that_cannot_be_read_keep_no_others_back() {
    const PIECES: [&str; 3] = ["one", "two", "three"];
    let server =
        ScriptedServer::start(Scripts::default().otherwise(Script::from_fn(|talk: &Conversation| {
            let piece = |name: &&str| talk.first_user_text().contains(&format!("piece {name}"));
            let done = |name: &&str| talk.last_text().contains(&format!("{name} is done"));
            match (PIECES.into_iter().find(piece), PIECES.into_iter().find(done)) {
                (Some(name), _) => say(format!("{name} is done")),
                (None, Some(name)) => say(format!("Noted {name}.")),
                (None, None) => say("hello"),
            }
        })));
    let home = Home::with(&server);
    assert_eq!(home.legwork(&["chat", "--session", "x"]).stdin("hi\n").run().code, 0);
    let delegate = |piece: &str| {
        let id = home.leave_piece("x", &format!("this is piece {piece} of the work"));
        home.wait_until_nothing_runs();
        id
    };
    let [unreadable, second] = [delegate("one"), delegate("two")];
    let database = Connection::open(home.database()).expect("it opens");
    let damage = "UPDATE facts SET body = 'no JSON' WHERE seq = 0 AND delegation = (SELECT no FROM delegations WHERE id = ?1)";
    assert_eq!(database.execute(damage, (&unreadable,)), Ok(1));
    let order = home.legwork(&["chat", "--session", "x"]).env("NO_COLOR", "1");
    let mut screen = order.env("TERM", "xterm-256color").at_terminal(150, 30);
    screen.wait_for("Noted two.");
    assert_eq!(screen.leave(), 0);
    let third = delegate("three");
    let ended = home.legwork(&["run", "--resume", "x", "and?"]).run();
    assert_eq!((ended.code, ended.stdout.as_str()), (0, "hello\n"), "{ended}");
    for id in [second, third] {
        let shown = home.legwork(&["show", &id, "--json"]).run().json();
        assert_eq!(shown["units"][0]["delivery"], json!("delivered"), "{shown}");
    }
    let where_it_is = "SELECT state FROM units WHERE delegation = (SELECT no FROM delegations WHERE id = ?1)";
    let state: String = database.query_row(where_it_is, (&unreadable,), |row| row.get(0)).expect("a row");
    assert_eq!(state, "ready", "nothing of it is given up");
}

/// A session with two pieces of work, each left by a worker that was killed; the first cannot be read any more.
fn with_a_damaged_journal(server: &ScriptedServer, home: &Home) -> (String, [String; 2]) {
    let session = home.conversation();
    let leave = |piece| home.leave_piece(&session, &format!("this is piece {piece} of the work"));
    let ids = ["one", "two"].map(leave);
    server.gate("held").wait_waiting(2);
    home.processes().iter().for_each(Seen::kill);
    home.wait_until_nothing_runs();
    let database = Connection::open(home.database()).expect("it opens");
    let damage = "UPDATE steps SET body = 'no JSON' WHERE seq = 0 AND phase = 0 AND actor = \
        (SELECT c.no FROM children c JOIN delegations d ON d.no = c.delegation WHERE d.id = ?1)";
    assert_eq!(database.execute(damage, (&ids[0],)), Ok(1));
    server.gate("held").open();
    (session, ids)
}

/// It stops neither a worker nor the opening of its conversation.
#[test]
fn k35_a_damaged_journal_fails_its_own_subagent_and_keeps_nothing_else_back() {
    let piece = || {
        Script::from_fn(|talk: &Conversation| match talk.step() {
            0 => call("terminal", json!({"command": "echo once"})),
            _ => gate("held").say("the piece is done"),
        })
    };
    for way in ["run", "worker"] {
        let others = Script::from_fn(|talk: &Conversation| say(format!("heard: {}", talk.last_text())));
        let scripts = Scripts::default().agent("piece one", piece()).agent("piece two", piece());
        let server = ScriptedServer::start(scripts.otherwise(others));
        let home = Home::with(&server);
        let (session, ids) = with_a_damaged_journal(&server, &home);
        if way == "run" {
            let ended = home.legwork(&["run", "and?", "--resume", &session, "--json"]).run();
            assert_eq!(ended.json()["answer"], json!("heard: and?"), "{ended}");
        } else {
            let mut worker = home.legwork(&["worker"]).start();
            until("both to have ended", || {
                assert!(!worker.has_ended(), "it ended: {}", worker.stderr());
                let has_ended = |id: &String| {
                    home.legwork(&["results", id, "--json"]).run().json()["complete"] == json!(true)
                };
                ids.iter().all(has_ended).then_some(())
            });
            worker.signal(Signal::SIGTERM);
            worker.wait();
        }
        let [damaged, whole] = ids.map(|id| home.legwork(&["results", &id, "--json"]).run());
        assert_eq!(whole.statuses(), ["completed"], "{way}: {whole}");
        assert_eq!(damaged.statuses(), ["error"], "{way}: {damaged}");
        let error = damaged.results()[0]["error"].as_str().unwrap_or_default().to_owned();
        assert!(error.contains("what an earlier attempt recorded cannot be read"), "{way}: {damaged}");
    }
}
