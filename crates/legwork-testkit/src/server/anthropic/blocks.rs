//! Reads the blocks of an Anthropic request: what may stand in whose message, and what each must hold.

use serde_json::Value;

use crate::server::conversation::{Role, SeenCall, SeenMessage};
use crate::server::fields::{Object, illegal, missing, object, object_field, present, text_field, tool_name};
use crate::server::seal::{is_named, seal};
use crate::server::strict::{Rule, Violation};

/// The messages that one of the user's stands for: one per result, and one for what the user says besides.
pub(super) fn user(content: &[Value], place: &str) -> Result<Vec<SeenMessage>, Violation> {
    let mut results = Vec::new();
    let mut said: Option<Vec<&str>> = None;
    for (index, block) in content.iter().enumerate() {
        let block_place = format!("{place}.content.{index}");
        let fields = object(block, &block_place)?;
        match kind(fields, &block_place)? {
            "tool_result" if said.is_some() => {
                let text = "results must come first in a message, but something stands before this one";
                return Err(Violation::new(Rule::ResultNotFirst, block_place, text));
            }
            "tool_result" => results.push(result(fields, &block_place)?),
            "text" => said.get_or_insert_default().push(text(fields, &block_place)?),
            "image" | "document" | "search_result" => {
                object_or_text(fields, "source", &block_place)?;
                said.get_or_insert_default();
            }
            kind => return Err(not_here(kind, "a user", &block_place)),
        }
    }
    results.extend(
        said.map(|said| SeenMessage { text: said.join("\n"), ..SeenMessage::new(Role::User, place) }),
    );
    Ok(results)
}

pub(super) fn assistant(content: &[Value], place: &str) -> Result<SeenMessage, Violation> {
    let mut message = SeenMessage::new(Role::Assistant, place);
    let mut texts = Vec::new();
    for (index, block) in content.iter().enumerate() {
        let place = format!("{place}.content.{index}");
        let fields = object(block, &place)?;
        match kind(fields, &place)? {
            "text" => texts.push(text(fields, &place)?),
            "tool_use" => message.calls.push(tool_use(fields, &place)?),
            kind @ ("thinking" | "redacted_thinking") => {
                if message.reasoning.is_none() && !message.calls.is_empty() {
                    let text = "thinking must stand before the call that it led to";
                    return Err(Violation::new(Rule::ReasoningChanged, place, text));
                }
                let thought =
                    if kind == "thinking" { thinking(fields, &place)? } else { redacted(fields, &place)? };
                message.reasoning.get_or_insert_default().push_str(thought);
            }
            kind => return Err(not_here(kind, "an assistant", &place)),
        }
    }
    message.text = texts.join("\n");
    Ok(message)
}

/// The text of a block of the system prompt.
pub(super) fn system<'a>(block: &'a Value, place: &str) -> Result<&'a str, Violation> {
    let fields = object(block, place)?;
    match kind(fields, place)? {
        "text" => text(fields, place),
        kind => Err(not_here(kind, "a system", place)),
    }
}

fn kind<'a>(fields: &'a Object, place: &str) -> Result<&'a str, Violation> {
    text_field(fields, "type", &format!("{place}.type"))
}

fn not_here(kind: &str, whose: &str, place: &str) -> Violation {
    illegal(
        format!("{place}.type"),
        format!("a block of the type `{kind}` is not allowed in {whose} message"),
    )
}

/// A text must have a letter in it that is no space.
fn text<'a>(fields: &'a Object, place: &str) -> Result<&'a str, Violation> {
    let place = format!("{place}.text");
    let text = text_field(fields, "text", &place)?;
    if text.trim().is_empty() {
        return Err(illegal(place, "a text must contain more than white space"));
    }
    Ok(text)
}

fn object_or_text(fields: &Object, name: &str, place: &str) -> Result<(), Violation> {
    let place = format!("{place}.{name}");
    match present(fields, name).ok_or_else(|| missing(&place))? {
        Value::Object(_) | Value::String(_) => Ok(()),
        _ => Err(illegal(&place, format!("`{place}` must be an object"))),
    }
}

fn result(fields: &Object, place: &str) -> Result<SeenMessage, Violation> {
    let answers = text_field(fields, "tool_use_id", &format!("{place}.tool_use_id"))?.to_owned();
    let text = match present(fields, "content") {
        None => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(content) => result_text(content, &format!("{place}.content"))?,
    };
    Ok(SeenMessage { text, answers: Some(answers), ..SeenMessage::new(Role::Tool, place) })
}

fn result_text(content: &Value, place: &str) -> Result<String, Violation> {
    let mut texts = Vec::new();
    let list =
        content.as_array().ok_or_else(|| illegal(place, format!("`{place}` must be a text or an array")))?;
    for (index, block) in list.iter().enumerate() {
        let place = format!("{place}.{index}");
        let fields = object(block, &place)?;
        match kind(fields, &place)? {
            "text" => texts.push(text_field(fields, "text", &format!("{place}.text"))?),
            "image" | "document" | "search_result" => {}
            kind => return Err(not_here(kind, "a result's", &place)),
        }
    }
    Ok(texts.join("\n"))
}

fn tool_use(fields: &Object, place: &str) -> Result<SeenCall, Violation> {
    let id = text_field(fields, "id", &format!("{place}.id"))?.to_owned();
    if !id.chars().all(|char| char.is_ascii_alphanumeric() || "_-".contains(char)) {
        return Err(illegal(
            format!("{place}.id"),
            format!("`{id}` is not made of letters, digits, `_` and `-`"),
        ));
    }
    let name = tool_name(fields, place)?.to_owned();
    let input_place = format!("{place}.input");
    let input = object_field(fields, "input", &input_place)
        .map_err(|violation| Violation { rule: Rule::Arguments, ..violation })?;
    Ok(SeenCall { place: place.to_owned(), id, name, arguments: Value::Object(input.clone()).to_string() })
}

/// What was thought, which must be just what was sent: its signature fits nothing else.
fn thinking<'a>(fields: &'a Object, place: &str) -> Result<&'a str, Violation> {
    let thought = present(fields, "thinking").and_then(Value::as_str);
    let thought = thought.ok_or_else(|| missing(format!("{place}.thinking")))?;
    let place = format!("{place}.signature");
    let signature = text_field(fields, "signature", &place)
        .map_err(|violation| Violation { rule: Rule::ReasoningChanged, ..violation })?;
    if signature == seal(thought) || thought.is_empty() && is_named(signature) {
        return Ok(thought);
    }
    let text = "the signature does not fit the thinking, which must come back as it was sent";
    Err(Violation::new(Rule::ReasoningChanged, place, text))
}

fn redacted<'a>(fields: &'a Object, place: &str) -> Result<&'a str, Violation> {
    text_field(fields, "data", &format!("{place}.data")).map(|_| "")
}
