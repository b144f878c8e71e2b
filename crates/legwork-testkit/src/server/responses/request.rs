//! Reads a Responses request, field by field, and refuses what the format does not allow.
//!
//! The items of its input are read in `input`.

use serde_json::Value;

use super::input::{Input, Store};
use crate::server::conversation::{Conversation, Role, SeenMessage};
use crate::server::fields::{
    Flag, Object, add_tool, flag, illegal, json_body, missing, object, only, present, text_field, tool_name,
};
use crate::server::http::Request;
use crate::server::strict::Violation;
use crate::server::wire::{Asked, Delivery, Manner, Seal, Thinking};

/// The least that an answer can be limited to, in tokens.
const OUTPUT_MIN: u64 = 16;

/// What a client asks for to get reasoning that it can bring back.
const SEALED: &str = "reasoning.encrypted_content";

const FIELDS: [&str; 28] = [
    "background",
    "conversation",
    "include",
    "input",
    "instructions",
    "max_output_tokens",
    "max_tool_calls",
    "metadata",
    "model",
    "parallel_tool_calls",
    "previous_response_id",
    "prompt",
    "prompt_cache_key",
    "prompt_cache_retention",
    "reasoning",
    "safety_identifier",
    "service_tier",
    "store",
    "stream",
    "stream_options",
    "temperature",
    "text",
    "tool_choice",
    "tools",
    "top_logprobs",
    "top_p",
    "truncation",
    "user",
];

/// Fields that lean on what the provider has stored.
const STORED: [&str; 4] = ["background", "conversation", "previous_response_id", "prompt"];

pub(super) fn read(request: &Request) -> Result<Asked, Violation> {
    let body = json_body(request)?;
    only(&body, &FIELDS, "")?;
    if let Some(name) = STORED.into_iter().find(|name| present(&body, name).is_some()) {
        return Err(illegal(name, "this server stores nothing that a later request could lean on"));
    }
    let model = text_field(&body, "model", "model")?.to_owned();
    output_limit(&body)?;
    let tools = tools(&body)?;
    let delivery = match flag(&body, "stream", Flag::Off)? {
        Flag::On => Delivery::StreamWithUsage,
        Flag::Off => Delivery::Whole,
    };
    let manner = Manner { delivery, thinking: thinking(&body)?, seal: seal(&body)? };
    Ok(Asked { conversation: Conversation { model, messages: messages(&body)?, tools }, manner })
}

fn messages(body: &Object) -> Result<Vec<SeenMessage>, Violation> {
    let store = match flag(body, "store", Flag::On)? {
        Flag::On => Store::Kept,
        Flag::Off => Store::Nothing,
    };
    let mut messages = Vec::new();
    if let Some(instructions) = present(body, "instructions") {
        let text =
            instructions.as_str().ok_or_else(|| illegal("instructions", "`instructions` must be a text"))?;
        messages
            .push(SeenMessage { text: text.to_owned(), ..SeenMessage::new(Role::System, "instructions") });
    }
    match present(body, "input").ok_or_else(|| missing("input"))? {
        Value::String(text) => {
            messages.push(SeenMessage { text: text.clone(), ..SeenMessage::new(Role::User, "input") });
        }
        Value::Array(items) => messages.extend(Input::read(items, store)?),
        _ => return Err(illegal("input", "`input` must be a text or an array")),
    }
    Ok(messages)
}

fn output_limit(body: &Object) -> Result<(), Violation> {
    match present(body, "max_output_tokens").map(Value::as_u64) {
        None => Ok(()),
        Some(Some(tokens)) if tokens >= OUTPUT_MIN => Ok(()),
        Some(_) => Err(illegal(
            "max_output_tokens",
            format!("the limit must be an integer of at least {OUTPUT_MIN}"),
        )),
    }
}

/// The reasoning is always there, but its text is only shown to those who ask for a summary.
fn thinking(body: &Object) -> Result<Thinking, Violation> {
    let Some(value) = present(body, "reasoning") else { return Ok(Thinking::Hidden) };
    let fields = object(value, "reasoning")?;
    if present(fields, "effort").and_then(Value::as_str) == Some("none") {
        return Ok(Thinking::Off);
    }
    match present(fields, "summary").map(Value::as_str) {
        None => Ok(Thinking::Hidden),
        Some(Some("auto" | "concise" | "detailed")) => Ok(Thinking::Shown),
        Some(_) => Err(illegal("reasoning.summary", "a summary is `auto`, `concise` or `detailed`")),
    }
}

fn seal(body: &Object) -> Result<Seal, Violation> {
    let Some(value) = present(body, "include") else { return Ok(Seal::Withheld) };
    let list = value.as_array().ok_or_else(|| illegal("include", "`include` must be an array"))?;
    Ok(if list.iter().any(|name| name == SEALED) { Seal::Given } else { Seal::Withheld })
}

fn tools(body: &Object) -> Result<Vec<String>, Violation> {
    let choice = present(body, "tool_choice");
    let Some(value) = present(body, "tools") else {
        return match choice {
            Some(choice) if choice != "none" && choice != "auto" => {
                Err(illegal("tool_choice", "this `tool_choice` is only allowed with `tools`"))
            }
            _ => Ok(Vec::new()),
        };
    };
    let list = value.as_array().ok_or_else(|| illegal("tools", "`tools` must be an array"))?;
    let mut names = Vec::new();
    for (index, tool) in list.iter().enumerate() {
        let place = format!("tools[{index}]");
        let fields = object(tool, &place)?;
        // The provider's own tools have a type and no name.
        if text_field(fields, "type", &format!("{place}.type"))? != "function" {
            continue;
        }
        if fields.contains_key("function") {
            let text = "a function's name stands in the tool itself, not in a `function` in it";
            return Err(illegal(format!("{place}.function"), text));
        }
        add_tool(&mut names, tool_name(fields, &place)?, &place)?;
        let parameters = fields.get("parameters").ok_or_else(|| missing(format!("{place}.parameters")))?;
        if !parameters.is_null() {
            object(parameters, &format!("{place}.parameters"))?;
        }
    }
    Ok(names)
}
