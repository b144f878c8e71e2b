//! Reads an Ollama chat request, field by field, and refuses what the daemon cannot read.

use serde_json::Value;

use crate::server::conversation::{Conversation, Role, SeenCall, SeenMessage};
use crate::server::fields::{
    Flag, Object, add_tool, flag, illegal, json_body, missing, object, object_field, present, text_field,
    tool_name,
};
use crate::server::http::Request;
use crate::server::strict::{Rule, Violation};
use crate::server::wire::{Asked, Delivery, Manner, Seal, Thinking};

pub(super) fn read(request: &Request) -> Result<Asked, Violation> {
    let body = json_body(request)?;
    let model = text_field(&body, "model", "model")?.to_owned();
    let tools = tools(&body)?;
    // This provider streams unless it is told not to.
    let delivery = match flag(&body, "stream", Flag::On)? {
        Flag::On => Delivery::StreamWithUsage,
        Flag::Off => Delivery::Whole,
    };
    if let Some(options) = present(&body, "options") {
        object(options, "options")?;
    }
    let manner = Manner { delivery, thinking: thinking(&body)?, seal: Seal::Withheld };
    Ok(Asked { conversation: Conversation { model, messages: messages(&body)?, tools }, manner })
}

/// A model that thinks does so unless it is told not to.
fn thinking(body: &Object) -> Result<Thinking, Violation> {
    match present(body, "think") {
        Some(Value::Bool(false)) => Ok(Thinking::Off),
        None | Some(Value::Bool(true)) => Ok(Thinking::Shown),
        Some(level) if ["high", "medium", "low", "max"].iter().any(|known| level == known) => {
            Ok(Thinking::Shown)
        }
        Some(_) => Err(illegal("think", "`think` must be true, false, `high`, `medium`, `low` or `max`")),
    }
}

fn tools(body: &Object) -> Result<Vec<String>, Violation> {
    let mut names = Vec::new();
    let Some(value) = present(body, "tools") else { return Ok(names) };
    let list = value.as_array().ok_or_else(|| illegal("tools", "`tools` must be an array"))?;
    for (index, tool) in list.iter().enumerate() {
        let place = format!("tools[{index}]");
        let holder = object(tool, &place)?;
        if text_field(holder, "type", &format!("{place}.type"))? != "function" {
            return Err(illegal(format!("{place}.type"), "the type must be `function`"));
        }
        let place = format!("{place}.function");
        let function = object_field(holder, "function", &place)?;
        add_tool(&mut names, tool_name(function, &place)?, &place)?;
        object_field(function, "parameters", &format!("{place}.parameters"))?;
    }
    Ok(names)
}

fn messages(body: &Object) -> Result<Vec<SeenMessage>, Violation> {
    let value = present(body, "messages").ok_or_else(|| missing("messages"))?;
    let list = value.as_array().ok_or_else(|| illegal("messages", "`messages` must be an array"))?;
    let mut messages: Vec<SeenMessage> = Vec::new();
    // The calls that no tool message has answered yet, by id and name.
    let mut open: Vec<(String, String)> = Vec::new();
    for (index, value) in list.iter().enumerate() {
        let place = format!("messages[{index}]");
        let fields = object(value, &place)?;
        let mut message = message(fields, &place)?;
        if message.role == Role::Tool {
            message.answers = Some(answered(fields, &mut open, &place)?);
        }
        open.extend(message.calls.iter().map(|call| (call.id.clone(), call.name.clone())));
        messages.push(message);
    }
    Ok(messages)
}

fn message(fields: &Object, place: &str) -> Result<SeenMessage, Violation> {
    let role_place = format!("{place}.role");
    let role = match text_field(fields, "role", &role_place)? {
        "system" => Role::System,
        "user" => Role::User,
        "assistant" => Role::Assistant,
        "tool" => Role::Tool,
        name => return Err(illegal(role_place, format!("there is no role `{name}`"))),
    };
    let text = string(fields, "content", place)?.unwrap_or_default().to_owned();
    let reasoning = string(fields, "thinking", place)?.map(str::to_owned);
    images(fields, place)?;
    let calls = calls(fields, place)?;
    if role == Role::Assistant && text.is_empty() && calls.is_empty() && reasoning.is_none() {
        let text = "an assistant message needs content, thinking or tool calls";
        return Err(Violation::new(Rule::NothingSaid, format!("{place}.content"), text));
    }
    if role != Role::Assistant && !calls.is_empty() {
        let text = format!("a message of the role {role:?} makes no calls");
        return Err(illegal(format!("{place}.tool_calls"), text));
    }
    Ok(SeenMessage { text, reasoning, calls, ..SeenMessage::new(role, place) })
}

fn string<'a>(fields: &'a Object, name: &str, place: &str) -> Result<Option<&'a str>, Violation> {
    let text = |value: &'a Value| {
        value.as_str().ok_or_else(|| illegal(format!("{place}.{name}"), format!("`{name}` must be a string")))
    };
    present(fields, name).map(text).transpose()
}

/// Images are base64 text in a list of their own, without the head of a data URL.
fn images(fields: &Object, place: &str) -> Result<(), Violation> {
    let Some(value) = present(fields, "images") else { return Ok(()) };
    let place = format!("{place}.images");
    let list = value.as_array().ok_or_else(|| illegal(&place, "`images` must be an array"))?;
    let base64 = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte));
    if list.iter().all(|image| image.as_str().is_some_and(base64)) {
        return Ok(());
    }
    Err(illegal(place, "an image must be base64 text"))
}

fn calls(fields: &Object, place: &str) -> Result<Vec<SeenCall>, Violation> {
    let Some(value) = present(fields, "tool_calls") else { return Ok(Vec::new()) };
    let place = format!("{place}.tool_calls");
    let list = value.as_array().ok_or_else(|| illegal(&place, "`tool_calls` must be an array"))?;
    list.iter().enumerate().map(|(index, value)| call(value, format!("{place}[{index}]"))).collect()
}

fn call(value: &Value, place: String) -> Result<SeenCall, Violation> {
    let fields = object(value, &place)?;
    let function_place = format!("{place}.function");
    let function = object_field(fields, "function", &function_place)?;
    let name = tool_name(function, &function_place)?.to_owned();
    let arguments = object_field(function, "arguments", &format!("{function_place}.arguments"))
        .map_err(|violation| Violation { rule: Rule::Arguments, ..violation })?;
    let arguments = Value::Object(arguments.clone()).to_string();
    let id = string(fields, "id", &place)?.unwrap_or(&place).to_owned();
    Ok(SeenCall { place, id, name, arguments })
}

/// The call that a tool message answers: by its id, else by its name, else the first that is open. Where nothing fits,
/// the check of all formats says what is wrong.
fn answered(fields: &Object, open: &mut Vec<(String, String)>, place: &str) -> Result<String, Violation> {
    let id = string(fields, "tool_call_id", place)?;
    let name = string(fields, "tool_name", place)?;
    let fits = |(known_id, known_name): &(String, String)| {
        id.is_none_or(|id| id == known_id) && name.is_none_or(|name| name == known_name)
    };
    Ok(match open.iter().position(fits) {
        Some(position) => open.remove(position).0,
        None => id.or(name).unwrap_or_default().to_owned(),
    })
}
