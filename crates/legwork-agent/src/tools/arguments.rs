//! The check of a call's arguments against the schema that the model was given, and their reading into a type.
//!
//! Every refusal says what is wrong and what to send, because a model reads it. It knows the small part of JSON Schema
//! that the built-in tools use: objects of strings, whole numbers and booleans with bounds and lists of values.

use crate::models::ToolSpec;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// Reads the arguments of a call of the tool with `spec`.
///
/// # Errors
/// A sentence for the model.
pub(super) fn read<A: DeserializeOwned>(spec: &ToolSpec, arguments: Value) -> Result<A, String> {
    let described = |problem: String| format!("{}: {problem}. {}", spec.name, usage(&spec.parameters));
    let Value::Object(mut given) = arguments else {
        return Err(described("the arguments are not an object".to_owned()));
    };
    // Some models send null for what they leave out.
    given.retain(|_, value| !value.is_null());
    check(&spec.parameters, &given).map_err(described)?;
    serde_json::from_value(Value::Object(given)).map_err(|error| described(error.to_string()))
}

fn check(schema: &Value, given: &Map<String, Value>) -> Result<(), String> {
    let known = schema["properties"].as_object();
    for (name, value) in given {
        let Some(property) = known.and_then(|known| known.get(name)) else {
            return Err(format!("there is no argument `{name}`"));
        };
        check_value(name, property, value)?;
    }
    match required(schema).find(|name| !given.contains_key(*name)) {
        Some(missing) => Err(format!("`{missing}` is missing")),
        None => Ok(()),
    }
}

fn check_value(name: &str, property: &Value, value: &Value) -> Result<(), String> {
    let wanted = property["type"].as_str().unwrap_or_default();
    let fits = match wanted {
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "boolean" => value.is_boolean(),
        _ => true,
    };
    if !fits {
        return Err(format!("`{name}` must be of type {wanted}, and {} was sent", kind(value)));
    }
    check_bounds(name, property, value)?;
    match property["enum"].as_array() {
        Some(values) if !values.contains(value) => Err(format!("`{name}` must be one of {}", list(values))),
        Some(_) | None => Ok(()),
    }
}

fn check_bounds(name: &str, property: &Value, value: &Value) -> Result<(), String> {
    let Some(number) = value.as_f64() else { return Ok(()) };
    let below = property["minimum"].as_f64().filter(|minimum| number < *minimum);
    let above = property["maximum"].as_f64().filter(|maximum| number > *maximum);
    match (below, above) {
        (Some(minimum), _) => Err(format!("`{name}` is {value} and must be at least {minimum}")),
        (None, Some(maximum)) => Err(format!("`{name}` is {value} and must be at most {maximum}")),
        (None, None) => Ok(()),
    }
}

/// What a call looks like, such as ``Send `path` (string) and optionally `offset` (integer)``.
fn usage(schema: &Value) -> String {
    let required: Vec<&str> = required(schema).collect();
    let mut needed = Vec::new();
    let mut optional = Vec::new();
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let shown = format!("`{name}` ({})", property["type"].as_str().unwrap_or("any"));
        if required.contains(&name.as_str()) { needed.push(shown) } else { optional.push(shown) }
    }
    match (needed.join(" and "), optional.join(", ")) {
        (needed, optional) if needed.is_empty() => format!("Send an object with optionally {optional}"),
        (needed, optional) if optional.is_empty() => format!("Send an object with {needed}"),
        (needed, optional) => format!("Send an object with {needed} and optionally {optional}"),
    }
}

fn required(schema: &Value) -> impl Iterator<Item = &str> {
    schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str)
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

fn list(values: &[Value]) -> String {
    values.iter().map(Value::to_string).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;
    use serde_json::json;

    #[derive(Debug, Deserialize, PartialEq)]
    struct Sample {
        path: String,
        offset: Option<u64>,
        case: Option<String>,
    }

    fn read_sample(arguments: Value) -> Result<Sample, String> {
        let parameters = json!({
            "type": "object",
            "properties": {
                "path": {"type": "string"},
                "case": {"type": "string", "enum": ["on", "off"]},
                "offset": {"type": "integer", "minimum": 1, "maximum": 9},
            },
            "required": ["path"],
        });
        let spec = ToolSpec { name: "sample".to_owned(), description: String::new(), parameters };
        read(&spec, arguments)
    }

    fn refused(arguments: Value, words: &str) {
        let message = read_sample(arguments).expect_err("it must be refused");
        assert!(message.contains(words), "{message}");
        assert!(
            message.ends_with(
                "Send an object with `path` (string) and optionally `case` (string), `offset` (integer)"
            ),
            "{message}"
        );
    }

    #[test]
    fn inv_21_every_wrong_argument_gets_an_instructive_error() {
        refused(json!("x"), "sample: the arguments are not an object");
        refused(json!({}), "`path` is missing");
        refused(json!({"path": 3}), "`path` must be of type string, and a number was sent");
        refused(
            json!({"path": "a", "offset": "3"}),
            "`offset` must be of type integer, and a string was sent",
        );
        refused(json!({"path": "a", "offset": 1.5}), "`offset` must be of type integer");
        refused(json!({"path": "a", "offset": 0}), "`offset` is 0 and must be at least 1");
        refused(json!({"path": "a", "offset": 10}), "`offset` is 10 and must be at most 9");
        refused(json!({"path": "a", "case": "up"}), "`case` must be one of \"on\", \"off\"");
        refused(json!({"path": "a", "mode": 1}), "there is no argument `mode`");
    }

    #[test]
    fn null_is_taken_as_left_out() {
        let sample = read_sample(json!({"path": "a", "offset": null})).expect("null is no value");
        assert_eq!(sample, Sample { path: "a".to_owned(), offset: None, case: None });
    }
}
