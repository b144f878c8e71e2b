//! The guide to the configuration lists what the program really knows.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

const BEGIN: &str = "<!-- keys: begin -->\n";
const END: &str = "<!-- keys: end -->";

#[test]
fn the_guide_lists_every_key_as_the_program_has_it() {
    let output = Command::new(env!("CARGO_BIN_EXE_legwork"))
        .args(["config", "schema"])
        .output()
        .expect("the program starts");
    let schema: Value = serde_json::from_slice(&output.stdout).expect("the schema is JSON");
    let table = table(&schema);
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide/configuration.md");
    let text = std::fs::read_to_string(&page).expect("the guide exists");
    let (_, rest) = text.split_once(BEGIN).expect("the guide marks where the table begins");
    let (found, _) = rest.split_once(END).expect("the guide marks where the table ends");
    assert!(found == table, "the table in {} is out of date; it should be:\n{table}", page.display());
}

#[test]
fn the_schema_in_the_repository_is_the_programs() {
    let output = Command::new(env!("CARGO_BIN_EXE_legwork"))
        .args(["config", "schema"])
        .output()
        .expect("the program starts");
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/config.schema.json");
    let text = std::fs::read_to_string(&file).expect("the schema exists");
    let current = String::from_utf8(output.stdout).expect("the schema is text");
    assert!(
        text == current,
        "{} is out of date; write it with `legwork config schema > docs/config.schema.json`",
        file.display()
    );
}

fn table(schema: &Value) -> String {
    let mut lines =
        "| key | default | accepts | a project may | what it is |\n|---|---|---|---|---|\n".to_owned();
    for section in ["model", "delegation", "tools", "hooks", "auxiliary"] {
        let keys = schema["properties"][section]["properties"].as_object().expect("a section has keys");
        let keys: BTreeMap<_, _> = keys.iter().collect();
        for (name, key) in keys {
            let doc = key["description"].as_str().expect("a key has a description");
            let line =
                [&format!("`{section}.{name}`"), &default(key), &accepts(key), project(key), doc].join(" | ");
            lines.push_str(&format!("| {line} |\n"));
        }
    }
    lines
}

fn default(key: &Value) -> String {
    match &key["default"] {
        Value::Null => "-".to_owned(),
        value => format!("`{value}`"),
    }
}

fn project(key: &Value) -> &str {
    match key["x-project"].as_str().expect("a key says what a project may do") {
        "never" => "",
        "lower" => "lower it",
        "only true" => "turn it on",
        "only false" => "turn it off",
        other => panic!("a new right: {other}"),
    }
}

fn accepts(key: &Value) -> String {
    if let Some(words) = key["enum"].as_array() {
        let words = words.iter().filter_map(Value::as_str).filter(|word| !word.is_empty());
        return words.map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ");
    }
    let (range, zero) = match key["anyOf"].as_array() {
        Some(cases) => (&cases[1], " or 0"),
        None => (key, ""),
    };
    match (range["minimum"].as_u64(), range["maximum"].as_u64(), key["type"].as_str()) {
        (Some(min), Some(max), _) => format!("{min} … {max}{zero}"),
        (Some(min), None, _) => format!("at least {min}{zero}"),
        (None, _, Some("string")) => "text".to_owned(),
        (None, _, Some("boolean")) => "true, false".to_owned(),
        (None, _, Some("array")) if key["items"]["oneOf"].is_array() => {
            "a list of `PROVIDER/NAME` or tables".to_owned()
        }
        (None, _, Some("array")) => "a list of texts".to_owned(),
        (None, _, Some("object")) => "a table".to_owned(),
        (None, _, _) => "anything; ignored".to_owned(),
    }
}
