//! What watchers and transcripts are told of children that wait, begin and end. Nothing is told before it is durable.

use super::Dispatcher;
use legwork_core::batch::Ticket;
use legwork_core::ids::ChildId;
use legwork_core::outcome::Outcome;
use legwork_core::ports::{EndFacts, Identity, LiveEvent};
use legwork_core::report::Report;
use std::sync::Arc;
use std::time::Duration;

/// What is told of a child once its settling is durable.
#[derive(Default)]
pub(super) struct End {
    /// What it says went wrong, as long as it is.
    error: Option<String>,
    facts: EndFacts,
}

/// How a child settled.
pub(super) struct Ended {
    pub(super) outcome: Outcome,
    pub(super) elapsed: Duration,
    /// Whether all others of its unit were told of before.
    pub(super) ends_unit: bool,
}

impl End {
    pub(super) fn of(report: &Report) -> End {
        End { error: report.error.clone(), facts: EndFacts::of(report) }
    }
}

impl Dispatcher {
    /// The children of a call that was accepted.
    pub(super) fn announce_queued(&self, ticket: &Ticket) {
        if self.live.receiver_count() == 0 {
            return;
        }
        for child in ticket.children.iter().filter_map(|child| self.identity(child)) {
            self.announce(LiveEvent::Queued(child));
        }
    }

    pub(super) fn announce_end(&mut self, child: &ChildId, ended: Ended) {
        let Ended { outcome, elapsed, ends_unit } = ended;
        let End { error, facts } = self.ends.remove(child).unwrap_or_default();
        self.wiring.transcripts.finish(child, self.wiring.clock.now().wall, outcome, error.as_deref());
        if let Some(child) = self.identity(child) {
            let facts = Arc::new(facts);
            self.announce(LiveEvent::Settled { child, outcome, elapsed, facts, ends_unit });
        }
    }

    pub(super) fn identity(&self, child: &ChildId) -> Option<Arc<Identity>> {
        let (delegated, task_index) = self.book.child(child)?;
        Identity::of(&delegated.accepted, task_index).map(Arc::new)
    }

    pub(super) fn announce(&self, event: LiveEvent) {
        // Nobody has to watch.
        self.live.send(event).ok();
    }
}
