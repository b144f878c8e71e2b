//! `legwork config`: the merged configuration, where each value came from, and whether all of it is right.

use std::path::Path;

use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

use crate::failure::{CliError, Exit, Kind};
use crate::invocation::Invocation;
use crate::settings::model::Embedded;
use crate::settings::{KEYS, Settings, schema};
use crate::stdout;

/// Arguments of `config`.
#[derive(Debug, Args)]
pub struct ConfigArgs {
    /// What to do; `show` if nothing is named
    #[command(subcommand)]
    pub action: Option<ConfigAction>,
}

/// What `config` can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Subcommand)]
pub enum ConfigAction {
    /// Print every value in force and where it came from
    Show,
    /// Check everything and print what was read
    Check,
    /// Print the path of the user's configuration file
    Path,
    /// Print a JSON Schema of the configuration file
    Schema,
}

/// Does what was asked. Secrets are masked in everything that is printed.
///
/// # Errors
/// For `show` and `check` when anything in the configuration is wrong; `path` and `schema` do not read it.
pub fn run(invocation: &Invocation, args: &ConfigArgs) -> Result<Exit, CliError> {
    match args.action.unwrap_or(ConfigAction::Show) {
        ConfigAction::Show => show(invocation)?,
        ConfigAction::Check => check(invocation)?,
        ConfigAction::Path => path(invocation)?,
        ConfigAction::Schema => stdout::print(&format!("{:#}", schema()))?,
    }
    Ok(Exit::Success)
}

fn show(invocation: &Invocation) -> Result<(), CliError> {
    let settings = invocation.settings()?;
    if invocation.common.json {
        return stdout::print_json(&show_json(&settings));
    }
    stdout::print(&show_text(&settings))
}

fn show_json(settings: &Settings) -> Value {
    let values = KEYS.iter().filter_map(|key| {
        let assigned = settings.trail(key.name).last()?;
        let value = json!({"value": assigned.shown.to_json(), "origin": assigned.origin.to_json()});
        Some((key.name.to_owned(), value))
    });
    Value::Object(values.collect::<Map<String, Value>>())
}

/// One line a key; the signs stand under each other.
fn show_text(settings: &Settings) -> String {
    let rows = KEYS.iter().filter_map(|key| {
        let assigned = settings.trail(key.name).last()?;
        Some((key.name, assigned.shown.to_string(), assigned.origin.to_string()))
    });
    let rows: Vec<(&str, String, String)> = rows.collect();
    let name_width = rows.iter().map(|(name, ..)| name.len()).max().unwrap_or_default();
    let value_width = rows.iter().map(|(_, value, _)| value.chars().count()).max().unwrap_or_default();
    let lines = rows
        .iter()
        .map(|(name, value, origin)| format!("{name:name_width$} = {value:value_width$}   # {origin}"));
    lines.collect::<Vec<_>>().join("\n")
}

/// Settings, and the models they choose. No model at all is not wrong: one may be named when work is started.
fn check(invocation: &Invocation) -> Result<(), CliError> {
    let settings = invocation.settings()?;
    let model = match invocation.model(&settings, Embedded::Absent) {
        Ok(model) => Some(model),
        Err(error) if error.kind() == Kind::NoModel => None,
        Err(error) => return Err(error),
    };
    let children =
        model.as_ref().map(|model| model.for_children(&settings, &invocation.environment)).transpose()?;
    for (name, model) in settings.delegation.routes.keys().zip(model.iter().cycle()) {
        model.for_route(name, &settings, &invocation.environment)?;
    }
    let files = files_read(invocation);
    let named = model.as_ref().map(|model| model.reference());
    let for_children = children.as_ref().map(|model| model.reference());
    if invocation.common.json {
        return stdout::print_json(&json!({
            "ok": true,
            "files": files,
            "model": named,
            "children_model": for_children,
            "warnings": settings.warnings,
        }));
    }
    let mut lines = vec!["the configuration is right".to_owned()];
    lines.extend(files.iter().map(|file| format!("  read: {file}")));
    lines.push(format!("  model: {}", named.as_deref().unwrap_or("none is configured")));
    lines.extend(for_children.map(|name| format!("  children: {name}")));
    stdout::print(&lines.join("\n"))
}

/// The files that exist, and were therefore read.
fn files_read(invocation: &Invocation) -> Vec<String> {
    let project = invocation.paths.project_config();
    let all = invocation.paths.user_config().path().into_iter().chain([project.as_path()]);
    all.filter(|path| path.exists()).map(shown).collect()
}

fn path(invocation: &Invocation) -> Result<(), CliError> {
    let paths = &invocation.paths;
    let user = paths.user_config().path();
    if invocation.common.json {
        return stdout::print_json(&json!({
            "user": user.map(shown),
            "project": shown(&paths.project_config()),
            "state": paths.state().ok().map(|state| shown(state.root())),
            "models": paths.models().ok().map(|models| shown(&models)),
        }));
    }
    let user = user.ok_or_else(|| {
        let message = "the configuration file is not known: neither HOME nor XDG_CONFIG_HOME is set";
        CliError::new(Kind::Configuration, message).with_hint("set HOME, or name a file with --config")
    })?;
    stdout::print(&shown(user))
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}
