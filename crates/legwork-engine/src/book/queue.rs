//! The queue of children that wait for their first slot: round robin over sessions, first in first out within one, so
//! that one conversation's thousand tasks do not keep another's single task waiting.

use legwork_core::ids::{ChildId, SessionId};
use std::collections::{HashMap, VecDeque};

/// A fair queue. Its length is limited by whoever admits calls.
#[derive(Debug, Default)]
pub struct FairQueue {
    /// Sessions with waiting children, the next one to be served first.
    turn: VecDeque<SessionId>,
    lanes: HashMap<SessionId, VecDeque<ChildId>>,
    len: usize,
}

impl FairQueue {
    /// How many children wait.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether nobody waits.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Puts a child at the end of its session's lane.
    pub fn push(&mut self, session: &SessionId, child: ChildId) {
        let lane = self.lanes.entry(session.clone()).or_default();
        if lane.is_empty() {
            self.turn.push_back(session.clone());
        }
        lane.push_back(child);
        self.len += 1;
    }

    /// Takes the next child.
    pub fn pop(&mut self) -> Option<ChildId> {
        let session = self.turn.pop_front()?;
        let lane = self.lanes.get_mut(&session).expect("BUG: a session in turn has a lane");
        let child = lane.pop_front().expect("BUG: a session in turn has a waiting child");
        self.len -= 1;
        if lane.is_empty() {
            self.lanes.remove(&session);
        } else {
            self.turn.push_back(session);
        }
        Some(child)
    }

    /// Takes out every child for which `gone` holds.
    pub fn remove_all(&mut self, gone: impl Fn(&ChildId) -> bool) {
        for lane in self.lanes.values_mut() {
            lane.retain(|child| !gone(child));
        }
        self.lanes.retain(|_, lane| !lane.is_empty());
        self.turn.retain(|session| self.lanes.contains_key(session));
        self.len = self.lanes.values().map(VecDeque::len).sum();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_take_turns_and_each_keeps_its_order() {
        let (a, b) = (SessionId::from_bits(1), SessionId::from_bits(2));
        let child = |n: u32| ChildId::from_bits(0, n);
        let mut queue = FairQueue::default();
        (1..=3).for_each(|n| queue.push(&a, child(n)));
        queue.push(&b, child(9));
        queue.remove_all(|waiting| *waiting == child(2));
        let order: Vec<ChildId> = std::iter::from_fn(|| queue.pop()).collect();
        assert_eq!(order, [child(1), child(9), child(3)]);
        assert!(queue.is_empty());
    }
}
