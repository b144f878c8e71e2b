//! Ids of tool calls. A provider's id is taken over where it is unique within the conversation; otherwise one is made
//! here, because a call's id is the key under which its effect is recorded (invariants 6 and 36).

use legwork_core::message::Message;
use std::collections::HashSet;
use std::sync::Arc;

/// The ids that a conversation has used so far.
#[derive(Debug, Default, Clone)]
pub(super) struct CallIds {
    used: HashSet<String>,
    count: usize,
}

impl CallIds {
    /// The ids of all calls in these messages.
    pub fn of(messages: &[Arc<Message>]) -> Self {
        let mut ids = CallIds::default();
        for call in messages.iter().flat_map(|message| message.calls()) {
            ids.count += 1;
            ids.used.insert(call.id.clone());
        }
        ids
    }

    /// The id of the next call: the provider's where it is new, else one made of a number and `random`.
    pub fn next(&mut self, provider: Option<&str>, random: impl Fn() -> u32) -> String {
        self.count += 1;
        let theirs = provider.map(str::trim).filter(|id| !id.is_empty() && !self.used.contains(*id));
        let id = theirs.map_or_else(|| self.mint(random), str::to_owned);
        self.used.insert(id.clone());
        id
    }

    /// The draw is moved on by the number of the try, so that this ends even where `random` always says the same.
    fn mint(&self, random: impl Fn() -> u32) -> String {
        let tries =
            (0..=u32::MAX).map(|tried| format!("call_{}_{:08x}", self.count, random().wrapping_add(tried)));
        let mut fresh = tries.filter(|id| !self.used.contains(id));
        fresh.next().expect("a conversation has far fewer calls than there are ids")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use legwork_core::message::{Author, Part, ToolCall};
    use serde_json::json;

    fn used(ids: &[&str]) -> CallIds {
        let call = |id: &&str| {
            Part::Call(ToolCall {
                id: (*id).to_owned(),
                name: "t".into(),
                arguments: json!({}),
                malformed: None,
            })
        };
        CallIds::of(&[Arc::new(Message { author: Author::Assistant, parts: ids.iter().map(call).collect() })])
    }

    #[test]
    fn a_new_id_of_the_provider_is_taken_over() {
        assert_eq!(used(&["call_a"]).next(Some("call_b"), || 7), "call_b");
    }

    #[test]
    fn k42_an_empty_or_repeated_id_is_replaced() {
        let mut ids = used(&["call_a"]);
        assert_eq!(ids.next(Some("call_a"), || 7), "call_2_00000007");
        assert_eq!(ids.next(Some(""), || 7), "call_3_00000007");
        assert_eq!(ids.next(None, || 7), "call_4_00000007");
    }

    #[test]
    fn a_made_id_is_not_made_twice() {
        assert_eq!(used(&["call_2_00000007"]).next(None, || 7), "call_2_00000008");
    }
}
