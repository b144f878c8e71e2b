//! What a task demands beside its goal: the schema that its answer must meet (TASK-12) and the pictures that it is shown
//! (TASK-13). Both may stand beside the task of a call that has one. Schemas are looked at in all tasks before pictures are in
//! any (TOOL-13).
//!
//! It reads no file and no address: whether a picture can be shown is found when the subagent is set up.

use super::{TaskError, TaskRules, is_absent, whole};
use crate::contract::Contract;
use crate::turn::kind;
use legwork_core::batch::Task;
use serde_json::{Map, Value};

/// The key of the schema.
pub(super) const OUTPUT_SCHEMA: &str = "output_schema";
/// The key of the pictures.
pub(super) const IMAGES: &str = "images";
/// Pictures of one task.
const IMAGES_MAX: usize = 8;

/// The fields of the call, and its items when it has a list of them.
type Source<'a> = (&'a Map<String, Value>, Option<&'a [Value]>);

/// Adds to each of the tasks what it demands.
///
/// # Errors
/// The first thing that is wrong, with its task.
pub(super) fn fill(tasks: &mut [Task], source: Source<'_>, rules: &TaskRules) -> Result<(), TaskError> {
    let schemas = each(tasks.len(), (source, OUTPUT_SCHEMA), |value| schema(value, rules))?;
    let images = each(tasks.len(), (source, IMAGES), images)?;
    for ((task, schema), images) in tasks.iter_mut().zip(schemas).zip(images) {
        task.output_schema = schema;
        task.images = images.unwrap_or_default();
    }
    Ok(())
}

/// The value of a key for each task: its own, or for the only one that of the call.
fn each<T>(
    tasks: usize,
    ((call, items), key): (Source<'_>, &str),
    parse: impl Fn(&Value) -> Result<T, String>,
) -> Result<Vec<Option<T>>, TaskError> {
    let says_something = |value: &&Value| !is_absent(value);
    let beside = call.get(key).filter(says_something);
    if beside.is_some() && tasks > 1 {
        return Err(whole(format!(
            "`{key}` stands beside {tasks} tasks: put it into each task that it is for; nothing was started"
        )));
    }
    let of_task = |index: usize| {
        let own = items.and_then(|items| items.get(index)?.get(key)).filter(says_something);
        let parsed = own.or(beside).map(&parse).transpose();
        parsed.map_err(|message| TaskError { index: Some(index), message: format!("`{key}` {message}") })
    };
    (0..tasks).map(of_task).collect()
}

/// A JSON Schema, as an object or as text that holds one.
fn schema(value: &Value, rules: &TaskRules) -> Result<Value, String> {
    let schema = match value {
        Value::String(text) => serde_json::from_str(text).map_err(|error| {
            format!("is text that is not valid JSON: {error}; send the JSON Schema as an object")
        })?,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => value.clone(),
    };
    if !schema.is_object() {
        return Err(format!("must be a JSON Schema, which is an object; found {}", kind(&schema)));
    }
    let bytes = schema.to_string().len();
    if bytes > rules.goal_bytes_max {
        return Err(format!(
            "has {bytes} bytes and delegation.goal_max_bytes is {}; ask for less at once",
            rules.goal_bytes_max
        ));
    }
    match Contract::of(&schema) {
        Ok(_) => Ok(schema),
        Err(reason) => Err(format!("is not a valid JSON Schema: {reason}")),
    }
}

/// Pictures, one as text or several as a list of texts.
fn images(value: &Value) -> Result<Vec<String>, String> {
    let items = match value {
        Value::String(_) => std::slice::from_ref(value),
        Value::Array(items) => items.as_slice(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => {
            return Err(format!("must be a list of texts, found {}", kind(value)));
        }
    };
    if items.len() > IMAGES_MAX {
        return Err(format!(
            "has {} entries and a task takes at most {IMAGES_MAX}; share them out among several tasks",
            items.len()
        ));
    }
    items
        .iter()
        .enumerate()
        .map(|(place, item)| image(item).map_err(|why| format!("entry {place} {why}")))
        .collect()
}

/// One picture: a path, an address, or the picture itself.
fn image(item: &Value) -> Result<String, String> {
    const KINDS: &str = "write a path, an http or https address, or a data:image/ address";
    let Value::String(text) = item else {
        return Err(format!("must be text, found {}; {KINDS}", kind(item)));
    };
    let text = text.trim();
    let scheme = text.split_once(':').map(|(scheme, _)| scheme.to_ascii_lowercase());
    let starts = |beginning: &str| {
        text.get(..beginning.len()).is_some_and(|start| start.eq_ignore_ascii_case(beginning))
    };
    match scheme.as_deref() {
        _ if text.is_empty() => Err(format!("is blank; {KINDS}")),
        Some("data") if !starts("data:image/") => Err(format!("is data, but no picture; {KINDS}")),
        Some("http" | "https" | "data") => Ok(text.to_owned()),
        Some(other) if text[other.len()..].starts_with("://") => {
            Err(format!("has the unknown scheme {other}; {KINDS}"))
        }
        Some(_) | None => Ok(text.to_owned()),
    }
}
