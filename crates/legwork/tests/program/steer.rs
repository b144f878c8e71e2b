//! `legwork steer`: a message to a running child of another process becomes part of its next request, or comes back as
//! missed, and its receipt tells which.

use legwork_testkit::server::{Conversation, Script, ScriptedServer, Scripts, call, gate, say};
use serde_json::{Value, json};

use crate::harness::{Ended, Home, Running, tasks_toml};

const WORDS: &str = "look at the tests too, not only at the code";

/// Works until it hears `WORDS`: each step is a request of its own, so that there always is a next one.
fn until_told(talk: &Conversation) -> legwork_testkit::server::Reply {
    let told = talk.messages.iter().any(|message| message.text.contains(WORDS));
    match (talk.step(), told) {
        (0, _) => gate("held").call("terminal", json!({"command": "echo one step"})),
        (_, false) => call("terminal", json!({"command": "echo one more step"})),
        (_, true) => say("I looked at the tests"),
    }
}

fn scripts() -> Scripts {
    Scripts::default()
        .agent("steered", Script::from_fn(until_told))
        .agent("held", Script::new().step(gate("held").say("held is done")).step(say("I heard it in time")))
}

/// Tasks with these goals that run in another process; the delegation and its children.
#[track_caller]
fn under_way(server: &ScriptedServer, home: &Home, goals: &[&str]) -> (Running, String, Vec<String>) {
    home.write("tasks.toml", tasks_toml(goals));
    let running = home.legwork(&["delegate", "tasks.toml", "--json"]).set("max_iterations", 100).start();
    server.gate("held").wait_waiting(goals.len());
    let id = home.wait_for_states(&vec!["running"; goals.len()]);
    let shown = show(home, &id);
    let children = shown["children"].as_array().expect("children").iter();
    let ids = children.map(|child| child["subagent_id"].as_str().expect("an id").to_owned()).collect();
    (running, id, ids)
}

#[track_caller]
fn show(home: &Home, id: &str) -> Value {
    let ended = home.legwork(&["show", id, "--json"]).run();
    assert_eq!(ended.code, 0, "{ended}");
    ended.json()
}

fn steer(home: &Home, arguments: &[&str]) -> Ended {
    home.legwork(&[&["steer", "--json"], arguments].concat()).run()
}

/// The receipt of a steer that was taken.
#[track_caller]
fn receipt(ended: &Ended, child: &str) -> String {
    assert_eq!((ended.code, ended.stderr.as_str()), (0, ""), "{ended}");
    let answer = ended.json();
    assert_eq!((&answer["subagent_id"], &answer["status"]), (&json!(child), &json!("queued")), "{ended}");
    let receipt = answer["receipt"].as_str().expect("a receipt").to_owned();
    assert!(receipt.starts_with("req_"), "{ended}");
    receipt
}

#[test]
fn k38_a_message_from_another_process_is_in_the_childs_next_request_once_and_show_says_when() {
    let server = ScriptedServer::start(scripts());
    let home = Home::with(&server);
    let (running, id, children) = under_way(&server, &home, &["steered by somebody"]);
    let child = &children[0];
    let receipt = receipt(&steer(&home, &[child, WORDS]), child);
    let queued = show(&home, child);
    assert_eq!(queued["steers"].as_array().map(Vec::len), Some(1), "{queued}");
    let steer = &queued["steers"][0];
    assert_eq!(
        (&steer["receipt"], &steer["fate"], &steer["text"], &steer["seen_at_step"]),
        (&json!(receipt), &json!("queued"), &json!(WORDS), &Value::Null),
        "{queued}"
    );
    server.gate("held").open();
    let ended = running.wait();
    assert_eq!((ended.code, &ended.results()[0]["summary"]), (0, &json!("I looked at the tests")), "{ended}");
    let log = server.log();
    let asked: Vec<usize> =
        log.of("steered").iter().map(|entry| entry.body.to_string().matches(WORDS).count()).collect();
    assert_eq!((asked[0], asked.last()), (0, Some(&1)), "{asked:?}");
    assert!(log.violations().is_empty(), "{}", log.summary());
    let shown = show(&home, child);
    let steer = &shown["steers"][0];
    assert_eq!((&steer["receipt"], &steer["fate"]), (&json!(receipt), &json!("seen")), "{shown}");
    let step = steer["seen_at_step"].as_u64().expect("a step");
    let steps = shown["steps"].as_array().expect("steps");
    let taken = steps.iter().find(|taken| taken["seq"] == json!(step)).expect("the step is in the journal");
    assert_eq!(taken["action"], json!("steer"), "{shown}");
    assert_eq!(show(&home, &id)["steers"], shown["steers"], "the delegation shows them too");
    let text = home.legwork(&["show", child]).run();
    for part in [receipt.as_str(), "fate: seen", &format!("seen_at_step: {step}"), WORDS] {
        assert!(text.stdout.contains(part), "{part:?}: {text}");
    }
}

