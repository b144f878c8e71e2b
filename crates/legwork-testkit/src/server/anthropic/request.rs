//! Reads an Anthropic messages request, field by field, and refuses what the format does not allow.
//!
//! The blocks of its messages are read in `blocks`.

use serde_json::Value;

use super::blocks;
use crate::server::conversation::{Conversation, Role, SeenMessage};
use crate::server::fields::{
    Flag, Object, add_tool, flag, full_array, illegal, json_body, missing, object, object_field, only,
    present, text_field, tool_name,
};
use crate::server::http::Request;
use crate::server::strict::{Rule, Violation};
use crate::server::wire::{Asked, Delivery, Manner, Seal, Thinking};

/// The versions of the format that there have been.
const VERSIONS: [&str; 2] = ["2023-06-01", "2023-01-01"];

/// The least that a thinking budget can be, in tokens.
const BUDGET_MIN: u64 = 1024;

const FIELDS: [&str; 20] = [
    "cache_control",
    "container",
    "context_management",
    "inference_geo",
    "max_tokens",
    "mcp_servers",
    "messages",
    "metadata",
    "model",
    "output_config",
    "output_format",
    "service_tier",
    "stop_sequences",
    "stream",
    "system",
    "temperature",
    "thinking",
    "tool_choice",
    "tools",
    "top_p",
];

pub(super) fn read(request: &Request) -> Result<Asked, Violation> {
    version(request)?;
    let body = json_body(request)?;
    only(&body, &[&FIELDS[..], &["top_k"]].concat(), "")?;
    let model = text_field(&body, "model", "model")?.to_owned();
    let max_tokens = max_tokens(&body)?;
    let tools = tools(&body)?;
    let thinking = thinking(&body, max_tokens)?;
    let delivery = match flag(&body, "stream", Flag::Off)? {
        Flag::On => Delivery::StreamWithUsage,
        Flag::Off => Delivery::Whole,
    };
    let mut messages: Vec<SeenMessage> = system(&body)?.into_iter().collect();
    messages.extend(self::messages(&body)?);
    let manner = Manner { delivery, thinking, seal: Seal::Given };
    Ok(Asked { conversation: Conversation { model, messages, tools }, manner })
}

fn version(request: &Request) -> Result<(), Violation> {
    let version = request.header("anthropic-version").ok_or_else(|| missing("anthropic-version"))?;
    if VERSIONS.contains(&version) {
        return Ok(());
    }
    Err(illegal("anthropic-version", format!("`{version}` is no version of this format")))
}

fn max_tokens(body: &Object) -> Result<u64, Violation> {
    let value = present(body, "max_tokens").ok_or_else(|| missing("max_tokens"))?;
    let tokens = value.as_u64().filter(|tokens| *tokens > 0);
    tokens.ok_or_else(|| illegal("max_tokens", "`max_tokens` must be an integer of at least 1"))
}

fn tools(body: &Object) -> Result<Vec<String>, Violation> {
    let choice = present(body, "tool_choice");
    let Some(value) = present(body, "tools") else {
        return match choice {
            None => Ok(Vec::new()),
            Some(_) => Err(illegal("tool_choice", "`tool_choice` is only allowed with `tools`")),
        };
    };
    let list = value.as_array().ok_or_else(|| illegal("tools", "`tools` must be an array"))?;
    let mut names = Vec::new();
    for (index, tool) in list.iter().enumerate() {
        let place = format!("tools.{index}");
        let fields = object(tool, &place)?;
        add_tool(&mut names, tool_name(fields, &place)?, &place)?;
        // Tools that the provider runs itself have a type of their own and no schema.
        if present(fields, "type").is_none_or(|kind| kind == "custom") {
            input_schema(fields, &place)?;
        }
    }
    choice.map_or(Ok(()), |choice| tool_choice(choice, &names))?;
    Ok(names)
}

fn input_schema(fields: &Object, place: &str) -> Result<(), Violation> {
    let place = format!("{place}.input_schema");
    let schema = object_field(fields, "input_schema", &place)?;
    if schema.get("type").and_then(Value::as_str) == Some("object") {
        return Ok(());
    }
    Err(illegal(format!("{place}.type"), "the schema of a tool's input must be of the type `object`"))
}

fn tool_choice(choice: &Value, names: &[String]) -> Result<(), Violation> {
    let fields = object(choice, "tool_choice")?;
    match text_field(fields, "type", "tool_choice.type")? {
        "auto" | "any" | "none" => Ok(()),
        "tool" => {
            let name = text_field(fields, "name", "tool_choice.name")?;
            let known = names.iter().any(|known| known == name);
            if known {
                Ok(())
            } else {
                Err(illegal("tool_choice.name", format!("there is no tool `{name}`")))
            }
        }
        kind => Err(illegal("tool_choice.type", format!("there is no tool choice `{kind}`"))),
    }
}

