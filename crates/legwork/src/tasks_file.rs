//! The tasks of `legwork delegate`: from a TOML or JSON file, from stdin, or from `--goal`. What a task is, and which ones
//! are refused, is the agent's business; this module says where in the file something is wrong.

use std::io::Read;
use std::path::Path;

use legwork_agent::tools::{
    Advertised, NamedRoutes, TaskAuthor, TaskRules, assign_routes, check_routes, parse_tasks, route_names,
};
use legwork_core::batch::{Route, Task};
use serde::de::IgnoredAny;
use serde_json::{Map, Value, json};

use crate::args::DelegateArgs;
use crate::failure::{CliError, Kind};
use crate::settings::DelegationSettings;
use crate::unambiguous::Unambiguous;

/// The largest tasks file.
const FILE_MAX_BYTES: u64 = 64 * 1024 * 1024;

/// Tasks that were read, and the routes that are named for them.
pub struct Tasks {
    /// The tasks, in order.
    pub tasks: Vec<Task>,
    /// The name of each one's route.
    names: Vec<Option<String>>,
    /// Where they were read.
    source: String,
}

impl Tasks {
    /// Checks that there is a route of each name that is named (TASK-15).
    ///
    /// # Errors
    /// The first name that is unknown, with those there are.
    pub fn check_routes(&self, known: &[Advertised]) -> Result<(), CliError> {
        check_routes(&self.names, known).map_err(|error| wrong(format!("{}: {error}", self.source)))
    }

    /// Gives the tasks their routes, for a call with the route `parent`.
    ///
    /// # Errors
    /// What is wrong with a route, and for which task.
    pub fn with_routes(mut self, routes: &dyn NamedRoutes, parent: &Route) -> Result<Vec<Task>, CliError> {
        let assigned = assign_routes(&mut self.tasks, &self.names, routes, parent);
        assigned.map_err(|error| wrong(format!("{}: {error}", self.source)))?;
        Ok(self.tasks)
    }
}

/// Reads the tasks that the arguments name. Nothing is started when one of them is wrong.
///
/// # Errors
/// What is wrong, in which file and where.
pub fn read(args: &DelegateArgs, settings: &DelegationSettings) -> Result<Tasks, CliError> {
    let DelegationSettings { goal_max_bytes: goal_bytes_max, on_crash, .. } = *settings;
    let rules =
        TaskRules { author: TaskAuthor::Person, goal_bytes_max, on_crash: on_crash.into(), tasks_max: None };
    let (source, mut value) = match &args.file {
        Some(path) => from_file(path)?,
        None => ("--goal".to_owned(), from_goals(&args.goal)),
    };
    if let (Some(context), Value::Object(fields)) = (&args.context, &mut value) {
        fields.insert("context".to_owned(), json!(context));
    }
    let parsed = parse_tasks(&value, &rules).and_then(|tasks| Ok((tasks, route_names(&value, &rules)?)));
    let (tasks, names) = parsed.map_err(|error| wrong(format!("{source}: {error}")))?;
    Ok(Tasks { tasks, names, source })
}

fn from_goals(goals: &[String]) -> Value {
    let tasks: Vec<Value> = goals.iter().map(|goal| json!({"goal": goal})).collect();
    json!({"tasks": tasks})
}

fn from_file(path: &Path) -> Result<(String, Value), CliError> {
    let stdin = path == Path::new("-");
    let source = if stdin { "stdin".to_owned() } else { path.display().to_string() };
    let bytes = if stdin { read_all(std::io::stdin().lock(), &source) } else { read_file(path, &source) }?;
    let text = String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        wrong(format!("{source}: byte {at} is not UTF-8; save the file as UTF-8 text"))
    })?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let value = if is_json(path, text) { parse_json(text) } else { parse_toml(text) };
    value.map(|value| (source.clone(), value)).map_err(|problem| wrong(format!("{source}:{problem}")))
}

fn read_file(path: &Path, source: &str) -> Result<Vec<u8>, CliError> {
    let file = std::fs::File::open(path);
    let file = file.map_err(|error| wrong(format!("{source}: the tasks file cannot be read: {error}")))?;
    read_all(file, source)
}

