//! `delegate --detach`: a handle at once, and work that goes on without a terminal until it is done.

use legwork_testkit::server::{Conversation, Script, ScriptedServer, Scripts, gate, say};
use serde_json::json;

use crate::harness::{Home, until};

/// Proves OUT-3, OUT-5, OUT-6.
#[test]
fn k33_detached_work_goes_on_after_its_program_has_ended() {
    let scripts =
        Scripts::default().otherwise(Script::from_fn(|_: &Conversation| gate("here").say("it is done")));
    let server = ScriptedServer::start(scripts);
    let home = Home::with(&server);
    let handle = home.legwork(&["delegate", "--goal", "one", "--goal", "two", "--detach", "--json"]).run();
    assert_eq!(handle.code, 0, "{handle}");
    let document = handle.json();
    assert_eq!(
        (&document["status"], &document["mode"], &document["count"]),
        (&json!("dispatched"), &json!("background"), &json!(2))
    );
    assert_eq!(document["goals"], json!(["one", "two"]));
    assert_eq!(document["live_transcripts"].as_array().map(Vec::len), Some(2), "{handle}");
    let id = document["delegation_id"].as_str().expect("an id").to_owned();
    server.gate("here").wait_waiting(2);
    let worker = until("the worker to be seen", || {
        home.processes().into_iter().find(|seen| seen.command.contains("worker"))
    });
    assert!(worker.command.contains(&id), "{worker:?}");
    server.gate("here").open();
    let ended = home.legwork(&["results", &id, "--wait", "--json"]).run();
    assert_eq!(ended.statuses(), ["completed", "completed"], "{ended}");
    until("the worker to end", || home.processes().is_empty().then_some(()));
    let shown = home.legwork(&["show", &id, "--json"]).run().json();
    let ledger = shown["ledger"].as_array().expect("a ledger").clone();
    assert!(
        ledger.iter().any(|line| line["reason"] == "no conversation" || line["state"] == "delivered"),
        "{ledger:?}"
    );
    home.legwork(&["results", &id]).run();
    let shown = home.legwork(&["show", &id, "--json"]).run().json();
    assert_eq!(shown["units"][0]["delivery"], json!("delivered"), "{}", shown["ledger"]);
    assert_eq!(server.log().entries().len(), 2, "{}", server.log().summary());
}

#[test]
fn k01_detached_work_of_a_conversation_comes_to_it_and_to_nobody_else() {
    let scripts = Scripts::default()
        .agent("the piece", Script::new().step(say("the piece is done")))
        .otherwise(Script::from_fn(|talk: &Conversation| {
            say(format!("{}", talk.last_text().contains("the piece is done")))
        }));
    let server = ScriptedServer::start(scripts);
    let home = Home::with(&server);
    let first = home.legwork(&["run", "hello", "--json"]).run();
    let session = first.json()["session_id"].as_str().expect("an id").to_owned();
    let left =
        home.legwork(&["delegate", "--goal", "this is the piece", "--detach", "--session", &session]).run();
    assert_eq!(left.code, 0, "{left}");
    until("the work to end", || home.processes().is_empty().then_some(()));
    let ended = home.legwork(&["run", "and?", "--resume", &session]).run();
    assert_eq!(ended.code, 0, "{ended}");
    assert_eq!(ended.stderr.matches("◂ ").count(), 1, "{ended}");
    let alone = home.legwork(&["delegate", "--goal", "x", "--session", &session, "--json"]).run();
    alone.assert_refused(2, "usage", &["--detach"]);
}
