//! `output_schema` through the whole program: what the child is told, its one correction, and what comes back when the
//! schema is met, is met late, or is not met at all.

use legwork_testkit::server::{Script, ScriptedServer, Scripts, call, say};
use serde_json::{Value, json};

use crate::harness::Home;

const RAW: &str = "The colour is blue, I think.";
const RIGHT: &str = "```json\n{\"colour\": \"blue\"}\n```";

fn schema() -> Value {
    json!({"type": "object", "properties": {"colour": {"type": "string"}}, "required": ["colour"]})
}

/// Children that meet their schema at once, after their correction, and never.
fn children() -> Scripts {
    Scripts::default()
        .agent("at once", Script::new().step(say(RIGHT)))
        .agent("late", Script::new().step(say(RAW)).step(say(RIGHT)))
        .agent("never", Script::new().step(say("Here: {\"colour\": 7}")).step(say(RAW)))
}

fn tasks(goals: &[&str]) -> Value {
    let task = |goal: &&str| json!({"goal": format!("name the colour {goal}"), "output_schema": schema()});
    json!({"tasks": goals.iter().map(task).collect::<Vec<_>>()})
}

/// The keys of an entry that speak of the schema.
fn spoken(entry: &Value) -> Vec<&str> {
    let keys = entry.as_object().expect("an entry").keys();
    let mut keys: Vec<&str> = keys.map(String::as_str).filter(|key| key.starts_with("schema_")).collect();
    keys.sort_unstable();
    keys
}

/// Proves SCHEMA-1, SCHEMA-2, SCHEMA-7, BUILD-22.
#[test]
fn schema_07_an_answer_that_meets_its_schema_at_once_or_after_its_correction_is_whole() {
    let server = ScriptedServer::start(children().agent("plain", Script::new().step(say(RAW))));
    let home = Home::with(&server);
    let mut file = tasks(&["at once", "late"]);
    file["tasks"].as_array_mut().expect("a list").push(json!({"goal": "a plain question", "context": "own"}));
    home.write("tasks.json", file.to_string());
    let ended = home.legwork(&["delegate", "tasks.json", "--json"]).run();
    assert_eq!(ended.code, 0, "{ended}");
    let results = ended.results();
    assert_eq!(spoken(&results[0]), ["schema_valid"]);
    assert_eq!(spoken(&results[1]), ["schema_retries", "schema_valid"]);
    assert_eq!(spoken(&results[2]), [] as [&str; 0], "no schema, no keys");
    for (entry, calls) in results.iter().zip([1, 2]) {
        assert_eq!((&entry["schema_valid"], &entry["api_calls"]), (&json!(true), &json!(calls)), "{entry}");
        assert_eq!(entry["summary"], json!(RIGHT));
    }
    let log = server.log();
    assert!(log.violations().is_empty(), "{}", log.summary());
    let first = log.of("late")[0].body["messages"][0]["content"].to_string();
    assert!(
        first.contains("\\\"required\\\":[\\\"colour\\\"]") && first.contains("a single JSON value"),
        "{first}"
    );
    let second = log.of("late")[1].body["messages"].to_string();
    assert!(second.contains("$: there is no JSON value in the answer"), "{second}");
    let plain = log.of("plain")[0].body["messages"].to_string();
    assert!(!plain.contains("JSON Schema"), "{plain}");
}

