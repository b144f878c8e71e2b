//! One row of the store that cannot be read any more: it costs the work that it belongs to, is named by its id, and stays.
//! Everything else of the folder goes on.

use legwork_testkit::server::{Conversation, Script, ScriptedServer, Scripts, call, gate, say};
use nix::sys::signal::Signal;
use rusqlite::Connection;
use serde_json::{Value, json};

use crate::harness::{Ended, Home, Seen, until};

/// What stands where something else stood. It may be anything that a model or a person said.
const SECRET: &str = "hunter2-was-said-here";

/// One damage each to a delegation whose id is `?1`.
const DAMAGES: [&str; 6] = [
    "UPDATE facts SET body = 'SECRET' WHERE seq = 0 AND delegation = D",
    "UPDATE facts SET body = '{\"accepted\":\"SECRET\"}' WHERE seq = 0 AND delegation = D",
    "UPDATE facts SET body = CAST(x'c328' AS TEXT) WHERE seq = 0 AND delegation = D",
    "UPDATE children SET state = '\"SECRET\"' WHERE delegation = D",
    "UPDATE children SET pulse = 'SECRET', pulse_at = 1 WHERE delegation = D",
    "UPDATE units SET ledger = 'SECRET' WHERE delegation = D",
];

fn change(home: &Home, sql: &str, id: &str) {
    let database = Connection::open(home.database()).expect("it opens");
    let of_it = "(SELECT no FROM delegations WHERE id = ?1)";
    let sql = sql.replace("SECRET", SECRET).replace("= D", &format!("= {of_it}"));
    assert_eq!(database.execute(&sql, (id,)), Ok(1), "{sql}");
}

/// Three pieces of work of one session, each left by a worker that was killed; with the session.
fn left_behind(server: &ScriptedServer, home: &Home) -> (String, [String; 3]) {
    let session = home.conversation();
    let leave = |piece| home.leave_piece(&session, &format!("this is piece {piece} of the work"));
    let ids = ["one", "two", "three"].map(leave);
    server.gate("held").wait_waiting(3);
    home.processes().iter().for_each(Seen::kill);
    home.wait_until_nothing_runs();
    (session, ids)
}

fn pieces() -> ScriptedServer {
    let piece = || Script::from_fn(|_: &Conversation| gate("held").say("the piece is done"));
    let others = Script::from_fn(|talk: &Conversation| say(format!("heard: {}", talk.last_text().len())));
    let scripts = Scripts::default().agent("piece one", piece()).agent("piece two", piece());
    ScriptedServer::start(scripts.agent("piece three", piece()).otherwise(others))
}

fn results(home: &Home, id: &str) -> Ended {
    home.legwork(&["results", id, "--json"]).run()
}

fn is_complete(home: &Home, id: &str) -> bool {
    results(home, id).json()["complete"] == json!(true)
}

/// A worker of the whole folder does the others, and names it once.
fn a_worker_does(home: &Home, ids: [&String; 2], damaged: &str) {
    let mut worker = home.legwork(&["worker"]).start();
    until("the others to have ended", || {
        assert!(!worker.has_ended(), "it ended: {}", worker.stderr());
        ids.iter().all(|id| is_complete(home, id)).then_some(())
    });
    worker.signal(Signal::SIGTERM);
    let ended = worker.wait();
    assert_eq!(ended.code, 143, "{ended}");
    let named: Vec<&str> = ended.stderr.lines().filter(|line| line.contains(damaged)).collect();
    assert!(matches!(named.as_slice(), [line] if line.contains("`legwork doctor`")), "{ended}");
    assert!(!ended.stderr.contains(SECRET), "{ended}");
}

