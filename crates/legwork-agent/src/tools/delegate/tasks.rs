//! The tasks of a call or of a file, parsed once. Every value that can come in leads to tasks or to a sentence that
//! says which item is wrong and what to send (K23). Nothing exists yet when this runs.
//!
//! It does not know who asks or how many children may run.

mod demands;
mod gate;
mod named_routes;
mod on_crash;

use crate::turn::kind;
use legwork_core::batch::{OnCrash, Task};
use legwork_core::ports::Refusal;
pub use named_routes::route_names;
use serde_json::{Map, Value};
use std::borrow::Cow;
use thiserror::Error;

/// Which rules bind the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TaskRules {
    /// Who wrote the tasks.
    pub author: TaskAuthor,
    /// Bytes of one goal, and of one context (`delegation.goal_max_bytes`).
    pub goal_bytes_max: usize,
    /// What becomes of a task that does not say it when its process dies (`delegation.on_crash`).
    pub on_crash: OnCrash,
    /// The most tasks of one call, where there is such a limit of its own (TASK-3).
    pub tasks_max: Option<usize>,
}

/// Who wrote the tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskAuthor {
    /// A model. The goal gates bind it (TASK-7…9), and a context beside `tasks` does not reach the children (TASK-6).
    Model,
    /// A person. A context beside `tasks` is copied into each task that has none.
    Person,
}

/// What is wrong with the tasks.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub struct TaskError {
    /// The position of the task that is wrong; absent when it is the call as a whole.
    pub index: Option<usize>,
    /// What is wrong and what to send instead.
    pub message: String,
}

impl std::fmt::Display for TaskError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.index {
            Some(index) => write!(f, "tasks[{index}]: {}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

/// The key by which models ask for what the session decides (TOOL-9).
pub(super) const BACKGROUND: &str = "background";
/// Keys of a task.
const TASK_KEYS: [&str; 7] =
    ["goal", "context", demands::OUTPUT_SCHEMA, demands::IMAGES, GROUP, "route", on_crash::ON_CRASH];
/// The key that says with which other tasks one comes back.
pub(super) const GROUP: &str = "group";
/// Bytes of a group's name.
const GROUP_BYTES_MAX: usize = 256;
/// Keys that models send out of habit and that decide nothing (TOOL-8…10, TOOL-18).
const WITHOUT_EFFECT: [&str; 5] = [BACKGROUND, "max_iterations", "role", "acp_command", "acp_args"];

/// Parses the tasks of `source`: `tasks`, as a list or as a list in JSON text, or one `goal`, each with `context`.
///
/// # Errors
/// [`TaskError`] with the first thing that is wrong.
pub fn parse_tasks(source: &Value, rules: &TaskRules) -> Result<Vec<Task>, TaskError> {
    let Value::Object(fields) = source else {
        return Err(whole(format!("expected an object with `tasks`, found {}", kind(source))));
    };
    let mut allowed = vec!["tasks"];
    allowed.extend(TASK_KEYS);
    check_keys(fields, &allowed, rules).map_err(whole)?;
    let context = text(fields, "context", rules).map_err(whole)?;
    let goal = text(fields, "goal", rules).map_err(whole)?;
    let group = group(fields).map_err(whole)?;
    let rules = &TaskRules { on_crash: on_crash::parse(fields, rules.on_crash).map_err(whole)?, ..*rules };
    let listed = listed(fields.get("tasks"))?;
    let mut tasks = match (&listed, goal) {
        (Some(_), Some(_)) => {
            return Err(whole(
                "send either `goal` for one task or `tasks` for a list, not both; nothing was started",
            ));
        }
        (Some(listed), None) => several(listed, context.as_deref(), rules)?,
        (None, Some(goal)) => {
            vec![Task { goal, context, group, on_crash: rules.on_crash, ..Task::default() }]
        }
        (None, None) => {
            return Err(whole(
                "there is no task: send `tasks`, a list of objects with a `goal` each, such as {\"tasks\": [{\"goal\": \"…\", \"context\": \"…\"}]}",
            ));
        }
    };
    if let Some(tasks_max) = rules.tasks_max.filter(|max| tasks.len() > *max) {
        return Err(whole(Refusal::TooManyTasks { asked: tasks.len(), tasks_max }.to_string()));
    }
    let items = listed.as_ref().map(|listed| &*listed.items);
    demands::fill(&mut tasks, (fields, items), rules)?;
    Ok(tasks)
}

/// Names those of the call's keys that were understood and decide nothing for its children.
pub(super) fn without_effect(source: &Value) -> Vec<String> {
    let Ok(listed) = listed(source.get("tasks")) else { return Vec::new() };
    let beside = ["context", GROUP].into_iter();
    let beside = beside.filter(|key| source.get(key).is_some_and(|value| !is_absent(value)));
    let mut names: Vec<String> = beside.filter(|_| listed.is_some()).map(str::to_owned).collect();
    let items = listed.iter().flat_map(|listed| listed.items.iter());
    let objects = std::iter::once(source).chain(items).filter_map(Value::as_object);
    for key in objects.flat_map(Map::keys).filter(|key| WITHOUT_EFFECT.contains(&key.as_str())) {
        if !names.contains(key) {
            names.push(key.clone());
        }
    }
    names
}

/// A text that stands beside a list of tasks, and so belongs to none of them.
pub(super) fn beside(source: &Value, key: &str) -> Option<String> {
    let is_list = matches!(listed(source.get("tasks")), Ok(Some(_)));
    let text = source.get(key).and_then(Value::as_str).filter(|text| is_list && !text.trim().is_empty());
    text.map(str::to_owned)
}

/// A list of items and how it was written.
struct Listed<'a> {
    items: Cow<'a, [Value]>,
    written: Written,
}

#[derive(PartialEq, Eq)]
enum Written {
    AsList,
    AsText,
}

/// The list in `tasks`; `None` when there is none or it is empty (TASK-1, TASK-2).
fn listed(tasks: Option<&Value>) -> Result<Option<Listed<'_>>, TaskError> {
    let listed = match tasks {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::Array(items)) => Listed { items: Cow::Borrowed(items), written: Written::AsList },
        Some(Value::String(text)) => {
            let items = from_text(text).map_err(whole)?;
            Listed { items: Cow::Owned(items), written: Written::AsText }
        }
        Some(other @ (Value::Bool(_) | Value::Number(_) | Value::Object(_))) => {
            return Err(whole(format!("`tasks` must be a list, found {}", kind(other))));
        }
    };
    Ok((!listed.items.is_empty()).then_some(listed))
}

