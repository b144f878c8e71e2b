//! How the book ends children: on request, for want of progress, and when the process itself must end. A stop reaches
//! everything below its aim; force may only rise (invariants 11 and 12).

use super::supervision::{self, Schedule, Verdict};
use super::{Book, Delegated, Effect, Gate, ReplyTo, Tracked};
use legwork_core::child::{ChildEvent, ChildState};
use legwork_core::ids::ChildId;
use legwork_core::outcome::{Ending, Force, StopReason};
use legwork_core::ports::StopNotice;
use legwork_core::report::Report;
use legwork_core::steering::Scope;
use legwork_core::time::Now;
use std::collections::HashSet;

/// The reason counts for nothing here: the child has its cause already.
const OVERDUE: StopNotice = StopNotice { reason: StopReason::Cancelled, force: Force::Abort };

impl Book {
    /// Stops everything in `scope` and below, and says which children that were.
    pub(super) fn stop(
        &mut self,
        scope: &Scope,
        notice: StopNotice,
        reply: Option<ReplyTo>,
        now: Now,
    ) -> Vec<Effect> {
        let reached = self.reached(self.in_scope(scope), notice);
        let told = reached.iter().map(|(child, _)| child.clone()).collect();
        let mut effects = self.stop_each(reached, now);
        effects.extend(reply.map(|reply| Effect::Stopped(reply, told)));
        effects
    }

    pub(super) fn stop_tree(&mut self, child: &ChildId, notice: StopNotice, now: Now) -> Vec<Effect> {
        let reached = self.reached(vec![child.clone()], notice);
        self.stop_each(reached, now)
    }

    /// A child that is gone leaves no children of its own behind.
    pub(super) fn stop_beneath(&mut self, child: &ChildId, now: Now) -> Vec<Effect> {
        let notice = StopNotice { reason: StopReason::ParentStopped, force: Force::Ask };
        let reached = self.reached(self.beneath(child), notice);
        self.stop_each(reached, now)
    }

    /// Whom a stop of `children` reaches: each once, those that it names under its own reason.
    fn reached(&self, children: Vec<ChildId>, notice: StopNotice) -> Vec<(ChildId, StopNotice)> {
        let below = StopNotice { reason: StopReason::ParentStopped, force: notice.force };
        let mut seen: HashSet<ChildId> = children.iter().cloned().collect();
        let mut reached: Vec<_> = children.into_iter().map(|child| (child, notice)).collect();
        let mut next = 0;
        while next < reached.len() {
            let beneath = self.beneath(&reached[next].0).into_iter();
            reached.extend(beneath.filter(|child| seen.insert(child.clone())).map(|child| (child, below)));
            next += 1;
        }
        reached
    }

    fn stop_each(&mut self, reached: Vec<(ChildId, StopNotice)>, now: Now) -> Vec<Effect> {
        reached.iter().flat_map(|(child, notice)| self.stop_one(child, *notice, now)).collect()
    }

    fn stop_one(&mut self, child: &ChildId, notice: StopNotice, now: Now) -> Vec<Effect> {
        let event = ChildEvent::StopAsked { reason: notice.reason, force: notice.force };
        let before = self.standing(child);
        let why = self.known_inactivity(child, notice.reason);
        let Some(mut effects) = self.record(child, event, why, now) else { return Vec::new() };
        if before.is_some_and(ChildState::has_runner) {
            effects.push(match notice.force {
                Force::Ask => Effect::Ask(child.clone(), notice),
                Force::Abort => Effect::Abort(child.clone()),
            });
            let due = now.mono.after(supervision::grace(notice.reason, &self.options));
            if let Some(tracked) = self.tracked_mut(child) {
                tracked.abort_by(due);
            }
        }
        effects
    }

    /// Why a child is ended for want of progress, for the fact of it: this process may not live to report it.
    fn known_inactivity(&self, child: &ChildId, reason: StopReason) -> Option<Box<Report>> {
        match reason {
            StopReason::Stalled | StopReason::TimedOut => {
                let Tracked { inactivity, pulse, .. } = self.tracked(child)?;
                let report = Report {
                    inactivity: Some(inactivity.clone()?),
                    model_calls: pulse.model_calls,
                    usage: pulse.usage,
                    cost: pulse.cost,
                    ..Report::bare(Ending::Interrupted)
                };
                Some(Box::new(report))
            }
            StopReason::Cancelled
            | StopReason::ParentStopped
            | StopReason::SessionEnded
            | StopReason::OwnerLost
            | StopReason::Shutdown => None,
        }
    }