/// Every verb that lists goes on; every verb that is about it says what is the matter.
fn it_is_told(home: &Home, session: &str, damaged: &str) {
    let ps = home.legwork(&["ps", "--json"]).run();
    assert_eq!((ps.code, &ps.json()["unreadable"]), (0, &json!([damaged])), "{ps}");
    assert!(ps.stderr.contains(damaged), "{ps}");
    let text = home.legwork(&["ps", "--all"]).run();
    assert!(text.stdout.contains(&format!("{damaged}  cannot be read")), "{text}");
    for verb in ["show", "results", "stop", "dismiss"] {
        home.legwork(&[verb, damaged, "--json"]).run().assert_refused(
            3,
            "state",
            &[damaged, "legwork doctor"],
        );
    }
    let named = home.legwork(&["worker", "--only", damaged, "--json"]).run();
    named.assert_refused(3, "state", &[damaged]);
    let of_session = home.legwork(&["show", session, "--json"]).run();
    assert_eq!(of_session.json()["unreadable"][0], json!(damaged), "{of_session}");
    let stopped = home.legwork(&["stop", "--all", "--json"]).run();
    assert_eq!((stopped.code, &stopped.json()["unreadable"]), (0, &json!([damaged])), "{stopped}");
    assert!(stopped.stderr.contains(damaged), "{stopped}");
    let deleted = home.legwork(&["sessions", "delete", session, "--yes", "--json"]).run();
    deleted.assert_refused(1, "refused", &["nothing was deleted"]);
    let doctor = home.legwork(&["doctor", "--json"]).run();
    assert_eq!(doctor.code, 1, "{doctor}");
    let checks = doctor.json()["checks"].as_array().expect("a list").clone();
    let of = |name: &str| -> Vec<Value> {
        checks.iter().filter(|check| check["name"] == json!(name)).cloned().collect()
    };
    assert_eq!(of("store")[0]["fault"], json!("damaged"), "{doctor}");
    assert!(of("store")[0]["detail"].to_string().contains(damaged), "{doctor}");
    assert!(of("work").iter().any(|check| check["detail"].to_string().contains(damaged)), "{doctor}");
    for told in [ps, text, of_session, stopped, doctor] {
        assert!(!format!("{told}").contains(SECRET), "{told}");
    }
}

/// Proves K35.
#[test]
fn k35_one_delegation_that_cannot_be_read_stops_no_worker_and_no_list() {
    for damage in DAMAGES {
        let server = pieces();
        let home = Home::with(&server);
        let (session, [one, damaged, three]) = left_behind(&server, &home);
        change(&home, damage, &damaged);
        server.gate("held").open();
        a_worker_does(&home, [&one, &three], &damaged);
        it_is_told(&home, &session, &damaged);
        for id in [&one, &three] {
            assert_eq!(results(&home, id).statuses(), ["completed"], "{damage}");
        }
        let ended = home.legwork(&["run", "and?", "--resume", &session, "--json"]).run();
        assert_eq!(ended.code, 0, "{damage}: {ended}");
        let all = home.legwork(&["ps", "--all", "--json"]).run().json();
        assert_eq!(all["unreadable"], json!([damaged]), "it is still there");
        let deliveries = all["delegations"].as_array().expect("a list").iter();
        let delivered = deliveries.filter(|one| one["units"][0]["delivery"] == json!("delivered")).count();
        assert_eq!(delivered, 2, "{damage}: {all}");
    }
}

