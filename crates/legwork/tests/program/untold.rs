//! Results that the turn which waited for them did not get: a prompt, or lines from a script, is no success as long as they were
//! not told.

use legwork_testkit::server::{Conversation, Script, ScriptedServer, Scripts, call, say};
use rusqlite::Connection;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::harness::Home;

/// From now on the rows of a delegation cannot be read once it has settled: nothing is wrong with what it brought.
fn damaged_when_it_settles(database: &Path) {
    let damage = "CREATE TRIGGER damage AFTER UPDATE OF state ON units WHEN NEW.state = 'ready' BEGIN
        UPDATE facts SET body = 'x' || body WHERE delegation = NEW.delegation AND seq = 0; END";
    Connection::open(database).expect("it opens").execute_batch(damage).expect("it is made");
}

/// Somebody has repaired them.
fn repaired(database: &Path) {
    let database = Connection::open(database).expect("it opens");
    database.busy_timeout(Duration::from_secs(60)).expect("it waits");
    let repair = "BEGIN IMMEDIATE; DROP TRIGGER damage;
        UPDATE facts SET body = substr(body, 2) WHERE seq = 0 AND body LIKE 'x%'; COMMIT";
    database.execute_batch(repair).expect("they are repaired");
}

/// A home in which the results of the first call cannot be read when they are waited for, and can as soon as the agent was told
/// so. It answers all the same.
fn home_of_a_hasty_agent() -> (ScriptedServer, Home) {
    let place = Arc::new(OnceLock::<PathBuf>::new());
    let database = Arc::clone(&place);
    let main = Script::from_fn(move |talk: &Conversation| match talk.step() {
        0 => call("delegate_task", json!({"tasks": [{"goal": "a piece"}]})),
        1 => {
            repaired(database.get().expect("the home is there"));
            say(format!("without them: {}", talk.last_text()))
        }
        _ => say(format!("with them: {}", talk.last_text())),
    });
    let scripts = Scripts::default()
        .agent("the prompt", main)
        .agent("a piece", Script::always(say("the piece is done")))
        .otherwise(Script::always(say("hello")));
    let server = ScriptedServer::start(scripts);
    let home = Home::with(&server);
    let first = home.legwork(&["run", "good day"]).run();
    assert_eq!(first.code, 0, "{first}");
    damaged_when_it_settles(&home.database());
    place.set(home.database()).expect("it is set once");
    (server, home)
}

fn deliveries(home: &Home) -> Vec<String> {
    let database = Connection::open(home.database()).expect("it opens");
    let mut units = database.prepare("SELECT state FROM units").expect("there are units");
    let rows = units.query_map((), |row| row.get(0)).expect("they are read");
    rows.collect::<Result<_, _>>().expect("they are read")
}

#[test]
fn k04_inv_04_a_prompt_is_answered_with_the_results_that_its_turn_did_not_get() {
    let (_server, home) = home_of_a_hasty_agent();
    let ended = home.legwork(&["run", "this is the prompt", "--json"]).run();
    assert_eq!(deliveries(&home), ["delivered"], "{ended}");
    assert_eq!(ended.code, 0, "{ended}");
    let answer = ended.json()["answer"].as_str().expect("an answer").to_owned();
    assert!(answer.contains("with them") && answer.contains("the piece is done"), "{ended}");
}

/// Its agent was told not to send it out once more, and has not.
#[test]
fn k04_inv_04_lines_are_no_success_when_results_were_not_told_and_the_next_line_brings_them() {
    let (server, home) = home_of_a_hasty_agent();
    let ended = home.legwork(&["chat"]).stdin("this is the prompt\n").run();
    assert_eq!(ended.code, 1, "{ended}");
    assert!(ended.stdout.contains("do not delegate it again"), "{ended}");
    assert!(ended.stderr.contains("were not told to the agent"), "{ended}");
    assert_eq!(deliveries(&home), ["ready"], "{ended}");
    let again = home.legwork(&["chat", "--resume"]).stdin("and?\n").run();
    assert_eq!(again.code, 0, "{again}");
    assert!(again.stdout.contains("with them"), "{again}");
    assert_eq!(deliveries(&home), ["delivered"], "{again}");
    assert!(server.log().violations().is_empty());
}

/// What somebody else has sent out for the conversation is not the work of the one who asks in it.
#[test]
fn k04_what_was_left_to_a_worker_makes_no_prompt_and_no_line_a_failure() {
    let server = ScriptedServer::start(Scripts::default().otherwise(Script::always(say("it is done"))));
    let home = Home::with(&server);
    let first = home.legwork(&["run", "good day", "--json"]).run();
    let session = first.json()["session_id"].as_str().expect("an id").to_owned();
    let left = home.legwork(&["delegate", "--goal", "a piece", "--detach", "--session", &session]).run();
    assert_eq!(left.code, 0, "{left}");
    home.wait_until_nothing_runs();
    let silent = home.legwork(&["chat", "--resume", &session]).run();
    assert_eq!(silent.code, 0, "{silent}");
    let ended = home.legwork(&["run", "and now?", "--resume", &session]).run();
    assert_eq!((ended.code, ended.stdout.as_str()), (0, "it is done\n"), "{ended}");
}
