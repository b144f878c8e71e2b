//! Concludes orphaned work without running anything: by a stop that somebody asks for, or as it stands where it is not to
//! be gone on with. Children that have ended keep their real results.

use super::owners::{Owners, Whose};
use super::{Orphans, Recovered, RecoveryError, Rescuer, trees};
use crate::salvage::salvage;
use legwork_core::batch::{Isolation, OnCrash};
use legwork_core::child::{AfterLoss, ChildEvent, ChildState};
use legwork_core::fact::{Append, Fact};
use legwork_core::ids::ChildId;
use legwork_core::outcome::{Ending, Force, StopReason};
use legwork_core::ports::{AppendError, StoreError};
use legwork_core::record::DelegationRecord;
use legwork_core::report::Report;
use std::collections::HashSet;

/// How orphaned work is concluded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Conclusion {
    /// As it stands, unless a child of it may go on: then all of it is left alone.
    Reported,
    /// As stopped, whatever else was to become of it.
    Stopped(StopReason),
}

/// Settles the work of owners that are proved dead (invariant 30), and what this process took over before and could not
/// settle then. Nobody is declared gone whose work it would not settle.
///
/// It must not be called beside a running engine of the same owner.
///
/// # Errors
/// [`RecoveryError`]; running it again goes on where it ended.
pub async fn settle(
    rescuer: Rescuer<'_>,
    orphans: &Orphans,
    conclusion: Conclusion,
) -> Result<Recovered, RecoveryError> {
    let mut recovered = Recovered::default();
    let mut owners = Owners::new(rescuer);
    settle_found(rescuer, &mut owners, (orphans, conclusion), &mut recovered).await?;
    if owners.watch().await? {
        settle_found(rescuer, &mut owners, (orphans, conclusion), &mut recovered).await?;
    }
    Ok(recovered)
}

/// Settles what is nobody's as far as is known now.
async fn settle_found(
    rescuer: Rescuer<'_>,
    owners: &mut Owners<'_>,
    (orphans, conclusion): (&Orphans, Conclusion),
    recovered: &mut Recovered,
) -> Result<(), RecoveryError> {
    for tree in trees::of(rescuer.store, orphans).await? {
        if recovered.tells_of(&tree) {
            continue;
        }
        let waits = conclusion == Conclusion::Reported && tree.records().iter().any(may_go_on);
        match owners.of(&tree).await? {
            Whose::Nobodys if !waits => {
                for record in rescuer.take(&tree).await? {
                    settle_one(rescuer, &record, conclusion, recovered).await?;
                }
            }
            Whose::Doubtful if !waits => owners.suspect(&tree),
            Whose::Nobodys | Whose::Doubtful | Whose::Somebodys => owners.leave(&tree, recovered),
        }
    }
    Ok(())
}

/// Whether some child of it is to go on after a crash.
pub fn may_go_on(record: &DelegationRecord) -> bool {
    (0..record.children.len()).any(|index| goes_on(record, index))
}

/// Whether the child of that task gets another attempt.
pub(super) fn goes_on(record: &DelegationRecord, index: usize) -> bool {
    match record.children[index].state {
        ChildState::Queued { .. }
        | ChildState::Running { .. }
        | ChildState::Parked { .. }
        | ChildState::Waiting { .. } => record.accepted.on_crash(index) == OnCrash::Resume,
        ChildState::Stopping { .. } | ChildState::Settled(_) => false,
    }
}

async fn settle_one(
    rescuer: Rescuer<'_>,
    record: &DelegationRecord,
    conclusion: Conclusion,
    recovered: &mut Recovered,
) -> Result<(), RecoveryError> {
    let delegation = record.accepted.delegation.clone();
    match append(rescuer, record, conclusion).await? {
        Ok(()) => {
            record.children.iter().for_each(|child| recovered.count_settled(child.state));
            let open = record.children.iter().enumerate().filter(|(_, child)| child.outcome().is_none());
            recovered.ended.extend(open.map(|(index, _)| (delegation.clone(), index)));
            recovered.taken.push(delegation);
        }
        Err(refusal) => {
            tracing::error!(%delegation, %refusal, "the work of a dead process could not be settled");
            recovered.refused.push((delegation, refusal));
        }
    }
    Ok(())
}

