//! Reading a request's JSON field by field; whatever is not as it must be becomes a `Violation` with its place.
//!
//! Which fields a request has is known to each wire format alone.

use serde_json::{Map, Value};

use super::http::Request;
use super::strict::{Rule, Violation};

pub(super) type Object = Map<String, Value>;

/// Tool names are at most this long.
const NAME_CHARS_MAX: usize = 64;

/// The body, which must be declared as JSON and be an object.
pub(super) fn json_body(request: &Request) -> Result<Object, Violation> {
    let content_type = request.header("content-type").unwrap_or_default();
    if !content_type.starts_with("application/json") {
        let text = format!("the content type must be application/json, not `{content_type}`");
        return Err(Violation::new(Rule::Json, "content-type", text));
    }
    let value = serde_json::from_slice(&request.body)
        .map_err(|error| Violation::new(Rule::Json, "body", format!("the body is no JSON: {error}")))?;
    match value {
        Value::Object(body) => Ok(body),
        _ => Err(Violation::new(Rule::Json, "body", "the body is no JSON object")),
    }
}

/// A field that is there and is not null.
pub(super) fn present<'a>(fields: &'a Object, name: &str) -> Option<&'a Value> {
    fields.get(name).filter(|value| !value.is_null())
}

pub(super) fn object<'a>(value: &'a Value, place: &str) -> Result<&'a Object, Violation> {
    value.as_object().ok_or_else(|| illegal(place, format!("`{place}` must be an object")))
}

/// A required field that holds an object.
pub(super) fn object_field<'a>(fields: &'a Object, name: &str, place: &str) -> Result<&'a Object, Violation> {
    object(present(fields, name).ok_or_else(|| missing(place))?, place)
}

/// A list with at least one element.
pub(super) fn full_array<'a>(value: &'a Value, place: &str) -> Result<&'a Vec<Value>, Violation> {
    let list = value.as_array().ok_or_else(|| illegal(place, format!("`{place}` must be an array")))?;
    if list.is_empty() {
        return Err(illegal(place, format!("`{place}` must not be empty")));
    }
    Ok(list)
}

/// A required field that holds a text with at least one character.
pub(super) fn text_field<'a>(fields: &'a Object, name: &str, place: &str) -> Result<&'a str, Violation> {
    let value = fields.get(name).ok_or_else(|| missing(place))?;
    let text = value.as_str().ok_or_else(|| illegal(place, format!("`{place}` must be a string")))?;
    if text.is_empty() {
        return Err(missing(place));
    }
    Ok(text)
}

/// A field that holds true or false; `otherwise` where it is absent.
pub(super) fn flag(fields: &Object, name: &str, otherwise: Flag) -> Result<Flag, Violation> {
    match present(fields, name) {
        None => Ok(otherwise),
        Some(Value::Bool(true)) => Ok(Flag::On),
        Some(Value::Bool(false)) => Ok(Flag::Off),
        Some(_) => Err(illegal(name, format!("`{name}` must be true or false"))),
    }
}

/// What a field of true or false says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flag {
    On,
    Off,
}

/// The name of a tool, which has a short alphabet.
pub(super) fn tool_name<'a>(fields: &'a Object, place: &str) -> Result<&'a str, Violation> {
    let place = format!("{place}.name");
    let name = text_field(fields, "name", &place)?;
    let legal = name.chars().all(|char| char.is_ascii_alphanumeric() || "_-".contains(char));
    if !legal || name.len() > NAME_CHARS_MAX {
        let text = format!("`{name}` is no name of 1 to {NAME_CHARS_MAX} letters, digits, `_` and `-`");
        return Err(illegal(place, text));
    }
    Ok(name)
}

/// Adds the name of a tool; two tools must not have the same one.
pub(super) fn add_tool(names: &mut Vec<String>, name: &str, place: &str) -> Result<(), Violation> {
    if names.iter().any(|known| known == name) {
        return Err(illegal(format!("{place}.name"), format!("two tools have the name `{name}`")));
    }
    names.push(name.to_owned());
    Ok(())
}

pub(super) fn missing(place: impl Into<String>) -> Violation {
    let place = place.into();
    let text = format!("the required `{place}` is missing or empty");
    Violation::new(Rule::Missing, place, text)
}

pub(super) fn illegal(place: impl Into<String>, message: impl Into<String>) -> Violation {
    Violation::new(Rule::IllegalValue, place, message)
}

/// Refuses fields that are not in the list.
pub(super) fn only(fields: &Object, allowed: &[&str], place: &str) -> Result<(), Violation> {
    match fields.keys().find(|name| !allowed.contains(&name.as_str())) {
        Some(name) => Err(illegal(format!("{place}{name}"), "extra inputs are not permitted")),
        None => Ok(()),
    }
}
