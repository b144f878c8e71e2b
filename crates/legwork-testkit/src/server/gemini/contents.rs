//! Reads the contents of a `generateContent` request: whose turn may follow whose, which response answers which call,
//! and which calls must bring their signature back.

use serde_json::Value;

use super::names::{Generation, field, known};
use super::parts::{Part, part};
use crate::server::conversation::{Role, SeenCall, SeenMessage};
use crate::server::fields::{Object, full_array, illegal, missing, object};
use crate::server::seal::{is_named, named};
use crate::server::strict::{Rule, Violation};

/// What the provider lets pass for the signature of a call that it did not make.
const PLACEHOLDERS: [&str; 2] = ["skip_thought_signature_validator", "context_engineering_is_the_way_to_go"];

/// One content, with the places of its parts.
struct Content<'a> {
    place: String,
    role: Role,
    parts: Vec<(String, Part<'a>)>,
}

pub(super) fn contents(body: &Object, generation: Generation) -> Result<Vec<SeenMessage>, Violation> {
    let value = field(body, "contents").ok_or_else(|| missing("contents"))?;
    let list = value.as_array().ok_or_else(|| illegal("contents", "`contents` must be an array"))?;
    let contents = list.iter().enumerate().map(|(index, value)| content(value, format!("contents[{index}]")));
    let contents: Vec<Content<'_>> = contents.collect::<Result<_, _>>()?;
    signatures(&contents, generation)?;
    let mut messages = Vec::new();
    let mut before: Option<&Content<'_>> = None;
    for content in &contents {
        match content.role {
            Role::Assistant => messages.push(model(content, before)?),
            Role::System | Role::User | Role::Tool => messages.extend(user(content, before)?),
        }
        before = Some(content);
    }
    Ok(messages)
}

fn content(value: &Value, place: String) -> Result<Content<'_>, Violation> {
    let fields = object(value, &place)?;
    known(fields, &["role", "parts"], &place)?;
    let role = match field(fields, "role").map(Value::as_str) {
        None | Some(Some("user" | "function")) => Role::User,
        Some(Some("model")) => Role::Assistant,
        Some(_) => {
            return Err(illegal(format!("{place}.role"), "please use a valid role: `user` or `model`"));
        }
    };
    let parts_place = format!("{place}.parts");
    let list = full_array(field(fields, "parts").ok_or_else(|| missing(&parts_place))?, &parts_place)?;
    let mut parts = Vec::new();
    for (index, value) in list.iter().enumerate() {
        let place = format!("{parts_place}[{index}]");
        let part = part(value, role, &place)?;
        parts.push((place, part));
    }
    Ok(Content { place, role, parts })
}

/// In the current turn the first call of each content must have its signature; what has one anywhere must have its own.
fn signatures(contents: &[Content<'_>], generation: Generation) -> Result<(), Violation> {
    if generation == Generation::Plain {
        return Ok(());
    }
    let says = |content: &Content<'_>| {
        content.role == Role::User && content.parts.iter().any(|(_, part)| part.text.is_some())
    };
    let turn = contents.iter().rposition(says).unwrap_or(0);
    for (index, content) in contents.iter().enumerate() {
        content.parts.iter().try_for_each(|(place, part)| signature(part, place))?;
        let first = content.parts.iter().find(|(_, part)| part.call.is_some());
        if let Some((place, part)) = first.filter(|_| index >= turn)
            && part.signature.is_none()
        {
            let text = "the first call of a content in the current turn is missing its `thoughtSignature`";
            return Err(Violation::new(Rule::ReasoningMissing, place, text));
        }
    }
    Ok(())
}

fn signature(part: &Part<'_>, place: &str) -> Result<(), Violation> {
    let Some(signature) = part.signature.filter(|signature| !PLACEHOLDERS.contains(signature)) else {
        return Ok(());
    };
    let id = part.call.as_ref().and_then(|call| call.id);
    let fits = id.map_or_else(|| is_named(signature), |id| signature == named(id));
    if fits {
        return Ok(());
    }
    let text = "the thought signature is not valid, it must come back with its part as it was sent";
    Err(Violation::new(Rule::ReasoningChanged, format!("{place}.thoughtSignature"), text))
}

fn model(content: &Content<'_>, before: Option<&Content<'_>>) -> Result<SeenMessage, Violation> {
    let mut message = SeenMessage::new(Role::Assistant, &content.place);
    let mut texts = Vec::new();
    for (place, part) in &content.parts {
        match (part.text, &part.call) {
            (Some(thought), _) if part.thought => message.reasoning.get_or_insert_default().push_str(thought),
            (Some(text), _) => texts.push(text),
            (None, Some(call)) => message.calls.push(SeenCall {
                place: place.clone(),
                id: call.id.unwrap_or(place).to_owned(),
                name: call.name.to_owned(),
                arguments: call.args.clone(),
            }),
            (None, None) => {}
        }
    }
    message.text = texts.join("\n");
    if !message.calls.is_empty() && before.is_some_and(|before| before.role == Role::Assistant) {
        let text = "a turn with calls must come right after the user's or after one with responses";
        return Err(Violation::new(Rule::Alternation, format!("{}.role", content.place), text));
    }
    Ok(message)
}

/// The messages that one of the user's stands for: one per response, and one for what the user says besides.
fn user(content: &Content<'_>, before: Option<&Content<'_>>) -> Result<Vec<SeenMessage>, Violation> {
    let mut open: Vec<(&str, &str, Option<&str>)> = before.map(open_calls).unwrap_or_default();
    let calls = open.len();
    let mut messages = Vec::new();
    let mut said: Option<Vec<&str>> = None;
    for (place, part) in &content.parts {
        let Some(response) = &part.response else {
            said.get_or_insert_default().extend(part.text);
            continue;
        };
        let fits = |(_, name, id): &(&str, &str, Option<&str>)| {
            *name == response.name && response.id.is_none_or(|wanted| *id == Some(wanted))
        };
        // Where nothing is left that fits, the check of all formats says what is wrong.
        let answers = match open.iter().position(fits) {
            Some(position) => {
                let (place, _, id) = open.remove(position);
                id.unwrap_or(place).to_owned()
            }
            None => response.id.filter(|_| before.is_some()).unwrap_or(response.name).to_owned(),
        };
        let text = response.text.clone();
        messages.push(SeenMessage { text, answers: Some(answers), ..SeenMessage::new(Role::Tool, place) });
    }
    if !messages.is_empty() && messages.len() < calls {
        let text =
            format!("one turn made {calls} calls, but only {} of their responses are here", messages.len());
        return Err(Violation::new(Rule::Unanswered, &content.place, text));
    }
    let said = said.map(|said| said.join("\n"));
    messages.extend(said.map(|text| SeenMessage { text, ..SeenMessage::new(Role::User, &content.place) }));
    Ok(messages)
}

/// The calls of a content: their places, names and ids.
fn open_calls<'a>(content: &'a Content<'_>) -> Vec<(&'a str, &'a str, Option<&'a str>)> {
    let calls = content.parts.iter().filter_map(|(place, part)| part.call.as_ref().map(|call| (place, call)));
    calls.map(|(place, call)| (place.as_str(), call.name, call.id)).collect()
}