impl Recovered {
    /// Counts a child that is settled, by the state in which its process left it.
    pub(super) fn count_settled(&mut self, before: ChildState) {
        match before {
            ChildState::Queued { .. } => self.unstarted += 1,
            ChildState::Running { .. } | ChildState::Parked { .. } | ChildState::Waiting { .. } => {
                self.lost += 1;
            }
            ChildState::Stopping { .. } => self.stopping += 1,
            ChildState::Settled(_) => {}
        }
    }
}

async fn append(
    rescuer: Rescuer<'_>,
    record: &DelegationRecord,
    conclusion: Conclusion,
) -> Result<Result<(), AppendError>, StoreError> {
    let mut facts = Vec::new();
    let mut open: HashSet<&ChildId> =
        record.children.iter().filter(|child| child.outcome().is_none()).map(|child| &child.id).collect();
    for (index, child) in record.children.iter().enumerate().filter(|(_, child)| child.outcome().is_none()) {
        facts.extend(ends(rescuer, (record, index), conclusion).await);
        open.remove(&child.id);
        facts.extend(unit_settled_by(record, &child.id, &open));
    }
    let append = Append {
        delegation: record.accepted.delegation.clone(),
        expected_seq: record.seq,
        owner: rescuer.owner.id.clone(),
        epoch: record.epoch,
        at: rescuer.clock.now().wall,
        facts,
    };
    let answers = rescuer.store.append(vec![append]).await?;
    Ok(answers.into_iter().collect())
}

/// The moves that end a child.
async fn ends(
    rescuer: Rescuer<'_>,
    (record, index): (&DelegationRecord, usize),
    conclusion: Conclusion,
) -> Vec<Fact> {
    let child = &record.children[index];
    let moved = |event, report| Fact::Moved { child: child.id.clone(), event, report };
    let begun = child.state.has_runner();
    let mut facts = Vec::new();
    if let Conclusion::Stopped(reason) = conclusion {
        facts.push(moved(ChildEvent::StopAsked { reason, force: Force::Abort }, None));
        if !begun {
            return facts;
        }
    }
    let report = if begun { Some(Box::new(left_by(rescuer, record, index).await)) } else { None };
    facts.push(moved(ChildEvent::OwnerLost(AfterLoss::GiveUp), report));
    facts
}

/// What is known of a run whose process died.
pub(super) async fn left_by(rescuer: Rescuer<'_>, record: &DelegationRecord, index: usize) -> Report {
    let child = &record.children[index];
    let pulse = child.pulse.as_ref().map(|(pulse, _)| pulse.clone()).unwrap_or_default();
    let report = salvage(rescuer.store, &child.id, Ending::Interrupted, &pulse).await;
    let setting = record.accepted.setting_of(index);
    let worktree = match setting.isolation {
        Isolation::Worktree => rescuer.processes.worktree_of(&child.id, &setting.folder),
        Isolation::Shared => None,
    };
    let inactivity = child.report.as_ref().and_then(|report| report.inactivity.clone());
    Report { worktree, inactivity, ..report }
}

/// The unit that settles with `child`, when `open` holds no child of it any more.
fn unit_settled_by(record: &DelegationRecord, child: &ChildId, open: &HashSet<&ChildId>) -> Option<Fact> {
    let children = &record.accepted.children;
    let mut units = record.accepted.units.iter();
    let unit = units.find(|unit| unit.task_indexes.iter().any(|&task| children[task] == *child))?;
    let settled = !unit.task_indexes.iter().any(|&task| open.contains(&children[task]));
    settled.then(|| Fact::UnitSettled { unit: unit.id.clone() })
}
