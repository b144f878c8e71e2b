//! The children of this process as others see them.

use super::Dispatcher;
use crate::book::{Delegated, Tracked};
use legwork_core::ids::DelegationId;
use legwork_core::ports::ChildView;
use legwork_core::time::Moment;

impl Dispatcher {
    /// The unsettled children, and the settled ones of `delegation`.
    pub(super) fn view(&self, delegation: Option<&DelegationId>) -> Vec<ChildView> {
        let now = self.wiring.clock.now().mono;
        let mut views = Vec::new();
        for delegated in self.book.delegations() {
            let whole = Some(&delegated.accepted.delegation) == delegation;
            let children = delegated.children.iter().enumerate();
            let shown = children.filter(|(_, child)| whole || child.state.outcome().is_none());
            views.extend(shown.map(|(task_index, child)| self.view_of(delegated, task_index, child, now)));
        }
        views
    }

    fn view_of(&self, delegated: &Delegated, task_index: usize, child: &Tracked, now: Moment) -> ChildView {
        let run = self.runs.get(&child.id);
        let pulse = run.map_or_else(|| child.pulse.clone(), |run| run.pulse.borrow().clone());
        let moved = if pulse.beat == child.pulse.beat { child.moved } else { now };
        let end = child.ended.unwrap_or(now);
        ChildView {
            state: child.state,
            pulse,
            elapsed: child.worked(now),
            quiet: end.since(moved),
            ..ChildView::accepted(&delegated.accepted, task_index, child.id.clone())
        }
    }
}
