//! Where the messages begin that are kept as they are. Never between a call and its results.

use crate::turn::Context;
use legwork_core::message::Author;

/// The first place from which on at most about `bytes_max` bytes follow; the last exchange or message is kept in any
/// case. Nothing when no message would be replaced.
pub(super) fn first_kept(context: &Context, bytes_max: usize) -> Option<usize> {
    let messages = context.messages();
    let mut best = None;
    let mut bytes = 0;
    for place in (context.shown_from() + 1..messages.len()).rev() {
        match messages[place].author {
            // It is shown no more once there is a newer one.
            Author::Summary => continue,
            Author::System | Author::User | Author::Assistant | Author::Tool | Author::Completion => {}
        }
        bytes += context.size_within(place, bytes_max);
        if best.is_some() && bytes > bytes_max {
            break;
        }
        if messages[place].author != Author::Tool {
            best = Some(place);
        }
    }
    best.filter(|place| {
        let replaced = &messages[context.shown_from()..*place];
        replaced.iter().any(|message| message.author != Author::Summary)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use legwork_core::message::{Message, Part, Summary, ToolCall, ToolResult};
    use serde_json::Value;
    use std::sync::Arc;

    /// `s`ystem, `u`ser, `a`nswer, `c`all, `r`esult, and `S`ummary that keeps the two before it.
    fn context(script: &str) -> Context {
        let mut messages = Vec::new();
        for (place, char) in script.chars().enumerate() {
            messages.push(Arc::new(match char {
                's' => Message::text(Author::System, "sys"),
                'u' => Message::text(Author::User, "x".repeat(52)),
                'a' => Message::text(Author::Assistant, "x".repeat(52)),
                'c' => {
                    let (id, name) = ("c".to_owned(), "look".to_owned());
                    let call = ToolCall { id, name, arguments: Value::Null, malformed: None };
                    Message { author: Author::Assistant, parts: vec![Part::Call(call)] }
                }
                'r' => {
                    let content = "x".repeat(51);
                    let result = ToolResult { call_id: "c".to_owned(), content, is_error: false };
                    Message { author: Author::Tool, parts: vec![Part::Result(result)] }
                }
                'S' => {
                    let part = Part::Summary(Summary { text: "S".to_owned(), from: place as u64 - 2 });
                    Message { author: Author::Summary, parts: vec![part] }
                }
                other => panic!("no message {other}"),
            }));
        }
        Context::new(messages)
    }

    #[test]
    fn k43_the_kept_messages_never_begin_with_results() {
        for (script, bytes_max, place) in [
            ("suauau", 250, Some(4)),
            ("suauau", 10, Some(5)),
            ("sucrcr", 10, Some(4)),
            ("sucrcr", 120, Some(4)),
            ("sucrcr", 170, Some(4)),
            ("sucrcr", 1000, Some(2)),
            ("su", 10, None),
            ("sua", 10, Some(2)),
            ("suacrS", 500, None),
            ("suaucrScr", 10, Some(7)),
        ] {
            let place = place.filter(|place| *place > 0);
            assert_eq!(first_kept(&context(script), bytes_max), place, "{script} within {bytes_max}");
        }
    }
}
