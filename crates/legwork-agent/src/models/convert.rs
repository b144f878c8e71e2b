//! Between the messages of legwork and those of the wire library. It keeps nothing and asks nobody; which provider
//! items travel along with a message is `carried`'s, how they look on the wire is the library's.

use super::call_ids::{CallIds, random};
use super::carried::{Carried, Keeping, Thinker};
use super::port::ToolSpec;
use legwork_core::message::{Author, Image, ImageSource, Message, Part, ToolCall, ToolResult};
use rig_core::completion::ToolDefinition;
use rig_core::message::{self as rig, MimeType};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::Arc;

/// The name of a tool that a model called without naming one.
const NAMELESS: &str = "unnamed";
/// The longest name of a tool that all providers take.
const TOOL_NAME_CHARS_MAX: usize = 64;

/// The conversation as the library wants it for the model that is asked. Neighbouring messages in the user's role
/// become one with separate parts; messages that say nothing are left out; reasoning goes back only to the model that
/// thought it; no system text comes after the first message.
pub(super) fn history(messages: &[Arc<Message>], thinker: &Thinker) -> Vec<rig::Message> {
    let mut converter = Converter { thinker, out: Vec::new(), tools: HashMap::new(), open: false };
    for message in messages {
        converter.add(message);
    }
    converter.out
}

struct Converter<'a> {
    thinker: &'a Thinker,
    out: Vec<rig::Message>,
    /// The tool of each call so far.
    tools: HashMap<&'a str, &'a str>,
    /// Whether the last message may take more parts of the user's role.
    open: bool,
}

impl<'a> Converter<'a> {
    fn add(&mut self, message: &'a Message) {
        match message.author {
            Author::System if self.out.is_empty() => {
                self.push(rig::Message::System { content: message.plain_text() });
            }
            // Most providers refuse system text later on, so there it is said in the user's role.
            Author::System | Author::User | Author::Completion | Author::Summary => self.user(message),
            Author::Assistant => self.assistant(message),
            Author::Tool => self.results(message),
        }
    }

    fn push(&mut self, message: rig::Message) {
        self.out.push(message);
        self.open = false;
    }

    fn user(&mut self, message: &Message) {
        let shown = message.parts.iter().filter_map(|part| match part {
            Part::Text { text } => Some(rig::UserContent::text(text)),
            Part::Summary(summary) => Some(rig::UserContent::text(&summary.text)),
            Part::Image(image) => Some(rig::UserContent::Image(picture(image))),
            Part::Reasoning { .. } | Part::Call(_) | Part::Result(_) => None,
        });
        let mut parts: Vec<rig::UserContent> = shown.collect();
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
        let mut blocks = Blocks { items: Carried::of(message, self.thinker), texts: 0 };
        let content: Vec<_> = message.parts.iter().filter_map(|part| blocks.block(part)).collect();
        if !content.is_empty() {
            let message = rig::AssistantMessage::new(content).with_origin(self.thinker.origin().clone());
            self.push(rig::Message::Assistant(message));
        }
    }

