//! What agents have to hear of processes that ended. An agent hears of it with its next step, unless somebody listens
//! for it: then that waits until whoever listens has said it.
//!
//! It words nothing, and does not know which ends are worth a notice.

use super::entry::Entry;
use legwork_core::step::Actor;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use tokio::sync::Notify;

/// Notices that wait for one agent; what comes after them is dropped and logged.
const WAITING_MAX: usize = 256;
/// Notices that are given to a listener at once.
const AT_ONCE_MAX: usize = 16;

/// The end of a process, as one agent hears of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ProcessEnd {
    /// Grows from one to the next.
    pub(crate) number: u64,
    /// What ended and how, in one line for people.
    pub(crate) title: String,
    /// All that the agent reads, what others wrote quoted.
    pub(crate) text: String,
}

/// A notice that waits.
struct Notice {
    end: ProcessEnd,
    /// The process, where its agent can look at it and may have seen the end by itself.
    entry: Option<Arc<Entry>>,
}

impl Notice {
    fn is_news(&self) -> bool {
        self.entry.as_ref().is_none_or(|entry| !entry.is_end_shown())
    }
}

/// The notices of all agents.
#[derive(Default)]
pub(super) struct Notices {
    given: u64,
    waiting: BTreeMap<Actor, VecDeque<Notice>>,
    /// Rung here, heard by whoever listens for the agent.
    bells: BTreeMap<Actor, Arc<Notify>>,
}

impl Notices {
    pub(super) fn add(&mut self, actor: Actor, (title, text): (String, String), entry: Option<Arc<Entry>>) {
        if let Some(bell) = self.bells.get(&actor) {
            bell.notify_one();
        }
        let waiting = self.waiting.entry(actor.clone()).or_default();
        if waiting.len() >= WAITING_MAX {
            tracing::warn!(
                actor = actor.as_str(),
                "the end of a background process is not told: {WAITING_MAX} notices wait"
            );
            return;
        }
        self.given += 1;
        waiting.push_back(Notice { end: ProcessEnd { number: self.given, title, text }, entry });
    }

    /// What an agent hears with its next step, once; nothing while somebody listens for it.
    pub(super) fn take(&mut self, actor: &Actor) -> Vec<String> {
        if self.bells.contains_key(actor) {
            return Vec::new();
        }
        let waiting = self.waiting.remove(actor).unwrap_or_default();
        waiting.into_iter().filter(Notice::is_news).map(|notice| notice.end.text).collect()
    }

    /// From now on notices of the agent wait for a listener.
    pub(super) fn listen(&mut self, actor: &Actor) -> Arc<Notify> {
        Arc::clone(self.bells.entry(actor.clone()).or_default())
    }

    /// What waits for a listener, the oldest first.
    pub(super) fn waiting(&mut self, actor: &Actor) -> Vec<ProcessEnd> {
        let Some(waiting) = self.waiting.get_mut(actor) else { return Vec::new() };
        waiting.retain(Notice::is_news);
        waiting.iter().take(AT_ONCE_MAX).map(|notice| notice.end.clone()).collect()
    }

    /// Whoever listens has said everything up to this number.
    pub(super) fn told(&mut self, actor: &Actor, last: u64) {
        if let Some(waiting) = self.waiting.get_mut(actor) {
            waiting.retain(|notice| notice.end.number > last);
        }
    }

    pub(super) fn forget(&mut self, actor: &Actor) {
        self.waiting.remove(actor);
        self.bells.remove(actor);
    }
}