#[test]
fn ctrl_10_a_message_to_a_child_that_is_about_to_end_is_read_or_comes_back_as_missed() {
    let server = ScriptedServer::start(scripts());
    let home = Home::with(&server);
    let (running, _, children) = under_way(&server, &home, &["held to its end"]);
    let receipt = receipt(&steer(&home, &[&children[0], WORDS]), &children[0]);
    server.gate("held").open();
    assert_eq!(running.wait().code, 0);
    let shown = show(&home, &children[0]);
    let steer = &shown["steers"][0];
    assert_eq!(steer["receipt"], json!(receipt), "{shown}");
    let heard = server.log().of("held").iter().any(|entry| entry.body.to_string().contains(WORDS));
    let fate = if heard { "seen" } else { "missed" };
    assert_eq!(steer["fate"], json!(fate), "the receipt agrees with what the model was sent: {shown}");
    assert_eq!(steer["text"], json!(WORDS), "the text comes back");
}

/// Proves CTRL-11.
#[test]
fn ctrl_11_a_message_that_a_stopped_child_did_not_read_comes_back_with_the_results() {
    let server = ScriptedServer::start(scripts());
    let home = Home::with(&server);
    let (running, id, children) = under_way(&server, &home, &["held until it is stopped"]);
    receipt(&steer(&home, &[&children[0], WORDS]), &children[0]);
    assert_eq!(home.legwork(&["stop", &children[0]]).run().code, 0);
    let ended = running.wait();
    let shown = home.legwork(&["results", &id, "--json"]).run();
    for printed in [&ended, &shown] {
        let entry = &printed.results()[0];
        assert_eq!((&entry["status"], &entry["missed_steer"]), (&json!("interrupted"), &json!(WORDS)));
        assert!(entry["error"].as_str().is_some_and(|error| error.contains(WORDS)), "{printed}");
    }
}

#[test]
fn a_delegation_stands_for_its_only_child_at_work() {
    let server = ScriptedServer::start(scripts());
    let home = Home::with(&server);
    let (running, id, children) = under_way(&server, &home, &["steered one", "held two"]);
    let several = steer(&home, &[&id, WORDS]);
    several.assert_refused(2, "usage", &["2 subagents", &children[0], &children[1], "held two", "name one"]);
    assert_eq!(show(&home, &id)["steers"], json!([]), "nobody was told anything");
    assert_eq!(home.legwork(&["stop", &children[1]]).run().code, 0);
    let taken = home.legwork(&["steer", &id[..10], "-", "--json"]).stdin(format!("{WORDS}\n")).run();
    receipt(&taken, &children[0]);
    assert_eq!(show(&home, &children[0])["steers"][0]["text"], json!(WORDS), "without its line end");
    server.gate("held").open();
    running.wait();
    let finished = steer(&home, &[&id, WORDS]);
    finished.assert_refused(1, "refused", &["have ended", "legwork results"]);
    let finished = steer(&home, &[&children[0], WORDS]);
    finished.assert_refused(1, "refused", &[&children[0], "has ended", "nothing was said"]);
    assert_eq!(show(&home, &children[0])["steers"].as_array().map(Vec::len), Some(1));
}

#[test]
fn k38_what_cannot_be_said_or_heard_is_refused() {
    let home = Home::without_model();
    steer(&home, &["sa-0-00000000", WORDS]).assert_refused(4, "not_found", &["sa-0-00000000", "ps --all"]);
    assert!(!home.state().exists(), "nothing is made by a message to nobody");
    let server = ScriptedServer::start(scripts());
    let home = Home::with(&server);
    let (running, id, children) = under_way(&server, &home, &["held one", "held two"]);
    steer(&home, &["sa-0-00000000", WORDS]).assert_refused(4, "not_found", &["sa-0-00000000"]);
    steer(&home, &["sa-", WORDS]).assert_refused(2, "usage", &[&children[0], &children[1]]);
    let session = show(&home, &id)["session_id"].as_str().expect("an id").to_owned();
    steer(&home, &[&session, WORDS]).assert_refused(4, "not_found", &["is a session"]);
    for blank in ["", " \n\t "] {
        steer(&home, &[&children[0], blank]).assert_refused(2, "input", &["message is empty"]);
    }
    let long = "x".repeat(100_000);
    steer(&home, &[&children[0], &long]).assert_refused(2, "input", &["100000", "65536", "file"]);
    let piped = home.legwork(&["steer", &children[0], "-", "--json"]).stdin(vec![0xff]).run();
    piped.assert_refused(2, "input", &["stdin", "UTF-8"]);
    home.legwork(&["steer", &children[0], "--json"]).run().assert_refused(2, "usage", &["TEXT"]);
    assert_eq!(show(&home, &children[0])["steers"], json!([]), "none of it was stored");
    server.gate("held").open();
    running.wait();
}
