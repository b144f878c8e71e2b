//! Between the messages of legwork and those of the wire library. It keeps nothing and asks nobody; which provider
//! items travel along with a message is decided here, how they look on the wire is the library's.

use super::call_ids::CallIds;
use super::port::ToolSpec;
use legwork_core::message::{Author, Message, Part, ToolCall, ToolResult};
use rig_core::completion::ToolDefinition;
use rig_core::message as rig;
use serde_json::{Map, Value, json};
use std::collections::HashMap;
use std::sync::Arc;

/// The name of a tool that a model called without naming one.
const NAMELESS: &str = "unnamed";

/// The conversation as the library wants it for the model that `target` names. Neighbouring messages in the user's
/// role become one with separate parts; messages that say nothing are left out; reasoning goes back only to the model
/// that thought it.
pub(super) fn history(messages: &[Arc<Message>], target: &rig::Origin) -> Vec<rig::Message> {
    let mut converter = Converter { target, out: Vec::new(), tools: HashMap::new(), open: false };
    for message in messages {
        converter.add(message);
    }
    converter.out
}

struct Converter<'a> {
    target: &'a rig::Origin,
    out: Vec<rig::Message>,
    /// The tool of each call so far.
    tools: HashMap<&'a str, &'a str>,
    /// Whether the last message may take more parts of the user's role.
    open: bool,
}

impl<'a> Converter<'a> {
    fn add(&mut self, message: &'a Message) {
        match message.author {
            Author::System => self.push(rig::Message::System { content: message.plain_text() }),
            Author::User | Author::Completion => self.user(message),
            Author::Assistant => self.assistant(message),
            Author::Tool => self.results(message),
        }
    }

    fn push(&mut self, message: rig::Message) {
        self.out.push(message);
        self.open = false;
    }

    fn user(&mut self, message: &Message) {
        let texts = message.parts.iter().filter_map(|part| match part {
            Part::Text { text } => Some(rig::UserContent::text(text)),
            Part::Reasoning { .. } | Part::Call(_) | Part::Result(_) => None,
        });
        let mut parts: Vec<rig::UserContent> = texts.collect();
        match self.out.last_mut() {
            Some(rig::Message::User { content }) if self.open => content.append(&mut parts),
            _ if parts.is_empty() => {}
            _ => {
                self.out.push(rig::Message::User { content: parts });
                self.open = true;
            }
        }
    }

    fn assistant(&mut self, message: &'a Message) {
        for call in message.calls() {
            self.tools.insert(&call.id, &call.name);
        }
        let items = CarriedItems::of(message, self.target);
        let content: Vec<_> = message.parts.iter().filter_map(|part| block(part, &items)).collect();
        if !content.is_empty() {
            let message = rig::AssistantMessage::new(content).with_origin(self.target.clone());
            self.push(rig::Message::Assistant(message));
        }
    }

    fn results(&mut self, message: &Message) {
        let results = message.parts.iter().filter_map(|part| match part {
            Part::Result(result) => Some(rig::UserContent::ToolResult(self.result(result))),
            Part::Text { .. } | Part::Reasoning { .. } | Part::Call(_) => None,
        });
        let content: Vec<_> = results.collect();
        if !content.is_empty() {
            self.push(rig::Message::User { content });
        }
    }

    fn result(&self, result: &ToolResult) -> rig::ToolResult {
        let tool = self.tools.get(result.call_id.as_str()).copied().unwrap_or(NAMELESS);
        rig::ToolResult {
            call: rig::CallId::from_wire(result.call_id.as_str()),
            name: tool_name(tool),
            content: vec![rig::ToolResultContent::text(result.content.as_str())],
            is_error: result.is_error,
        }
    }
}

fn block(part: &Part, items: &CarriedItems<'_>) -> Option<rig::AssistantContent> {
    match part {
        Part::Text { text } if text.is_empty() => None,
        Part::Text { text } => Some(rig::AssistantContent::text(text)),
        Part::Reasoning { text, opaque } => {
            let item = items.is_theirs(opaque.as_ref()?).then(|| opaque.as_ref()?.get(ITEM)).flatten()?;
            Some(rig::AssistantContent::reasoning(text).with_native(item.clone()))
        }
        Part::Call(call) => Some(call_block(call, items)),
        Part::Result(_) => None,
    }
}

fn call_block(call: &ToolCall, items: &CarriedItems<'_>) -> rig::AssistantContent {
    let function = rig::ToolFunction::new(tool_name(&call.name), arguments(call));
    let block = rig::AssistantContent::ToolCall(rig::ToolCall::from_wire(call.id.as_str(), function));
    match items.calls.and_then(|calls| calls.get(&call.id)) {
        Some(item) => block.with_native(item.clone()),
        None => block,
    }
}

