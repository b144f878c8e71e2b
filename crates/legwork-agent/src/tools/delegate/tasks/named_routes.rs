//! The names of routes in a call: one for all tasks, or one a task, which wins (CRED-21).

use super::{TaskError, TaskRules, listed, text, whole};
use serde_json::Value;

/// The name of the route of each task of `source`, in order. Whether there is such a route is not looked at.
///
/// # Errors
/// [`TaskError`] when a name is no text.
pub fn route_names(source: &Value, rules: &TaskRules) -> Result<Vec<Option<String>>, TaskError> {
    let of = |value: &Value| match value.as_object() {
        Some(fields) => text(fields, "route", rules).map(|name| name.map(|name| name.trim().to_owned())),
        None => Ok(None),
    };
    let of_call = of(source).map_err(whole)?;
    let Some(listed) = listed(source.get("tasks"))? else { return Ok(vec![of_call]) };
    let named = listed.items.iter().enumerate().map(|(index, item)| {
        let own = of(item).map_err(|message| TaskError { index: Some(index), message })?;
        Ok(own.or_else(|| of_call.clone()))
    });
    named.collect()
}
