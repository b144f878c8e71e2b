//! What happens to subagents, as rows of the scrollback: the head of several that were sent out together, the end of
//! each, and a warning where one failed. The list of those that run is elsewhere.

use legwork_core::ports::LiveEvent;

use super::rows::{Look, Row};
use super::view::{Sort, View};
use crate::progress::{self, Ended, Notice};
use crate::wording;

/// Characters of a goal in a warning.
const WARNING_GOAL_WIDTH: usize = 60;

impl View {
    /// Something happened to a subagent. Says whether the list of subagents is out of date with it. What subagents delegate
    /// themselves is in the list only.
    pub fn live(&mut self, event: &LiveEvent) -> bool {
        let (child, is_told) = match event {
            LiveEvent::Queued(child) | LiveEvent::Started { child, attempt: _ } => (child, true),
            LiveEvent::Settled { child, facts, .. } => {
                self.roster.end(&child.child, facts);
                self.reconsider();
                (child, true)
            }
            LiveEvent::Told { child, .. } => (child, false),
            LiveEvent::Lagged(_) => return true,
        };
        if is_told && child.parent.is_none() {
            let notices = self.sets.take(event);
            notices.iter().for_each(|notice| self.notice(notice));
        }
        is_told
    }

    fn notice(&mut self, notice: &Notice) {
        match notice {
            Notice::Head { set, tasks } => {
                let row = Row::of(&progress::head(*set, *tasks), Look::Faint).cut(self.size.columns);
                self.give(Sort::Aside, vec![row]);
            }
            Notice::Ended(ended) => self.child_ended(ended),
            Notice::Failed(ended) => self.child_failed(ended),
            Notice::Began { .. } | Notice::Left { .. } | Notice::Lost(_) => {}
        }
    }

    fn child_ended(&mut self, ended: &Ended) {
        let (status, flaw) = (ended.outcome.status(), ended.facts.flaw(ended.outcome));
        let look = match flaw {
            Some(_) => Look::Warning,
            None if ended.outcome.is_success() => Look::Good,
            None => Look::Bad,
        };
        let mark = format!("{} {}", status.icon(flaw), progress::at(ended.place));
        let row = self.openable((&mark, look), (&ended.goal, Look::Plain), &tail(ended));
        self.give(Sort::Aside, vec![row]);
    }

    fn child_failed(&mut self, ended: &Ended) {
        let goal = wording::one_line(&ended.goal, WARNING_GOAL_WIDTH);
        let row = self.openable(("⚠ subagent failed: ", Look::Warning), (&goal, Look::Plain), &tail(ended));
        self.give(Sort::Aside, vec![row]);
    }
}

/// How long it took, and why it ended as it did.
fn tail(ended: &Ended) -> String {
    let why = progress::reason(ended.outcome, &ended.facts);
    let why = why.map(|why| format!(" — {why}")).unwrap_or_default();
    format!(" ({}){why}", wording::duration(ended.elapsed))
}