fn read_all(from: impl Read, source: &str) -> Result<Vec<u8>, CliError> {
    let mut bytes = Vec::new();
    let read = from.take(FILE_MAX_BYTES + 1).read_to_end(&mut bytes);
    let read = read.map_err(|error| wrong(format!("{source}: the tasks cannot be read: {error}")))?;
    if read as u64 > FILE_MAX_BYTES {
        return Err(wrong(format!(
            "{source}: larger than {FILE_MAX_BYTES} bytes; put long material into files and name them in the goal"
        )));
    }
    Ok(bytes)
}

fn is_json(path: &Path, text: &str) -> bool {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("json") => true,
        Some("toml") => false,
        // A list in TOML begins with the same bracket; only JSON is JSON to its end.
        Some(_) | None => {
            text.trim_start().starts_with('{') || serde_json::from_str::<Vec<IgnoredAny>>(text).is_ok()
        }
    }
}

fn parse_json(text: &str) -> Result<Value, String> {
    serde_json::from_str::<Unambiguous>(text).map(|read| read.0).map_err(|error| {
        let message = error.to_string();
        let message = message.split(" at line ").next().unwrap_or(&message);
        format!("{}:{}: {message}", error.line(), error.column())
    })
}

fn parse_toml(text: &str) -> Result<Value, String> {
    let table: toml::Table = toml::from_str(text).map_err(|error| {
        let (line, column) = error.span().map_or((1, 1), |span| place(text, span.start));
        format!("{line}:{column}: {}", error.message())
    })?;
    let fields = table.into_iter().map(|(name, value)| Ok((name, to_json(value)?)));
    fields.collect::<Result<Map<String, Value>, String>>().map(Value::Object)
}

/// TOML has two kinds of values that JSON has not.
fn to_json(value: toml::Value) -> Result<Value, String> {
    match value {
        toml::Value::Datetime(time) => Ok(json!(time.to_string())),
        toml::Value::Float(number) => serde_json::Number::from_f64(number)
            .map(Value::Number)
            .ok_or_else(|| format!("1:1: {number} is not a number that tasks can hold")),
        toml::Value::Array(items) => {
            items.into_iter().map(to_json).collect::<Result<Vec<Value>, String>>().map(Value::Array)
        }
        toml::Value::Table(table) => {
            let fields = table.into_iter().map(|(name, value)| Ok((name, to_json(value)?)));
            fields.collect::<Result<Map<String, Value>, String>>().map(Value::Object)
        }
        toml::Value::String(text) => Ok(json!(text)),
        toml::Value::Integer(number) => Ok(json!(number)),
        toml::Value::Boolean(truth) => Ok(json!(truth)),
    }
}

/// Line and column, from 1, of a byte of the text.
fn place(text: &str, byte: usize) -> (usize, usize) {
    let before = &text[..text.floor_char_boundary(byte.min(text.len()))];
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().map_or(0, |rest| rest.chars().count()) + 1;
    (line, column)
}

fn wrong(message: String) -> CliError {
    CliError::new(Kind::Input, message).with_hint("nothing was started")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn k23_a_key_that_stands_twice_is_refused_instead_of_dropping_tasks() {
        let error = parse_json("{\"tasks\": [],\n \"tasks\": []}").expect_err("ambiguous");
        assert!(error.starts_with("2:") && error.contains("`tasks` stands twice"), "{error}");
    }

    #[test]
    fn k23_a_list_on_stdin_is_told_from_a_table_of_toml() {
        let stdin = Path::new("-");
        assert!(is_json(stdin, " [{\"goal\": \"x\"}]\n") && is_json(stdin, "{\"tasks\": 3"));
        assert!(!is_json(stdin, "[[tasks]]\ngoal = \"x\"\n") && !is_json(stdin, "[delegation]\n"));
    }

    #[test]
    fn a_syntax_error_names_line_and_column() {
        assert!(
            parse_toml("[[tasks]]\ngoal = \"a\"\n[[tasks]]\ngoal = oops\n")
                .expect_err("wrong")
                .starts_with("4:8:")
        );
        assert!(parse_json("{\"tasks\": [\n  {\"goal\": }]}").expect_err("wrong").starts_with("2:12:"));
    }

    #[test]
    fn toml_and_json_of_one_shape_read_alike() {
        let toml = parse_toml("context = \"c\"\n[[tasks]]\ngoal = \"some goal\"\n").expect("right");
        let json = parse_json("{\"context\": \"c\", \"tasks\": [{\"goal\": \"some goal\"}]}").expect("right");
        assert_eq!(toml, json);
    }
}