    pub(super) fn release(&mut self, now: Now) -> Vec<Effect> {
        self.gate = Gate::Released;
        let notice = StopNotice { reason: StopReason::Shutdown, force: Force::Ask };
        let due = now.mono.after(self.options.stop_grace);
        let children = self.delegations.values_mut().flat_map(|delegated| &mut delegated.children);
        let running = children.filter(|child| child.state.has_runner());
        running
            .map(|child| {
                child.abort_by(due);
                Effect::Ask(child.id.clone(), notice)
            })
            .collect()
    }

    pub(super) fn tick(&mut self, now: Now) -> Vec<Effect> {
        let children = self.delegations.values().flat_map(|delegated| &delegated.children);
        let verdicts =
            children.filter_map(|child| Some((child.id.clone(), self.schedule(child).by(now.mono)?)));
        let verdicts: Vec<(ChildId, Verdict)> = verdicts.collect();
        let mut effects = Vec::new();
        for (child, verdict) in verdicts {
            effects.extend(match verdict {
                Verdict::Warn => self.warn(&child, now),
                Verdict::Stalled => self.end_stuck(&child, StopReason::Stalled, now),
                Verdict::TimedOut => self.end_stuck(&child, StopReason::TimedOut, now),
                Verdict::GraceOver if self.gate == Gate::Released => self.cut(&child),
                Verdict::GraceOver => self.stop_tree(&child, OVERDUE, now),
            });
        }
        effects
    }

    /// What the passing of time does to a child next, and when. A process that is ending calls nobody stuck.
    pub(super) fn schedule(&self, child: &Tracked) -> Schedule {
        if self.gate == Gate::Released && child.abort_at.is_none() {
            return Schedule::default();
        }
        supervision::schedule(child, &self.options)
    }

    fn warn(&mut self, child: &ChildId, now: Now) -> Vec<Effect> {
        let warning =
            self.tracked(child).and_then(|tracked| supervision::warning(tracked, now.mono, &self.options));
        if let Some(tracked) = self.tracked_mut(child) {
            tracked.warned = true;
        }
        warning.map(|warning| Effect::Warn(child.clone(), warning)).into_iter().collect()
    }

    /// Ends a child that does not move, and keeps what is known of it for its report.
    fn end_stuck(&mut self, child: &ChildId, reason: StopReason, now: Now) -> Vec<Effect> {
        let facts =
            self.tracked(child).and_then(|child| supervision::facts(child, reason, now.mono, &self.options));
        if let Some(tracked) = self.tracked_mut(child) {
            tracked.inactivity = facts;
        }
        self.stop_tree(child, StopNotice { reason, force: Force::Ask }, now)
    }

    /// Drops a run of a process that is ending; the next owner decides what became of it.
    fn cut(&mut self, child: &ChildId) -> Vec<Effect> {
        self.let_go(child);
        vec![Effect::Abort(child.clone())]
    }

    /// Nothing more is done about a run of a process that is ending, and nothing is concluded of it.
    pub(super) fn let_go(&mut self, child: &ChildId) {
        if let Some(tracked) = self.tracked_mut(child) {
            tracked.abort_at = None;
        }
    }

    /// The unsettled children that `scope` names itself; those below them follow.
    fn in_scope(&self, scope: &Scope) -> Vec<ChildId> {
        let hit = |delegated: &Delegated, index: usize| match scope {
            Scope::Delegation(id) => delegated.accepted.delegation == *id,
            Scope::Unit(id) => delegated.unit(index).id == *id,
            Scope::Child(id) => delegated.children[index].id == *id,
            Scope::Session(id) => delegated.accepted.lineage.session == *id,
            Scope::All => true,
        };
        self.open_children(hit)
    }

    fn beneath(&self, child: &ChildId) -> Vec<ChildId> {
        let delegations = self.offspring.get(child).into_iter().flatten();
        let children =
            delegations.filter_map(|id| self.delegations.get(id)).flat_map(|below| &below.children);
        children.filter(|below| below.state.outcome().is_none()).map(|below| below.id.clone()).collect()
    }

    fn open_children(&self, wanted: impl Fn(&Delegated, usize) -> bool) -> Vec<ChildId> {
        let open = self.delegations.values().filter(|delegated| !delegated.is_settled());
        let all = open.flat_map(|delegated| {
            delegated.children.iter().enumerate().map(move |(index, child)| (delegated, index, child))
        });
        let wanted = all
            .filter(|(delegated, index, child)| child.state.outcome().is_none() && wanted(delegated, *index));
        wanted.map(|(_, _, child)| child.id.clone()).collect()
    }
}
