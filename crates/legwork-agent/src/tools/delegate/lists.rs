//! What each caller was shown when it last looked at its subagents, so that one that looks again and again for nothing is
//! told so.

use legwork_core::ids::ChildId;
use legwork_core::step::Actor;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// Callers that are remembered; beyond it all are forgotten, which costs a hint and nothing else.
const CALLERS_MAX: usize = 64;

/// A subagent and the word for its state.
pub(super) type Line = (ChildId, &'static str);

/// The last list of each caller.
#[derive(Default)]
pub(super) struct Lists {
    last: Mutex<HashMap<Actor, Vec<Line>>>,
}

impl Lists {
    /// Whether a caller sees the same as the last time.
    pub(super) fn is_unchanged(&self, caller: &Actor, lines: Vec<Line>) -> bool {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.get(caller) == Some(&lines) {
            return true;
        }
        if last.len() >= CALLERS_MAX {
            last.clear();
        }
        last.insert(caller.clone(), lines);
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use legwork_core::ids::SessionId;

    #[test]
    fn only_the_same_list_of_the_same_caller_is_unchanged_and_few_callers_are_remembered() {
        let lists = Lists::default();
        let caller = |bits| Actor::Session(SessionId::from_bits(bits));
        let line = |word| vec![(ChildId::from_bits(0, 1), word)];
        assert!(!lists.is_unchanged(&caller(1), line("queued")));
        assert!(!lists.is_unchanged(&caller(1), line("running")));
        assert!(lists.is_unchanged(&caller(1), line("running")));
        assert!(!lists.is_unchanged(&caller(2), line("running")));
        for bits in 3..200 {
            lists.is_unchanged(&caller(bits), line("running"));
        }
        assert!(lists.last.lock().expect("no holder panics").len() <= CALLERS_MAX);
    }
}
