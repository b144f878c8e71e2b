//! Answers that look at the whole store.

use super::state::{Damage, State};
use legwork_core::delivery::DeliveryState;
use legwork_core::ids::{ChildId, DelegationId, Epoch, SessionId, UnitId};
use legwork_core::ports::{Due, Found, Portion, StoreError, StoreHealth, Takeover, Undelivered};
use legwork_core::pulse::Pulse;
use legwork_core::record::{DelegationRecord, DeliveryRecord};
use legwork_core::steering::{Request, Wish};
use legwork_core::step::Actor;
use legwork_core::time::Timestamp;

/// A unit is left out when its delegation is found too.
pub(super) fn find(state: &State, fits: impl Fn(&str) -> bool) -> Vec<Found> {
    let (mut delegations, mut units, mut children) = (Vec::new(), Vec::new(), Vec::new());
    for delegation in &state.delegations {
        let accepted = &delegation.record.accepted;
        let id = &accepted.delegation;
        if fits(id.as_str()) {
            delegations.push(id.clone());
        } else {
            let found = accepted.units.iter().filter(|unit| fits(unit.id.as_str()));
            units.extend(found.map(|unit| (unit.id.clone(), id.clone())));
        }
        let found = accepted.children.iter().filter(|child| fits(child.as_str()));
        children.extend(found.map(|child| (child.clone(), id.clone())));
    }
    let ids = state.sessions.iter().map(|session| &session.record.session.id);
    let mut sessions: Vec<_> = ids.filter(|id| fits(id.as_str())).cloned().collect();
    delegations.sort();
    units.sort();
    children.sort();
    sessions.sort();
    let delegations = delegations.into_iter().map(Found::Delegation);
    let units = units.into_iter().map(|(unit, delegation)| Found::Unit(delegation, unit));
    let children = children.into_iter().map(|(child, delegation)| Found::Child(delegation, child));
    delegations.chain(units).chain(children).chain(sessions.into_iter().map(Found::Session)).collect()
}

pub(super) fn take_over(
    state: &mut State,
    takeover: Takeover,
) -> Result<Vec<(DelegationId, Epoch)>, StoreError> {
    let Takeover { from, to, delegations, at, pulses } = takeover;
    let heir = state.living_owner(&to)?.clone();
    let mut taken = Vec::new();
    for id in delegations {
        let mut records = state.delegations.iter_mut().map(|delegation| &mut delegation.record);
        let is_it = |record: &&mut DelegationRecord| {
            record.accepted.delegation == id && record.owner.id == from && !record.is_settled()
        };
        if let Some(record) = records.find(is_it) {
            record.owner = heir.clone();
            record.epoch = Epoch(record.epoch.0 + 1);
            for child in &mut record.children {
                let known = child.deaths().attempt;
                let is_news =
                    |(of, pulse): &&(ChildId, Pulse)| *of == child.id && pulse.deaths.attempt > known;
                if let Some((_, pulse)) = pulses.iter().find(is_news) {
                    child.pulse = Some((pulse.clone(), at));
                }
            }
            taken.push((id, record.epoch));
        }
    }
    Ok(taken)
}

pub(super) fn prune(state: &mut State, before: Timestamp) -> usize {
    let open = state.delegations.iter().filter(|delegation| !delegation.record.is_settled());
    let open: Vec<Timestamp> = open.map(|delegation| delegation.record.accepted_at).collect();
    state.requests.retain(|_, record| {
        let is_due =
            record.decided_at.is_none() && open.iter().any(|accepted| *accepted <= record.request.at);
        record.request.at >= before || is_steer(&record.request) || is_due
    });
    let unreadable = state.delegations.iter().filter(|delegation| !state.is_readable(&delegation.record));
    let unreadable: Vec<DelegationId> =
        unreadable.map(|delegation| delegation.record.accepted.delegation.clone()).collect();
    state.remove_delegations(|delegation| {
        let is_readable = !unreadable.contains(&delegation.record.accepted.delegation);
        let is_old = delegation.settled_at.is_some_and(|at| at < before);
        let was_told = |delivery: &DeliveryRecord| {
            delivery.state.is_final() && delivery.ledger.last().is_none_or(|line| line.at < before)
        };
        is_readable && is_old && delegation.record.deliveries.iter().all(was_told)
    })
}

