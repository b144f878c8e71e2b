//! What an event must lead to, worked out before the book sees it.

use super::account::{Account, Gate, Runs};
use legwork_core::batch::NewBatch;
use legwork_core::child::ChildState;
use legwork_core::ids::{ChildId, DelegationId};
use legwork_core::outcome::{Ending, FailureKind, Force, Outcome, StopReason};
use legwork_core::ports::{Refusal, StopNotice};
use legwork_core::steering::Scope;
use legwork_core::time::Moment;
use legwork_engine::AtCapacity;
use legwork_engine::book::{Event, ReplyTo};
use std::collections::{BTreeMap, BTreeSet};

/// What must happen, and what may.
#[derive(Debug, Default)]
pub(super) struct Expectation {
    /// Children that must be recorded as asked to stop, and nobody else.
    pub(super) stops: BTreeMap<ChildId, Due>,
    /// Children whose runs must be dropped without a fact.
    pub(super) cuts: BTreeSet<ChildId>,
    /// Children that must be asked to end without a fact.
    pub(super) asks: BTreeSet<ChildId>,
    /// Children that must be told that they have to move.
    pub(super) warnings: BTreeSet<ChildId>,
    /// The child that must settle by its own end, and how.
    pub(super) ends: Option<(ChildId, Outcome)>,
    /// The call that must be answered.
    pub(super) call: Option<Call>,
    /// Who waits for the list of a stop.
    pub(super) list_for: Option<ReplyTo>,
}

/// A call that wants an answer.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) reply: ReplyTo,
    pub(super) batch: NewBatch,
    /// Every rule that forbids it.
    pub(super) objections: Vec<Refusal>,
}

/// One expected stop.
#[derive(Debug)]
pub(super) struct Due {
    /// The reasons that may be recorded.
    pub(super) reasons: Vec<StopReason>,
    pub(super) force: Force,
}

impl Expectation {
    pub(super) fn of(event: &Event, account: &Account, now: Moment) -> Expectation {
        let mut expected = Expectation::default();
        match event {
            Event::Dispatch { batch, reply, .. } => {
                let (reply, batch) = (*reply, (**batch).clone());
                expected.call = Some(Call { reply, objections: objections(&batch, account), batch });
            }
            Event::Stop { scope, notice, reply } => {
                expected.list_for = *reply;
                expected.stop(scope, *notice, account);
            }
            Event::Returned(child, report) => expected.end(child, report.ending, account),
            Event::Tick => expected.tick(account, now),
            Event::Withdrawn(delegation) => expected.withdrawal(delegation, account),
            Event::Released => {
                let kids = account.present().flat_map(|kept| &kept.children);
                let running = kids.filter(|kid| kid.is_open() && kid.has_runner());
                expected.asks = running.map(|kid| kid.row.id.clone()).collect();
            }
            Event::Parked(_)
            | Event::Unparked(_)
            | Event::Heard(..)
            | Event::Paused
            | Event::Resumed
            | Event::Adopted(_) => {}
        }
        expected
    }

    fn stop(&mut self, scope: &Scope, notice: StopNotice, account: &Account) {
        let direct = account.in_scope(scope);
        for child in direct.iter().flat_map(|child| account.beneath(child)) {
            self.due(child, StopReason::ParentStopped, notice.force);
        }
        for child in direct {
            self.stops.insert(child, Due { reasons: vec![notice.reason], force: notice.force });
        }
    }

    fn end(&mut self, child: &ChildId, ending: Ending, account: &Account) {
        if !account.is_open(child) {
            return;
        }
        let kid = account.kid(child).expect("an open child is known");
        let stopped = match kid.row.state {
            ChildState::Stopping { cause, .. } => Some(cause),
            _ => None,
        };
        let outcome = match (ending, stopped) {
            (Ending::Answered, _) => Outcome::Succeeded,
            (Ending::CutShort(limit), _) => Outcome::Partial(limit),
            (Ending::Failed(_) | Ending::Interrupted, Some(cause)) => Outcome::Stopped(cause),
            (Ending::Failed(_) | Ending::Interrupted, None) if account.gate == Gate::Released => return,
            (Ending::Failed(kind), None) => Outcome::Failed(kind),
            (Ending::Interrupted, None) => Outcome::Failed(FailureKind::Panicked),
        };
        self.ends = Some((child.clone(), outcome));
        for below in account.beneath(child) {
            self.due(below, StopReason::ParentStopped, Force::Ask);
        }
    }

