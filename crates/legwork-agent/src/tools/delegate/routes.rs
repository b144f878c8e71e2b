//! Named routes: which of its operator's models a caller may choose for a task (CRED-20…25). All names of a call are checked
//! before any route is worked out, and a route that cannot be used refuses the whole call.
//!
//! What a route is made of, and which key may go where, is known to whoever configured it, behind [`NamedRoutes`].

use super::tasks::TaskError;
use legwork_core::batch::{Route, Task};
use serde_json::{Value, json};
use std::collections::HashMap;

/// The routes that a call may name.
pub trait NamedRoutes: Send + Sync {
    /// What is advertised, sorted by name. No description holds a credential.
    fn advertised(&self) -> Vec<Advertised>;

    /// The route of this name for a caller with the route `parent`.
    ///
    /// # Errors
    /// Why it cannot be used, such as a key that is missing; no request was made then.
    fn resolve(&self, name: &str, parent: &Route) -> Result<Route, String>;
}

/// A route as a model reads of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Advertised {
    /// Its name.
    pub name: String,
    /// What it is good for; may be empty.
    pub description: String,
}

/// No routes are configured.
pub(super) struct NoRoutes;

impl NamedRoutes for NoRoutes {
    fn advertised(&self) -> Vec<Advertised> {
        Vec::new()
    }

    fn resolve(&self, name: &str, _parent: &Route) -> Result<Route, String> {
        Err(unknown(name, &[]))
    }
}

/// Gives each task the route that was named for it. Tasks without a name keep that of the call.
///
/// # Errors
/// [`TaskError`] with the first name that is unknown, or else the first route that cannot be used.
pub fn assign_routes(
    tasks: &mut [Task],
    names: &[Option<String>],
    routes: &dyn NamedRoutes,
    parent: &Route,
) -> Result<(), TaskError> {
    for (task, route) in tasks.iter_mut().zip(resolve_routes(names, routes, parent)?) {
        task.route = route;
    }
    Ok(())
}

/// The route of each name, for a caller with the route `parent`.
///
/// # Errors
/// [`TaskError`] with the first name that is unknown, or else the first route that cannot be used.
pub(super) fn resolve_routes(
    names: &[Option<String>],
    routes: &dyn NamedRoutes,
    parent: &Route,
) -> Result<Vec<Option<Route>>, TaskError> {
    check_routes(names, &routes.advertised())?;
    let mut resolved: HashMap<&str, Route> = HashMap::new();
    let mut found = Vec::with_capacity(names.len());
    for (index, name) in names.iter().enumerate() {
        let Some(name) = name else {
            found.push(None);
            continue;
        };
        let route = match resolved.get(name.as_str()) {
            Some(route) => route.clone(),
            None => routes.resolve(name, parent).map_err(|message| TaskError {
                index: Some(index),
                message: format!("route `{name}`: {message}"),
            })?,
        };
        resolved.insert(name, route.clone());
        found.push(Some(route));
    }
    Ok(found)
}

/// Checks that there is a route of each name (TASK-15). No key is looked for.
///
/// # Errors
/// [`TaskError`] with the names there are.
pub fn check_routes(names: &[Option<String>], known: &[Advertised]) -> Result<(), TaskError> {
    let is_known = |name: &String| known.iter().any(|route| route.name == *name);
    let mut named = names.iter().enumerate().filter_map(|(index, name)| Some((index, name.as_ref()?)));
    match named.find(|(_, name)| !is_known(name)) {
        None => Ok(()),
        Some((index, name)) => Err(TaskError { index: Some(index), message: unknown(name, known) }),
    }
}

fn unknown(name: &str, known: &[Advertised]) -> String {
    let known: Vec<&str> = known.iter().map(|route| route.name.as_str()).collect();
    match known.as_slice() {
        [] => format!("there is no route {name:?}; no routes are configured, so leave `route` out"),
        some => format!("there is no route {name:?}; the routes are `{}`", some.join("`, `")),
    }
}

/// The field by which a task names a route; nothing when there is none to name (TOOL-3).
pub(super) fn schema(routes: &dyn NamedRoutes) -> Option<Value> {
    let routes = routes.advertised();
    if routes.is_empty() {
        return None;
    }
    let names: Vec<&str> = routes.iter().map(|route| route.name.as_str()).collect();
    let told = routes.iter().filter(|route| !route.description.is_empty());
    let told: Vec<String> = told.map(|route| format!("{}: {}", route.name, route.description)).collect();
    let mut description = "Which model works on it; without it the usual one.".to_owned();
    if !told.is_empty() {
        description = format!("{description} {}", told.join("; "));
    }
    Some(json!({ "type": "string", "enum": names, "description": description }))
}