/// A steer and a stop of everything; each was stored for work whose process is dead.
/// Proves K35.
#[test]
fn k35_a_request_that_cannot_be_read_leaves_no_work_in_the_hands_of_a_process_that_does_nothing() {
    for way in ["worker", "run"] {
        let server = pieces();
        let home = Home::with(&server);
        let (session, ids) = left_behind(&server, &home);
        let said = |text: &str| {
            let said = home.legwork(&["steer", &ids[0], text, "--json"]).run();
            said.json()["receipt"].as_str().unwrap_or_else(|| panic!("{said}")).to_owned()
        };
        let [damaged, whole] = [said("lost"), said("be quick about it")];
        change(&home, "UPDATE requests SET body = 'SECRET' WHERE id = ?1", &damaged);
        let shown = home.legwork(&["show", &ids[0], "--json"]).run();
        let steers = shown.json()["steers"].as_array().expect("a list").clone();
        let fates: Vec<&Value> = steers.iter().map(|steer| &steer["fate"]).collect();
        assert_eq!(fates, ["queued", "unreadable"], "{shown}");
        let doctor = home.legwork(&["doctor", "--json"]).run();
        assert!(doctor.code == 1 && doctor.stdout.contains(&damaged), "{doctor}");
        assert!(!format!("{doctor}{shown}").contains(SECRET), "{doctor}");
        server.gate("held").open();
        if way == "run" {
            let ended = home.legwork(&["run", "and?", "--resume", &session, "--json"]).run();
            assert_eq!(ended.code, 0, "{ended}");
        } else {
            let mut worker = home.legwork(&["worker"]).start();
            until("all to have ended", || {
                assert!(!worker.has_ended(), "it ended: {}", worker.stderr());
                ids.iter().all(|id| is_complete(&home, id)).then_some(())
            });
            worker.signal(Signal::SIGTERM);
            let ended = worker.wait();
            assert!(ended.stderr.contains(&damaged), "{ended}");
        }
        for id in &ids {
            assert_eq!(results(&home, id).statuses(), ["completed"], "{way}");
        }
        let shown = home.legwork(&["show", &ids[0], "--json"]).run().json();
        let fate =
            shown["steers"].as_array().expect("a list").iter().find(|one| one["receipt"] == json!(whole));
        assert_eq!(fate.map(|one| &one["fate"]), Some(&json!("seen")), "{way}: {shown}");
    }
}

/// Of a child and of a conversation, without what stands there.
/// Proves K35.
#[test]
fn k35_doctor_names_journals_and_conversations_that_cannot_be_read() {
    let server = pieces();
    let home = Home::with(&server);
    let (session, ids) = left_behind(&server, &home);
    let before = home.legwork(&["doctor", "--json"]).run();
    assert_eq!(before.code, 0, "{before}");
    let shown = home.legwork(&["show", &ids[1], "--json"]).run().json();
    let child = shown["children"][0]["subagent_id"].as_str().expect("an id").to_owned();
    change(
        &home,
        "UPDATE steps SET body = 'SECRET' WHERE seq = 0 AND phase = 0 AND actor = (SELECT no FROM children WHERE id = ?1)",
        &child,
    );
    change(
        &home,
        "UPDATE messages SET body = '\"SECRET\"' WHERE seq = 0 AND session = (SELECT no FROM sessions WHERE id = ?1)",
        &session,
    );
    let doctor = home.legwork(&["doctor", "--json"]).run();
    assert_eq!(doctor.code, 1, "{doctor}");
    let checks = doctor.json()["checks"].as_array().expect("a list").clone();
    for (name, id) in [("journals", &child), ("conversations", &session)] {
        let check = checks.iter().find(|check| check["name"] == json!(name));
        let check = check.unwrap_or_else(|| panic!("no {name}: {doctor}"));
        assert_eq!((&check["state"], &check["fault"]), (&json!("wrong"), &json!("damaged")), "{doctor}");
        assert!(check["detail"].to_string().contains(id.as_str()) && check["fix"].is_string(), "{doctor}");
    }
    let shown = home.legwork(&["show", &child, "--json"]).run();
    assert!(shown.code == 0 && shown.json()["steps_unreadable"].is_string(), "{shown}");
    let opened = home.legwork(&["run", "and?", "--resume", &session, "--json"]).run();
    opened.assert_refused(3, "state", &[&session, "legwork doctor"]);
    for told in [doctor, shown, opened] {
        assert!(!format!("{told}").contains(SECRET), "{told}");
    }
}

/// What is damaged of an earlier turn is none of what a later prompt delegates.
/// Proves K35.
#[test]
fn k35_what_is_damaged_of_an_earlier_turn_does_not_spoil_a_later_prompt() {
    let prompt = Script::from_fn(|talk: &Conversation| match talk.last_text().contains("please delegate") {
        true => call("delegate_task", json!({"goal": "this is piece one of the work"})),
        false => say("noted"),
    });
    let piece = Script::from_fn(|_: &Conversation| say("the piece is done"));
    let server = ScriptedServer::start(Scripts::default().agent("piece one", piece).otherwise(prompt));
    let home = Home::with(&server);
    let first = home.legwork(&["run", "please delegate", "--json"]).run();
    assert_eq!(first.code, 0, "{first}");
    let damaged = first.json()["delegations"][0]["delegation_id"].as_str().expect("an id").to_owned();
    change(&home, DAMAGES[0], &damaged);
    let second = home.legwork(&["run", "please delegate", "--last", "--json"]).run();
    assert_eq!((second.code, &second.json()["answer"]), (0, &json!("noted")), "{second}");
    assert_eq!(second.json()["delegations"].as_array().map(Vec::len), Some(1), "{second}");
    assert!(!second.stderr.contains("is not counted"), "{second}");
}