/// What is seen of the thinking. A request that says nothing of it gets the adaptive thinking of the newest models.
fn thinking(body: &Object, max_tokens: u64) -> Result<Thinking, Violation> {
    let Some(value) = present(body, "thinking") else { return Ok(Thinking::Shown) };
    let fields = object(value, "thinking")?;
    match text_field(fields, "type", "thinking.type")? {
        "disabled" => return Ok(Thinking::Off),
        "adaptive" => {}
        "enabled" => budget(fields, max_tokens)?,
        kind => return Err(illegal("thinking.type", format!("there is no thinking of the type `{kind}`"))),
    }
    forced_choice(body)?;
    match present(fields, "display").and_then(Value::as_str) {
        Some("omitted") => Ok(Thinking::Hidden),
        Some("summarized") | None => Ok(Thinking::Shown),
        Some(display) => Err(illegal("thinking.display", format!("there is no display `{display}`"))),
    }
}

fn budget(fields: &Object, max_tokens: u64) -> Result<(), Violation> {
    let place = "thinking.budget_tokens";
    let budget = present(fields, "budget_tokens").ok_or_else(|| missing(place))?.as_u64().unwrap_or(0);
    if budget < BUDGET_MIN || budget >= max_tokens {
        let text = format!("the budget must be at least {BUDGET_MIN} and below `max_tokens`");
        return Err(illegal(place, text));
    }
    Ok(())
}

fn forced_choice(body: &Object) -> Result<(), Violation> {
    let choice = present(body, "tool_choice").and_then(|choice| choice.get("type")).and_then(Value::as_str);
    match choice {
        Some("any" | "tool") => {
            Err(illegal("tool_choice", "thinking does not go with a choice that forces a tool"))
        }
        _ => Ok(()),
    }
}

/// The system prompt as a message before all others.
fn system(body: &Object) -> Result<Option<SeenMessage>, Violation> {
    let Some(value) = present(body, "system") else { return Ok(None) };
    let text = match value {
        Value::String(text) => text.clone(),
        _ => {
            let list =
                value.as_array().ok_or_else(|| illegal("system", "`system` must be a text or an array"))?;
            let texts = list.iter().enumerate();
            let texts = texts.map(|(index, block)| blocks::system(block, &format!("system.{index}")));
            texts.collect::<Result<Vec<&str>, _>>()?.join("\n")
        }
    };
    Ok(Some(SeenMessage { text, ..SeenMessage::new(Role::System, "system") }))
}

fn messages(body: &Object) -> Result<Vec<SeenMessage>, Violation> {
    let value = body.get("messages").ok_or_else(|| missing("messages"))?;
    let list = value.as_array().ok_or_else(|| illegal("messages", "`messages` must be an array"))?;
    let mut messages = Vec::new();
    let mut last = None;
    for (index, value) in list.iter().enumerate() {
        let place = format!("messages.{index}");
        let fields = object(value, &place)?;
        only(fields, &["role", "content"], &format!("{place}."))?;
        let role = role(text_field(fields, "role", &format!("{place}.role"))?, &place)?;
        if last.replace(role) == Some(role) {
            let text =
                format!("roles must alternate, but two messages of the role {role:?} follow one another");
            return Err(Violation::new(Rule::Alternation, format!("{place}.role"), text));
        }
        let content = list_of_blocks(fields, &place)?;
        match role {
            Role::User => messages.extend(blocks::user(&content, &place)?),
            Role::System | Role::Assistant | Role::Tool => {
                messages.push(blocks::assistant(&content, &place)?)
            }
        }
    }
    Ok(messages)
}

fn role(name: &str, place: &str) -> Result<Role, Violation> {
    let place = format!("{place}.role");
    match name {
        "user" => Ok(Role::User),
        "assistant" => Ok(Role::Assistant),
        "system" => {
            Err(illegal(place, "the system prompt belongs into the top-level `system`, not into a message"))
        }
        _ => Err(illegal(place, format!("there is no role `{name}`"))),
    }
}

/// The blocks of a message; a text in their place stands for one block of text.
fn list_of_blocks(fields: &Object, place: &str) -> Result<Vec<Value>, Violation> {
    let place = format!("{place}.content");
    match present(fields, "content").ok_or_else(|| missing(&place))? {
        Value::String(text) => Ok(vec![serde_json::json!({ "type": "text", "text": text })]),
        content => full_array(content, &place).cloned(),
    }
}