fn is_steer(request: &Request) -> bool {
    match request.wish {
        Wish::Steer { .. } => true,
        Wish::Stop { .. } => false,
    }
}

/// What is due to a session behind a place, in the order in which it became ready, at most so much of it.
pub(super) fn due_to(state: &State, session: &SessionId, after: u64, most: usize) -> Portion {
    let of_session = move |(place, unit): (&u64, &UnitId)| {
        let mut records = state.delegations.iter().map(|delegation| &delegation.record);
        records.find_map(|record| {
            let (delivery, notice) = delivery_of(record, unit)?;
            let is_due = record.accepted.lineage.session == *session && !delivery.state.is_final();
            is_due.then(|| Due { place: *place, due: due(record, unit, delivery, notice) })
        })
    };
    let due = state.ready.range(after + 1..).filter_map(of_session).take(most);
    let (unreadable, rows): (Vec<_>, Vec<_>) =
        due.partition(|due| state.damaged.contains(&Damage::Unit(due.due.unit.clone())));
    let unreadable = unreadable.into_iter().map(|due| (due.place, due.due.unit)).collect();
    Portion { rows, unreadable }
}

/// Where a unit, or a notice, is; with the task that a notice tells of.
fn delivery_of<'a>(
    record: &'a DelegationRecord,
    unit: &UnitId,
) -> Option<(&'a DeliveryRecord, Option<usize>)> {
    if let Some(place) = record.accepted.units.iter().position(|other| other.id == *unit) {
        return Some((&record.deliveries[place], None));
    }
    let is_it = |task: usize| UnitId::notice(&record.accepted.children[task]) == *unit;
    let notice = record.notices.iter().find(|notice| is_it(notice.task_index))?;
    Some((&notice.delivery, Some(notice.task_index)))
}

fn due(
    record: &DelegationRecord,
    unit: &UnitId,
    delivery: &DeliveryRecord,
    notice: Option<usize>,
) -> Undelivered {
    let is_claimed = matches!(delivery.state, DeliveryState::Claimed { .. });
    Undelivered {
        delegation: record.accepted.delegation.clone(),
        unit: unit.clone(),
        notice,
        reach: record.accepted.reach,
        state: delivery.state.clone(),
        claimant: delivery.ledger.last().filter(|_| is_claimed).and_then(|line| line.claimant.clone()),
    }
}

pub(super) fn health(state: &State) -> StoreHealth {
    let records = || state.delegations.iter().map(|delegation| &delegation.record);
    let deliveries = records().flat_map(|record| &record.deliveries);
    let undelivered = deliveries
        .filter(|delivery| matches!(delivery.state, DeliveryState::Ready { .. } | DeliveryState::Parked(_)));
    let broken = records().filter(|record| !state.is_readable(record));
    let damaged = |damage: &Damage| match damage {
        Damage::Journal(Actor::Child(child)) => (Some(child.clone()), None, None),
        Damage::Journal(Actor::Session(session)) => (None, Some(session.clone()), None),
        Damage::Request(request) => (None, None, Some(request.clone())),
        Damage::Delegation(_) | Damage::Unit(_) => (None, None, None),
    };
    let damaged = || state.damaged.iter().map(damaged);
    StoreHealth {
        location: "memory".to_owned(),
        version: 0,
        problems: Vec::new(),
        broken: broken.map(|record| record.accepted.delegation.clone()).collect(),
        journals: damaged().filter_map(|(child, ..)| child).collect(),
        requests: damaged().filter_map(|(.., request)| request).collect(),
        sessions: damaged().filter_map(|(_, session, _)| session).collect(),
        strays: 0,
        open: records().filter(|record| !record.is_settled()).count() as u64,
        undelivered: undelivered.count() as u64,
        bytes: 0,
    }
}
