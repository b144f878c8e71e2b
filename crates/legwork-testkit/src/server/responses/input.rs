//! Reads the input of a Responses request: a list of items, of which several make up one message of the assistant.
//!
//! Items of the model that follow one another are one message. Nothing in the format tells two such messages apart.

use serde_json::Value;

use crate::server::conversation::{Role, SeenCall, SeenMessage};
use crate::server::fields::{
    Object, full_array, illegal, missing, object, only, present, text_field, tool_name,
};
use crate::server::seal::named;
use crate::server::strict::{Rule, Violation};

/// Whether the client asked for its items to be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Store {
    Kept,
    Nothing,
}

/// The items read so far.
pub(super) struct Input {
    store: Store,
    messages: Vec<SeenMessage>,
    /// The place of a reasoning that nothing has followed yet.
    alone: Option<String>,
}

impl Input {
    pub(super) fn read(items: &[Value], store: Store) -> Result<Vec<SeenMessage>, Violation> {
        let mut input = Self { store, messages: Vec::new(), alone: None };
        for (index, item) in items.iter().enumerate() {
            let place = format!("input[{index}]");
            input.item(object(item, &place)?, &place)?;
        }
        input.nothing_alone()?;
        Ok(input.messages)
    }

    fn item(&mut self, fields: &Object, place: &str) -> Result<(), Violation> {
        let kind = match present(fields, "type") {
            None => "message",
            Some(kind) => {
                kind.as_str().ok_or_else(|| illegal(format!("{place}.type"), "the type must be a text"))?
            }
        };
        match kind {
            "message" => self.message(fields, place),
            "function_call" => self.call(fields, place),
            "function_call_output" => self.output(fields, place),
            "reasoning" => self.reasoning(fields, place),
            _ => {
                let text = format!("this server reads no items of the type `{kind}`");
                Err(illegal(format!("{place}.type"), text))
            }
        }
    }

    fn message(&mut self, fields: &Object, place: &str) -> Result<(), Violation> {
        only(fields, &["type", "role", "content", "id", "status", "phase"], &format!("{place}."))?;
        let role_place = format!("{place}.role");
        let role = match text_field(fields, "role", &role_place)? {
            "system" | "developer" => Role::System,
            "user" => Role::User,
            "assistant" => Role::Assistant,
            name => return Err(illegal(role_place, format!("there is no role `{name}`"))),
        };
        let content = present(fields, "content").ok_or_else(|| missing(format!("{place}.content")))?;
        let text = content_text(content, role, &format!("{place}.content"))?;
        if role != Role::Assistant {
            self.nothing_alone()?;
            self.messages.push(SeenMessage { text, ..SeenMessage::new(role, place) });
            return Ok(());
        }
        id(fields, "msg", place)?;
        self.alone = None;
        let said = &mut self.assistant(place).text;
        let gap = if said.is_empty() { "" } else { "\n" };
        *said = format!("{said}{gap}{text}");
        Ok(())
    }

    fn call(&mut self, fields: &Object, place: &str) -> Result<(), Violation> {
        only(fields, &["type", "id", "call_id", "name", "arguments", "status"], &format!("{place}."))?;
        id(fields, "fc", place)?;
        let arguments = present(fields, "arguments").and_then(Value::as_str);
        let arguments =
            arguments.ok_or_else(|| illegal(format!("{place}.arguments"), "the arguments must be a text"))?;
        let call = SeenCall {
            place: place.to_owned(),
            id: text_field(fields, "call_id", &format!("{place}.call_id"))?.to_owned(),
            name: tool_name(fields, place)?.to_owned(),
            arguments: arguments.to_owned(),
        };
        self.alone = None;
        self.assistant(place).calls.push(call);
        Ok(())
    }

    fn output(&mut self, fields: &Object, place: &str) -> Result<(), Violation> {
        only(fields, &["type", "id", "call_id", "output", "status"], &format!("{place}."))?;
        self.nothing_alone()?;
        let answers = text_field(fields, "call_id", &format!("{place}.call_id"))?.to_owned();
        let output_place = format!("{place}.output");
        let text = match present(fields, "output").ok_or_else(|| missing(&output_place))? {
            Value::String(text) => text.clone(),
            content => content_text(content, Role::Tool, &output_place)?,
        };
        self.messages.push(SeenMessage {
            text,
            answers: Some(answers),
            ..SeenMessage::new(Role::Tool, place)
        });
        Ok(())
    }

