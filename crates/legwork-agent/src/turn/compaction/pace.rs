//! How the summaries of a run follow each other: whether the run gets on between them (K26).

use legwork_core::message::Message;
use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Between two summaries that bring a run on there are at least this many replies.
const PROGRESS_REPLIES: u32 = 3;
/// So many summaries in a row may bring no progress.
const IDLE_SUMMARIES_MAX: u32 = 3;
/// So often in a row a request may turn out larger than the provider takes.
const OVERFLOWS_MAX: u32 = 1;

/// What is counted between summaries.
#[derive(Default)]
pub(in crate::turn) struct Pace {
    /// Replies since the last summary.
    replies: u32,
    /// Whether one of them made a call that the run had not made before, or made none.
    is_new: bool,
    /// The calls of the run.
    calls: HashSet<u64>,
    /// Summaries in a row that brought no progress.
    idle: u32,
    /// Requests in a row that the provider found too large.
    overflows: u32,
}

impl Pace {
    /// A reply came.
    pub(super) fn replied(&mut self, reply: &Message) {
        self.replies += 1;
        self.overflows = 0;
        let mut calls = 0;
        for call in reply.calls() {
            let mut hasher = DefaultHasher::new();
            (&call.name, call.arguments.to_string(), &call.malformed).hash(&mut hasher);
            self.is_new |= self.calls.insert(hasher.finish());
            calls += 1;
        }
        self.is_new |= calls == 0;
    }

    /// A summary stands for what came before.
    pub(super) fn compacted(&mut self) {
        self.idle = if self.gets_on() { 0 } else { self.idle + 1 };
        (self.replies, self.is_new) = (0, false);
    }

    /// Whether another summary would bring no progress either.
    pub(super) fn is_stuck(&self) -> bool {
        self.idle >= IDLE_SUMMARIES_MAX && !self.gets_on()
    }

    /// Whether one more request that is found too large is borne.
    pub(super) fn may_overflow(&self) -> bool {
        self.overflows < OVERFLOWS_MAX
    }

    /// A request was found too large.
    pub(super) fn overflowed(&mut self) {
        self.overflows += 1;
    }

    fn gets_on(&self) -> bool {
        self.is_new && self.replies >= PROGRESS_REPLIES
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use legwork_core::message::{Author, Part, ToolCall};
    use serde_json::json;

    fn reply(path: u32) -> Message {
        let (id, name) = ("c".to_owned(), "read".to_owned());
        let call = ToolCall { id, name, arguments: json!({"path": path}), malformed: None };
        Message { author: Author::Assistant, parts: vec![Part::Call(call)] }
    }

    /// Summaries until the run counts as stuck, with so many replies between them.
    fn summaries(replies: u32, path: impl Fn(u32) -> u32) -> Option<u32> {
        let mut pace = Pace::default();
        let mut calls = 0;
        (0..20).find(|_| {
            for _ in 0..replies {
                pace.replied(&reply(path(calls)));
                calls += 1;
            }
            let stuck = pace.is_stuck();
            pace.compacted();
            stuck
        })
    }

    #[test]
    fn k26_a_run_that_makes_the_same_call_or_needs_a_summary_all_the_time_is_stuck() {
        assert_eq!(summaries(3, |call| call), None, "new calls");
        assert_eq!(summaries(9, |call| call / 9), None, "a new call each time");
        assert_eq!(summaries(9, |_| 7), Some(4), "the same call");
        assert_eq!(summaries(2, |call| call), Some(3), "hardly a reply between two");
    }
}
