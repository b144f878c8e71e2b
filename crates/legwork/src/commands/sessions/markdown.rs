//! A conversation as a Markdown page. What anybody said stands in quotes or fences, so that no text of a user, a model or a
//! child looks like a heading of the page.

use legwork_core::message::{Message, Part};
use legwork_core::record::DelegationRecord;

use super::digest::{self, Digest};
use super::show::{arguments, author};
use crate::wording;

/// The whole page.
pub fn page(digest: &Digest, messages: &[Message], delegations: &[DelegationRecord]) -> String {
    let session = &digest.record.session;
    let mut blocks = vec![format!("# Session {}", session.id)];
    let mut facts = Vec::new();
    facts.extend(session.name.as_deref().map(|name| format!("- name: {}", wording::plain(name))));
    facts.push(format!("- kind: {}", session.kind.as_str()));
    facts.push(format!("- folder: {}", wording::plain(&session.folder)));
    facts.push(format!("- created: {}", wording::instant(session.at.0)));
    facts.push(format!("- last change: {}", wording::instant(digest.record.touched_at.0)));
    facts.push(format!("- messages: {}", messages.len()));
    blocks.push(facts.join("\n"));
    for (place, message) in messages.iter().enumerate() {
        blocks.push(format!("## {}. {}", place + 1, author(message.author)));
        blocks.extend(message.parts.iter().map(block));
    }
    if !delegations.is_empty() {
        blocks.push("## Delegations".to_owned());
        let lines: Vec<String> =
            delegations.iter().map(|record| format!("- {}", digest::delegation_line(record))).collect();
        blocks.push(lines.join("\n"));
    }
    blocks.join("\n\n")
}

fn block(part: &Part) -> String {
    match part {
        Part::Text { text } => quoted(text),
        Part::Reasoning { text, .. } => format!("Reasoning:\n\n{}", quoted(text)),
        Part::Summary(summary) => {
            format!(
                "Summary of the messages before number {}:\n\n{}",
                summary.from + 1,
                quoted(&summary.text)
            )
        }
        Part::Image(image) => format!("A picture ({}).", wording::one_line(&image.media_type, 80)),
        Part::Call(call) => {
            format!("Call of {}:\n\n{}", code(&call.name), fenced(&arguments(call)))
        }
        Part::Result(result) => {
            let what = if result.is_error { "Failure" } else { "Result" };
            format!("{what} of {}:\n\n{}", code(&result.call_id), fenced(&result.content))
        }
    }
}

/// The text with a sign before each line that keeps it from being anything but a quote.
fn quoted(text: &str) -> String {
    let plain = wording::plain(text);
    let lines: Vec<String> =
        plain.trim_end().lines().map(|line| format!("> {line}").trim_end().to_owned()).collect();
    lines.join("\n")
}

/// The text between fences that are longer than any it has itself.
fn fenced(text: &str) -> String {
    let plain = wording::plain(text);
    let mut longest = 0;
    let mut run = 0;
    for letter in plain.chars() {
        run = if letter == '`' { run + 1 } else { 0 };
        longest = longest.max(run);
    }
    let fence = "`".repeat(3.max(longest + 1));
    format!("{fence}\n{}\n{fence}", plain.trim_end())
}

/// A name as code; of a name that would end the code the signs that do so are left out.
fn code(name: &str) -> String {
    format!("`{}`", wording::one_line(name, 80).replace('`', ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn k30_what_was_said_never_forms_the_structure_of_the_page() {
        let text = "fine\n## 9. user\n```\n# Session";
        assert_eq!(quoted(text), "> fine\n> ## 9. user\n> ```\n> # Session");
        assert_eq!(fenced("a\n````\n## 1. user"), "`````\na\n````\n## 1. user\n`````");
        assert_eq!(code("a`b\nc"), "`ab c`");
    }
}
