//! What the children of a delegation have sent out themselves, at whatever depth: what that took, and what of it came too
//! late for the child that had asked for it, because that one had ended.
//!
//! Such results have nobody to go to but whoever is told of that child. They are told with its results, once: the commit
//! that ends the delivery of its unit ends theirs (docs/design/041). Where that unit has come to its end before, they go to
//! the conversation by themselves. Nothing of this is stored twice, and nothing is computed from a child's prose.

use crate::completion;
use crate::delivery::{DeliveryState, Lead};
use crate::ids::{ChildId, DelegationId, UnitId};
use crate::outcome::WireStatus;
use crate::ports::{Facts, Filter, Found, Listed, StoreError};
use crate::record::{DelegationRecord, DeliveryRecord};
use crate::spending::{self, Spending};
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, HashSet};

/// The subagents that the children of one delegation have sent out.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Below {
    /// Callers before what they called for, oldest first; each with the position of the child under which it is.
    records: Vec<(usize, DelegationRecord)>,
    /// Delegations of which nothing can be told, in the same places. Nobody waits for them, and they are told with nothing:
    /// what they brought stays where it is.
    unreadable: Vec<DelegationId>,
    /// The children that have ended, those of the delegation itself among them.
    ended: HashSet<ChildId>,
}

/// What a subagent has brought that a child had sent out, and that this one had not read when it ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Unread {
    /// The subagent.
    pub subagent_id: ChildId,
    /// Its delegation.
    pub delegation_id: DelegationId,
    /// Who had asked for it.
    pub asked_by: ChildId,
    /// What it was to do.
    pub goal: String,
    /// How it ended.
    pub status: WireStatus,
    /// Its answer, or what is left of it.
    pub summary: Option<String>,
    /// What went wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Whoever takes the results of a delegation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Receiver {
    /// The session: its own agent asked for it, or the unit of the child that did has come to its end before.
    Session,
    /// The child that asked for it.
    Caller(ChildId),
    /// Nobody by itself: the child has ended, and they are told with the results of this unit, which are on their way.
    With(ChildId, UnitId),
}

impl Below {
    /// Reads what is below `record`.
    ///
    /// # Errors
    /// [`StoreError`] when the store cannot be read.
    pub async fn of(facts: &dyn Facts, record: &DelegationRecord) -> Result<Below, StoreError> {
        let mut under: HashMap<ChildId, usize> = record.accepted.children.iter().cloned().zip(0..).collect();
        let mut below = Below::default();
        below.note_ended(record);
        let mut next = vec![record.accepted.delegation.clone()];
        while let Some(id) = next.pop() {
            let Listed { rows: mut found, unreadable } = facts.delegations(Filter::Below(id)).await?;
            below.unreadable.extend(unreadable);
            // They come newest first.
            found.reverse();
            for called in found {
                let caller = called.accepted.lineage.parent.as_ref();
                let Some(place) = caller.and_then(|caller| under.get(caller)).copied() else { continue };
                if called.accepted.children.iter().any(|child| under.contains_key(child)) {
                    continue;
                }
                under.extend(called.accepted.children.iter().map(|child| (child.clone(), place)));
                next.push(called.accepted.delegation.clone());
                below.note_ended(&called);
                below.records.push((place, called));
            }
        }
        Ok(below)
    }

    fn note_ended(&mut self, record: &DelegationRecord) {
        let ended = record.children.iter().filter(|child| child.outcome().is_some());
        self.ended.extend(ended.map(|child| child.id.clone()));
    }

    /// What has not settled below the children of these tasks. Once they have ended it is told to end too, and whoever takes
    /// their results waits for that, so that nothing comes late.
    pub fn open_under<'a>(&'a self, tasks: &'a [usize]) -> impl Iterator<Item = &'a DelegationRecord> {
        let open =
            self.records.iter().filter(|(place, called)| tasks.contains(place) && !called.is_settled());
        open.map(|(_, called)| called)
    }

    /// The delegations of which nothing can be told, because their rows cannot be read.
    pub fn unreadable(&self) -> &[DelegationId] {
        &self.unreadable
    }

    /// What has not settled at all.
    pub fn open(&self) -> impl Iterator<Item = &DelegationRecord> {
        self.records.iter().map(|(_, called)| called).filter(|called| !called.is_settled())
    }

