//! Reads a chat completions request, field by field, and refuses what the format does not allow.

use serde_json::Value;

use crate::server::conversation::{Conversation, Role, SeenCall, SeenMessage};
use crate::server::fields::{
    Flag, Object, add_tool, flag, full_array, illegal, json_body, missing, object, object_field, present,
    text_field, tool_name,
};
use crate::server::http::Request;
use crate::server::strict::{Rule, Violation};
use crate::server::wire::{Asked, Delivery, Manner};

pub(super) fn read(request: &Request) -> Result<Asked, Violation> {
    let body = json_body(request)?;
    let model = text_field(&body, "model", "model")?.to_owned();
    let tools = tools(&body)?;
    let delivery = delivery(&body)?;
    let messages = messages(&body)?;
    Ok(Asked { conversation: Conversation { model, messages, tools }, manner: Manner::open(delivery) })
}

fn delivery(body: &Object) -> Result<Delivery, Violation> {
    let streamed = flag(body, "stream", Flag::Off)?;
    let options = present(body, "stream_options");
    if options.is_some() && streamed == Flag::Off {
        return Err(illegal("stream_options", "`stream_options` is only allowed with `stream`"));
    }
    let usage =
        options.and_then(|options| options.get("include_usage")).and_then(Value::as_bool).unwrap_or(false);
    Ok(match (streamed, usage) {
        (Flag::Off, _) => Delivery::Whole,
        (Flag::On, false) => Delivery::Stream,
        (Flag::On, true) => Delivery::StreamWithUsage,
    })
}

fn tools(body: &Object) -> Result<Vec<String>, Violation> {
    let Some(value) = present(body, "tools") else {
        let mut dependent = ["tool_choice", "parallel_tool_calls"].into_iter();
        let refuse = |name: &str| Err(illegal(name, format!("`{name}` is only allowed with `tools`")));
        return dependent.find(|name| present(body, name).is_some()).map_or(Ok(Vec::new()), refuse);
    };
    let mut names = Vec::new();
    for (index, tool) in full_array(value, "tools")?.iter().enumerate() {
        let place = format!("tools[{index}]");
        let name = function_name(object(tool, &place)?, &place)?;
        add_tool(&mut names, name, &format!("{place}.function"))?;
    }
    Ok(names)
}

/// The name in a tool or a tool call, both of which hold a function.
fn function_name<'a>(holder: &'a Object, place: &str) -> Result<&'a str, Violation> {
    let kind = text_field(holder, "type", &format!("{place}.type"))?;
    if kind != "function" {
        return Err(illegal(format!("{place}.type"), format!("the type must be `function`, not `{kind}`")));
    }
    let place = format!("{place}.function");
    tool_name(object_field(holder, "function", &place)?, &place)
}

fn messages(body: &Object) -> Result<Vec<SeenMessage>, Violation> {
    let value = body.get("messages").ok_or_else(|| missing("messages"))?;
    let list = value.as_array().ok_or_else(|| illegal("messages", "`messages` must be an array"))?;
    list.iter().enumerate().map(|(index, value)| message(value, &format!("messages[{index}]"))).collect()
}

fn message(value: &Value, place: &str) -> Result<SeenMessage, Violation> {
    let fields = object(value, place)?;
    let role = role(text_field(fields, "role", &format!("{place}.role"))?, place)?;
    let calls = match role {
        Role::Assistant => tool_calls(fields, place)?,
        Role::System | Role::User | Role::Tool => Vec::new(),
    };
    let answers = match role {
        Role::Tool => Some(text_field(fields, "tool_call_id", &format!("{place}.tool_call_id"))?.to_owned()),
        Role::System | Role::User | Role::Assistant => None,
    };
    let content = present(fields, "content");
    if content.is_none() && role == Role::Assistant && calls.is_empty() {
        let text = "an assistant message needs content or tool calls";
        return Err(Violation::new(Rule::NothingSaid, format!("{place}.content"), text));
    }
    if content.is_none() && role != Role::Assistant {
        return Err(missing(format!("{place}.content")));
    }
    let text = content.map_or(Ok(String::new()), |content| content_text(content, role, place))?;
    Ok(SeenMessage { text, calls, answers, ..SeenMessage::new(role, place) })
}

fn role(name: &str, place: &str) -> Result<Role, Violation> {
    match name {
        "system" | "developer" => Ok(Role::System),
        "user" => Ok(Role::User),
        "assistant" => Ok(Role::Assistant),
        "tool" => Ok(Role::Tool),
        _ => Err(illegal(format!("{place}.role"), format!("there is no role `{name}`"))),
    }
}

fn tool_calls(fields: &Object, place: &str) -> Result<Vec<SeenCall>, Violation> {
    let Some(value) = present(fields, "tool_calls") else { return Ok(Vec::new()) };
    let place = format!("{place}.tool_calls");
    let list = full_array(value, &place)?;
    list.iter().enumerate().map(|(index, value)| tool_call(value, &format!("{place}[{index}]"))).collect()
}

fn tool_call(value: &Value, place: &str) -> Result<SeenCall, Violation> {
    let fields = object(value, place)?;
    let id = text_field(fields, "id", &format!("{place}.id"))?.to_owned();
    let name = function_name(fields, place)?.to_owned();
    let arguments = fields["function"].get("arguments").and_then(Value::as_str);
    let param = format!("{place}.function.arguments");
    let arguments = arguments.ok_or_else(|| illegal(param, "the arguments must be a string"))?.to_owned();
    Ok(SeenCall { place: place.to_owned(), id, name, arguments })
}

fn content_text(content: &Value, role: Role, place: &str) -> Result<String, Violation> {
    let place = format!("{place}.content");
    if let Some(text) = content.as_str() {
        return Ok(text.to_owned());
    }
    let parts = full_array(content, &place)?;
    let texts =
        parts.iter().enumerate().map(|(index, part)| part_text(part, role, &format!("{place}[{index}]")));
    let texts: Vec<&str> = texts.collect::<Result<_, _>>()?;
    Ok(texts.join("\n"))
}

/// The text of a content part; parts that are no text count as empty.
fn part_text<'a>(part: &'a Value, role: Role, place: &str) -> Result<&'a str, Violation> {
    let fields = object(part, place)?;
    match (text_field(fields, "type", &format!("{place}.type"))?, role) {
        ("text", _) => {
            fields.get("text").and_then(Value::as_str).ok_or_else(|| missing(format!("{place}.text")))
        }
        ("image_url" | "input_audio" | "file", Role::User) | ("refusal", Role::Assistant) => Ok(""),
        (kind, _) => {
            let text =
                format!("a content part of type `{kind}` is not allowed in a message of the role {role:?}");
            Err(illegal(format!("{place}.type"), text))
        }
    }
}
