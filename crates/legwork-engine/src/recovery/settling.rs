//! Concludes orphaned work without running anything: by a stop that somebody asks for, or as it stands where it is not to
//! be gone on with. Children that have ended keep their real results.

use super::owners::{Owners, Whose};
use super::toll::Toll;
use super::trees::Grove;
use super::{Orphans, Recovered, RecoveryError, Rescuer};
use crate::offering::{Became, Offered, offer};
use crate::salvage::salvage;
use legwork_core::batch::{Isolation, OnCrash};
use legwork_core::child::{AfterLoss, ChildEvent, ChildState};
use legwork_core::fact::{Append, Fact};
use legwork_core::ids::{ChildId, DelegationId};
use legwork_core::outcome::{Ending, Force, StopReason};
use legwork_core::ports::{AppendError, StoreError};
use legwork_core::record::{ChildRecord, DelegationRecord};
use legwork_core::report::Report;
use std::collections::HashSet;
use std::slice;

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
    let wanted = Wanted { orphans, conclusion, only: None };
    loop {
        settle_found(rescuer, &mut owners, wanted, &mut recovered).await?;
        if !owners.watch(&mut recovered).await? {
            return Ok(recovered);
        }
    }
}

/// Settles children of an orphaned delegation as stopped, with everything below them. What else is open of its tree is as it was,
/// in the hands of the process that asked, and nobody's once that has ended. Nobody is watched for it, and declared gone.
///
/// # Errors
/// As [`settle`].
pub async fn stop_children(
    rescuer: Rescuer<'_>,
    delegation: &DelegationId,
    children: &[ChildId],
    reason: StopReason,
) -> Result<Recovered, RecoveryError> {
    let mut recovered = Recovered::default();
    let orphans = Orphans::Of(delegation.clone());
    let conclusion = Conclusion::Stopped(reason);
    let wanted = Wanted { orphans: &orphans, conclusion, only: Some(children) };
    settle_found(rescuer, &mut Owners::new(rescuer), wanted, &mut recovered).await?;
    Ok(recovered)
}

/// What is to be settled, and how.
#[derive(Clone, Copy)]
struct Wanted<'a> {
    orphans: &'a Orphans,
    conclusion: Conclusion,
    /// Only these children and what is below them, where not all are meant.
    only: Option<&'a [ChildId]>,
}

/// Settles what is nobody's as far as is known now.
async fn settle_found(
    rescuer: Rescuer<'_>,
    owners: &mut Owners<'_>,
    Wanted { orphans, conclusion, only }: Wanted<'_>,
    recovered: &mut Recovered,
) -> Result<(), RecoveryError> {
    let Grove { trees, unreadable } = owners.read(orphans).await?;
    recovered.unreadable = unreadable;
    for tree in trees {
        if recovered.tells_of(&tree) {
            continue;
        }
        let whose = owners.of(&tree).await?;
        let toll = Toll::of(&tree, rescuer).await?;
        let waits = conclusion == Conclusion::Reported
            && tree.records().iter().any(|record| any_goes_on(record, &toll));
        match whose {
            Whose::Nobodys if !waits => {
                // Nothing begins here beside what may still run of it.
                for (delegation, doubt) in rescuer.clear(&tree).await? {
                    tracing::warn!(%delegation, doubt, "the work of a dead process is settled all the same");
                }
                let only = only.map(|children| tree.with_below(children));
                let settling = Settling { rescuer, conclusion, toll: &toll, only: only.as_ref() };
                for record in rescuer.take(&tree, &toll).await? {
                    settling.settle(&record, recovered).await?;
                }
            }
            Whose::Doubtful if !waits => owners.suspect(&tree),
            Whose::Nobodys | Whose::Doubtful | Whose::Somebodys => owners.leave(&tree, recovered),
        }
    }
    Ok(())
}

/// Whether some child of it is to go on after a crash, as far as its record tells: its journal may tell that its process died of
/// it too often.
pub fn may_go_on(record: &DelegationRecord) -> bool {
    any_goes_on(record, &Toll::default())
}

fn any_goes_on(record: &DelegationRecord, toll: &Toll) -> bool {
    (0..record.children.len()).any(|index| goes_on(record, index, toll))
}

/// Whether the child of that task gets another attempt.
pub(super) fn goes_on(record: &DelegationRecord, index: usize, toll: &Toll) -> bool {
    let child = &record.children[index];
    match child.state {
        ChildState::Queued { .. }
        | ChildState::Running { .. }
        | ChildState::Parked { .. }
        | ChildState::Waiting { .. } => {
            record.accepted.on_crash(index) == OnCrash::Resume && toll.why(&child.id).is_none()
        }
        ChildState::Stopping { .. } | ChildState::Settled(_) => false,
    }
}

/// How the work of one tree is settled.
#[derive(Clone, Copy)]
struct Settling<'a> {
    rescuer: Rescuer<'a>,
    conclusion: Conclusion,
    toll: &'a Toll,
    only: Option<&'a HashSet<ChildId>>,
}

