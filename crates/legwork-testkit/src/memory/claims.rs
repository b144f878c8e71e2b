//! The moves of deliveries after their unit has settled.

use super::append::line;
use super::state::State;
use legwork_core::delivery::{DeliveryEvent, DeliveryState, Lead, LedgerLine, ParkReason};
use legwork_core::ids::{ChildId, ClaimId, UnitId};
use legwork_core::ports::StoreError;
use legwork_core::record::{DelegationRecord, DeliveryRecord};
use legwork_core::time::Timestamp;
use std::collections::BTreeSet;

/// How a taker ends its claim.
pub(super) enum End {
    Acknowledge,
    Release(String),
    Park(ParkReason),
}

impl State {
    pub(super) fn claim(&mut self, unit: &UnitId, claim: &ClaimId, claimant: &str, at: Timestamp) -> bool {
        let event = DeliveryEvent::Claimed(claim.clone());
        let Some(delivery) = self.moved(unit, event) else { return false };
        let taken = LedgerLine { claimant: Some(claimant.to_owned()), ..line(at, &delivery.state, "taken") };
        delivery.ledger.push(taken);
        true
    }

    /// Moves a unit that is named; `false` when it is unknown or its state does not have the move.
    pub(super) fn move_by_name(
        &mut self,
        unit: &UnitId,
        event: DeliveryEvent,
        at: Timestamp,
        reason: &str,
    ) -> bool {
        let Some(delivery) = self.moved(unit, event) else { return false };
        delivery.ledger.push(line(at, &delivery.state, reason));
        true
    }

    fn moved(&mut self, unit: &UnitId, event: DeliveryEvent) -> Option<&mut DeliveryRecord> {
        let delivery = self.delegations.iter_mut().find_map(|delegation| {
            let record = &mut delegation.record;
            if let Some(place) = record.accepted.units.iter().position(|other| other.id == *unit) {
                return record.deliveries.get_mut(place);
            }
            let children = &record.accepted.children;
            let mut notices = record.notices.iter_mut();
            let notice = notices.find(|notice| UnitId::notice(&children[notice.task_index]) == *unit)?;
            Some(&mut notice.delivery)
        })?;
        delivery.state = delivery.state.apply(event).ok()?;
        Some(delivery)
    }

    /// Ends claims: all of them, or none when one is not current.
    pub(super) fn end_claims(
        &mut self,
        claims: &[ClaimId],
        end: &End,
        at: Timestamp,
    ) -> Result<(), StoreError> {
        self.check_claims(claims)?;
        let units: Vec<UnitId> = claims.iter().filter_map(|claim| self.unit_of(claim)).collect();
        for claim in claims {
            let delivery = self.deliveries().find(|delivery| holds(&delivery.state, claim));
            let delivery = delivery.ok_or_else(|| not_current(claim))?;
            let (event, reason) = match end {
                End::Acknowledge => (
                    DeliveryEvent::Acked(claim.clone()),
                    "the taker has stored it or written it out".to_owned(),
                ),
                End::Release(reason) => {
                    (DeliveryEvent::Released(claim.clone()), format!("given back: {reason}"))
                }
                End::Park(reason) => {
                    (DeliveryEvent::Parked(claim.clone(), *reason), reason.as_str().to_owned())
                }
            };
            delivery.state = delivery.state.apply(event).map_err(|_| not_current(claim))?;
            let claimant = delivery.ledger.last().and_then(|line| line.claimant.clone());
            delivery.ledger.push(LedgerLine { claimant, ..line(at, &delivery.state, &reason) });
        }
        if let End::Acknowledge = end {
            units.iter().for_each(|unit| self.follow(unit, Lead::Told, at));
        }
        Ok(())
    }

    /// Lets what nobody has read below a unit come to its end like it: what ended children of it had asked for.
    fn follow(&mut self, unit: &UnitId, lead: Lead, at: Timestamp) {
        if self.leaves_behind {
            return;
        }
        let mut below = BTreeSet::new();
        let mut next = self.ended_of(unit);
        while let Some(caller) = next.pop() {
            for (place, delegation) in self.delegations.iter().enumerate() {
                let key = delegation.record.accepted.call_key.as_ref();
                // What cannot be read was told to nobody.
                if !self.is_readable(&delegation.record) {
                    continue;
                }
                if key.is_some_and(|key| key.caller == caller.as_str()) && below.insert(place) {
                    next.extend(ended(&delegation.record, |_| true));
                }
            }
        }
        for place in below {
            for delivery in &mut self.delegations[place].record.deliveries {
                if let Ok(state) = delivery.state.apply(DeliveryEvent::Followed(lead)) {
                    delivery.ledger.push(line(at, &state, &lead.reason(unit)));
                    delivery.state = state;
                }
            }
        }
    }

    /// The children of a unit that have ended. A notice has none.
    fn ended_of(&self, unit: &UnitId) -> Vec<ChildId> {
        let mut records = self.delegations.iter().map(|delegation| &delegation.record);
        let found = records.find_map(|record| {
            let unit = record.accepted.units.iter().find(|known| known.id == *unit)?;
            Some(ended(record, |task| unit.task_indexes.contains(&task)))
        });
        found.unwrap_or_default()
    }

    /// The unit that is held by a claim; nothing for a notice, which nothing follows.
    fn unit_of(&self, claim: &ClaimId) -> Option<UnitId> {
        let mut records = self.delegations.iter().map(|delegation| &delegation.record);
        records.find_map(|record| {
            let place = record.deliveries.iter().position(|delivery| holds(&delivery.state, claim))?;
            Some(record.accepted.units[place].id.clone())
        })
    }

    /// Gives a unit up, with what nobody has read below it.
    pub(super) fn dismiss(&mut self, unit: &UnitId, at: Timestamp, reason: &str) -> bool {
        let dismissed = self.move_by_name(unit, DeliveryEvent::Dismissed, at, reason);
        if dismissed {
            self.follow(unit, Lead::GivenUp, at);
        }
        dismissed
    }

    /// Refuses claims that are not current, or named twice.
    pub(super) fn check_claims(&mut self, claims: &[ClaimId]) -> Result<(), StoreError> {
        for (place, claim) in claims.iter().enumerate() {
            let is_current = self.deliveries().any(|delivery| holds(&delivery.state, claim));
            if !is_current || claims[..place].contains(claim) {
                return Err(not_current(claim));
            }
        }
        Ok(())
    }

    fn deliveries(&mut self) -> impl Iterator<Item = &mut DeliveryRecord> {
        self.delegations.iter_mut().flat_map(|delegation| {
            let record = &mut delegation.record;
            let notices = record.notices.iter_mut().map(|notice| &mut notice.delivery);
            record.deliveries.iter_mut().chain(notices)
        })
    }
}

/// The children of these tasks that have ended.
fn ended(record: &DelegationRecord, wanted: impl Fn(usize) -> bool) -> Vec<ChildId> {
    let children = record.children.iter().enumerate().filter(|(task, _)| wanted(*task));
    children.filter(|(_, child)| child.outcome().is_some()).map(|(_, child)| child.id.clone()).collect()
}

fn holds(state: &DeliveryState, claim: &ClaimId) -> bool {
    matches!(state, DeliveryState::Claimed { claim: current, .. } if current == claim)
}

fn not_current(claim: &ClaimId) -> StoreError {
    StoreError::Conflict(format!("{claim} is not a current claim"))
}
