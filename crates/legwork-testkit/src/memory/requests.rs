//! Stops and steers, and what became of them.

use super::state::State;
use legwork_core::fact::{Append, Fact};
use legwork_core::ids::{ChildId, RequestId};
use legwork_core::ports::{Listed, News, StoreError};
use legwork_core::steering::{Asked, Fate, Request, RequestRecord, STEERS_WAITING_MAX, Scope, Wish};
use legwork_core::step::{Actor, StepChange};
use legwork_core::time::Timestamp;

impl State {
    pub(super) fn ask(&mut self, request: Request) -> Result<Asked, StoreError> {
        let child = steered(&request)?;
        if self.requests.values().any(|known| known.request.id == request.id) {
            return Ok(Asked::Stored);
        }
        if let Some(child) = child {
            let Some((delegation, place)) = self.place_of(child) else { return Ok(Asked::Unknown) };
            if self.delegations[delegation].record.children[place].outcome().is_some() {
                return Ok(Asked::Ended);
            }
            let waits =
                |known: &&RequestRecord| known.fate == Fate::Open && is_steer_of(&known.request, child);
            if self.requests.values().filter(waits).count() >= STEERS_WAITING_MAX {
                return Ok(Asked::Full);
            }
        }
        self.last_request += 1;
        let record = RequestRecord { request, fate: Fate::Open, decided_at: None };
        self.requests.insert(self.last_request, record);
        Ok(Asked::Stored)
    }

    pub(super) fn news(&self, after: u64) -> News {
        let newer = self.requests.range(after.saturating_add(1)..);
        let open = newer.filter(|(_, record)| record.fate == Fate::Open);
        let mut news = News { pause: self.pause, ..News::default() };
        for (number, RequestRecord { request, .. }) in open {
            match self.is_damaged_request(&request.id) {
                true => news.unreadable.push((*number, request.id.clone())),
                false => news.requests.push((*number, request.clone())),
            }
        }
        news
    }

    pub(super) fn steers(&self, child: &ChildId) -> Listed<RequestRecord, RequestId> {
        let steers = self.requests.values().filter(|record| is_steer_of(&record.request, child)).cloned();
        let (unreadable, rows): (Vec<_>, Vec<_>) =
            steers.partition(|record| self.is_damaged_request(&record.request.id));
        Listed { rows, unreadable: unreadable.into_iter().map(|record| record.request.id).collect() }
    }

    pub(super) fn settle_request(&mut self, request: &RequestId, at: Timestamp) -> Result<(), StoreError> {
        let known = self.requests.values_mut().find(|record| record.request.id == *request);
        let known = known.ok_or_else(|| StoreError::Conflict(format!("there is no request {request}")))?;
        match known.request.wish {
            Wish::Stop { .. } => decide(known, Fate::CarriedOut, at),
            Wish::Steer { .. } => {
                return Err(StoreError::Conflict(format!("{request} is a steer, which is seen or missed")));
            }
        }
        Ok(())
    }

    /// Refuses steers that `actor` cannot read with these changes.
    pub(super) fn check_seen(
        &self,
        actor: &Actor,
        seen: &[(RequestId, u32)],
        changes: &[StepChange],
    ) -> Result<(), StoreError> {
        for (place, (request, step)) in seen.iter().enumerate() {
            let is_open_steer = self.requests.values().any(|record| {
                record.request.id == *request
                    && record.fate == Fate::Open
                    && matches!(actor, Actor::Child(child) if is_steer_of(&record.request, child))
            });
            let begins_here =
                changes.iter().any(|change| matches!(change, StepChange::Intend { seq, .. } if seq == step));
            let is_twice = seen[..place].iter().any(|(other, _)| other == request);
            if !is_open_steer || !begins_here || is_twice {
                return Err(StoreError::Conflict(format!("{request} cannot be read by step {step}")));
            }
        }
        Ok(())
    }

    pub(super) fn mark_seen(&mut self, seen: &[(RequestId, u32)], at: Timestamp) {
        for (request, step) in seen {
            let known = self.requests.values_mut().filter(|record| record.request.id == *request);
            known.for_each(|record| decide(record, Fate::Seen { step: *step }, at));
        }
    }

    /// What the children that have settled by `append` did not read is missed.
    pub(super) fn miss_steers(&mut self, append: &Append) {
        let moved = append.facts.iter().filter_map(Fact::child_event).map(|(child, _)| child);
        for child in moved {
            let Some((delegation, place)) = self.place_of(child) else { continue };
            if self.delegations[delegation].record.children[place].outcome().is_none() {
                continue;
            }
            let steers = self.requests.values_mut().filter(|record| is_steer_of(&record.request, child));
            steers.for_each(|record| decide(record, Fate::Missed, append.at));
        }
    }

    /// Removes the steers of children that are gone.
    pub(super) fn drop_steers_of(&mut self, children: &[ChildId]) {
        self.requests.retain(|_, record| !children.iter().any(|child| is_steer_of(&record.request, child)));
    }
}

/// The child that a steer is for; nothing for a stop.
pub(super) fn steered(request: &Request) -> Result<Option<&ChildId>, StoreError> {
    match (&request.wish, &request.scope) {
        (Wish::Stop { .. }, _) => Ok(None),
        (Wish::Steer { .. }, Scope::Child(child)) => Ok(Some(child)),
        (Wish::Steer { .. }, Scope::Delegation(_) | Scope::Unit(_) | Scope::Session(_) | Scope::All) => {
            Err(StoreError::Conflict(format!("{} is a steer of more than one child", request.id)))
        }
    }
}

fn is_steer_of(request: &Request, child: &ChildId) -> bool {
    matches!(steered(request), Ok(Some(steered)) if steered == child)
}

/// The first decision stays.
fn decide(record: &mut RequestRecord, fate: Fate, at: Timestamp) {
    if record.fate == Fate::Open {
        record.fate = fate;
        record.decided_at = Some(at);
    }
}
