//! Placeholders in a script's texts: which there are, and what stands for them in a conversation. A brace that begins
//! no name is an ordinary character.

use legwork_core::message::{Author, Message, Part};
use serde_json::{Map, Value};
use std::sync::Arc;

/// The most characters of a tool's result that a placeholder stands for.
const RESULT_MAX_CHARS: usize = 400;

const KNOWN: &str =
    "{goal}, {goal_path}, {last_result}, {last_result_line_1}, {last_result_line_2} and so on";

/// What a placeholder stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Name {
    Goal,
    GoalPath,
    LastResult,
    /// A line of the result, from 1.
    LastResultLine(usize),
}

impl Name {
    fn of(text: &str) -> Option<Self> {
        match text {
            "goal" => Some(Name::Goal),
            "goal_path" => Some(Name::GoalPath),
            "last_result" => Some(Name::LastResult),
            other => {
                let line = other.strip_prefix("last_result_line_")?.parse().ok()?;
                (line > 0).then_some(Name::LastResultLine(line))
            }
        }
    }
}

/// A piece of a text.
enum Piece<'a> {
    Plain(&'a str),
    Named(&'a str),
}

/// Splits a text into what is said as it stands and the names within braces.
fn pieces(text: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some(open) = rest.find('{') {
        let after = &rest[open + 1..];
        let name = after.find('}').map(|close| &after[..close]).filter(|name| is_name(name));
        let (plain, next) = match name {
            Some(name) => (&rest[..open], &after[name.len() + 1..]),
            None => (&rest[..=open], after),
        };
        pieces.push(Piece::Plain(plain));
        pieces.extend(name.map(Piece::Named));
        rest = next;
    }
    pieces.push(Piece::Plain(rest));
    pieces
}

fn is_name(text: &str) -> bool {
    let begins_well = text.starts_with(|c: char| c.is_ascii_lowercase());
    begins_well && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
}

/// Refuses a text with a placeholder that stands for nothing.
pub(super) fn check(text: &str) -> Result<(), String> {
    let unknown = pieces(text).into_iter().find_map(|piece| match piece {
        Piece::Named(name) if Name::of(name).is_none() => Some(name.to_owned()),
        Piece::Named(_) | Piece::Plain(_) => None,
    });
    unknown.map_or(Ok(()), |name| Err(format!("there is no placeholder {{{name}}}; there are {KNOWN}")))
}

/// Does the same for all texts of an argument.
pub(super) fn check_value(value: &Value) -> Result<(), String> {
    match value {
        Value::String(text) => check(text),
        Value::Array(items) => items.iter().try_for_each(check_value),
        Value::Object(fields) => fields.values().try_for_each(check_value),
        Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
    }
}

/// What a conversation offers to placeholders.
pub(super) struct Filling<'a> {
    pub goal: &'a str,
    last_result: Option<&'a str>,
}

impl<'a> Filling<'a> {
    pub fn of(messages: &'a [Arc<Message>]) -> Self {
        let first_user = messages.iter().find(|message| message.author == Author::User);
        let goal = first_user.and_then(|message| message.parts.iter().find_map(text)).unwrap_or_default();
        let results = messages.iter().rev().flat_map(|message| message.parts.iter().rev());
        let last_result = results.into_iter().find_map(|part| match part {
            Part::Result(result) => Some(result.content.as_str()),
            Part::Text { .. }
            | Part::Reasoning { .. }
            | Part::Call(_)
            | Part::Image(_)
            | Part::Summary(_) => None,
        });
        Filling { goal, last_result }
    }

    /// The text with its placeholders filled in.
    pub fn fill(&self, text: &str) -> Result<String, String> {
        let filled = pieces(text).into_iter().map(|piece| match piece {
            Piece::Plain(text) => Ok(text.to_owned()),
            Piece::Named(name) => self.value(name),
        });
        filled.collect()
    }

    /// Arguments with all their texts filled in.
    pub fn fill_fields(&self, fields: &Map<String, Value>) -> Result<Map<String, Value>, String> {
        fields.iter().map(|(name, value)| Ok((name.clone(), self.fill_value(value)?))).collect()
    }

    fn fill_value(&self, value: &Value) -> Result<Value, String> {
        match value {
            Value::String(text) => self.fill(text).map(Value::String),
            Value::Array(items) => items.iter().map(|item| self.fill_value(item)).collect(),
            Value::Object(fields) => self.fill_fields(fields).map(Value::Object),
            Value::Null | Value::Bool(_) | Value::Number(_) => Ok(value.clone()),
        }
    }

    fn value(&self, name: &str) -> Result<String, String> {
        let known =
            Name::of(name).ok_or_else(|| format!("there is no placeholder {{{name}}}; there are {KNOWN}"))?;
        match known {
            Name::Goal => Ok(self.goal.to_owned()),
            Name::GoalPath => path_in(self.goal).map(str::to_owned).ok_or_else(|| no_path(self.goal)),
            Name::LastResult => self.result(name).map(cut),
            Name::LastResultLine(line) => {
                let result = self.result(name)?;
                Ok(cut(result.lines().nth(line - 1).unwrap_or_default()))
            }
        }
    }

    fn result(&self, name: &str) -> Result<&'a str, String> {
        self.last_result.ok_or_else(|| format!("the script uses {{{name}}}, but no tool was called before"))
    }
}

fn no_path(goal: &str) -> String {
    format!("the script uses {{goal_path}}, but the goal names no file: {}", cut(goal))
}

fn text(part: &Part) -> Option<&str> {
    match part {
        Part::Text { text } => Some(text),
        Part::Reasoning { .. } | Part::Call(_) | Part::Result(_) | Part::Image(_) | Part::Summary(_) => None,
    }
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(RESULT_MAX_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// The first word that looks like a path; without one, the word after "file".
fn path_in(goal: &str) -> Option<&str> {
    let words = || goal.split_whitespace().map(bare);
    let after_file = || words().skip_while(|word| !word.eq_ignore_ascii_case("file")).nth(1);
    words().find(|word| looks_like_path(word)).or_else(after_file).filter(|word| !word.is_empty())
}

/// A word without the punctuation around it.
fn bare(word: &str) -> &str {
    let word = word.trim_start_matches(['"', '\'', '`', '(', '[', '<', '„', '“']);
    word.trim_end_matches(['"', '\'', '`', ')', ']', '>', '”', '“', '.', ',', ';', ':', '!', '?'])
}

/// Whether a word has a folder in it or a name with an extension; an address and an abbreviation have neither.
fn looks_like_path(word: &str) -> bool {
    if word.contains("://") {
        return false;
    }
    let name = word.rsplit('/').next().unwrap_or(word);
    let extension = name.rsplit_once('.').is_some_and(|(stem, extension)| {
        let letters = extension.chars().all(|c| c.is_ascii_alphanumeric());
        letters && !extension.is_empty() && (stem.len() > 1 || extension.len() > 1)
    });
    extension || (word.contains('/') && word.len() > 1)
}

#[cfg(test)]
#[path = "fill_tests.rs"]
mod tests;
