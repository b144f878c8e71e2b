//! Appends facts: on a copy of the record, which replaces the stored one when every fact fitted.

use super::state::{Delegation, State};
use legwork_core::delivery::{DeliveryEvent, DeliveryState, LedgerLine, NOTICE_LATE};
use legwork_core::fact::{Accepted, Append, Fact};
use legwork_core::ids::{ChildId, DelegationId, UnitId};
use legwork_core::outcome::Outcome;
use legwork_core::ports::AppendError;
use legwork_core::record::{ChildRecord, DelegationRecord, DeliveryRecord, NoticeRecord};
use legwork_core::time::Timestamp;

impl State {
    pub(super) fn append(&mut self, append: Append) -> Result<(), AppendError> {
        if let Some(Fact::Accepted(accepted)) = append.facts.first() {
            self.check_new(&append, accepted)?;
            let record = self.new_record(&append, accepted);
            let delegation = applied(record, &append, 1)?;
            self.delegations.push(delegation);
        } else {
            self.go_on(&append)?;
        }
        self.miss_steers(&append);
        for unit in settled_units(&append) {
            let place = self.ready.last_key_value().map_or(1, |(last, _)| last + 1);
            self.ready.insert(place, unit);
        }
        Ok(())
    }

    fn go_on(&mut self, append: &Append) -> Result<(), AppendError> {
        let stale = || AppendError::Stale(append.delegation.clone());
        let is_known = self.living_owner(&append.owner).is_ok();
        let known = self.delegation(&append.delegation);
        let is_readable = known.is_none_or(|known| self.is_readable(&known.record));
        let stored = self.delegations.iter_mut();
        let mut stored = stored.filter(|stored| stored.record.accepted.delegation == append.delegation);
        let stored = stored.next().ok_or_else(stale)?;
        let record = &stored.record;
        let is_current = record.seq == append.expected_seq
            && record.epoch == append.epoch
            && record.owner.id == append.owner
            && is_known;
        if !is_current {
            return Err(stale());
        }
        if !is_readable {
            return Err(AppendError::Unreadable(format!("{} cannot be read", append.delegation)));
        }
        let mut next = applied(record.clone(), append, 0)?;
        next.facts.splice(0..0, stored.facts.drain(..));
        next.settled_at = stored.settled_at.or(next.settled_at);
        *stored = next;
        Ok(())
    }

    fn check_new(&self, append: &Append, accepted: &Accepted) -> Result<(), AppendError> {
        if let Some(first) = accepted.call_key.as_ref().and_then(|key| self.by_call_key(key)) {
            return Err(AppendError::Repeated(first));
        }
        if self.is_taken(accepted) {
            return Err(AppendError::IdTaken(append.delegation.clone()));
        }
        if append.expected_seq != 0 {
            return Err(AppendError::Stale(append.delegation.clone()));
        }
        if let Err(error) = self.living_owner(&append.owner) {
            return Err(AppendError::Illegal(error.to_string()));
        }
        let session = &accepted.lineage.session;
        if accepted.reach.needs_session() && self.session(session).is_none() {
            return Err(AppendError::NoSession(session.clone()));
        }
        if accepted.delegation != append.delegation || !accepted.has_sound_shape() {
            return Err(AppendError::Illegal(format!("{} is accepted in a wrong shape", append.delegation)));
        }
        Ok(())
    }

    pub(super) fn by_call_key(&self, key: &legwork_core::ids::CallKey) -> Option<DelegationId> {
        let mut all = self.delegations.iter().map(|delegation| &delegation.record.accepted);
        let first = all.find(|accepted| accepted.call_key.as_ref() == Some(key));
        first.map(|accepted| accepted.delegation.clone())
    }

    fn is_taken(&self, accepted: &Accepted) -> bool {
        self.delegations.iter().map(|delegation| &delegation.record.accepted).any(|other| {
            other.delegation == accepted.delegation
                || other.children.iter().any(|child| accepted.children.contains(child))
                || other.units.iter().any(|unit| accepted.units.iter().any(|new| new.id == unit.id))
        })
    }

    fn new_record(&self, append: &Append, accepted: &Accepted) -> DelegationRecord {
        let held = || DeliveryRecord {
            state: DeliveryState::Held,
            ledger: vec![line(append.at, &DeliveryState::Held, "accepted; waits for its subagents")],
        };
        DelegationRecord {
            accepted: accepted.clone(),
            accepted_at: append.at,
            owner: self.owners[&append.owner].clone(),
            epoch: append.epoch,
            seq: 0,
            children: accepted.children.iter().cloned().map(ChildRecord::new).collect(),
            deliveries: accepted.units.iter().map(|_| held()).collect(),
            notices: Vec::new(),
        }
    }
}

