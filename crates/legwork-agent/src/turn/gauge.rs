//! How many tokens the next request has, by estimate: what the provider counted last where that is known, and bytes for
//! everything that came after. It errs on the side of more.
//!
//! It does not know what a window is.

use crate::models::ToolSpec;
use legwork_core::message::{Message, Part};

/// Bytes of a token as long as no provider has counted any; English prose has more, code and JSON have about this many.
const BYTES_PER_TOKEN: f64 = 3.5;
/// Text with fewer bytes a token than this is not believed in.
const BYTES_PER_TOKEN_MIN: f64 = 1.0;
/// Nor is text with more: some providers leave out of their count what came from a cache.
const BYTES_PER_TOKEN_MAX: f64 = 5.0;
/// What a message or a part of one costs besides its text.
const FRAME_BYTES: usize = 24;
/// What a picture counts for; providers count between some hundred and some thousand tokens.
const IMAGE_BYTES: usize = 5600;

/// What is known of the tokens of a conversation.
#[derive(Debug, Clone, Default)]
pub(super) struct Gauge {
    counted: Option<Counted>,
    /// Bytes of a token as the provider counts this conversation.
    bytes_per_token: Option<f64>,
}

/// What a provider counted.
#[derive(Debug, Clone, Copy)]
struct Counted {
    /// The first messages of the context, as many as there were.
    messages: usize,
    /// Their tokens, with the tools.
    tokens: u64,
}

impl Gauge {
    /// The tokens of a request of `bytes` bytes; `after` gives those of them that came after so many messages.
    pub(super) fn tokens(&self, bytes: usize, after: impl Fn(usize) -> usize) -> u64 {
        let ratio = self.bytes_per_token();
        let tokens = match self.counted {
            Some(counted) => {
                let least = tokens(bytes, BYTES_PER_TOKEN_MAX);
                least.max(counted.tokens + tokens(after(counted.messages), ratio))
            }
            None => tokens(bytes, ratio),
        };
        tokens.max(1)
    }

    /// Bytes that a token has at least, by what is known.
    pub(super) fn bytes_per_token(&self) -> f64 {
        self.bytes_per_token.unwrap_or(BYTES_PER_TOKEN).min(BYTES_PER_TOKEN)
    }

    /// A provider counted `tokens` for a request of `bytes` bytes with the first `messages` messages.
    pub(super) fn counted(&mut self, messages: usize, bytes: usize, tokens: u64) {
        if tokens == 0 {
            return;
        }
        let ratio = (bytes as f64 / tokens as f64).clamp(BYTES_PER_TOKEN_MIN, BYTES_PER_TOKEN_MAX);
        self.bytes_per_token = Some(ratio);
        self.counted = Some(Counted { messages, tokens });
    }

    /// What was counted is not shown any more.
    pub(super) fn forget(&mut self) {
        self.counted = None;
    }
}

fn tokens(bytes: usize, ratio: f64) -> u64 {
    (bytes as f64 / ratio).ceil() as u64
}

/// About how many bytes a message has on the wire.
pub(super) fn size(message: &Message) -> usize {
    FRAME_BYTES + message.parts.iter().map(part_size).sum::<usize>()
}

/// About how many bytes a part has on the wire.
pub(super) fn part_size(part: &Part) -> usize {
    FRAME_BYTES
        + match part {
            Part::Text { text } => text.len(),
            Part::Summary(summary) => summary.text.len(),
            // Only what the provider wants back is sent.
            Part::Reasoning { opaque, .. } => opaque.as_ref().map_or(0, |opaque| opaque.to_string().len()),
            Part::Call(call) => {
                let arguments =
                    call.malformed.as_ref().map_or_else(|| call.arguments.to_string().len(), String::len);
                call.id.len() + call.name.len() + arguments
            }
            Part::Result(result) => result.call_id.len() + result.content.len(),
            Part::Image(_) => IMAGE_BYTES,
        }
}

/// About how many bytes the tools have on the wire.
pub(super) fn tools_size(tools: &[ToolSpec]) -> usize {
    let size = |tool: &ToolSpec| {
        FRAME_BYTES + tool.name.len() + tool.description.len() + tool.parameters.to_string().len()
    };
    tools.iter().map(size).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn k25_what_was_counted_is_believed_and_what_came_after_is_estimated() {
        let mut gauge = Gauge::default();
        assert_eq!(gauge.tokens(3500, |_| 0), 1000);
        gauge.counted(2, 2000, 1000);
        assert_eq!(gauge.tokens(2400, |messages| if messages == 2 { 400 } else { 0 }), 1200);
        gauge.forget();
        assert_eq!(gauge.tokens(2400, |_| 0), 1200);
    }

    #[test]
    fn k25_a_count_that_cannot_be_true_does_not_hide_what_is_sent() {
        let mut gauge = Gauge::default();
        gauge.counted(1, 100_000, 10);
        assert_eq!(gauge.tokens(100_000, |_| 0), 20_000);
        gauge.counted(1, 100, 0);
        assert_eq!(gauge.tokens(100_000, |_| 0), 20_000);
    }
}
