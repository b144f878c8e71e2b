//! What a call of `delegate_task` asks for (TOOL-15), parsed before anything else. Nothing exists yet when this runs.

use crate::turn::kind;
use legwork_core::ports::SteerError;
use serde_json::{Map, Value};

/// What is asked for.
#[derive(Debug, PartialEq)]
pub(super) enum Action {
    /// To start subagents; these are the fields that say which.
    Spawn(Value),
    /// To see those that run.
    List,
    /// To say something to one of them.
    Steer { id: String, message: String },
    /// To end one of them, or all of a delegation.
    Stop { id: String },
}

/// Finds out what a call asks for.
pub(super) fn action(arguments: &Value) -> Result<Action, String> {
    let Value::Object(fields) = arguments else {
        return Err("the arguments must be an object".to_owned());
    };
    let mut fields = fields.clone();
    let word = word(fields.remove("action").as_ref());
    match word.as_str() {
        word if is_spawn(word) => spawn(fields),
        "list" => Ok(Action::List),
        "steer" => {
            let id = id(&fields, &word)?;
            let message = text(&fields, "message")?.ok_or_else(|| SteerError::Blank.to_string())?;
            Ok(Action::Steer { id, message })
        }
        "stop" => Ok(Action::Stop { id: id(&fields, &word)? }),
        unknown => Err(format!("unknown action `{unknown}`; the actions are spawn, list, steer and stop")),
    }
}

/// Whether a call asks for subagents, whole or not.
pub(super) fn starts(arguments: &Value) -> bool {
    is_spawn(&word(arguments.get("action")))
}

fn word(action: Option<&Value>) -> String {
    match action {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(word)) => word.trim().to_lowercase(),
        Some(other) => other.to_string(),
    }
}

fn is_spawn(word: &str) -> bool {
    matches!(word, "" | "spawn")
}

fn spawn(mut fields: Map<String, Value>) -> Result<Action, String> {
    for key in ["subagent_id", "message"] {
        let value = fields.remove(key).unwrap_or_default();
        if !(value.is_null() || value.as_str().is_some_and(|text| text.trim().is_empty())) {
            return Err(format!(
                "`{key}` belongs to the actions steer and stop; set `action` to one of them, or leave `{key}` out"
            ));
        }
    }
    Ok(Action::Spawn(Value::Object(fields)))
}

fn id(fields: &Map<String, Value>, action: &str) -> Result<String, String> {
    let id = text(fields, "subagent_id")?;
    id.map(|id| id.trim().to_owned()).ok_or_else(|| {
        format!("the action {action} needs `subagent_id`, which the handle and the action list show")
    })
}

/// A text field; `None` when it is absent, null or blank.
fn text(fields: &Map<String, Value>, key: &str) -> Result<Option<String>, String> {
    match fields.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) if text.trim().is_empty() => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(other) => Err(format!("`{key}` must be text, found {}", kind(other))),
    }
}
