//! Ids of tool calls. A provider's id is taken over where it is unique within the conversation; otherwise one is made
//! here, because a call's id is the key under which its effect is recorded (invariants 6 and 36).

use legwork_core::message::{Message, Part};
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

/// Gives the calls of a reply new ids where messages that its model was not shown have used them.
pub(crate) fn renew_used(reply: &mut Message, earlier: &[Arc<Message>]) {
    let mut ids = CallIds::of(earlier);
    for part in &mut reply.parts {
        match part {
            Part::Call(call) => call.id = ids.next(Some(&call.id), random),
            Part::Text { .. }
            | Part::Reasoning { .. }
            | Part::Result(_)
            | Part::Image(_)
            | Part::Summary(_) => {}
        }
    }
}

/// Four random bytes. Without a source of randomness the number alone keeps ids apart.
pub(super) fn random() -> u32 {
    getrandom::u32().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use legwork_core::message::{Author, ToolCall};
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
    fn k06_an_id_of_a_message_that_was_not_shown_is_replaced() {
        let call = |id: &str| {
            Part::Call(ToolCall { id: id.into(), name: "t".into(), arguments: json!({}), malformed: None })
        };
        let message = |ids: [&str; 2]| Message { author: Author::Assistant, parts: ids.map(call).to_vec() };
        let mut reply = message(["call_b", "call_c"]);
        renew_used(&mut reply, &[Arc::new(message(["call_a", "call_b"]))]);
        let ids: Vec<&str> = reply.calls().map(|call| call.id.as_str()).collect();
        assert!(ids[0].starts_with("call_3_") && ids[1] == "call_c", "{ids:?}");
    }

    #[test]
    fn a_made_id_is_not_made_twice() {
        assert_eq!(used(&["call_2_00000007"]).next(None, || 7), "call_2_00000008");
    }
}