fn from_text(text: &str) -> Result<Vec<Value>, String> {
    if text.trim().is_empty() {
        return Err("`tasks` is blank text; send a list of objects with a `goal` each".to_owned());
    }
    match serde_json::from_str(text) {
        Ok(Value::Array(items)) => Ok(items),
        Ok(other) => Err(format!("`tasks` must be a list, found text that holds {}", kind(&other))),
        Err(error) => Err(format!("`tasks` is text that is not valid JSON: {error}; send the list itself")),
    }
}

fn several(listed: &Listed<'_>, context: Option<&str>, rules: &TaskRules) -> Result<Vec<Task>, TaskError> {
    let mut tasks = Vec::with_capacity(listed.items.len());
    for (index, item) in listed.items.iter().enumerate() {
        let parsed = one(item, rules).map_err(|message| TaskError { index: Some(index), message })?;
        tasks.push(parsed);
    }
    match rules.author {
        TaskAuthor::Model if listed.written == Written::AsList => gate::check(&tasks)?,
        TaskAuthor::Model => {}
        TaskAuthor::Person => {
            for task in tasks.iter_mut().filter(|task| task.context.is_none()) {
                task.context = context.map(str::to_owned);
            }
        }
    }
    Ok(tasks)
}

fn one(item: &Value, rules: &TaskRules) -> Result<Task, String> {
    let Value::Object(fields) = item else {
        return Err(format!("a task must be an object with a `goal`, found {}", kind(item)));
    };
    check_keys(fields, &TASK_KEYS, rules)?;
    let goal = text(fields, "goal", rules)?;
    let goal = goal.ok_or("`goal` is missing or blank; say in it what the subagent is to do")?;
    let on_crash = on_crash::parse(fields, rules.on_crash)?;
    let (context, group) = (text(fields, "context", rules)?, group(fields)?);
    Ok(Task { goal, context, group, on_crash, ..Task::default() })
}

/// The group of a task, any value by its text form; none when that says nothing (TASK-11).
fn group(fields: &Map<String, Value>) -> Result<Option<String>, String> {
    let name = match fields.get(GROUP) {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::String(name)) => name.clone(),
        Some(other @ (Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_))) => {
            other.to_string()
        }
    };
    if name.len() > GROUP_BYTES_MAX {
        return Err(format!(
            "`{GROUP}` has {} bytes and at most {GROUP_BYTES_MAX} are taken; use a short name",
            name.len()
        ));
    }
    Ok((!name.is_empty()).then_some(name))
}

/// A text field; `None` when it is absent, null or blank.
fn text(fields: &Map<String, Value>, key: &str, rules: &TaskRules) -> Result<Option<String>, String> {
    match fields.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) if text.trim().is_empty() => Ok(None),
        Some(Value::String(text)) if text.len() > rules.goal_bytes_max => Err(format!(
            "`{key}` has {} bytes and delegation.goal_max_bytes is {}; put the text into a file and name the file",
            text.len(),
            rules.goal_bytes_max,
        )),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(other) => Err(format!("`{key}` must be text, found {}", kind(other))),
    }
}

fn check_keys(fields: &Map<String, Value>, allowed: &[&str], rules: &TaskRules) -> Result<(), String> {
    for key in fields.keys().map(String::as_str) {
        let habit = rules.author == TaskAuthor::Model && WITHOUT_EFFECT.contains(&key);
        if allowed.contains(&key) || habit {
            continue;
        }
        return Err(format!("unknown key `{key}`; the keys here are `{}`", allowed.join("`, `")));
    }
    Ok(())
}

/// Whether an optional value says nothing: small models fill every field.
fn is_absent(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.trim().is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

fn whole(message: impl Into<String>) -> TaskError {
    TaskError { index: None, message: message.into() }
}