/// The arguments as an object, which every provider insists on.
fn arguments(call: &ToolCall) -> Value {
    match (&call.malformed, &call.arguments) {
        (Some(text), _) => json!({ "malformed": text }),
        (None, Value::Object(fields)) => Value::Object(fields.clone()),
        (None, other) => json!({ "malformed": other.to_string() }),
    }
}

fn tool_name(name: &str) -> rig::ToolName {
    let name = if name.is_empty() { NAMELESS } else { name };
    rig::ToolName::new(name).expect("the name is not empty: it was replaced")
}

/// The tools as the library wants them.
pub(super) fn tools(specs: &[ToolSpec]) -> Vec<ToolDefinition> {
    let tool = |spec: &ToolSpec| {
        ToolDefinition::new(tool_name(&spec.name), spec.description.as_str(), spec.parameters.clone())
    };
    specs.iter().map(tool).collect()
}

/// Under which name the opaque part of our messages holds a provider's item of the reasoning, those of calls, and
/// where they come from.
const ITEM: &str = "item";
const CALLS: &str = "calls";
const ORIGIN: &str = "origin";

/// What of a provider's own form travels back with a message.
struct CarriedItems<'a> {
    target: &'a rig::Origin,
    calls: Option<&'a Map<String, Value>>,
}

impl<'a> CarriedItems<'a> {
    fn of(message: &'a Message, target: &'a rig::Origin) -> Self {
        let items = CarriedItems { target, calls: None };
        let opaques = message.parts.iter().filter_map(|part| match part {
            Part::Reasoning { opaque, .. } => opaque.as_ref(),
            Part::Text { .. } | Part::Call(_) | Part::Result(_) => None,
        });
        let mut theirs = opaques.filter(|opaque| items.is_theirs(opaque));
        let calls = theirs.find_map(|opaque| opaque.get(CALLS)?.as_object());
        CarriedItems { target, calls }
    }

    /// Whether an item came from the very model that is asked now. What cannot be read was written by another adapter.
    fn is_theirs(&self, opaque: &Value) -> bool {
        let origin =
            opaque.get(ORIGIN).and_then(|origin| serde_json::from_value::<rig::Origin>(origin.clone()).ok());
        origin.is_some_and(|origin| {
            origin.same_model(&self.target.api, &self.target.provider, &self.target.model)
        })
    }
}

/// The reply's blocks as a message of ours, with ids that are unique within the conversation.
pub(super) fn message(
    blocks: Vec<rig::AssistantContent>,
    origin: &rig::Origin,
    ids: &mut CallIds,
) -> Message {
    let origin = json!({ "api": origin.api, "provider": origin.provider, "model": origin.model });
    let mut call_items = Map::new();
    let mut parts = Vec::new();
    for block in blocks {
        match block {
            rig::AssistantContent::Text(text) => parts.push(Part::Text { text: text.text }),
            rig::AssistantContent::Reasoning(reasoning) => parts.push(reasoning_part(reasoning, &origin)),
            rig::AssistantContent::ToolCall(call) => {
                let (call, item) = call_part(call, ids);
                call_items.extend(item.map(|item| (call.id.clone(), item)));
                parts.push(Part::Call(call));
            }
            other => tracing::debug!(kind = ?std::mem::discriminant(&other), "part of a reply left out"),
        }
    }
    if !call_items.is_empty() {
        let opaque = Some(json!({ ORIGIN: origin, CALLS: call_items }));
        parts.insert(0, Part::Reasoning { text: String::new(), opaque });
    }
    Message { author: Author::Assistant, parts }
}

fn reasoning_part(reasoning: rig::Reasoning, origin: &Value) -> Part {
    let opaque = reasoning.native.map(|native| json!({ ORIGIN: origin, ITEM: native.item }));
    Part::Reasoning { text: reasoning.text, opaque }
}

/// A call of ours, and the provider's item where it holds more than a call.
fn call_part(call: rig::ToolCall, ids: &mut CallIds) -> (ToolCall, Option<Value>) {
    let provider = call.id.provider().map(|id| id.as_str());
    let id = ids.next(provider, random);
    let item = call.native.map(|native| native.item).filter(holds_more_than_a_call);
    let rig::ToolFunction { name, arguments, invalid_arguments: malformed } = call.function;
    let arguments = if malformed.is_some() { Value::Null } else { Value::Object(arguments) };
    (ToolCall { id, name: name.into(), arguments, malformed }, item)
}

/// Whether an item has fields that a call built anew would lose, such as a signature.
fn holds_more_than_a_call(item: &Value) -> bool {
    let known = ["id", "type", "function", "index"];
    item.as_object().is_some_and(|fields| fields.keys().any(|key| !known.contains(&key.as_str())))
}

/// Four random bytes. Without a source of randomness the number alone keeps ids apart.
fn random() -> u32 {
    getrandom::u32().unwrap_or_default()
}

#[cfg(test)]
#[path = "convert_tests.rs"]
mod tests;