    fn tick(&mut self, account: &Account, now: Moment) {
        let released = account.gate == Gate::Released;
        for kid in account.present().flat_map(|kept| &kept.children).filter(|kid| kid.is_open()) {
            let (ends_at, reason) = account.gives_up(kid);
            if kid.abort_at.is_some_and(|due| due <= now) {
                if released {
                    self.cuts.insert(kid.row.id.clone());
                } else {
                    self.due_tree(&kid.row.id, StopReason::Cancelled, Force::Abort, account);
                }
            } else if kid.abort_at.is_some() || !kid.is_running() || released {
            } else if ends_at <= now {
                self.due_tree(&kid.row.id, reason, Force::Ask, account);
            } else if account.warns(kid).is_some_and(|due| due <= now) {
                self.warnings.insert(kid.row.id.clone());
            }
        }
    }

    fn withdrawal(&mut self, delegation: &DelegationId, account: &Account) {
        let Some(kept) = account.delegations.get(delegation).filter(|kept| !kept.withdrawn) else { return };
        for kid in kept.children.iter().filter(|kid| kid.is_open() && kid.has_runner()) {
            self.cuts.insert(kid.row.id.clone());
            for below in account.beneath(&kid.row.id) {
                self.due(below, StopReason::ParentStopped, Force::Ask);
            }
        }
    }

    fn due_tree(&mut self, child: &ChildId, reason: StopReason, force: Force, account: &Account) {
        self.due(child.clone(), reason, force);
        for below in account.beneath(child) {
            self.due(below, StopReason::ParentStopped, force);
        }
    }

    fn due(&mut self, child: ChildId, reason: StopReason, force: Force) {
        let due = self.stops.entry(child).or_insert(Due { reasons: Vec::new(), force });
        due.reasons.push(reason);
        due.force = due.force.max(force);
    }
}

/// Every rule that forbids the call.
fn objections(batch: &NewBatch, account: &Account) -> Vec<Refusal> {
    let (asked, waiting, depth) = (batch.tasks.len(), account.lanes.len(), batch.lineage.depth);
    let options = &account.options;
    let mut objections = Vec::new();
    if asked == 0 {
        objections.push(Refusal::Empty);
    }
    if account.gate == Gate::Paused {
        objections.push(Refusal::Paused);
    }
    let ended = |child: &ChildId| {
        !account.is_open(child)
            || account.kid(child).is_some_and(|kid| {
                kid.runner != Runs::Live || matches!(kid.row.state, ChildState::Stopping { .. })
            })
    };
    if account.gate == Gate::Released {
        objections.push(Refusal::Ending);
    }
    if batch.lineage.parent.as_ref().is_some_and(ended) {
        objections.push(Refusal::Stopping);
    }
    if depth >= options.depth_max {
        objections.push(Refusal::TooDeep { depth, depth_max: options.depth_max });
    }
    let free = options.children_max.saturating_sub(account.slots());
    match options.at_capacity {
        AtCapacity::Queue if waiting + asked > options.queue_max + free => {
            objections.push(Refusal::QueueFull { asked, waiting, queue_max: options.queue_max });
        }
        AtCapacity::Reject if waiting + asked > free => {
            objections.push(Refusal::NoSlots { asked, free, children_max: options.children_max });
        }
        AtCapacity::Sync if asked > options.children_max => {
            objections.push(Refusal::TooManyTasks { asked, tasks_max: options.children_max });
        }
        AtCapacity::Queue | AtCapacity::Reject | AtCapacity::Sync => {}
    }
    objections
}