/// The stop is stored for whoever runs it: that process needs none of the rows.
/// Proves K35.
#[test]
fn k35_k12_a_stop_of_everything_reaches_work_that_cannot_be_read() {
    let child = Script::new().step(call("terminal", json!({"command": "sleep 997"}))).step(say("done"));
    let server = ScriptedServer::start(Scripts::default().otherwise(child));
    let home = Home::with(&server);
    let running = home.legwork(&["delegate", "--goal", "any"]).start();
    let id = running.delegation();
    home.wait_for_processes("sleep 997", 1);
    change(&home, DAMAGES[0], &id);
    let stopped = home.legwork(&["stop", "--all"]).run();
    assert_eq!(stopped.code, 0, "{stopped}");
    assert!(stopped.stdout.contains(&id) && !stopped.stdout.contains("nothing was running"), "{stopped}");
    until("its command to be ended", || home.commands().is_empty().then_some(()));
    running.kill();
}

/// It is said once, the result stays, and the others go on.
/// Proves K35.
#[test]
fn k35_a_session_that_cannot_be_read_ends_no_worker() {
    let server = pieces();
    let home = Home::with(&server);
    let (session, ids) = left_behind(&server, &home);
    let mut worker = home.legwork(&["worker"]).start();
    until("the worker to ask for each", || (server.log().entries().len() == 7).then_some(()));
    change(&home, "UPDATE sessions SET kind = 'SECRET' WHERE id = ?1", &session);
    server.gate("held").open();
    until("the results to have been left", || {
        assert!(!worker.has_ended(), "it ended: {}", worker.stderr());
        let told = worker.stderr();
        ids.iter().all(|id| worker_told(&told, &session, id) == 1).then_some(())
    });
    worker.signal(Signal::SIGTERM);
    let ended = worker.wait();
    assert_eq!(ended.code, 143, "{ended}");
    for id in &ids {
        assert_eq!(worker_told(&ended.stderr, &session, id), 1, "{ended}");
    }
    assert!(!ended.stderr.contains(SECRET), "{ended}");
}

/// How many lines say that the results of that delegation stay where they are.
fn worker_told(stderr: &str, session: &str, id: &str) -> usize {
    let told = format!("the session {session} cannot be read, so that the results of {id} stay");
    stderr.lines().filter(|line| line.contains(&told)).count()
}