    fn results(&mut self, message: &Message) {
        let results = message.parts.iter().filter_map(|part| match part {
            Part::Result(result) => Some(rig::UserContent::ToolResult(self.result(result))),
            Part::Text { .. }
            | Part::Reasoning { .. }
            | Part::Call(_)
            | Part::Image(_)
            | Part::Summary(_) => None,
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

/// The blocks of one message of the model.
struct Blocks<'a> {
    items: Carried<'a>,
    /// How many texts there were so far.
    texts: usize,
}

impl Blocks<'_> {
    fn block(&mut self, part: &Part) -> Option<rig::AssistantContent> {
        match part {
            Part::Text { text } => self.text(text),
            Part::Reasoning { text, opaque } => {
                let item = self.items.reasoning(opaque.as_ref()?)?;
                Some(rig::AssistantContent::reasoning(text).with_native(item.clone()))
            }
            Part::Call(call) => Some(self.call(call)),
            Part::Result(_) | Part::Image(_) | Part::Summary(_) => None,
        }
    }

    /// A text; an empty one only where it carries something along.
    fn text(&mut self, text: &str) -> Option<rig::AssistantContent> {
        let item = self.items.text(self.texts);
        self.texts += 1;
        match item {
            Some(item) => Some(rig::AssistantContent::text(text).with_native(item.clone())),
            None => (!text.is_empty()).then(|| rig::AssistantContent::text(text)),
        }
    }

    fn call(&self, call: &ToolCall) -> rig::AssistantContent {
        let function = rig::ToolFunction::new(tool_name(&call.name), arguments(call));
        let block = rig::AssistantContent::ToolCall(rig::ToolCall::from_wire(call.id.as_str(), function));
        match self.items.call(&call.id) {
            Some(item) => block.with_native(item.clone()),
            None => block,
        }
    }
}

/// A picture. What the provider cannot take in this form, the library replaces by a remark.
fn picture(image: &Image) -> rig::Image {
    let data = match &image.source {
        ImageSource::DataBase64(data) => rig::DocumentSourceKind::Base64(data.clone()),
        ImageSource::Url(url) => rig::DocumentSourceKind::Url(url.clone()),
    };
    let media_type = rig::ImageMediaType::from_mime_type(&image.media_type);
    rig::Image { data, media_type, ..rig::Image::default() }
}

/// The arguments as an object, which every provider insists on.
fn arguments(call: &ToolCall) -> Value {
    match (&call.malformed, &call.arguments) {
        (Some(text), _) => json!({ "malformed": text }),
        (None, Value::Object(fields)) => Value::Object(fields.clone()),
        (None, other) => json!({ "malformed": other.to_string() }),
    }
}

/// A name that every provider takes back. A model may have made up anything; what it wrote stays in the journal.
fn tool_name(name: &str) -> rig::ToolName {
    let legal = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') { c } else { '_' };
    let name: String = name.chars().take(TOOL_NAME_CHARS_MAX).map(legal).collect();
    let name = if name.is_empty() { NAMELESS } else { &name };
    rig::ToolName::new(name).expect("the name is not empty: it was replaced")
}

/// The tools as the library wants them.
pub(super) fn tools(specs: &[ToolSpec]) -> Vec<ToolDefinition> {
    let tool = |spec: &ToolSpec| {
        ToolDefinition::new(tool_name(&spec.name), spec.description.as_str(), spec.parameters.clone())
    };
    specs.iter().map(tool).collect()
}

/// The reply's blocks as a message of ours, with ids that are unique within the conversation.
pub(super) fn message(blocks: Vec<rig::AssistantContent>, thinker: &Thinker, ids: &mut CallIds) -> Message {
    let mut keeping = Keeping::new(thinker);
    let mut parts = Vec::new();
    let mut texts = 0;
    for block in blocks {
        match block {
            rig::AssistantContent::Text(text) => {
                if let Some(native) = text.native {
                    keeping.text(texts, native.item);
                }
                texts += 1;
                parts.push(Part::Text { text: text.text });
            }
            rig::AssistantContent::Reasoning(reasoning) => {
                let opaque = reasoning.native.map(|native| keeping.reasoning(&native.item));
                parts.push(Part::Reasoning { text: reasoning.text, opaque });
            }
            rig::AssistantContent::ToolCall(call) => {
                let (call, item) = call_part(call, ids);
                if let Some(item) = item {
                    keeping.call(&call.id, item);
                }
                parts.push(Part::Call(call));
            }
            other => tracing::debug!(kind = ?std::mem::discriminant(&other), "part of a reply left out"),
        }
    }
    if let Some(part) = keeping.part() {
        parts.insert(0, part);
    }
    Message { author: Author::Assistant, parts }
}

/// A call of ours, and the provider's own form of it, which goes back unchanged or not at all: malformed arguments go
/// back as a legal object, and a call whose id had to be replaced under its new one.
fn call_part(call: rig::ToolCall, ids: &mut CallIds) -> (ToolCall, Option<Value>) {
    let theirs = call.id.provider().map(|id| id.as_str());
    let id = ids.next(theirs, random);
    let unchanged = theirs.is_none_or(|theirs| theirs == id);
    let rig::ToolFunction { name, arguments, invalid_arguments: malformed } = call.function;
    let item = call.native.map(|native| native.item).filter(|_| unchanged && malformed.is_none());
    let arguments = if malformed.is_some() { Value::Null } else { Value::Object(arguments) };
    (ToolCall { id, name: name.into(), arguments, malformed }, item)
}

/// A call that the provider reports as malformed and does not hand over; the model reads what is wrong as the result.
pub(super) fn unreadable_call(text: String, ids: &mut CallIds) -> Part {
    let (id, name) = (ids.next(None, random), NAMELESS.to_owned());
    Part::Call(ToolCall { id, name, arguments: Value::Null, malformed: Some(text) })
}

#[cfg(test)]
#[path = "convert_tests.rs"]
mod tests;
