//! A wall clock that was turned between two starts of the program: what took how long and what came last does not follow it
//! (K10).

use legwork_testkit::server::{Conversation, Script, ScriptedServer, Scripts, call, gate, say};
use rusqlite::Connection;
use serde_json::{Value, json};

use crate::harness::{Home, until};

const DAY_MS: i64 = 24 * 3600 * 1000;
/// Longer than anything here takes, and much shorter than a day.
const AN_HOUR: f64 = 3600.0;

/// Moves every stored time, as if the clock had been turned back by so much since.
fn moved(home: &Home, milliseconds: i64) {
    let database = Connection::open(home.database()).expect("it opens");
    for (table, column) in [
        ("owners", "entered_at"),
        ("owners", "renewed_at"),
        ("delegations", "accepted_at"),
        ("delegations", "settled_at"),
        ("facts", "at"),
        ("children", "started_at"),
        ("children", "ended_at"),
        ("children", "pulse_at"),
        ("steps", "at"),
        ("messages", "at"),
        ("sessions", "created_at"),
        ("sessions", "touched_at"),
    ] {
        let sql =
            format!("UPDATE {table} SET {column} = {column} + {milliseconds} WHERE {column} IS NOT NULL");
        database.execute(&sql, ()).expect("the column is there");
    }
}

fn script() -> Script {
    Script::from_fn(|talk: &Conversation| match talk.step() {
        0 => call("terminal", json!({"command": "sleep 1.5"})),
        1 => gate("here").then(say("the answer")),
        _ => say("the answer"),
    })
}

#[track_caller]
fn is_short(value: &Value, least: f64) {
    let seconds = value.as_f64().unwrap_or_else(|| panic!("a number: {value}"));
    assert!((least..AN_HOUR).contains(&seconds), "{seconds}");
}

/// The first child of the only delegation that `ps` lists.
fn child(home: &Home) -> Value {
    home.ps()[0]["units"][0]["children"][0].clone()
}

/// How long a child was worked on by its stored pulse, which is all that a killed process leaves of it.
fn stored_ms(home: &Home) -> Option<i64> {
    let database = Connection::open(home.database()).expect("it opens");
    let sql = "SELECT max(pulse ->> '$.reading.spans.worked_ms') FROM children";
    database.query_row(sql, (), |row| row.get(0)).expect("it reads")
}

/// Proves RECOV-9.
#[test]
fn k10_work_that_goes_on_on_another_day_took_as_long_as_it_was_worked_on() {
    for moved_by in [-40 * DAY_MS, DAY_MS, -DAY_MS, 3650 * DAY_MS] {
        let server = ScriptedServer::start(Scripts::default().agent("work", script()));
        let home = Home::with(&server);
        let running = home
            .legwork(&["delegate", "--goal", "work", "--goal", "to be stopped"])
            .set("max_concurrent_children", 1)
            .start();
        let id = running.delegation();
        server.gate("here").wait_reached();
        // Seen from another process while it runs, and from any once it is dead.
        let seen = until("its time to be stored", || {
            let seen = child(&home);
            (seen["elapsed_seconds"].as_f64() > Some(1.4)).then_some(seen)
        });
        is_short(&seen["quiet_seconds"], 0.0);
        until("enough of it to be stored", || (stored_ms(&home) >= Some(500)).then_some(()));
        moved(&home, moved_by);
        let seen = child(&home);
        assert_eq!(seen["state"], json!("running"), "{seen}");
        is_short(&seen["elapsed_seconds"], 1.4);
        is_short(&seen["quiet_seconds"], 0.0);
        running.kill();
        let seen = child(&home);
        assert_eq!(seen["state"], json!("orphaned"), "{seen}");
        // As far as that was stored.
        is_short(&seen["elapsed_seconds"], 0.5);
        is_short(&seen["quiet_seconds"], 0.0);
        server.gate("here").open();
        let ended = home.legwork(&["results", &id, "--wait", "--json"]).run();
        assert_eq!(ended.statuses(), ["completed", "completed"], "{ended}");
        is_short(&ended.results()[0]["duration_seconds"], 0.5);
        is_short(&ended.json()["total_duration_seconds"], 0.5);
        let again = home.legwork(&["results", &id, "--json"]).run();
        moved(&home, DAY_MS);
        let later = home.legwork(&["results", &id, "--json"]).run();
        assert_eq!(later.results(), again.results(), "it is fixed when it has ended");
    }
}

/// The conversation in which something was said last, whatever the clock said then.
#[test]
fn k10_the_newest_conversation_is_the_one_that_spoke_last() {
    for moved_by in [DAY_MS, 3650 * DAY_MS, -DAY_MS] {
        let server = ScriptedServer::start(Scripts::default());
        let home = Home::with(&server);
        for prompt in ["the first", "the second", "the third"] {
            assert_eq!(home.legwork(&["run", prompt]).run().code, 0);
        }
        // The clock is put right, and one of the older conversations goes on.
        moved(&home, moved_by);
        let sessions = |home: &Home| -> Vec<Value> {
            let listed = home.legwork(&["sessions", "list", "--json"]).run();
            listed.json()["sessions"].as_array().expect("sessions").clone()
        };
        let second = sessions(&home)[1]["session_id"].as_str().expect("an id").to_owned();
        assert_eq!(home.legwork(&["run", "go on", "--resume", &second]).run().code, 0);
        assert_eq!(sessions(&home)[0]["session_id"], json!(second));
        assert_eq!(home.legwork(&["run", "and on", "--last"]).run().code, 0);
        let log = server.log();
        let asked = log.entries().last().expect("a request").body["messages"].to_string();
        assert!(asked.contains("the second") && asked.contains("and on"), "{asked}");
    }
}
