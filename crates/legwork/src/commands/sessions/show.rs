//! `legwork sessions show`: the conversation to read. Long messages are cut and old ones counted; `export` has all.

use legwork_core::message::{Author, Message, Part, ToolCall, ToolResult};
use legwork_core::ports::{Conversations, Listed};
use serde_json::{Value, json};

use super::digest::{self, Digest};
use crate::failure::CliError;
use crate::invocation::Invocation;
use crate::{stdout, wording};

/// Messages that are shown, the newest ones.
const MESSAGES_MAX: usize = 200;
/// Characters of a message that are shown.
const TEXT_MAX: usize = 2000;
/// Characters of a tool call, a tool's result or a title.
const LINE_WIDTH: usize = 120;

/// Prints the conversation and what it delegated.
///
/// # Errors
/// When there is no such session, or the state folder cannot be used.
pub async fn run(invocation: &Invocation, typed: &str) -> Result<(), CliError> {
    let (store, digest) = digest::find(invocation, typed).await?;
    let messages = store.history(&digest.record.session.id).await?;
    let Listed { rows: delegations, unreadable } =
        digest::delegations(&store, &digest.record.session.id).await?;
    let earlier = messages.len().saturating_sub(MESSAGES_MAX);
    let shown: Vec<Shown> =
        messages.iter().enumerate().skip(earlier).map(|(place, message)| Shown::of(place, message)).collect();
    if invocation.common.json {
        let mut fields = digest.to_json();
        fields.insert("earlier".to_owned(), json!(earlier));
        let marked =
            messages.iter().skip(earlier).map(|message| digest::completion_json(message, &delegations));
        let history = shown.iter().zip(marked).map(|(shown, marked)| shown.to_json(marked));
        fields.insert("history".to_owned(), history.collect());
        fields.insert("delegations".to_owned(), delegations.iter().map(digest::delegation_json).collect());
        fields.insert("unreadable".to_owned(), json!(unreadable));
        return stdout::print_json(&Value::Object(fields));
    }
    let mut parts = vec![head(&digest)];
    if earlier > 0 {
        parts.push(format!(
            "({earlier} earlier messages; `legwork sessions export {}` prints all)",
            digest.record.session.id
        ));
    }
    parts.extend(shown.iter().map(Shown::to_text));
    let mut lines: Vec<String> = delegations.iter().map(digest::delegation_line).collect();
    lines.extend(unreadable.iter().map(|id| format!("{id}  cannot be read")));
    if !lines.is_empty() {
        parts.push(format!("delegated:\n  {}", lines.join("\n  ")));
    }
    stdout::print(&parts.join("\n\n"))
}

fn head(digest: &Digest) -> String {
    let record = &digest.record;
    let mut lines = vec![
        digest.title(),
        format!("  folder: {}", wording::plain(&record.session.folder)),
        format!("  created: {}", wording::instant(record.session.at.0)),
        format!("  last change: {}", wording::instant(record.touched_at.0)),
        format!("  messages: {}", record.messages),
    ];
    lines.extend(digest.holder().map(|holder| format!("  open in: process {}", holder.process.pid)));
    if digest.undelivered > 0 {
        lines.push(format!("  undelivered results: {}", digest.undelivered));
    }
    lines.join("\n")
}

/// One message as far as it is shown.
struct Shown {
    place: usize,
    author: &'static str,
    text: String,
    /// Characters that were left out.
    cut: usize,
    /// Tool calls and results, a line each.
    lines: Vec<String>,
}

impl Shown {
    fn of(place: usize, message: &Message) -> Shown {
        let author = author(message.author);
        let text = message.plain_text();
        let (text, lines) = match message.author {
            // Our own instructions are long and the same everywhere.
            Author::System => {
                (String::new(), vec![format!("({} characters of instructions)", text.chars().count())])
            }
            // The first line of a completion is its title.
            Author::Completion => {
                let title = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
                (String::new(), vec![wording::one_line(title, LINE_WIDTH)])
            }
            Author::User | Author::Assistant | Author::Tool | Author::Summary => {
                (text, message.parts.iter().filter_map(line).collect())
            }
        };
        let length = text.chars().count();
        let text: String = text.chars().take(TEXT_MAX).collect();
        Shown { place, author, text, cut: length.saturating_sub(TEXT_MAX), lines }
    }

    fn to_text(&self) -> String {
        let mut lines = vec![format!("[{}] {}", self.place + 1, self.author)];
        let text = wording::plain(self.text.trim_end());
        lines.extend(text.lines().map(|line| format!("    {line}")));
        if self.cut > 0 {
            lines.push(format!("    … ({} more characters)", self.cut));
        }
        lines.extend(self.lines.iter().map(|line| format!("    {line}")));
        lines.join("\n")
    }

    fn to_json(&self, completion: Option<(Value, Value)>) -> Value {
        let mut fields = json!({
            "place": self.place,
            "author": self.author,
            "text": self.text,
            "cut": self.cut,
            "lines": self.lines,
        });
        if let Some((kind, metadata)) = completion {
            (fields["display_kind"], fields["metadata"]) = (kind, metadata);
        }
        fields
    }
}

/// The word for whoever said something.
pub fn author(author: Author) -> &'static str {
    match author {
        Author::System => "system",
        Author::User => "user",
        Author::Assistant => "assistant",
        Author::Tool => "tool",
        Author::Completion => "completion",
        Author::Summary => "summary",
    }
}

/// What is not text, on one line.
fn line(part: &Part) -> Option<String> {
    match part {
        Part::Text { .. } | Part::Reasoning { .. } | Part::Summary(_) => None,
        Part::Image(image) => {
            Some(format!("(a picture, {})", wording::one_line(&image.media_type, LINE_WIDTH)))
        }
        Part::Call(call) => {
            Some(wording::one_line(&format!("→ {} {}", call.name, arguments(call)), LINE_WIDTH))
        }
        Part::Result(result) => {
            Some(wording::one_line(&format!("{} {}", sign(result), result.content), LINE_WIDTH))
        }
    }
}

/// The arguments of a call as the model wrote them.
pub fn arguments(call: &ToolCall) -> String {
    call.malformed.clone().unwrap_or_else(|| call.arguments.to_string())
}

fn sign(result: &ToolResult) -> &'static str {
    if result.is_error { "✗" } else { "←" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn k24_a_long_message_is_cut_by_characters_and_a_call_is_one_line() {
        let message = Message::text(Author::User, "ä".repeat(TEXT_MAX + 5));
        let shown = Shown::of(0, &message);
        assert_eq!((shown.text.chars().count(), shown.cut), (TEXT_MAX, 5));
        assert!(shown.to_text().ends_with("… (5 more characters)"));
        let call = ToolCall {
            id: "c".into(),
            name: "terminal".into(),
            arguments: json!({"command": "echo a\necho b"}),
            malformed: None,
        };
        let message = Message { author: Author::Assistant, parts: vec![Part::Call(call)] };
        assert_eq!(
            Shown::of(1, &message).to_text(),
            "[2] assistant\n    → terminal {\"command\":\"echo a\\necho b\"}"
        );
    }

    #[test]
    fn evt_15_a_completion_is_shown_by_its_title() {
        let message = Message::text(Author::Completion, "\nThe title\n\nthe body that the model reads");
        assert_eq!(Shown::of(4, &message).to_text(), "[5] completion\n    The title");
    }
}
