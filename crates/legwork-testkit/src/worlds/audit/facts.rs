//! Enters recorded facts into the account. It refuses what the machines, the gate, the queue or a stop forbid.

use super::{Audit, unknown};
use crate::worlds::account::{Account, Gate, Runs};
use crate::worlds::law::{Broken, Law};
use legwork_core::batch::{Completions, Fallback, NewBatch, Reach};
use legwork_core::child::{ChildEvent, ChildState};
use legwork_core::fact::{Accepted, Append, Fact};
use legwork_core::ids::{ChildId, DelegationId};
use legwork_core::outcome::{Force, Outcome, StopReason};
use legwork_engine::AtCapacity;

impl Audit<'_> {
    pub(super) fn record(&mut self, append: &Append) -> Result<(), Broken> {
        if let Some(Fact::Accepted(accepted)) = append.facts.first() {
            let call = self.expected.call.as_ref();
            let completions = self.account.options.completions;
            let true_to_it = call.is_some_and(|call| {
                is_true_to(accepted, &call.batch, self.account) && units_are_right(accepted, completions)
            });
            Broken::unless(true_to_it, Law::TrueToTheCall, || format!("{accepted:?} was not asked for"))?;
            self.account.enter(accepted, self.now.mono);
            self.accepted = Some(append.delegation.clone());
        }
        let kept = self.account.delegations.get_mut(&append.delegation);
        let is_next = kept.as_ref().is_some_and(|kept| kept.facts == append.expected_seq && !kept.withdrawn);
        Broken::unless(is_next, Law::StoreTakes, || format!("{append:?} does not go on where it was"))?;
        if let Some(kept) = kept {
            kept.facts += append.facts.len() as u64;
        }
        for fact in &append.facts {
            match fact {
                Fact::Accepted(_) => {}
                Fact::Moved { child, event, .. } => self.moved(child, *event)?,
                Fact::Noticed { child } => self.noticed(child)?,
                Fact::UnitSettled { unit } => {
                    let kept = self.account.delegations.get_mut(&append.delegation).expect("checked above");
                    let place = kept.accepted.units.iter().position(|known| known.id == *unit);
                    let first =
                        place.is_some_and(|place| !std::mem::replace(&mut kept.settled_units[place], true));
                    Broken::unless(first, Law::UnitSettled, || format!("{unit} settles again"))?;
                }
            }
        }
        self.units_agree(&append.delegation)?;
        self.failures_are_told(append)
    }

    /// Whether the end of a child is told before its unit has settled: it failed, others of the unit go on, and nobody
    /// waits for them.
    fn is_early_failure(&self, child: &ChildId) -> bool {
        let Some((kept, index)) = self.account.kept_of(child) else { return false };
        let unit = kept.accepted.units.iter().find(|unit| unit.task_indexes.contains(&index));
        let mut siblings = unit.into_iter().flat_map(|unit| &unit.task_indexes);
        let failed = kept.children[index].row.outcome().is_some_and(Outcome::is_failure);
        failed && kept.accepted.reach != Reach::Joined && siblings.any(|task| kept.children[*task].is_open())
    }

    fn noticed(&self, child: &ChildId) -> Result<(), Broken> {
        Broken::unless(self.is_early_failure(child), Law::EarlyNotice, || {
            format!("{child} is told to have failed early")
        })
    }

    fn failures_are_told(&self, append: &Append) -> Result<(), Broken> {
        for (child, event) in append.facts.iter().filter_map(Fact::child_event) {
            let told = append.facts.contains(&Fact::Noticed { child: child.clone() });
            let failed = self.is_early_failure(child);
            Broken::unless(told == failed, Law::EarlyNotice, || {
                format!("{child} takes {event:?}: failed early: {failed}, told so: {told}")
            })?;
        }
        Ok(())
    }

    /// A unit is recorded as settled when, and only when, all its children are.
    fn units_agree(&self, delegation: &DelegationId) -> Result<(), Broken> {
        let kept = &self.account.delegations[delegation];
        for (unit, recorded) in kept.accepted.units.iter().zip(&kept.settled_units) {
            let settled = unit.task_indexes.iter().all(|task| !kept.children[*task].is_open());
            Broken::unless(settled == *recorded, Law::UnitSettled, || {
                format!("{}: all its children settled: {settled}, recorded so: {recorded}", unit.id)
            })?;
        }
        Ok(())
    }

    fn moved(&mut self, child: &ChildId, event: ChildEvent) -> Result<(), Broken> {
        let stopped = self.account.kid(child).is_some_and(|kid| kid.cause.is_some());
        let starts = matches!(event, ChildEvent::Started | ChildEvent::SlotGranted | ChildEvent::Unparked);
        Broken::unless(!(starts && stopped), Law::NothingAfterStop, || format!("{child} takes {event:?}"))?;
        if starts && event != ChildEvent::Unparked {
            self.slot_taken(child, event)?;
        }
        self.moves.push((child.clone(), event));
        let now = self.now;
        let kid = self.account.kid_mut(child).ok_or_else(|| Broken {
            law: Law::Replay,
            how: format!("{child} is moved and nobody knows it"),
        })?;
        let was_queued = matches!(kid.row.state, ChildState::Queued { .. });
        kid.row
            .apply(event, now.wall)
            .map_err(|error| Broken { law: Law::Replay, how: error.to_string() })?;
        if let ChildEvent::StopAsked { reason, force } = event {
            kid.cause = kid.cause.or(Some(reason));
            if was_queued {
                self.leave_queue(child);
            }
            self.stop_recorded(child, reason, force)?;
        }
        if !self.account.is_open(child) {
            let kid = self.account.kid_mut(child).expect("it was there above");
            kid.abort_at = None;
        }
        Ok(())
    }

    fn leave_queue(&mut self, child: &ChildId) {
        let (kept, _) = self.account.kept_of(child).expect("a queued child is known");
        let session = kept.accepted.lineage.session.clone();
        self.account.lanes.leave(&session, child);
    }

    fn slot_taken(&mut self, child: &ChildId, event: ChildEvent) -> Result<(), Broken> {
        let gate = self.account.gate;
        Broken::unless(gate != Gate::Released, Law::Release, || format!("{child} takes {event:?}"))?;
        let (kept, _) = self.account.kept_of(child).ok_or_else(|| unknown(child))?;
        let session = kept.accepted.lineage.session.clone();
        if event == ChildEvent::Started {
            Broken::unless(gate == Gate::Open, Law::NothingAfterStop, || {
                format!("{child} starts while paused")
            })?;
            let first = self.account.returning.is_empty();
            Broken::unless(first, Law::Fair, || format!("{child} starts before those that come back"))?;
            self.account.lanes.serve(&session, child)?;
        } else {
            let first = self.account.returning.pop_front();
            Broken::unless(first.as_ref() == Some(child), Law::Fair, || {
                format!("{child} comes back and {first:?} was first")
            })?;
        }
        let moment = self.now.mono;
        let kid = self.account.kid_mut(child).ok_or_else(|| unknown(child))?;
        kid.slot = true;
        kid.moved = moment;
        kid.warned = false;
        if event == ChildEvent::Started {
            kid.runner = Runs::Born;
        }
        Ok(())
    }

    fn stop_recorded(&mut self, child: &ChildId, reason: StopReason, force: Force) -> Result<(), Broken> {
        let due = self.expected.stops.get(child);
        let covered = due.is_some_and(|due| due.reasons.contains(&reason));
        Broken::unless(covered, Law::OnlyStops, || {
            format!("{child} is stopped as {reason:?}, expected {due:?}")
        })?;
        self.account.returning.retain(|returning| returning != child);
        let due = self.now.mono.after(self.account.grace(reason));
        let kid = self.account.kid_mut(child).ok_or_else(|| unknown(child))?;
        if kid.is_open() && kid.is_aborted() {
            kid.abort_at = None;
        } else if kid.is_open() && force == Force::Ask {
            kid.abort_at = Some(kid.abort_at.map_or(due, |earlier| earlier.min(due)));
        }
        Ok(())
    }
}

