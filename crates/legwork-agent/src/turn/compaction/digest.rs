//! The replaced messages as a text: whole for the model that summarises them, or only the beginnings when none can.
//! Everything in it is data; every line of it is quoted.

use crate::excerpt::{excerpt, head_of};
use crate::quoted::{one_line, quote};
use crate::shares::fair;
use legwork_core::message::{Author, Message, Part};
use std::sync::Arc;

/// A message gets at least this many bytes, so there is a limit to how many are shown.
const MESSAGE_BYTES_MIN: usize = 200;
/// Bytes of a message whose beginning stands for it.
const HEAD_BYTES_MAX: usize = 300;
/// Bytes of the title of a message.
const TITLE_BYTES: usize = 32;

/// All of it within `bytes_max`: small messages whole, large ones with head and tail, and of too many the last ones.
pub(super) fn whole(earlier: Option<&str>, messages: &[Arc<Message>], bytes_max: usize) -> String {
    let earlier = earlier.map(|text| ("summary of what came before", text.to_owned()));
    let told = messages.iter().filter_map(|message| Some((title(message)?, text(message))));
    let mut pieces: Vec<(&str, String)> = earlier.into_iter().chain(told).collect();
    let left_out = pieces.len().saturating_sub((bytes_max / MESSAGE_BYTES_MIN).max(1));
    pieces.drain(..left_out);
    let wants: Vec<usize> = pieces.iter().map(|(_, text)| TITLE_BYTES + quote(text).len()).collect();
    let shares = fair(bytes_max, &wants);
    let mut record = String::new();
    for ((title, text), share) in pieces.iter().zip(shares) {
        let room = share.saturating_sub(TITLE_BYTES);
        let quoted = quote(text);
        let shown = if quoted.len() <= room { quoted } else { shortened(text, room) };
        record.push_str(&format!("## {title}\n{shown}\n"));
    }
    record
}

/// The beginnings of what was said, the last ones within `bytes_max`.
pub(super) fn heads(earlier: Option<&str>, messages: &[Arc<Message>], bytes_max: usize) -> String {
    let mut lines = Vec::new();
    let mut bytes = 0;
    for message in messages.iter().rev() {
        let said = one_line(&message.plain_text());
        let Some(title) = title(message).filter(|_| !said.is_empty()) else { continue };
        let line = format!("{title}: {}", head_of(&said, HEAD_BYTES_MAX));
        bytes += line.len() + 1;
        if bytes > bytes_max / 2 {
            break;
        }
        lines.push(line);
    }
    if let Some(earlier) = earlier {
        lines.push(head_of(earlier, bytes_max / 2).to_owned());
    }
    lines.reverse();
    lines.join("\n")
}

/// Every text of the messages in which an id can stand.
pub(super) fn texts(messages: &[Arc<Message>]) -> impl Iterator<Item = String> {
    messages.iter().flat_map(|message| message.parts.iter().filter_map(part_text))
}

/// A part that is too long, without cutting into the marks of its lines.
fn shortened(text: &str, room: usize) -> String {
    // Marks take up to two bytes a line; half of the room is a safe start for texts of short lines.
    let note = |left_out: usize| format!("{left_out} bytes left out");
    let mut bytes_max = room;
    loop {
        let quoted = quote(&excerpt(text, bytes_max, note).unwrap_or_else(|| text.to_owned()));
        if quoted.len() <= room || bytes_max < 2 {
            return quoted;
        }
        bytes_max /= 2;
    }
}

fn title(message: &Message) -> Option<&'static str> {
    match message.author {
        Author::System | Author::Summary => None,
        Author::User => Some("user"),
        Author::Assistant => Some("agent"),
        Author::Tool => Some("tools"),
        Author::Completion => Some("what came back from subagents"),
    }
}

fn text(message: &Message) -> String {
    message.parts.iter().filter_map(part_text).collect::<Vec<_>>().join("\n")
}

fn part_text(part: &Part) -> Option<String> {
    match part {
        Part::Text { text } => Some(text.clone()),
        Part::Call(call) => {
            let arguments = call.malformed.clone().unwrap_or_else(|| call.arguments.to_string());
            Some(format!("calls {} {arguments}", call.name))
        }
        Part::Result(result) if result.is_error => Some(format!("failed: {}", result.content)),
        Part::Result(result) => Some(format!("result: {}", result.content)),
        Part::Summary(summary) => Some(summary.text.clone()),
        Part::Image(_) => Some("[a picture]".to_owned()),
        Part::Reasoning { .. } => None,
    }
}
