//! Shapes of `delegate_task` calls that models send, through the whole program: each is understood or answered with what to
//! send instead, and none has a partial effect (K23).

use legwork_testkit::server::{Call, Conversation, Reply, Script, ScriptedServer, Scripts, calls, say};
use serde_json::Value;

use crate::harness::Home;

/// What a call leads to: so many children, or an error with these words.
enum Leads {
    To(usize),
    Error(&'static str),
}
use Leads::{Error, To};

const SHAPES: [(&str, Leads); 22] = [
    (r#"{"goal": "a goal of its own"}"#, To(1)),
    (r#"{"tasks": [{"goal": "a goal of its own"}, {"goal": "another goal of it"}]}"#, To(2)),
    (r#"{"tasks": "[{\"goal\": \"a goal of its own\"}, {\"goal\": \"another goal of it\"}]"}"#, To(2)),
    (r#"{"goal": "a goal of its own", "tasks": []}"#, To(1)),
    (r#"{"goal": "a goal of its own", "background": "true"}"#, To(1)),
    (r#"{"goal": "a goal of its own", "images": [], "group": null, "output_schema": {}}"#, To(1)),
    (r#"{"tasks": ["[{\"goal\": \"a goal of its own\"}]"]}"#, Error("tasks[0]")),
    (r#"{"tasks": []}"#, Error("there is no task")),
    (r#"{"tasks": [{}]}"#, Error("tasks[0]")),
    (r#"{"tasks": {}}"#, Error("must be a list")),
    (r#"{"tasks": [{"goal": "a goal of its own"}, "b", null]}"#, Error("tasks[1]")),
    (r#"{}"#, Error("there is no task")),
    (r#"{"goal": ""}"#, Error("there is no task")),
    (r#"{"goal": "  "}"#, Error("there is no task")),
    (r#"{"goal": ["a"]}"#, Error("must be text")),
    (r#"{"goal": "a goal of its own", "tasks": [{"goal": "another goal of it"}]}"#, Error("not both")),
    (r#"{"goal": "a"}{"goal": "a"}"#, Error("not valid JSON")),
    (r#"{"goal": "a goal of its"#, Error("not valid JSON")),
    (r#"{"goal": 1e400}"#, Error("not valid JSON")),
    (r#"["a goal of its own"]"#, Error("one JSON object")),
    (r#"{"goal": "a goal of its own", "priority": 1}"#, Error("`priority`")),
    (r#"{"goal": "a goal of its own", "group": 1}"#, To(1)),
];

/// Calls one shape after the other, then says all the results as one JSON list.
fn caller(talk: &Conversation) -> Reply {
    match SHAPES.get(talk.step()) {
        Some((arguments, _)) => calls([Call::malformed("delegate_task", *arguments)]),
        None => say(serde_json::to_string(&talk.tool_results()).expect("texts are JSON")),
    }
}

#[test]
fn k23_every_shape_of_a_call_is_understood_or_explained() {
    let scripts = Scripts::default().agent("the prompt", Script::from_fn(caller));
    let server = ScriptedServer::start(scripts);
    let home = Home::with(&server);
    let ended = home.legwork(&["run", "the prompt", "--json"]).set("oneshot_max_children", 100).run();
    assert_eq!(ended.code, 0, "{ended}");
    let answer = ended.json()["answer"].as_str().expect("an answer").to_owned();
    let results: Vec<String> =
        serde_json::from_str(&answer).unwrap_or_else(|error| panic!("{error}: {ended}"));
    assert_eq!(results.len(), SHAPES.len());
    let mut children = 0;
    for ((arguments, leads), result) in SHAPES.iter().zip(&results) {
        let value: Value = serde_json::from_str(result).unwrap_or_else(|error| panic!("{error}: {result}"));
        match leads {
            To(count) => {
                children += count;
                assert_eq!(value["results"].as_array().map(Vec::len), Some(*count), "{arguments}: {result}");
            }
            Error(words) => {
                let error = value["error"].as_str().unwrap_or_else(|| panic!("{arguments}: {result}"));
                assert!(error.contains(words), "{arguments}: {error}");
            }
        }
    }
    let log = server.log();
    assert!(log.violations().is_empty(), "{}", log.summary());
    assert_eq!(log.entries().len(), SHAPES.len() + 1 + children, "no child but those that were told of");
}
