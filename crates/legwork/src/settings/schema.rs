//! The JSON Schema of the configuration file, made from the key table.

use legwork_agent::tools::toolset_names;
use serde_json::{Map, Value, json};

use super::blocks;
use super::field::{Bounds, Field, Right};
use super::keys::{self, KEYS, Key};

/// A JSON Schema (2020-12) of the file. Beside the standard words each key has `x-env`, the variables that set it, and
/// `x-project`, what a project's own file may do to it.
pub fn schema() -> Value {
    let sections: Map<String, Value> =
        keys::sections().into_iter().map(|section| (section.to_owned(), section_schema(section))).collect();
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "legwork configuration",
        "type": "object",
        "additionalProperties": false,
        "properties": sections,
    })
}

fn section_schema(section: &str) -> Value {
    let keys = KEYS.iter().filter(|key| key.section() == section);
    let properties: Map<String, Value> = keys.map(|key| (key.leaf().to_owned(), key_schema(key))).collect();
    json!({"type": "object", "additionalProperties": false, "properties": properties})
}

fn key_schema(key: &Key) -> Value {
    let mut schema = field_schema(&key.field);
    schema.insert("description".to_owned(), json!(key.doc));
    let variables = if key.field.is_table() { Vec::new() } else { key.variables() };
    schema.insert("x-env".to_owned(), json!(variables));
    schema.insert("x-project".to_owned(), json!(project_word(key.project)));
    Value::Object(schema)
}

/// What a project's own file may do, in a word.
fn project_word(right: Option<Right>) -> &'static str {
    match right {
        None => "never",
        Some(Right::Any) => "any",
        Some(Right::Lower) => "lower",
        Some(Right::Only(true)) => "only true",
        Some(Right::Only(false)) => "only false",
    }
}

fn field_schema(field: &Field) -> Map<String, Value> {
    let schema = match *field {
        Field::Text { .. } => json!({"type": "string", "default": ""}),
        Field::Variable { .. } => {
            json!({"type": "string", "pattern": "^([A-Za-z_][A-Za-z0-9_]*)?$", "default": ""})
        }
        Field::Url { .. } => json!({"type": "string", "pattern": "^(https?://.+)?$", "default": ""}),
        Field::Secret { .. } => json!({"type": "string", "writeOnly": true, "default": ""}),
        Field::Flag { default, .. } => json!({"type": "boolean", "default": default}),
        Field::Count { default, bounds, .. } | Field::Limit { default, bounds, .. } => {
            whole(json!(default), bounds)
        }
        Field::Time { default, bounds, .. } | Field::Deadline { default, bounds, .. } => {
            whole(json!(default), bounds)
        }
        Field::Choice { default, words, .. } => choice(default, words),
        Field::List { .. } => json!({"type": "array", "items": {"type": "string"}}),
        Field::Toolsets { .. } => json!({"type": "array", "items": {"enum": toolset_names()}}),
        Field::Overrides { .. } => blocks::overrides_schema(),
        Field::Links { .. } => blocks::links_schema(),
        Field::Routes { .. } => blocks::routes_schema(),
        Field::Table => json!({"type": "object", "default": {}}),
        Field::Retired { .. } => json!({"deprecated": true}),
    };
    match schema {
        Value::Object(map) => map,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => Map::new(),
    }
}

fn whole(default: Value, bounds: Bounds) -> Value {
    let mut range = json!({"minimum": bounds.min});
    if bounds.max != Bounds::NO_CEILING {
        range["maximum"] = json!(bounds.max);
    }
    match bounds.zero {
        None => {
            range["type"] = json!("integer");
            range["default"] = default;
            range
        }
        Some(_) => json!({"type": "integer", "default": default, "anyOf": [{"const": 0}, range]}),
    }
}

fn choice(default: Option<usize>, words: &[&str]) -> Value {
    match default {
        Some(index) => json!({"type": "string", "enum": words, "default": words[index]}),
        None => {
            let with_empty: Vec<&str> = words.iter().copied().chain([""]).collect();
            json!({"type": "string", "enum": with_empty, "default": ""})
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_of_the_table_is_in_the_schema() {
        let schema = schema();
        for key in KEYS {
            let found = &schema["properties"][key.section()]["properties"][key.leaf()];
            assert_eq!(found["description"], key.doc, "{}", key.name);
        }
    }

    #[test]
    fn zero_is_beside_the_range_where_it_means_something() {
        let key = keys::find("delegation.child_timeout_seconds").expect("it is in the table");
        let schema = key_schema(key);
        assert_eq!(schema["anyOf"][0], json!({"const": 0}));
        assert_eq!(schema["anyOf"][1]["minimum"], 30);
    }
}
