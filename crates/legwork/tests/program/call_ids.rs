//! Ids of calls that come again: from two conversations at the same time, and from one whose provider gives out the same ones.

use std::collections::BTreeSet;

use legwork_testkit::server::{
    Call, Conversation, Entry, Reply, Script, ScriptedServer, Scripts, calls, gate, say,
};
use serde_json::{Value, json};

use crate::harness::{Home, until};

/// Tasks of each of two calls with the same id.
const MANY: usize = 50;
/// The one that is stopped.
const STOPPED: usize = 17;
const CONVERSATIONS: [&str; 2] = ["alpha", "beta"];

fn goal(of: &str, number: usize) -> String {
    format!("n={number} nonce={}", nonce(of, number))
}

fn nonce(of: &str, number: usize) -> String {
    format!("r-{of}-{}-", number * 7919 % 9973)
}

/// Whether an agent delegates; subagents of depth 1 do not.
fn is_conversation(talk: &Conversation) -> bool {
    talk.tools.iter().any(|tool| tool == "delegate_task")
}

fn two_alike(talk: &Conversation) -> Reply {
    let first = talk.first_user_text();
    if !is_conversation(talk) {
        let own = first.split("nonce=").nth(1).and_then(|rest| rest.split_whitespace().next());
        return gate("go").say(format!("it is {}", own.expect("a nonce")));
    }
    let of = CONVERSATIONS.into_iter().find(|name| first.contains(name)).expect("one of the two");
    match talk.step() {
        0 => {
            let tasks: Vec<Value> = (0..MANY).map(|number| json!({"goal": goal(of, number)})).collect();
            calls([Call::new("delegate_task", json!({ "tasks": tasks })).id("call_1")])
        }
        _ => say(format!("{of} has them all")),
    }
}

fn text_of(entry: &Entry) -> String {
    entry.body["messages"].to_string()
}

/// The children of the conversation that a goal belongs to, by task.
fn children(home: &Home, of: &str) -> Vec<String> {
    let list = home.ps();
    let children =
        |delegation: &Value| delegation["units"][0]["children"].as_array().expect("children").clone();
    let mut all = list.iter().map(children);
    let own = all.find(|children| children[0]["goal"].as_str().is_some_and(|goal| goal.contains(of)));
    let own = own.expect("its delegation is listed");
    own.iter().map(|child| child["subagent_id"].as_str().expect("an id").to_owned()).collect()
}

#[test]
fn k42_inv_36_two_processes_with_equal_call_ids_in_one_state_folder_keep_all_fifty_tasks_apart() {
    let script = Scripts::default().otherwise(Script::from_fn(two_alike));
    let server = ScriptedServer::start(script);
    let home = Home::with(&server);
    let start = |of: &str| {
        let order = home.legwork(&["run", &format!("this is {of}"), "--json"]);
        order.set("max_concurrent_children", MANY as u64).set("oneshot_max_children", 0).start()
    };
    let running = CONVERSATIONS.map(start);
    server.gate("go").wait_waiting(2 * MANY);
    let ids: Vec<Vec<String>> = CONVERSATIONS.iter().map(|of| children(&home, of)).collect();
    assert_eq!(ids.iter().flatten().collect::<BTreeSet<_>>().len(), 2 * MANY, "every id is there once");

    let stopped = home.legwork(&["stop", &ids[1][STOPPED]]).run();
    assert_eq!(stopped.code, 0, "{stopped}");
    until("its request to end", || (server.gate("go").waiting() == 2 * MANY - 1).then_some(()));
    server.gate("go").open();
    for ((of, running), code) in CONVERSATIONS.iter().zip(running).zip([0, 1]) {
        let ended = running.wait();
        assert_eq!(ended.code, code, "{of}: {ended}");
        let document = ended.json();
        assert_eq!(document["answer"], format!("{of} has them all"));
        let [delegation] = document["delegations"].as_array().expect("a list").as_slice() else {
            panic!("{ended}")
        };
        let entries = delegation["results"].as_array().expect("results");
        assert_eq!(entries.len(), MANY);
        for (number, entry) in entries.iter().enumerate() {
            if (*of, number) == ("beta", STOPPED) {
                assert_eq!(entry["status"], "interrupted", "{entry}");
                continue;
            }
            let own = format!("it is {}", nonce(of, number));
            assert_eq!((&entry["status"], &entry["summary"]), (&json!("completed"), &json!(own)), "{number}");
        }
    }
    let log = server.log();
    let asked: Vec<String> =
        log.entries().iter().map(text_of).filter(|text| !text.contains("this is ")).collect();
    assert_eq!(asked.len(), 2 * MANY, "{}", log.summary());
    for of in CONVERSATIONS {
        for number in 0..MANY {
            let own = asked.iter().filter(|text| text.contains(&nonce(of, number))).count();
            assert_eq!(own, 1, "the task {number} of {of} was given to one subagent");
        }
    }
}

/// A provider whose ids begin anew with every reply: its calls are calls of their own, whatever they ask for.
#[test]
fn k06_k42_a_call_whose_id_came_before_is_a_call_of_its_own() {
    let goals = ["this is the red task", "this is the blue task", "this is the red task"];
    let script = Script::from_fn(move |talk: &Conversation| {
        if !is_conversation(talk) {
            let colour = ["red", "blue"].into_iter().find(|colour| talk.first_user_text().contains(colour));
            return say(format!("{} is done", colour.expect("one of them")));
        }
        match goals.get(talk.step()) {
            Some(goal) => calls([Call::new("delegate_task", json!({"goal": goal})).id("call_1")]),
            // In one reply too.
            None if talk.step() == goals.len() => calls(["red", "blue"].map(|colour| {
                let goal = format!("this is the second {colour} task");
                Call::new("delegate_task", json!({"goal": goal})).id("call_1")
            })),
            None => say("that was all"),
        }
    });
    let server = ScriptedServer::start(Scripts::default().otherwise(script));
    let home = Home::with(&server);
    let ended = home.legwork(&["run", "the prompt", "--json"]).set("oneshot_max_children", 0).run();
    assert_eq!(ended.code, 0, "{ended}");
    let document = ended.json();
    let delegations = document["delegations"].as_array().expect("a list");
    let said: Vec<&str> = delegations
        .iter()
        .map(|delegation| delegation["results"][0]["summary"].as_str().expect("text"))
        .collect();
    assert_eq!(said, ["red is done", "blue is done", "red is done", "red is done", "blue is done"]);
    let ids: BTreeSet<&str> =
        delegations.iter().map(|delegation| delegation["delegation_id"].as_str().expect("an id")).collect();
    assert_eq!(ids.len(), 5);
    let log = server.log();
    assert!(log.violations().is_empty(), "{}", log.summary());
    let last = &log.entries().last().expect("a request").body["messages"];
    let results = last.as_array().expect("messages").iter().filter(|message| message["role"] == "tool");
    let results: Vec<(&str, &str)> = results
        .map(|result| {
            let text = |key: &str| result[key].as_str().expect("text");
            (text("tool_call_id"), text("content"))
        })
        .collect();
    let call_ids: BTreeSet<&str> = results.iter().map(|(id, _)| *id).collect();
    assert_eq!((results.len(), call_ids.len()), (5, 5), "each answers a call of its own: {results:?}");
    for ((_, content), own) in results.iter().zip(&said) {
        assert!(content.contains(own), "{own}: {content}");
    }
}
