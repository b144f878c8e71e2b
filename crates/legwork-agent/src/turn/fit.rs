//! Messages that are too large for the model's window are cut when they are shown, never in the store, and the cut says how
//! to read the rest.
//!
//! It does not decide how much room a message gets.

use super::gauge::part_size;
use crate::excerpt::excerpt;
use crate::shares::fair;
use legwork_core::message::{Author, Message, Part, ToolCall, ToolResult};
use serde_json::json;
use std::sync::Arc;

/// A part is never cut to less than this, so that its beginning can be told.
const PART_BYTES_MIN: usize = 160;

/// The message as it is shown when it may have `bytes_max` bytes.
pub(super) fn fit(message: &Arc<Message>, bytes_max: usize) -> Arc<Message> {
    let wants: Vec<usize> = message.parts.iter().map(part_size).collect();
    if message.author == Author::System || wants.iter().sum::<usize>() <= bytes_max {
        return Arc::clone(message);
    }
    let shares = fair(bytes_max, &wants);
    let parts = message.parts.iter().zip(wants.iter().zip(shares)).map(|(part, (want, share))| {
        if *want <= share { part.clone() } else { cut(part, share.max(PART_BYTES_MIN), message.author) }
    });
    Arc::new(Message { author: message.author, parts: parts.collect() })
}

fn cut(part: &Part, bytes_max: usize, author: Author) -> Part {
    match part {
        Part::Text { text } => Part::Text { text: shortened(text, bytes_max, rest_of(author)) },
        Part::Result(result) => {
            let rest = "call the tool again for a smaller part";
            Part::Result(ToolResult {
                content: shortened(&result.content, bytes_max, rest),
                ..result.clone()
            })
        }
        Part::Call(call) => {
            let text = call.malformed.clone().unwrap_or_else(|| call.arguments.to_string());
            let shown = shortened(&text, bytes_max, "the call was carried out with all of it");
            Part::Call(ToolCall { arguments: json!({ "shortened": shown }), malformed: None, ..call.clone() })
        }
        // These cannot be cut: a summary is small by itself, and the others belong to the provider.
        Part::Summary(_) | Part::Reasoning { .. } | Part::Image(_) => part.clone(),
    }
}

/// Where the rest of a text is.
fn rest_of(author: Author) -> &'static str {
    match author {
        Author::System | Author::User => {
            "ask for the rest in smaller parts, or for a file that you can read in parts"
        }
        Author::Completion => "the results are stored whole; the message says where they can be read",
        Author::Assistant | Author::Tool | Author::Summary => "the rest is stored and cannot be shown again",
    }
}

fn shortened(text: &str, bytes_max: usize, rest: &str) -> String {
    let note = |left_out: usize| {
        format!("{left_out} bytes are left out here, because all of it does not fit into your window: {rest}")
    };
    excerpt(text, bytes_max, note).unwrap_or_else(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results(sizes: &[usize]) -> Arc<Message> {
        let result = |(index, size): (usize, &usize)| {
            let content = "word ".repeat(size / 5);
            Part::Result(ToolResult { call_id: format!("c{index}"), content, is_error: false })
        };
        let parts = sizes.iter().enumerate().map(result).collect();
        Arc::new(Message { author: Author::Tool, parts })
    }

    #[test]
    fn k26_of_a_message_that_is_too_large_the_large_parts_are_cut_and_say_so() {
        let message = results(&[100, 50_000, 300]);
        let shown = fit(&message, 4000);
        assert_eq!((&shown.parts[0], &shown.parts[2]), (&message.parts[0], &message.parts[2]));
        let Part::Result(cut) = &shown.parts[1] else { panic!("a result") };
        assert!(cut.content.len() < 4000 && cut.content.contains("call the tool again"), "{}", cut.content);
        assert_eq!(cut.call_id, "c1");
    }

    #[test]
    fn a_message_that_fits_is_not_copied() {
        let message = results(&[100]);
        assert!(Arc::ptr_eq(&message, &fit(&message, 4000)));
    }

    #[test]
    fn k23_a_call_that_is_cut_keeps_legal_arguments() {
        let call = ToolCall {
            id: "c".to_owned(),
            name: "write_file".to_owned(),
            arguments: json!({"content": "x".repeat(10_000)}),
            malformed: None,
        };
        let message = Message { author: Author::Assistant, parts: vec![Part::Call(call)] };
        let shown = fit(&Arc::new(message), 1000);
        let call = shown.calls().next().expect("the call");
        assert!(call.arguments.is_object() && call.arguments.to_string().len() < 1400, "{}", call.arguments);
    }
}
