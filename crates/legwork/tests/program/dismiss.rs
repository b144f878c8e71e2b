//! `legwork dismiss`: undelivered results are given up by name only, with a line in the ledger; everything else is left and it
//! is said why.

use legwork_testkit::server::{Script, ScriptedServer, Scripts, gate, say};
use serde_json::{Value, json};

use crate::harness::{Ended, Home, until};

fn scripts() -> Scripts {
    Scripts::default()
        .agent("held", Script::new().step(gate("held").say("held is done")))
        .agent("long", Script::new().step(say("long ".repeat(100_000))))
        .otherwise(Script::new().step(say("the precious result")))
}

#[track_caller]
fn show(home: &Home, id: &str) -> Value {
    let ended = home.legwork(&["show", id, "--json"]).run();
    assert_eq!(ended.code, 0, "{ended}");
    ended.json()
}

fn dismiss(home: &Home, arguments: &[&str]) -> Ended {
    home.legwork(&[&["dismiss", "--json"], arguments].concat()).run()
}

/// A delegation whose results could not be written out.
#[track_caller]
fn undelivered(home: &Home) -> String {
    let (running, reader) = home.legwork(&["delegate", "--goal", "any"]).start_with_stdout();
    drop(reader);
    assert_eq!(running.wait().code, 1);
    let id = home.only_delegation();
    assert_eq!(show(home, &id)["units"][0]["delivery"], json!("parked"));
    id
}

/// Proves DUR-8, DUR-17.
#[test]
fn k05_results_are_given_up_by_name_and_the_ledger_says_so() {
    let server = ScriptedServer::start(scripts());
    let home = Home::with(&server);
    let id = undelivered(&home);
    let where_it_is = show(&home, &id)["units"][0]["where"].as_str().expect("a sentence").to_owned();
    assert!(
        where_it_is.starts_with("kept since ") && where_it_is.contains(&format!("legwork results {id}")),
        "{where_it_is}"
    );
    let gone = dismiss(&home, &[&id[..12], "--reason", "it was only\na trial"]);
    assert_eq!(gone.code, 0, "{gone}");
    assert_eq!(gone.json(), json!({"delegation_id": id, "dismissed": [id], "left": []}));
    let shown = show(&home, &id);
    let last = shown["ledger"].as_array().and_then(|ledger| ledger.last()).expect("a ledger");
    assert_eq!(
        (&last["state"], &last["reason"]),
        (&json!("dismissed"), &json!("it was only a trial")),
        "{shown}"
    );
    let where_it_is = shown["units"][0]["where"].as_str().expect("a sentence");
    assert!(
        where_it_is.starts_with("given up ") && where_it_is.ends_with(": it was only a trial"),
        "{shown}"
    );
    let again = dismiss(&home, &[&id]);
    assert_eq!((again.code, &again.json()["dismissed"]), (0, &json!([])), "{again}");
    assert_eq!(again.json()["left"][0]["delivery"], json!("dismissed"), "{again}");
    let results = home.legwork(&["results", &id]).run();
    assert!(results.stdout.contains("the precious result"), "it can still be read: {results}");
    let delivery = home.legwork(&["results", &id, "--json"]).run().json()["delivery"].clone();
    assert_eq!(delivery, json!("dismissed"), "and reading does not undo it");
}

#[test]
fn what_has_arrived_is_left_and_said_so() {
    let server = ScriptedServer::start(scripts());
    let home = Home::with(&server);
    home.legwork(&["delegate", "--goal", "any"]).run();
    let id = home.only_delegation();
    let ended = dismiss(&home, &[&id]);
    assert_eq!((ended.code, &ended.json()["dismissed"]), (0, &json!([])), "{ended}");
    assert_eq!(ended.json()["left"][0]["delivery"], json!("delivered"), "{ended}");
    let told = home.legwork(&["dismiss", &id]).run();
    assert!(told.stdout.starts_with(&format!("{id}: left: delivered ")), "{told}");
    let child = show(&home, &id)["children"][0]["subagent_id"].as_str().expect("an id").to_owned();
    dismiss(&home, &[&child]).assert_refused(2, "usage", &[&child, &format!("legwork dismiss {id}")]);
}

