//! The calls that are still due, as a JSON Schema for the reply.
//!
//! Owns the narrowing of a tool's arguments to what a small model can fill in: the required ones, with bounds on
//! everything that could go on for ever.

use super::goal::{Wish, path_argument, required};
use legwork_agent::models::ToolSpec;
use serde_json::{Map, Value, json};

/// Characters of a text that the model makes up.
const TEXT_MAX: u64 = 200;
/// The largest number that the model makes up.
const NUMBER_MAX: i64 = 10_000;
/// Items of a list.
const ITEMS_MAX: u64 = 3;
/// Levels of lists and objects.
const DEPTH_MAX: u32 = 4;

/// A call that was made already.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Made<'a> {
    pub(crate) tool: &'a str,
    pub(crate) arguments: &'a Value,
}

/// The wishes that no call has met yet. A call that failed has met its wish: the same call would fail again.
pub(crate) fn due<'a>(wishes: &'a [Wish], tools: &[ToolSpec], made: &[Made<'_>]) -> Vec<&'a Wish> {
    let met = |wish: &Wish| {
        let tool = &tools[wish.tool];
        made.iter().filter(|made| made.tool == tool.name).any(|made| {
            match (&wish.path, path_argument(tool)) {
                (Some(path), Some(argument)) => made.arguments[argument] == path.as_str(),
                (Some(_), None) | (None, _) => true,
            }
        })
    };
    wishes.iter().filter(|wish| !met(wish)).collect()
}

/// The form of a reply that makes one of the calls that are due: `{"tool": …, "arguments": {…}}`.
pub(crate) fn schema(due: &[&Wish], tools: &[ToolSpec]) -> Value {
    let named = tools.iter().enumerate().filter_map(|(place, tool)| {
        let wishes: Vec<_> = due.iter().filter(|wish| wish.tool == place).collect();
        let paths: Vec<&str> = wishes.iter().filter_map(|wish| wish.path.as_deref()).collect();
        (!wishes.is_empty()).then(|| call(tool, &paths))
    });
    let mut calls: Vec<Value> = named.collect();
    if calls.len() == 1 { calls.remove(0) } else { json!({"anyOf": calls}) }
}

fn call(tool: &ToolSpec, paths: &[&str]) -> Value {
    let arguments = arguments(tool, paths);
    object(vec![("tool".to_owned(), json!({"const": tool.name})), ("arguments".to_owned(), arguments)])
}

fn arguments(tool: &ToolSpec, paths: &[&str]) -> Value {
    let path = path_argument(tool).filter(|_| !paths.is_empty());
    let mut wanted: Vec<&str> = required(tool).collect();
    wanted.extend(path.filter(|path| !required(tool).any(|required| required == *path)));
    let Some(properties) = tool.parameters["properties"].as_object() else { return object(Vec::new()) };
    if wanted.is_empty() {
        // A tool that insists on nothing still needs something to work on.
        wanted.extend(properties.keys().next().map(String::as_str));
    }
    let narrowed = wanted.into_iter().filter_map(|name| {
        let schema =
            if Some(name) == path { json!({"enum": paths}) } else { bounded(properties.get(name)?, 0) };
        Some((name.to_owned(), schema))
    });
    object(narrowed.collect())
}

/// The same type with an end to it. What is not understood becomes a short text.
fn bounded(schema: &Value, depth: u32) -> Value {
    if let Some(values) = schema.get("enum") {
        return json!({"enum": values});
    }
    match schema["type"].as_str() {
        Some("integer") => {
            let minimum = schema["minimum"].as_i64().unwrap_or(0);
            let maximum = schema["maximum"].as_i64().unwrap_or(NUMBER_MAX).max(minimum);
            json!({"type": "integer", "minimum": minimum, "maximum": maximum})
        }
        Some("number") => json!({"type": "integer", "minimum": 0, "maximum": NUMBER_MAX}),
        Some("boolean") => json!({"type": "boolean"}),
        Some("array") if depth < DEPTH_MAX => {
            json!({"type": "array", "minItems": 1, "maxItems": ITEMS_MAX, "items": bounded(&schema["items"], depth + 1)})
        }
        Some("object") if depth < DEPTH_MAX => bounded_object(schema, depth),
        Some(_) | None => {
            let max = schema["maxLength"].as_u64().map_or(TEXT_MAX, |max| max.min(TEXT_MAX));
            json!({"type": "string", "minLength": 1, "maxLength": max})
        }
    }
}

fn bounded_object(schema: &Value, depth: u32) -> Value {
    let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let properties = required.map(|name| (name.to_owned(), bounded(&schema["properties"][name], depth + 1)));
    object(properties.collect())
}

/// An object with exactly these properties.
fn object(properties: Vec<(String, Value)>) -> Value {
    let names: Vec<String> = properties.iter().map(|(name, _)| name.clone()).collect();
    let properties: Map<String, Value> = properties.into_iter().collect();
    json!({"type": "object", "properties": properties, "required": names, "additionalProperties": false})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reader() -> ToolSpec {
        ToolSpec {
            name: "read_file".to_owned(),
            description: String::new(),
            parameters: json!({
                "type": "object",
                "properties": {"path": {"type": "string"}, "offset": {"type": "integer"}},
                "required": ["path"]
            }),
        }
    }

    fn wish(path: &str) -> Wish {
        Wish { tool: 0, path: Some(path.to_owned()) }
    }

    #[test]
    fn an_identical_call_is_never_due_again() {
        let (wishes, tools) = ([wish("a.md"), wish("b.md")], [reader()]);
        let arguments = json!({"path": "a.md"});
        let made = [Made { tool: "read_file", arguments: &arguments }];
        assert_eq!(due(&wishes, &tools, &made), [&wishes[1]]);
    }

    #[test]
    fn paths_are_narrowed_to_those_that_are_due() {
        let (wishes, tools) = ([wish("a.md"), wish("b.md")], [reader()]);
        let schema = schema(&wishes.iter().collect::<Vec<_>>(), &tools);
        assert_eq!(schema["properties"]["tool"], json!({"const": "read_file"}));
        let arguments = &schema["properties"]["arguments"];
        assert_eq!(arguments["properties"], json!({"path": {"enum": ["a.md", "b.md"]}}));
        assert_eq!(
            (&arguments["required"], &arguments["additionalProperties"]),
            (&json!(["path"]), &json!(false))
        );
    }

    #[test]
    fn several_tools_are_alternatives() {
        let mut other = reader();
        other.name = "list_files".to_owned();
        let wishes = [wish("a.md"), Wish { tool: 1, path: None }];
        let schema = schema(&wishes.iter().collect::<Vec<_>>(), &[reader(), other]);
        assert_eq!(schema["anyOf"].as_array().map(Vec::len), Some(2));
    }

    #[test]
    fn everything_that_the_model_makes_up_has_an_end() {
        let text = bounded(&json!({"type": "string"}), 0);
        assert_eq!(text["maxLength"], TEXT_MAX);
        let number = bounded(&json!({"type": "integer", "minimum": 1}), 0);
        assert_eq!((&number["minimum"], &number["maximum"]), (&json!(1), &json!(NUMBER_MAX)));
        let tasks = json!({"type": "array", "items": {"type": "object", "properties": {"goal": {"type": "string"}}, "required": ["goal"]}});
        let list = bounded(&tasks, 0);
        assert_eq!(list["maxItems"], ITEMS_MAX);
        assert_eq!(list["items"]["properties"]["goal"]["maxLength"], TEXT_MAX);
    }
}