/// Proves SCHEMA-4, SCHEMA-6, PROG-5, PROG-6.
#[test]
fn schema_06_a_schema_that_is_missed_twice_keeps_the_raw_text_and_its_mark() {
    let server = ScriptedServer::start(children());
    let home = Home::with(&server);
    home.write("tasks.json", tasks(&["at once", "never"]).to_string());
    let ended = home.legwork(&["delegate", "tasks.json", "--json"]).run();
    assert_eq!(ended.code, 1, "a schema that is not met is no success: {ended}");
    let entry = &ended.results()[1];
    assert_eq!(spoken(entry), ["schema_errors", "schema_note", "schema_retries", "schema_valid"]);
    for (key, value) in [
        ("status", json!("completed")),
        ("exit_reason", json!("completed")),
        ("truncated", json!(false)),
        ("summary", json!(RAW)),
        ("schema_valid", json!(false)),
        ("schema_errors", json!(["$: there is no JSON value in the answer"])),
        ("schema_retries", json!(1)),
    ] {
        assert_eq!(entry[key], value, "{key}: {ended}");
    }
    assert!(
        entry["schema_note"].as_str().is_some_and(|note| note.contains("instead of running the task again"))
    );
    assert_eq!(server.log().of("never").len(), 2, "one correction and no more");
    let line = ended
        .stderr
        .lines()
        .find(|line| line.contains("colour never") && line.contains('('))
        .expect("its end");
    assert!(
        line.trim_start().starts_with("⚠ [set 1 · 2/2] ")
            && line.ends_with("— the schema was not met; its raw text came back"),
        "{line}"
    );
    let id = ended.json()["delegation_id"].as_str().expect("an id").to_owned();
    let again = home.legwork(&["results", &id]).run();
    assert_eq!(again.code, 1, "{again}");
    assert!(again.stdout.contains("⚠ 2/2") && again.stdout.contains("1 of 2 completed"), "{again}");
}

/// Proves TASK-12.
#[test]
fn task_12_a_schema_that_is_none_refuses_the_call_before_anything_exists() {
    let not_one = json!({"tasks": [
        {"goal": "the first piece of work"},
        {"goal": "the second piece of work", "output_schema": {"type": "objekt"}},
    ]});
    let scripts = Scripts::default().agent(
        "the prompt",
        Script::from_fn(move |talk| match talk.step() {
            0 => call("delegate_task", not_one.clone()),
            1 => call(
                "delegate_task",
                json!({"goal": "name the colour late", "output_schema": schema().to_string()}),
            ),
            _ => say(talk.tool_results().join("\n")),
        }),
    );
    let server = ScriptedServer::start(scripts.agent("late", Script::new().step(say(RAW)).step(say(RIGHT))));
    let home = Home::with(&server);
    let ended = home.legwork(&["run", "the prompt"]).run();
    assert_eq!(ended.code, 0, "{ended}");
    let (refused, joined) = ended.stdout.split_once('\n').expect("two results");
    assert!(refused.contains("tasks[1]: `output_schema` is not a valid JSON Schema: "), "{refused}");
    assert!(joined.contains("\"schema_valid\":true") && joined.contains("\"schema_retries\":1"), "{joined}");
    assert_eq!(home.list().len(), 1, "nothing of the refused call exists");
    let next = |level: usize| json!({"$ref": format!("#/$defs/d{level}")});
    let mut defs: serde_json::Map<String, Value> = (0..30)
        .map(|level| (format!("d{level}"), json!({"oneOf": [next(level + 1), next(level + 1)]})))
        .collect();
    defs.insert("d30".to_owned(), json!({"type": "object"}));
    let endless = json!({"$ref": "#/$defs/d0", "$defs": defs});
    home.write("tasks.json", json!({"tasks": [{"goal": "a", "output_schema": endless}]}).to_string());
    let wrong = home.legwork(&["delegate", "tasks.json", "--json"]).run();
    wrong.assert_refused(2, "input", &["tasks[0]", "`output_schema`", "more than 100000 times"]);
    home.write("tasks.json", json!({"tasks": [{"goal": "a", "output_schema": 3}]}).to_string());
    let wrong = home.legwork(&["delegate", "tasks.json", "--json"]).run();
    wrong.assert_refused(2, "input", &["tasks[0]", "`output_schema` must be a JSON Schema", "a number"]);
}

#[test]
fn an_agent_that_delegates_is_told_of_a_schema_that_was_missed_and_run_says_so_too() {
    let delegating = Script::from_fn(|talk| match talk.step() {
        0 => call("delegate_task", tasks(&["never"])),
        _ => say(talk.last_text()),
    });
    let server = ScriptedServer::start(children().agent("the prompt", delegating));
    let home = Home::with(&server);
    let ended = home.legwork(&["run", "the prompt", "--json"]).run();
    assert_eq!(ended.code, 1, "{ended}");
    let answer: Value =
        serde_json::from_str(ended.json()["answer"].as_str().expect("text")).expect("a result");
    let entry = &answer["results"][0];
    assert_eq!((&entry["schema_valid"], &entry["summary"]), (&json!(false), &json!(RAW)), "{ended}");
}