/// It is named wherever sessions are listed, the others are found by the beginning of their ids and by their names, and it can be
/// deleted, once nothing of it is at work.
/// Proves K35.
#[test]
fn k35_one_session_that_cannot_be_read_stops_no_list_and_can_be_deleted() {
    let server = pieces();
    let home = Home::with(&server);
    let (damaged, ids) = left_behind(&server, &home);
    let other = home.legwork(&["run", "hello again", "--json"]).run();
    let other = other.json()["session_id"].as_str().expect("an id").to_owned();
    change(&home, "UPDATE sessions SET kind = 'SECRET' WHERE id = ?1", &damaged);
    let listed = home.legwork(&["sessions", "list", "--json"]).run();
    assert_eq!((listed.code, &listed.json()["unreadable"]), (0, &json!([damaged])), "{listed}");
    assert_eq!(listed.json()["sessions"][0]["session_id"], json!(other), "{listed}");
    assert!(listed.stderr.contains(&damaged) && listed.stderr.contains("legwork doctor"), "{listed}");
    let text = home.legwork(&["sessions"]).run();
    assert!(text.stdout.contains(&format!("{damaged}  cannot be read")), "{text}");
    let begun = &other[..other.len() - 1];
    let shown = home.legwork(&["sessions", "show", begun, "--json"]).run();
    assert_eq!((shown.code, &shown.json()["session_id"]), (0, &json!(other)), "{shown}");
    let nobodys = home.legwork(&["sessions", "show", "no-such-name", "--json"]).run();
    nobodys.assert_refused(4, "not_found", &["cannot be read"]);
    let last = home.legwork(&["run", "and?", "--last", "--json"]).run();
    assert_eq!((last.code, &last.json()["session_id"]), (0, &json!(other)), "{last}");
    assert!(last.stderr.contains(&damaged), "it may be what was meant: {last}");
    let opened = home.legwork(&["run", "and?", "--resume", &damaged, "--json"]).run();
    opened.assert_refused(3, "state", &[&damaged, "legwork doctor"]);
    let delete = || home.legwork(&["sessions", "delete", &damaged, "--yes", "--json"]).run();
    delete().assert_refused(1, "refused", &["not finished", "nothing was deleted"]);
    let stopped = home.legwork(&["stop", "--session", &damaged]).run();
    assert_eq!(stopped.code, 0, "{stopped}");
    delete().assert_refused(1, "refused", &["have not arrived", "nothing was deleted"]);
    for id in &ids {
        let printed = results(&home, id);
        assert_eq!(printed.statuses(), ["interrupted"], "{printed}");
        let found = home.legwork(&["show", id]).run();
        assert!(found.stdout.contains(&format!("the session {damaged} cannot be read")), "{found}");
        assert_eq!(home.legwork(&["dismiss", id]).run().code, 0, "printing it delivers nothing");
    }
    let doctor = home.legwork(&["doctor", "--json"]).run();
    assert!(doctor.code == 1 && doctor.stdout.contains(&format!("sessions delete {damaged}")), "{doctor}");
    let deleted = delete();
    assert_eq!((deleted.code, &deleted.json()["session_id"]), (0, &json!(damaged)), "{deleted}");
    let doctor = home.legwork(&["doctor", "--json"]).run();
    assert_eq!(doctor.code, 0, "{doctor}");
    for told in [listed, text, last, opened, stopped, deleted] {
        assert!(!format!("{told}").contains(SECRET), "{told}");
    }
}

/// What stands of a process says who has a session open. Where it cannot be read, that alone is lost.
/// Proves K35.
#[test]
fn k35_a_holder_that_cannot_be_read_costs_no_session() {
    let script = Script::from_fn(|talk: &Conversation| match talk.last_text() {
        prompt @ ("one" | "two") => gate(prompt).say("never said"),
        _ => say("noted"),
    });
    let server = ScriptedServer::start(Scripts::default().otherwise(script));
    let home = Home::with(&server);
    let damaged = |prompt: &str| {
        let running = home.legwork(&["run", prompt]).start();
        server.gate(prompt).wait_waiting(1);
        running.kill();
        let listed = home.legwork(&["sessions", "list", "--json"]).run().json();
        let session = listed["sessions"][0]["session_id"].as_str().expect("an id").to_owned();
        let damage = "UPDATE owners SET boot_id = CAST(x'c328' AS TEXT) WHERE id = (SELECT holder FROM sessions WHERE id = ?1)";
        change(&home, damage, &session);
        session
    };
    let deleted = damaged("one");
    let listed = home.legwork(&["sessions", "list", "--json"]).run().json();
    assert_eq!(listed["unreadable"], json!([]), "{listed}");
    let gone = home.legwork(&["sessions", "delete", &deleted, "--yes", "--json"]).run();
    assert_eq!((gone.code, &gone.json()["session_id"]), (0, &json!(deleted)), "{gone}");
    home.legwork(&["sessions", "show", &deleted, "--json"]).run().assert_refused(4, "not_found", &[&deleted]);
    let goes_on = damaged("two");
    server.gate("two").open();
    let answered = home.legwork(&["run", "and?", "--resume", &goes_on, "--json"]).run();
    assert_eq!((answered.code, &answered.json()["answer"]), (0, &json!("noted")), "{answered}");
}
