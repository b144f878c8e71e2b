//! Very many results that wait: they outlive the process that had them, are listed whole, and arrive, each once and in order,
//! whichever processes bring them.

use std::collections::BTreeMap;

use legwork_testkit::server::{Call, Conversation, Reply, Script, ScriptedServer, Scripts, calls, gate, say};
use rusqlite::Connection;
use serde_json::{Value, json};

use crate::harness::{Home, Screen, until};

/// The variable that says how many results wait. Half of them are units of their own, the others one unit together.
const COUNT: &str = "LEGWORK_PLENTY";
/// What a usual run of the tests takes.
const FEW: usize = 1000;
/// Calls whose units report each by itself. A reply may have a few dozen.
const CALLS: usize = 10;
/// Bytes that a completion takes at most, whatever it tells of.
const COMPLETION_BYTES_MAX: usize = 64 * 1024;

fn count() -> usize {
    let Ok(text) = std::env::var(COUNT) else { return FEW };
    let count = text.parse().ok().filter(|count: &usize| *count > 0 && count.is_multiple_of(2 * CALLS));
    count.unwrap_or_else(|| panic!("{COUNT} is {text:?}; it has to be a multiple of {}", 2 * CALLS))
}

fn goal(number: usize) -> String {
    format!("this is piece p{number}p of the work")
}

fn answer(number: usize) -> String {
    format!("found a{number}a")
}

/// Sends out everything in one reply, and is busy until the test opens its gate.
fn conversation(talk: &Conversation, count: usize) -> Reply {
    // Subagents delegate nothing, and whoever summarises has no tools at all.
    if talk.tools.iter().any(|tool| tool == "terminal")
        && !talk.tools.iter().any(|tool| tool == "delegate_task")
    {
        let number = talk
            .first_user_text()
            .split("piece p")
            .nth(1)
            .and_then(|rest| rest.split('p').next()?.parse().ok());
        return say(answer(number.expect("a number")));
    }
    let last = talk.last_text();
    match last {
        _ if last.ends_with("send them out") => calls(sent_out(count)),
        _ if talk.messages.last().is_some_and(|last| last.answers.is_some()) => {
            gate("busy").say("they are on their way")
        }
        _ => say("Noted."),
    }
}

/// Calls for units of one task each, and a last one for a single unit of many tasks.
fn sent_out(count: usize) -> Vec<Call> {
    let in_a_call = count / 2 / CALLS;
    let own = (0..CALLS).map(|call| call * in_a_call..(call + 1) * in_a_call);
    let own = own.map(|numbers| {
        let task = |number| json!({"goal": goal(number)});
        Call::new("delegate_task", json!({"tasks": numbers.map(task).collect::<Vec<_>>()}))
    });
    let together: Vec<Value> =
        (count / 2..count).map(|number| json!({"goal": goal(number), "group": "together"})).collect();
    own.chain([Call::new("delegate_task", json!({ "tasks": together }))]).collect()
}

fn chat(home: &Home, count: usize, arguments: &[&str]) -> Screen {
    let order = home.legwork(arguments).set("max_concurrent_children", count as u64);
    let order = order.set("queue_max", count as u64 * 2).env("LEGWORK_MODEL_WINDOW_TOKENS", "40000");
    let order = order.env("LEGWORK_DELEGATION_INDEPENDENT_COMPLETIONS", "true");
    order.env("NO_COLOR", "1").env("TERM", "xterm-256color").at_terminal(120, 30)
}

fn undelivered(home: &Home, session: &str) -> Vec<String> {
    let shown = home.legwork(&["show", session, "--json"]).run().json();
    let units = shown["undelivered"].as_array().expect("units").iter();
    units.map(|unit| unit.as_str().expect("an id").to_owned()).collect()
}

/// The units in the order in which they became ready.
fn in_order(home: &Home) -> Vec<String> {
    let database = Connection::open(home.database()).expect("the database opens");
    let mut units = database.prepare("SELECT id FROM units ORDER BY due_no").expect("it has units");
    let rows = units.query_map((), |row| row.get(0)).expect("they can be read");
    rows.collect::<Result<_, _>>().expect("they are text")
}

