//! What a child told, in the small form in which it waits for the disk: text that will not be shown is cut off here,
//! so that what waits stays small however much a tool or a model says.

use super::line::Role;
use legwork_core::pulse::LineEvent;

/// Bytes of a text that wait; far more than a line shows, because blanks and credentials in it take no room there.
const WAITING_BYTES_MAX: usize = 4096;

/// One thing for a transcript.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Entry {
    /// A model call begins.
    Called,
    /// A piece of the reply.
    Text(Cut),
    /// A piece of the reasoning.
    Thinking(Cut),
    /// The reply is whole.
    Replied,
    /// A line of its own.
    Line(Role, Cut),
}

/// A text, or its beginning.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Cut {
    pub(super) text: String,
    /// Characters that were cut off.
    pub(super) omitted: usize,
}

impl Entry {
    /// The entry for an event; `None` for one that no reader wants to see.
    pub(super) fn of(event: &LineEvent) -> Option<Entry> {
        Some(match event {
            LineEvent::ModelCalled => Entry::Called,
            LineEvent::Text(piece) => Entry::Text(Cut::of("", piece)),
            LineEvent::Thinking(piece) => Entry::Thinking(Cut::of("", piece)),
            LineEvent::Replied { .. } => Entry::Replied,
            LineEvent::Retrying { error, pause_ms, .. } => {
                Entry::Line(Role::Note, Cut::of(&format!("trying again in {}: ", seconds(*pause_ms)), error))
            }
            LineEvent::ToolStarted { tool, arguments, .. } => {
                Entry::Line(Role::Tool, Cut::of(&format!("{tool} "), arguments))
            }
            LineEvent::ToolMoved => return None,
            LineEvent::ToolEnded { tool, result, is_error, took_ms, .. } => {
                let word = if *is_error { "ERROR" } else { "ok" };
                Entry::Line(Role::Result, Cut::of(&format!("{tool} {word} {} ", seconds(*took_ms)), result))
            }
            LineEvent::Compacted { messages, tokens_before, tokens_after, .. } => {
                let text = format!(
                    "summarised {messages} earlier messages: about {tokens_before} tokens before, {tokens_after} after"
                );
                Entry::Line(Role::Note, Cut::of("", &text))
            }
            LineEvent::Note(note) => Entry::Line(Role::Note, Cut::of("", note)),
        })
    }

    /// Bytes that it holds while it waits.
    pub(super) fn weight(&self) -> usize {
        match self {
            Entry::Called | Entry::Replied => 0,
            Entry::Text(cut) | Entry::Thinking(cut) | Entry::Line(_, cut) => cut.text.len(),
        }
    }
}

impl Cut {
    /// `head` and the beginning of `text`, cut between words so that no credential is cut in two and shown in part.
    pub(super) fn of(head: &str, text: &str) -> Cut {
        if text.len() <= WAITING_BYTES_MAX {
            return Cut { text: format!("{head}{text}"), omitted: 0 };
        }
        let most = &text[..text.floor_char_boundary(WAITING_BYTES_MAX)];
        let kept = most.rfind(char::is_whitespace).map_or(most, |end| &most[..end]);
        Cut { text: format!("{head}{kept}"), omitted: text[kept.len()..].chars().count() }
    }
}

/// One decimal is as much as a reader can use (LIVE-5).
fn seconds(ms: u64) -> String {
    format!("{:.1}s", ms as f64 / 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_waits_in_part_and_counts_the_rest() {
        let text = format!("{} sk-{}", "ü ".repeat(2000), "x".repeat(5000));
        let cut = Cut::of("tool ", &text);
        assert!(cut.text.len() <= WAITING_BYTES_MAX + 5 && !cut.text.contains("sk-"));
        assert_eq!(cut.text.chars().count() - 5 + cut.omitted, text.chars().count());
    }

    #[test]
    fn live_05_a_result_says_how_it_went_and_how_long_it_took() {
        let event = LineEvent::ToolEnded {
            call: "c1".to_owned(),
            tool: "terminal".to_owned(),
            result: "no".to_owned(),
            is_error: true,
            took_ms: 1250,
        };
        let Some(Entry::Line(Role::Result, cut)) = Entry::of(&event) else { panic!("a result line") };
        assert_eq!(cut.text, "terminal ERROR 1.2s no");
        assert_eq!(Entry::of(&LineEvent::ToolMoved), None);
    }
}