/// The units and notices that become ready by an append, in the order of their rows.
fn settled_units(append: &Append) -> impl Iterator<Item = UnitId> {
    append.facts.iter().filter_map(|fact| match fact {
        Fact::Noticed { child } => Some(UnitId::notice(child)),
        Fact::UnitSettled { unit } => Some(unit.clone()),
        Fact::Accepted(_) | Fact::Moved { .. } => None,
    })
}

/// A ledger line without a claimant.
pub(super) fn line(at: Timestamp, state: &DeliveryState, reason: &str) -> LedgerLine {
    LedgerLine { at, state: state.as_str().to_owned(), claimant: None, reason: Some(reason.to_owned()) }
}

fn applied(mut record: DelegationRecord, append: &Append, first: usize) -> Result<Delegation, AppendError> {
    for fact in &append.facts[first..] {
        apply(&mut record, fact, append.at)?;
    }
    record.seq += append.facts.len() as u64;
    let settled_at = record.is_settled().then_some(append.at);
    Ok(Delegation { record, facts: append.facts.clone(), settled_at })
}

fn apply(record: &mut DelegationRecord, fact: &Fact, at: Timestamp) -> Result<(), AppendError> {
    match fact {
        Fact::Accepted(_) => {
            Err(AppendError::Illegal("a delegation can only be accepted as its first fact".to_owned()))
        }
        Fact::Moved { child, event, report } => {
            let row = record.children.iter_mut().find(|row| row.id == *child);
            let row = row.ok_or_else(|| unknown(child.as_str()))?;
            row.apply(*event, at).map_err(|illegal| AppendError::Illegal(format!("{child}: {illegal}")))?;
            if let Some(report) = report {
                row.report = Some((**report).clone());
            }
            Ok(())
        }
        Fact::Noticed { child } => notice(record, child, at),
        Fact::UnitSettled { unit } => settle_unit(record, unit, at),
    }
}

fn notice(record: &mut DelegationRecord, child: &ChildId, at: Timestamp) -> Result<(), AppendError> {
    let task_index = record.children.iter().position(|row| row.id == *child);
    let task_index = task_index.ok_or_else(|| unknown(child.as_str()))?;
    let mut units = record.accepted.units.iter();
    let unit = units.find(|unit| unit.task_indexes.contains(&task_index)).expect("each task has a unit");
    let failed = record.children[task_index].outcome().is_some_and(Outcome::is_failure);
    let goes_on = unit.task_indexes.iter().any(|task| record.children[*task].outcome().is_none());
    if !failed || !goes_on || record.notices.iter().any(|notice| notice.task_index == task_index) {
        let illegal = format!("{child} has not failed before the others of its unit");
        return Err(AppendError::Illegal(illegal));
    }
    let state = DeliveryState::Ready { tries: 0 };
    let ledger = vec![line(at, &state, "the subagent has failed and others of its unit go on")];
    record.notices.push(NoticeRecord { task_index, delivery: DeliveryRecord { state, ledger } });
    record.notices.sort_by_key(|notice| notice.task_index);
    Ok(())
}

fn settle_unit(record: &mut DelegationRecord, unit: &UnitId, at: Timestamp) -> Result<(), AppendError> {
    let place = record.accepted.units.iter().position(|other| other.id == *unit);
    let place = place.ok_or_else(|| unknown(unit.as_str()))?;
    let tasks = &record.accepted.units[place].task_indexes;
    if tasks.iter().any(|task| record.children[*task].outcome().is_none()) {
        return Err(AppendError::Illegal(format!("{unit}: some of its children have not settled")));
    }
    let delivery = &mut record.deliveries[place];
    let next = delivery.state.apply(DeliveryEvent::UnitSettled);
    delivery.state = next.map_err(|illegal| AppendError::Illegal(format!("{unit}: {illegal}")))?;
    delivery.ledger.push(line(at, &delivery.state, "every subagent of the unit has ended"));
    let tasks = record.accepted.units[place].task_indexes.clone();
    for notice in record.notices.iter_mut().filter(|notice| tasks.contains(&notice.task_index)) {
        if let Ok(dismissed) = notice.delivery.state.apply(DeliveryEvent::Dismissed) {
            notice.delivery.ledger.push(line(at, &dismissed, NOTICE_LATE));
            notice.delivery.state = dismissed;
        }
    }
    Ok(())
}

fn unknown(what: &str) -> AppendError {
    AppendError::Illegal(format!("{what} is not part of the delegation"))
}