/// How often each of the answers stands in a text.
fn answers(text: &str, found: &mut BTreeMap<usize, usize>) {
    for rest in text.split("found a").skip(1) {
        let number = rest.split('a').next().and_then(|number| number.parse().ok());
        *found.entry(number.expect("a number")).or_default() += 1;
    }
}

fn each_once(count: usize) -> BTreeMap<usize, usize> {
    (0..count).map(|number| (number, 1)).collect()
}

/// What `results` lists of all delegations.
fn listed(home: &Home) -> BTreeMap<usize, usize> {
    let mut found = BTreeMap::new();
    for delegation in home.list() {
        let id = delegation["delegation_id"].as_str().expect("an id");
        for entry in home.legwork(&["results", id, "--json"]).run().results() {
            answers(entry["summary"].as_str().expect("an answer"), &mut found);
        }
    }
    found
}

/// The completions of the stored conversation, in order.
fn completions(home: &Home, session: &str) -> Vec<String> {
    let exported = home.legwork(&["sessions", "export", session, "--json"]).run().json();
    let history = exported["history"].as_array().expect("a history").iter();
    let completions = history.filter(|message| message["author"] == "completion");
    completions.map(|message| message["parts"][0]["text"].as_str().expect("text").to_owned()).collect()
}

/// The unit that the first line of a completion names; a unit that is a whole delegation is named by that.
fn unit_of(completion: &str) -> String {
    let line = completion.lines().next().expect("a line");
    let named = line.split(": unit ").nth(1).or_else(|| line.split(": delegation ").nth(1));
    let named = named.unwrap_or_else(|| panic!("it names no unit: {line}"));
    named.split([' ', ']']).next().expect("an id").to_owned()
}

/// Proves DUR-6: what waits is kept by no count.
#[test]
fn k02_k03_inv_03_results_that_wait_in_plenty_outlive_kills_and_arrive_each_once_in_order() {
    let count = count();
    let script = Script::from_fn(move |talk: &Conversation| conversation(talk, count));
    let server = ScriptedServer::start(Scripts::default().otherwise(script));
    let home = Home::with(&server);
    let mut first = chat(&home, count, &["chat"]);
    first.wait_for("›");
    first.press("send them out\r");
    server.gate("busy").wait_reached();
    let sessions = home.legwork(&["sessions", "--json"]).run().json();
    let session = sessions["sessions"][0]["session_id"].as_str().expect("an id").to_owned();
    let units = count / 2 + 1;
    until("everything to be done", || (undelivered(&home, &session).len() == units).then_some(()));
    first.kill();
    server.gate("busy").open();

    assert_eq!(listed(&home), each_once(count));
    assert_eq!(undelivered(&home, &session).len(), units, "whoever looks takes nothing");
    let order = in_order(&home);

    let mut second = chat(&home, count, &["chat", "--resume", &session]);
    until("some of them to arrive", || (undelivered(&home, &session).len() <= units / 2).then_some(()));
    second.kill();
    let left = undelivered(&home, &session).len();
    assert!(left > 0, "the kill came in the midst of it");
    let order_of_last =
        home.legwork(&["run", "and now?", "--last"]).env("LEGWORK_MODEL_WINDOW_TOKENS", "40000");
    let ended = order_of_last.run();
    assert_eq!((ended.code, ended.stdout.as_str()), (0, "Noted.\n"), "{ended}");

    assert_eq!(undelivered(&home, &session), Vec::<String>::new());
    let completions = completions(&home, &session);
    let arrived: Vec<String> = completions.iter().map(|text| unit_of(text)).collect();
    assert_eq!(arrived, order);
    let mut found = BTreeMap::new();
    for text in &completions {
        assert!(text.len() <= COMPLETION_BYTES_MAX, "{} bytes: {}", text.len(), &text[..200]);
        match text.split("Whole: ").nth(1).and_then(|rest| rest.split(',').next()) {
            Some(file) => answers(&std::fs::read_to_string(file).expect("it is kept"), &mut found),
            None => answers(text, &mut found),
        }
    }
    assert_eq!(found, each_once(count), "whole in its message, or in the file that it names");
    assert_eq!(listed(&home), each_once(count), "what has arrived is still listed");
    home.assert_nothing_runs();
}
