//! The messages of a run, and which of them the model is shown: the system text, the last summary, and what the summary
//! does not stand for. Nothing is ever taken out; a summary only changes what is shown.
//!
//! It does not decide when to summarise, and it stores nothing.

use legwork_core::message::{Author, Message, Summary};
use std::sync::Arc;

/// The messages of a run, all of them in stored order, and what of them the model is shown.
#[derive(Debug, Clone, Default)]
pub struct Context {
    messages: Vec<Arc<Message>>,
}

impl Context {
    /// The messages so far, a system message first.
    pub fn new(messages: Vec<Arc<Message>>) -> Self {
        Context { messages }
    }

    /// Adds what was said or done now.
    pub fn push(&mut self, message: Message) {
        self.messages.push(Arc::new(message));
    }

    /// All messages, in stored order.
    pub fn messages(&self) -> &[Arc<Message>] {
        &self.messages
    }

    /// What the model is shown: the system message, the last summary, and the messages from its `from` on.
    pub fn shown(&self) -> Vec<Arc<Message>> {
        let (head, tail) = self.messages.split_at(self.system_len());
        let summary = self.last_summary().map(|(message, _)| message);
        let kept = &tail[self.shown_from() - head.len()..];
        let kept = kept.iter().filter(|message| message.author != Author::Summary);
        head.iter().chain(summary).chain(kept).cloned().collect()
    }

    /// The place of the first message that is shown as it is, the system message apart.
    pub(super) fn shown_from(&self) -> usize {
        let from = self.last_summary().map_or(0, |(_, summary)| summary.from);
        usize::try_from(from).unwrap_or(usize::MAX).clamp(self.system_len(), self.messages.len())
    }

    /// The summary that is shown, if there is one.
    pub(super) fn last_summary(&self) -> Option<(&Arc<Message>, &Summary)> {
        self.messages.iter().rev().find_map(|message| Some((message, message.summary()?)))
    }

    /// Takes back what could not be stored.
    pub(super) fn truncate(&mut self, len: usize) {
        self.messages.truncate(len);
    }

    fn system_len(&self) -> usize {
        usize::from(self.messages.first().is_some_and(|message| message.author == Author::System))
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