impl<'a> Settling<'a> {
    async fn settle(self, record: &DelegationRecord, recovered: &mut Recovered) -> Result<(), RecoveryError> {
        let delegation = record.accepted.delegation.clone();
        if self.ending(record).next().is_none() {
            return Ok(());
        }
        match self.append(record).await? {
            Ok(()) => {
                for (index, child) in self.ending(record) {
                    match self.why(&child.id) {
                        Some(_) => recovered.condemned += 1,
                        None => recovered.count_settled(child.state),
                    }
                    recovered.ended.push((delegation.clone(), index));
                }
                recovered.taken.push(delegation);
            }
            Err(refusal) => {
                tracing::error!(%delegation, %refusal, "the work of a dead process could not be settled");
                recovered.refused.push((delegation, refusal));
            }
        }
        Ok(())
    }

    async fn append(self, record: &DelegationRecord) -> Result<Result<(), AppendError>, StoreError> {
        let mut facts = Vec::new();
        let mut left: HashSet<&ChildId> = open(record).map(|(_, child)| &child.id).collect();
        for (index, child) in self.ending(record) {
            facts.extend(self.ends(record, index).await);
            left.remove(&child.id);
            facts.extend(unit_settled_by(record, &child.id, &left));
        }
        let append = Append {
            delegation: record.accepted.delegation.clone(),
            expected_seq: record.seq,
            owner: self.rescuer.owner.id.clone(),
            epoch: record.epoch,
            at: self.rescuer.clock.now().wall,
            facts,
        };
        let Offered { fates, error } = offer(self.rescuer.store, slice::from_ref(&append)).await;
        match fates.into_iter().next() {
            // Also what it answered with an error: whoever waits for these ends hears of them in no other way.
            Some(Became::Recorded) => Ok(Ok(())),
            Some(Became::Refused(refusal)) => Ok(Err(refusal)),
            Some(Became::Absent | Became::Unclear) | None => {
                Err(error.expect("BUG: what was offered is lacking and nothing failed"))
            }
        }
    }

    /// The children that are settled, by their tasks' positions.
    fn ending<'r>(
        self,
        record: &'r DelegationRecord,
    ) -> impl Iterator<Item = (usize, &'r ChildRecord)> + use<'r, 'a> {
        open(record).filter(move |(_, child)| self.only.is_none_or(|only| only.contains(&child.id)))
    }

    /// The moves that end a child.
    async fn ends(self, record: &DelegationRecord, index: usize) -> Vec<Fact> {
        let child = &record.children[index];
        let moved = |event, report| Fact::Moved { child: child.id.clone(), event, report };
        let begun = child.state.has_runner();
        let condemned = self.why(&child.id);
        let mut facts = Vec::new();
        if let Some(reason) = self.stop_reason(condemned) {
            facts.push(moved(ChildEvent::StopAsked { reason, force: Force::Abort }, None));
            if !begun {
                return facts;
            }
        }
        let report = if begun {
            Some(Box::new(left_by(self.rescuer, ChildAt { record, index }, condemned).await))
        } else {
            None
        };
        facts.push(moved(ChildEvent::OwnerLost(AfterLoss::GiveUp), report));
        facts
    }

    fn stop_reason(self, condemned: Option<&str>) -> Option<StopReason> {
        match self.conclusion {
            Conclusion::Stopped(reason) => Some(reason),
            Conclusion::Reported => condemned.map(|_| StopReason::OwnerLost),
        }
    }

    /// Why the child is given up, where nothing else ends it.
    fn why(&self, child: &ChildId) -> Option<&str> {
        match self.conclusion {
            Conclusion::Stopped(_) => None,
            Conclusion::Reported => self.toll.why(child),
        }
    }
}

/// The children that have not settled, by their tasks' positions.
fn open(record: &DelegationRecord) -> impl Iterator<Item = (usize, &ChildRecord)> {
    record.children.iter().enumerate().filter(|(_, child)| child.outcome().is_none())
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

/// One child of a delegation as it was read.
#[derive(Clone, Copy)]
pub(super) struct ChildAt<'a> {
    pub(super) record: &'a DelegationRecord,
    /// The position of its task.
    pub(super) index: usize,
}

/// What is known of a run whose process died, and why nobody goes on with it where that is more than its loss.
pub(super) async fn left_by(
    rescuer: Rescuer<'_>,
    ChildAt { record, index }: ChildAt<'_>,
    condemned: Option<&str>,
) -> Report {
    let child = &record.children[index];
    let pulse = child.pulse.as_ref().map(|(pulse, _)| pulse.clone()).unwrap_or_default();
    let report = salvage(rescuer.store, &child.id, Ending::Interrupted, &pulse).await;
    let setting = record.accepted.setting_of(index);
    let worktree = match setting.isolation {
        Isolation::Worktree => rescuer.processes.worktree_of(&child.id, &setting.folder),
        Isolation::Shared => None,
    };
    let inactivity = child.report.as_ref().and_then(|report| report.inactivity.clone());
    let error = condemned.map(str::to_owned);
    // One whose process died before a reading was stored has worked for no time that anybody has measured.
    let spans = Some(child.spans().unwrap_or_default());
    Report { worktree, inactivity, error, spans, ..report }
}

/// The unit that settles with `child`, when `open` holds no child of it any more.
fn unit_settled_by(record: &DelegationRecord, child: &ChildId, open: &HashSet<&ChildId>) -> Option<Fact> {
    let children = &record.accepted.children;
    let mut units = record.accepted.units.iter();
    let unit = units.find(|unit| unit.task_indexes.iter().any(|&task| children[task] == *child))?;
    let settled = !unit.task_indexes.iter().any(|&task| open.contains(&children[task]));
    settled.then(|| Fact::UnitSettled { unit: unit.id.clone() })
}