#[test]
fn k05_what_still_runs_must_be_stopped_first_and_keeps_what_it_had() {
    let server = ScriptedServer::start(scripts());
    let home = Home::with(&server);
    let running = home.legwork(&["delegate", "--goal", "held"]).start();
    let id = running.delegation();
    server.gate("held").wait_reached();
    let refused = dismiss(&home, &[&id]);
    refused.assert_refused(1, "refused", &["nothing was given up", "at work", &format!("legwork stop {id}")]);
    assert_eq!(show(&home, &id)["units"][0]["delivery"], json!("held"));
    let pid = running.pid();
    running.kill();
    let refused = dismiss(&home, &[&id]);
    refused.assert_refused(1, "refused", &[&pid.to_string(), "has died", &format!("legwork results {id}")]);
}

/// The others of its delegation are at work too, and nobody has named them.
#[test]
fn k05_what_is_advised_for_a_unit_at_work_ends_that_unit_alone() {
    let server = ScriptedServer::start(scripts());
    let home = Home::with(&server);
    let order = home.legwork(&["delegate", "--goal", "held", "--goal", "held too"]);
    let running = order.env("LEGWORK_DELEGATION_INDEPENDENT_COMPLETIONS", "true").start();
    let unit = format!("{}-2", running.delegation());
    server.gate("held").wait_waiting(2);
    let refused = dismiss(&home, &[&unit]);
    let command = format!("legwork stop {unit}");
    refused.assert_refused(1, "refused", &["nothing was given up", &format!("`{command}` ends")]);
    let words: Vec<&str> = command.split(' ').skip(1).collect();
    assert_eq!(home.legwork(&words).run().code, 0);
    server.gate("held").open();
    let ended = running.wait();
    assert!(ended.stdout.contains("held is done") && ended.stdout.contains("interrupted"), "{ended}");
    home.assert_nothing_runs();
}

#[test]
fn k05_results_that_a_process_is_about_to_hand_over_are_left_until_it_is_dead() {
    let server = ScriptedServer::start(scripts());
    let home = Home::with(&server);
    // A pipe that nobody reads is full long before the results are through.
    let (running, reader) = home.legwork(&["delegate", "--goal", "long"]).start_with_stdout();
    let id = running.delegation();
    until("the results to be taken", || {
        (show(&home, &id)["units"][0]["delivery"] == json!("claimed")).then_some(())
    });
    let pid = running.pid().to_string();
    dismiss(&home, &[&id]).assert_refused(1, "refused", &["nothing was given up", &pid, "not confirmed"]);
    running.kill();
    drop(reader);
    let where_it_is = show(&home, &id)["units"][0]["where"].as_str().expect("a sentence").to_owned();
    assert!(where_it_is.contains(&format!("process {pid}, which died")), "{where_it_is}");
    let gone = dismiss(&home, &[&id]);
    assert_eq!((gone.code, &gone.json()["dismissed"]), (0, &json!([id])), "{gone}");
    let ledger = show(&home, &id)["ledger"].clone();
    let states: Vec<&Value> =
        ledger.as_array().expect("a ledger").iter().map(|line| &line["state"]).collect();
    assert_eq!(states, ["held", "ready", "claimed", "ready", "dismissed"]);
}

#[test]
fn nothing_is_given_up_without_its_name() {
    let home = Home::without_model();
    dismiss(&home, &[]).assert_refused(2, "usage", &["<ID>"]);
    dismiss(&home, &["--all"]).assert_refused(2, "usage", &["--all"]);
    dismiss(&home, &["deleg_00000000"]).assert_refused(4, "not_found", &["deleg_00000000"]);
    assert!(!home.state().exists());
    let server = ScriptedServer::start(scripts());
    let home = Home::with(&server);
    let id = undelivered(&home);
    let session = show(&home, &id)["session_id"].as_str().expect("an id").to_owned();
    dismiss(&home, &[&session]).assert_refused(4, "not_found", &["is a session"]);
    dismiss(&home, &[&id, "--reason", "  "]).assert_refused(2, "usage", &["reason is empty"]);
    assert_eq!(show(&home, &id)["units"][0]["delivery"], json!("parked"), "it is all there");
}
