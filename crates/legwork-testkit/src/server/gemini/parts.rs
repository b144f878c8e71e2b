//! Reads the parts of a content: what may stand in whose content, and what each must hold.

use serde_json::Value;

use super::names::{field, known};
use crate::server::conversation::Role;
use crate::server::fields::{Object, full_array, illegal, missing, object, object_field, tool_name};
use crate::server::strict::{Rule, Violation};

/// What a part may hold, of which it holds one.
const DATA: [&str; 7] = [
    "codeExecutionResult",
    "executableCode",
    "fileData",
    "functionCall",
    "functionResponse",
    "inlineData",
    "text",
];

/// What may stand beside that.
const MARKS: [&str; 5] = ["mediaResolution", "partMetadata", "thought", "thoughtSignature", "videoMetadata"];

/// One part.
pub(super) struct Part<'a> {
    pub text: Option<&'a str>,
    pub thought: bool,
    pub signature: Option<&'a str>,
    pub call: Option<Call<'a>>,
    pub response: Option<Response<'a>>,
}

pub(super) struct Call<'a> {
    pub id: Option<&'a str>,
    pub name: &'a str,
    /// The arguments as JSON text.
    pub args: String,
}

pub(super) struct Response<'a> {
    pub id: Option<&'a str>,
    pub name: &'a str,
    pub text: String,
}

/// The text of the system instruction.
pub(super) fn system_text(fields: &Object, place: &str) -> Result<String, Violation> {
    known(fields, &["role", "parts"], place)?;
    let place = format!("{place}.parts");
    let list = full_array(field(fields, "parts").ok_or_else(|| missing(&place))?, &place)?;
    let texts = list.iter().enumerate().map(|(index, value)| {
        let place = format!("{place}[{index}]");
        part(value, Role::System, &place)?.text.ok_or_else(|| missing(format!("{place}.text")))
    });
    Ok(texts.collect::<Result<Vec<&str>, _>>()?.join("\n"))
}

pub(super) fn part<'a>(value: &'a Value, role: Role, place: &str) -> Result<Part<'a>, Violation> {
    let fields = object(value, place)?;
    known(fields, &[&DATA[..], &MARKS[..]].concat(), place)?;
    let held: Vec<&str> = DATA.into_iter().filter(|name| field(fields, name).is_some()).collect();
    let signature = string(fields, "thoughtSignature", place)?;
    let [kind] = held[..] else {
        let text = format!("a part holds exactly one kind of data, but this one holds {}", held.len());
        return Err(illegal(place, text));
    };
    if !allowed(kind, role) {
        return Err(illegal(place, format!("`{kind}` is not allowed in a content of the role {role:?}")));
    }
    Ok(Part {
        text: string(fields, "text", place)?,
        thought: field(fields, "thought") == Some(&Value::Bool(true)),
        signature,
        call: field(fields, "functionCall").map(|value| call(value, place)).transpose()?,
        response: field(fields, "functionResponse").map(|value| response(value, place)).transpose()?,
    })
}

fn allowed(kind: &str, role: Role) -> bool {
    match role {
        Role::System => kind == "text",
        Role::User | Role::Tool => !["functionCall", "executableCode", "codeExecutionResult"].contains(&kind),
        Role::Assistant => kind != "functionResponse",
    }
}

fn string<'a>(fields: &'a Object, name: &str, place: &str) -> Result<Option<&'a str>, Violation> {
    let value = field(fields, name);
    let text = |value: &'a Value| {
        value.as_str().ok_or_else(|| illegal(format!("{place}.{name}"), format!("`{name}` must be a string")))
    };
    value.map(text).transpose()
}

fn call<'a>(value: &'a Value, place: &str) -> Result<Call<'a>, Violation> {
    let place = format!("{place}.functionCall");
    let fields = object(value, &place)?;
    known(fields, &["id", "name", "args"], &place)?;
    let args = match field(fields, "args") {
        None => "{}".to_owned(),
        Some(args @ Value::Object(_)) => args.to_string(),
        Some(_) => {
            return Err(Violation::new(Rule::Arguments, format!("{place}.args"), "`args` must be an object"));
        }
    };
    Ok(Call { id: string(fields, "id", &place)?, name: tool_name(fields, &place)?, args })
}

fn response<'a>(value: &'a Value, place: &str) -> Result<Response<'a>, Violation> {
    let place = format!("{place}.functionResponse");
    let fields = object(value, &place)?;
    known(fields, &["id", "name", "parts", "response", "scheduling", "willContinue"], &place)?;
    let answer = object_field(fields, "response", &format!("{place}.response"))?;
    // Clients put a result that is no object under one name of their own.
    let only = answer.values().next().filter(|_| answer.len() == 1).and_then(Value::as_str);
    let text = only.map_or_else(|| Value::Object(answer.clone()).to_string(), str::to_owned);
    Ok(Response { id: string(fields, "id", &place)?, name: tool_name(fields, &place)?, text })
}
