//! Reads a `generateContent` request, field by field, and refuses what the format does not allow.
//!
//! Its contents are read in `contents`.

use serde_json::Value;

use super::contents::contents;
use super::names::{Generation, field, known};
use super::parts::system_text;
use super::schema;
use crate::server::conversation::{Conversation, Role, SeenMessage};
use crate::server::fields::{Object, add_tool, illegal, json_body, missing, object, tool_name};
use crate::server::http::Request;
use crate::server::protocol::{GeminiMethod, gemini_method};
use crate::server::strict::Violation;
use crate::server::wire::{Asked, Delivery, Manner, Seal, Thinking};

const FIELDS: [&str; 10] = [
    "cachedContent",
    "contents",
    "generationConfig",
    "model",
    "safetySettings",
    "serviceTier",
    "store",
    "systemInstruction",
    "toolConfig",
    "tools",
];

const CONFIG: [&str; 21] = [
    "candidateCount",
    "enableEnhancedCivicAnswers",
    "frequencyPenalty",
    "imageConfig",
    "logprobs",
    "maxOutputTokens",
    "mediaResolution",
    "presencePenalty",
    "responseFormat",
    "responseJsonSchema",
    "responseLogprobs",
    "responseMimeType",
    "responseModalities",
    "responseSchema",
    "seed",
    "speechConfig",
    "stopSequences",
    "temperature",
    "thinkingConfig",
    "topK",
    "topP",
];

const TOOLS: [&str; 8] = [
    "codeExecution",
    "computerUse",
    "fileSearch",
    "functionDeclarations",
    "googleMaps",
    "googleSearch",
    "googleSearchRetrieval",
    "urlContext",
];

const DECLARATION: [&str; 7] = [
    "behavior",
    "description",
    "name",
    "parameters",
    "parametersJsonSchema",
    "response",
    "responseJsonSchema",
];

pub(super) fn read(request: &Request) -> Result<Asked, Violation> {
    let (model, method) = gemini_method(request.route()).ok_or_else(|| missing("model"))?;
    let delivery = delivery(request, method)?;
    let body = json_body(request)?;
    known(&body, &FIELDS, "")?;
    let tools = tools(&body)?;
    tool_config(&body)?;
    let thinking = thinking(&body)?;
    let mut messages: Vec<SeenMessage> = system(&body)?.into_iter().collect();
    messages.extend(contents(&body, Generation::of(model))?);
    let conversation = Conversation { model: model.to_owned(), messages, tools };
    Ok(Asked { conversation, manner: Manner { delivery, thinking, seal: Seal::Given } })
}

fn delivery(request: &Request, method: GeminiMethod) -> Result<Delivery, Violation> {
    match (method, request.query("alt")) {
        (GeminiMethod::Generate, _) => Ok(Delivery::Whole),
        (GeminiMethod::Stream, Some("sse")) => Ok(Delivery::StreamWithUsage),
        (GeminiMethod::Stream, _) => {
            Err(illegal("alt", "this server streams events alone, which `alt=sse` asks for"))
        }
    }
}

fn system(body: &Object) -> Result<Option<SeenMessage>, Violation> {
    let Some(value) = field(body, "systemInstruction") else { return Ok(None) };
    let place = "systemInstruction";
    let text = system_text(object(value, place)?, place)?;
    Ok(Some(SeenMessage { text, ..SeenMessage::new(Role::System, place) }))
}

fn tools(body: &Object) -> Result<Vec<String>, Violation> {
    let mut names = Vec::new();
    let Some(value) = field(body, "tools") else { return Ok(names) };
    let list = value.as_array().ok_or_else(|| illegal("tools", "`tools` must be an array"))?;
    for (index, tool) in list.iter().enumerate() {
        let place = format!("tools[{index}]");
        let fields = object(tool, &place)?;
        known(fields, &TOOLS, &place)?;
        let declarations = field(fields, "functionDeclarations").and_then(Value::as_array);
        for (index, value) in declarations.into_iter().flatten().enumerate() {
            declaration(value, &format!("{place}.functionDeclarations[{index}]"), &mut names)?;
        }
    }
    Ok(names)
}

fn declaration(value: &Value, place: &str, names: &mut Vec<String>) -> Result<(), Violation> {
    let fields = object(value, place)?;
    known(fields, &DECLARATION, place)?;
    add_tool(names, tool_name(fields, place)?, place)?;
    match (field(fields, "parameters"), field(fields, "parametersJsonSchema")) {
        (Some(_), Some(_)) => {
            Err(illegal(place, "`parameters` and `parametersJsonSchema` exclude one another"))
        }
        (Some(parameters), None) => schema::check(parameters, &format!("{place}.parameters")),
        (None, Some(parameters)) => object(parameters, &format!("{place}.parametersJsonSchema")).map(drop),
        (None, None) => Ok(()),
    }
}

fn tool_config(body: &Object) -> Result<(), Violation> {
    let Some(value) = field(body, "toolConfig") else { return Ok(()) };
    let Some(calling) = field(object(value, "toolConfig")?, "functionCallingConfig") else { return Ok(()) };
    let place = "toolConfig.functionCallingConfig";
    let fields = object(calling, place)?;
    known(fields, &["mode", "allowedFunctionNames"], place)?;
    match field(fields, "mode").map(Value::as_str) {
        None | Some(Some("AUTO" | "ANY" | "NONE" | "VALIDATED")) => Ok(()),
        Some(_) => Err(illegal(format!("{place}.mode"), "a mode is `AUTO`, `ANY`, `NONE` or `VALIDATED`")),
    }
}

/// Thoughts are shown to those who ask for them.
fn thinking(body: &Object) -> Result<Thinking, Violation> {
    let Some(value) = field(body, "generationConfig") else { return Ok(Thinking::Off) };
    let config = object(value, "generationConfig")?;
    known(config, &CONFIG, "generationConfig")?;
    let Some(value) = field(config, "thinkingConfig") else { return Ok(Thinking::Off) };
    let place = "generationConfig.thinkingConfig";
    let thinking = object(value, place)?;
    known(thinking, &["includeThoughts", "thinkingBudget", "thinkingLevel"], place)?;
    let budget = field(thinking, "thinkingBudget");
    if budget.is_some() && field(thinking, "thinkingLevel").is_some() {
        return Err(illegal(place, "a thinking budget and a thinking level exclude one another"));
    }
    let shown = field(thinking, "includeThoughts") == Some(&Value::Bool(true));
    Ok(if shown && budget.and_then(Value::as_i64) != Some(0) { Thinking::Shown } else { Thinking::Off })
}