    /// What the children of `record`, of which this is, took together with all that they sent out, child by child (FIN-7). A
    /// child that sent out nobody is not among them.
    pub fn subtrees(&self, record: &DelegationRecord) -> Vec<(ChildId, Spending)> {
        spending::summed(record, self.records.iter().map(|(_, called)| called))
    }

    /// What came too late for those that had asked for it, by the position of the child under which it is.
    pub fn unread(&self) -> Vec<(usize, Unread)> {
        let units = self.records.iter().flat_map(|(_, called)| &called.accepted.units);
        let units: HashSet<&UnitId> = units.map(|unit| &unit.id).collect();
        let mut unread = Vec::new();
        for (place, called) in &self.records {
            let accepted = &called.accepted;
            let Some(caller) = accepted.lineage.parent.as_ref().filter(|caller| self.ended.contains(caller))
            else {
                continue;
            };
            let deliveries = accepted.units.iter().zip(&called.deliveries);
            let late = deliveries.filter(|(_, delivery)| came_late(delivery, &units));
            let tasks = late.flat_map(|(unit, _)| unit.task_indexes.iter().copied());
            unread.extend(tasks.filter_map(|task| Some((*place, of_task(called, task, caller)?))));
        }
        unread
    }
}

/// Whether results that nobody but the ended caller waits for have reached nobody below: they are on their way, or came to
/// their end with what it brought, and that was none of these units. What came with one of these was read by a child that had
/// asked for it.
fn came_late(delivery: &DeliveryRecord, below: &HashSet<&UnitId>) -> bool {
    match delivery.state {
        DeliveryState::Ready { .. } | DeliveryState::Claimed { .. } | DeliveryState::Parked(_) => true,
        DeliveryState::Delivered => delivery.told_with().is_some_and(|with| !below.contains(&with)),
        DeliveryState::Held | DeliveryState::Dismissed => false,
    }
}

fn of_task(called: &DelegationRecord, task: usize, caller: &ChildId) -> Option<Unread> {
    let (child, accepted) = (called.children.get(task)?, &called.accepted);
    let entry = completion::entry(accepted, task, child)?;
    Some(Unread {
        subagent_id: child.id.clone(),
        delegation_id: accepted.delegation.clone(),
        asked_by: caller.clone(),
        goal: accepted.tasks.get(task)?.goal.clone(),
        status: entry.status,
        summary: entry.summary,
        error: entry.error,
    })
}

impl Receiver {
    /// Who takes the results of `record`.
    ///
    /// # Errors
    /// [`StoreError`] when the store cannot be read.
    pub async fn of(facts: &dyn Facts, record: &DelegationRecord) -> Result<Receiver, StoreError> {
        let Some(caller) = &record.accepted.lineage.parent else { return Ok(Receiver::Session) };
        let found = facts.find(caller.as_str()).await?.into_iter().find_map(|found| match found {
            Found::Child(delegation, child) => (child == *caller).then_some(delegation),
            Found::Delegation(_) | Found::Unit(..) | Found::Session(_) => None,
        });
        // What is gone was delivered long ago.
        let Some(delegation) = found else { return Ok(Receiver::Session) };
        let Some(above) = facts.delegation(&delegation).await? else { return Ok(Receiver::Session) };
        let place = above.accepted.children.iter().position(|child| child == caller);
        let Some(place) = place else { return Ok(Receiver::Session) };
        if above.children[place].outcome().is_none() {
            return Ok(Receiver::Caller(caller.clone()));
        }
        let mut units = above.accepted.units.iter().zip(&above.deliveries);
        let unit = units.find(|(unit, _)| unit.task_indexes.contains(&place));
        Ok(match unit {
            Some((unit, delivery)) if !delivery.state.is_final() => {
                Receiver::With(caller.clone(), unit.id.clone())
            }
            Some(_) | None => Receiver::Session,
        })
    }
}

impl DeliveryRecord {
    /// The unit with whose results these were told, if they came too late for the child that had asked for them.
    pub fn told_with(&self) -> Option<UnitId> {
        let reason = self.ledger.last()?.reason.as_deref()?;
        Lead::told_with(reason)
    }
}
