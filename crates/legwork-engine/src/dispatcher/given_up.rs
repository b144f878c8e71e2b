//! What this process gave up because the store would not take what became of it: why, and for how long it leaves it alone
//! then. It does not take anything up itself.

use crate::gap::Gaps;
use legwork_core::ids::DelegationId;
use legwork_core::ports::TROUBLE_MAX;
use std::collections::{HashMap, HashSet};
use std::time::Duration;
use tokio::time::Instant;

/// The longest time for which work is left alone that was given up here again and again.
const LONGEST_REST: Duration = Duration::from_secs(3600);

/// Work that was given up here, and that has not settled here since.
#[derive(Default)]
pub(super) struct GivenUp {
    known: HashMap<DelegationId, Entry>,
}

struct Entry {
    /// Why; none once it was taken up again here.
    why: Option<String>,
    since: Instant,
    rests_until: Instant,
    rests: Gaps,
}

impl GivenUp {
    /// It was given up. The first time it may be taken up again at once: the trouble may be over. After that each attempt costs
    /// what was paid for it, so that it rests in between, twice as long each time.
    pub(super) fn note(&mut self, delegation: &DelegationId, why: String) {
        let now = Instant::now();
        let Some(entry) = self.known.get_mut(delegation) else {
            let rests = Gaps::new(TROUBLE_MAX, LONGEST_REST);
            let entry = Entry { why: Some(why), since: now, rests_until: now, rests };
            self.known.insert(delegation.clone(), entry);
            return;
        };
        // What still stands here as given up was not tried since; the first reason says why.
        if entry.why.is_some() {
            return;
        }
        let rest = entry.rests.widen();
        (entry.why, entry.since, entry.rests_until) = (Some(why), now, now + rest);
        let seconds = rest.as_secs();
        tracing::warn!(%delegation, "it was given up here again; unless somebody asks for it, it is left alone for {seconds} s");
    }

    /// It was taken up again here; how often it was given up is kept until it settles.
    pub(super) fn taken_up(&mut self, delegation: &DelegationId) {
        if let Some(entry) = self.known.get_mut(delegation) {
            entry.why = None;
        }
    }

    /// It has settled.
    pub(super) fn settled(&mut self, delegation: &DelegationId) {
        self.known.remove(delegation);
    }

    /// Why it was given up, and for how long it has been.
    pub(super) fn why(&self, delegation: &DelegationId) -> Option<(&str, Duration)> {
        let entry = self.known.get(delegation)?;
        entry.why.as_deref().map(|why| (why, entry.since.elapsed()))
    }

    /// What is left alone for now.
    pub(super) fn resting(&self) -> HashSet<DelegationId> {
        let now = Instant::now();
        let rests = |entry: &Entry| entry.why.is_some() && now < entry.rests_until;
        self.known.iter().filter(|(_, entry)| rests(entry)).map(|(id, _)| id.clone()).collect()
    }
}