/// A child's call is waited for, and so is one for which there is no slot where slots count calls.
fn reach_of(batch: &NewBatch, account: &Account) -> (Reach, Option<Fallback>) {
    let calls_max = account.options.children_max;
    let is_full = account.options.at_capacity == AtCapacity::Sync && account.calls() >= calls_max;
    match batch.reach {
        _ if batch.lineage.parent.is_some() => (Reach::Joined, None),
        Reach::Push | Reach::History if is_full => (Reach::Joined, Some(Fallback::AtCapacity)),
        reach @ (Reach::Push | Reach::History | Reach::Joined) => (reach, None),
    }
}

fn is_true_to(accepted: &Accepted, batch: &NewBatch, account: &Account) -> bool {
    accepted.lineage == batch.lineage
        && accepted.call_key == batch.call_key
        && (accepted.reach, accepted.fallback) == reach_of(batch, account)
        && accepted.tasks == batch.tasks
        && accepted.setting == batch.setting
        && accepted.children.len() == batch.tasks.len()
}

/// Two tasks are in one unit if the call comes back whole, or they have the same group; the units come in the order of
/// their first tasks.
fn units_are_right(accepted: &Accepted, completions: Completions) -> bool {
    let unit_of = |task: usize| accepted.units.iter().position(|unit| unit.task_indexes.contains(&task));
    let group_of = |task: usize| accepted.tasks[task].group.as_deref();
    let is_whole = completions == Completions::Together;
    let tasks = accepted.tasks.len();
    let pairs = (0..tasks).flat_map(|a| (0..tasks).map(move |b| (a, b)));
    let together = |(a, b): (usize, usize)| {
        let same = a == b || is_whole || group_of(a).is_some() && group_of(a) == group_of(b);
        same == (unit_of(a) == unit_of(b))
    };
    let listed: Vec<usize> = accepted.units.iter().flat_map(|unit| unit.task_indexes.clone()).collect();
    let firsts = accepted.units.iter().map(|unit| unit.task_indexes.first());
    listed.len() == tasks && firsts.is_sorted() && pairs.into_iter().all(together)
}
