//! The messages of a run, and which of them the model is shown: the system text, the last summary, and what the summary
//! does not stand for. Nothing is ever taken out; a summary only changes what is shown.
//!
//! It does not decide when to summarise, and it stores nothing.

use super::fit::fit;
use super::gauge::{Gauge, size};
use super::window::{Press, Window};
use legwork_core::message::{Author, Message, Summary};
use std::sync::Arc;

/// The messages of a run, all of them in stored order, and what of them the model is shown.
#[derive(Debug, Clone, Default)]
pub struct Context {
    messages: Vec<Arc<Message>>,
    /// About how many bytes each of them has on the wire.
    sizes: Vec<usize>,
    /// What is known of their tokens.
    pub(super) gauge: Gauge,
    /// How hard large messages are cut.
    pub(super) press: Press,
    /// The window, where a provider showed that it is smaller than it was said to be.
    pub(super) window_max: Option<Window>,
}

impl Context {
    /// The messages so far, a system message first.
    pub fn new(messages: Vec<Arc<Message>>) -> Self {
        let sizes = messages.iter().map(|message| size(message)).collect();
        Context { messages, sizes, ..Context::default() }
    }

    /// Adds what was said or done now.
    pub fn push(&mut self, message: Message) {
        self.sizes.push(size(&message));
        self.messages.push(Arc::new(message));
    }

    /// All messages, in stored order.
    pub fn messages(&self) -> &[Arc<Message>] {
        &self.messages
    }

    /// What the model is shown: the system message, the last summary, and the messages from its `from` on.
    pub fn shown(&self) -> Vec<Arc<Message>> {
        self.places().map(|place| Arc::clone(&self.messages[place])).collect()
    }

    /// The same, no message with more than about `bytes_max` bytes.
    pub(super) fn shown_within(&self, bytes_max: usize) -> Vec<Arc<Message>> {
        let shown = self.places().map(|place| match self.sizes[place] {
            size if size <= bytes_max => Arc::clone(&self.messages[place]),
            _ => fit(&self.messages[place], bytes_max),
        });
        shown.collect()
    }

    /// The bytes of that, as far as they came after the first `after` messages.
    pub(super) fn bytes_within(&self, bytes_max: usize, after: usize) -> usize {
        let late = self.places().filter(|place| *place >= after);
        late.map(|place| self.size_within(place, bytes_max)).sum()
    }

    /// The bytes of one message, shown with at most about `bytes_max` of them.
    pub(super) fn size_within(&self, place: usize, bytes_max: usize) -> usize {
        match self.messages[place].author {
            Author::System => self.sizes[place],
            Author::User | Author::Assistant | Author::Tool | Author::Completion | Author::Summary => {
                self.sizes[place].min(bytes_max)
            }
        }
    }

    /// The place of the first message that is shown as it is, the system message apart.
    pub(super) fn shown_from(&self) -> usize {
        let from = self.last_summary().map_or(0, |(_, summary)| summary.from);
        usize::try_from(from).unwrap_or(usize::MAX).clamp(self.system_len(), self.messages.len())
    }

    /// The summary that is shown, if there is one, and its place.
    pub(super) fn last_summary(&self) -> Option<(usize, &Summary)> {
        let summaries = self.messages.iter().enumerate().rev();
        summaries.filter_map(|(place, message)| Some((place, message.summary()?))).next()
    }

    /// Takes back what could not be stored.
    pub(super) fn truncate(&mut self, len: usize) {
        self.messages.truncate(len);
        self.sizes.truncate(len);
    }

    /// How many system messages stand first: one, or none.
    pub(super) fn system_len(&self) -> usize {
        usize::from(self.messages.first().is_some_and(|message| message.author == Author::System))
    }

    /// The places of the messages that are shown, in the order in which they are.
    fn places(&self) -> impl Iterator<Item = usize> {
        let summary = self.last_summary().map(|(place, _)| place);
        let kept = self.shown_from()..self.messages.len();
        let kept = kept.filter(|place| self.messages[*place].author != Author::Summary);
        (0..self.system_len()).chain(summary).chain(kept)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use legwork_core::message::Part;

    fn summary(text: &str, from: u64) -> Message {
        let part = Part::Summary(Summary { text: text.to_owned(), from });
        Message { author: Author::Summary, parts: vec![part] }
    }

    fn check(extra: &[(&str, u64)], shown: &[&str]) {
        let mut context = Context::new(vec![Arc::new(Message::text(Author::System, "sys"))]);
        for word in ["a", "b", "c"] {
            context.push(Message::text(Author::User, word));
        }
        for (text, from) in extra {
            context.push(summary(text, *from));
            context.push(Message::text(Author::User, format!("after {text}")));
        }
        let texts: Vec<String> = context.shown().iter().map(|message| message.plain_text()).collect();
        assert_eq!(texts, shown);
    }

    #[test]
    fn k26_the_model_is_shown_the_last_summary_and_what_it_does_not_stand_for() {
        check(&[], &["sys", "a", "b", "c"]);
        check(&[("S", 3)], &["sys", "S", "c", "after S"]);
        check(&[("S", 3), ("T", 5)], &["sys", "T", "after S", "after T"]);
        check(&[("S", 0)], &["sys", "S", "a", "b", "c", "after S"]);
        check(&[("S", 99)], &["sys", "S"]);
    }

    #[test]
    fn an_empty_context_shows_nothing() {
        assert_eq!(Context::default().shown(), []);
    }
}