    /// Reasoning is known again by its id and its sealed content; a summary may be changed.
    fn reasoning(&mut self, fields: &Object, place: &str) -> Result<(), Violation> {
        let names = ["type", "id", "summary", "content", "encrypted_content", "status"];
        only(fields, &names, &format!("{place}."))?;
        let id = id(fields, "rs", place)?.ok_or_else(|| missing(format!("{place}.id")))?;
        let summary = present(fields, "summary").ok_or_else(|| missing(format!("{place}.summary")))?;
        let text = summary_text(summary, &format!("{place}.summary"))?;
        self.sealed(fields, id, place)?;
        self.alone = Some(place.to_owned());
        self.assistant(place).reasoning.get_or_insert_default().push_str(&text);
        Ok(())
    }

    fn sealed(&self, fields: &Object, id: &str, place: &str) -> Result<(), Violation> {
        let text = match present(fields, "encrypted_content").map(Value::as_str) {
            Some(Some(sealed)) if sealed == named(id) => return Ok(()),
            Some(_) => {
                "the encrypted content could not be verified, it must come back as it was sent".to_owned()
            }
            None if self.store == Store::Kept => return Ok(()),
            None => {
                format!("the item `{id}` is not found: without `store` it must bring its encrypted content")
            }
        };
        Err(Violation::new(Rule::ReasoningChanged, format!("{place}.encrypted_content"), text))
    }

    /// The message that the items of the model add to.
    fn assistant(&mut self, place: &str) -> &mut SeenMessage {
        if self.messages.last().is_none_or(|last| last.role != Role::Assistant) {
            self.messages.push(SeenMessage::new(Role::Assistant, place));
        }
        self.messages.last_mut().expect("a message was pushed where there was none")
    }

    fn nothing_alone(&self) -> Result<(), Violation> {
        match &self.alone {
            None => Ok(()),
            Some(place) => {
                let text = "reasoning must be followed by the item of the model that it led to";
                Err(Violation::new(Rule::ReasoningAlone, place, text))
            }
        }
    }
}

/// The id of an item, which begins with the kind of the item. Items made by the client have none.
fn id<'a>(fields: &'a Object, kind: &str, place: &str) -> Result<Option<&'a str>, Violation> {
    if present(fields, "id").is_none() {
        return Ok(None);
    }
    let place = format!("{place}.id");
    let id = text_field(fields, "id", &place)?;
    if id.starts_with(kind) {
        return Ok(Some(id));
    }
    Err(illegal(place, format!("`{id}` is no id of this item, which begins with `{kind}`")))
}

fn content_text(content: &Value, role: Role, place: &str) -> Result<String, Violation> {
    if let Value::String(text) = content {
        return Ok(text.clone());
    }
    let mut texts = Vec::new();
    for (index, part) in full_array(content, place)?.iter().enumerate() {
        let place = format!("{place}[{index}]");
        let fields = object(part, &place)?;
        match (text_field(fields, "type", &format!("{place}.type"))?, role) {
            ("input_text", Role::System | Role::User | Role::Tool) | ("output_text", Role::Assistant) => {
                let text = fields.get("text").and_then(Value::as_str);
                texts.push(text.ok_or_else(|| missing(format!("{place}.text")))?);
            }
            ("input_image" | "input_file", Role::User | Role::Tool) | ("refusal", Role::Assistant) => {}
            (kind, _) => {
                let text =
                    format!("a part of the type `{kind}` is not allowed in an item of the role {role:?}");
                return Err(illegal(format!("{place}.type"), text));
            }
        }
    }
    Ok(texts.join("\n"))
}

fn summary_text(summary: &Value, place: &str) -> Result<String, Violation> {
    let parts = summary.as_array().ok_or_else(|| illegal(place, format!("`{place}` must be an array")))?;
    let mut texts = Vec::new();
    for (index, part) in parts.iter().enumerate() {
        let place = format!("{place}[{index}]");
        let fields = object(part, &place)?;
        match text_field(fields, "type", &format!("{place}.type"))? {
            "summary_text" => texts.push(text_field(fields, "text", &format!("{place}.text"))?),
            kind => {
                return Err(illegal(format!("{place}.type"), format!("`{kind}` is no part of a summary")));
            }
        }
    }
    Ok(texts.join("\n\n"))
}
