//! `delegation.retention_days`: what is old goes, and only what was told long ago is old.

use legwork_testkit::server::{Conversation, Script, ScriptedServer, Scripts, say};
use rusqlite::Connection;
use serde_json::json;

use crate::harness::Home;

/// More than the days for which results are kept when nothing is set.
const LONG_AGO_MS: i64 = 40 * 24 * 3600 * 1000;

/// Whatever is stored happened that much earlier: delegations and what their ledgers say.
fn into_the_past(home: &Home) {
    let mut database = Connection::open(home.database()).expect("it opens");
    let change = database.transaction().expect("it begins");
    for column in ["accepted_at", "settled_at"] {
        let sql =
            format!("UPDATE delegations SET {column} = {column} - {LONG_AGO_MS} WHERE {column} IS NOT NULL");
        change.execute(&sql, ()).expect("the column is there");
    }
    let ledgers: Vec<(i64, String)> = {
        let mut all = change.prepare("SELECT no, ledger FROM units").expect("the columns are there");
        let rows = all.query_map((), |row| Ok((row.get(0)?, row.get(1)?))).expect("they are read");
        rows.collect::<Result<_, _>>().expect("they are read")
    };
    for (no, ledger) in ledgers {
        let moved = ledger.lines().map(|line| {
            let mut line: serde_json::Value = serde_json::from_str(line).expect("a line is JSON");
            line["at"] = json!(line["at"].as_i64().expect("a time") - LONG_AGO_MS);
            format!("{line}\n")
        });
        change
            .execute("UPDATE units SET ledger = ?2 WHERE no = ?1", (no, moved.collect::<String>()))
            .expect("it is written");
    }
    change.commit().expect("it is stored");
}

/// Proves DUR-7, REG-8: age counts from when the last of it was told.
#[test]
fn k05_what_is_told_late_is_kept_as_long_as_what_is_told_at_once_and_what_is_untold_for_ever() {
    let scripts = Scripts::default()
        .agent("a piece", Script::new().step(say("the piece is done")))
        .otherwise(Script::from_fn(|talk: &Conversation| say(format!("heard {}", talk.last_text().len()))));
    let server = ScriptedServer::start(scripts);
    let home = Home::with(&server);
    let (session, late) = home.left_piece("a piece for late");
    let (_, untold) = home.left_piece("a piece for nobody yet");
    into_the_past(&home);

    let taken = home.legwork(&["run", "and?", "--resume", &session]).run();
    assert_eq!((taken.code, taken.stderr.matches("◂ ").count()), (0, 1), "{taken}");
    for _ in 0..2 {
        let again = home.legwork(&["results", &late, "--json"]).run();
        assert_eq!((again.code, again.statuses()), (0, vec!["completed".to_owned()]), "{again}");
        let passing = home.legwork(&["run", "something else", "--json"]).run();
        assert_eq!(passing.code, 0, "{passing}");
    }

    into_the_past(&home);
    let passing = home.legwork(&["run", "something else", "--json"]).run();
    assert_eq!(passing.code, 0, "{passing}");
    home.legwork(&["show", &late, "--json"]).run().assert_refused(4, "not_found", &[&late]);
    let kept = home.legwork(&["results", &untold, "--json"]).run();
    assert_eq!((kept.code, kept.statuses()), (0, vec!["completed".to_owned()]), "{kept}");
}
