//! The face `Facts`: each call is done at once under the lock. The rules of appends and claims are in files of their own.

use super::claims::End;
use super::store::MemoryStore;
use super::whole;
use legwork_core::delivery::{DeliveryEvent, ParkReason};
use legwork_core::fact::Append;
use legwork_core::ids::{
    CallKey, ChildId, ClaimId, DelegationId, Epoch, OwnerId, RequestId, SessionId, UnitId,
};
use legwork_core::ports::{
    AppendError, Facts, Filter, Found, Listed, News, Pause, Pending, Portion, StoreError, StoreHealth,
    Takeover, Undelivered,
};
use legwork_core::pulse::Pulse;
use legwork_core::record::{DelegationRecord, Lease, OwnerRecord, ProcessGroup};
use legwork_core::steering::{Asked, Request, RequestRecord};
use legwork_core::step::{Actor, Fence};
use legwork_core::time::Timestamp;
use std::time::Duration;

impl Facts for MemoryStore {
    fn enter(&self, owner: OwnerRecord, _at: Timestamp) -> Pending<'_, Result<(), StoreError>> {
        self.now(|state| {
            state.owners.entry(owner.id.clone()).or_insert(owner);
            Ok(())
        })
    }

    fn append(&self, appends: Vec<Append>) -> Pending<'_, Result<Vec<Result<(), AppendError>>, StoreError>> {
        self.now(|state| Ok(appends.into_iter().map(|append| state.append(append)).collect()))
    }

    fn delegation(&self, id: &DelegationId) -> Pending<'_, Result<Option<DelegationRecord>, StoreError>> {
        self.now(|state| {
            let found = state.delegation(id).map(|delegation| &delegation.record);
            match found.is_none_or(|record| state.is_readable(record)) {
                true => Ok(found.cloned()),
                false => Err(StoreError::Corrupt(format!("{id}: a stored value is unreadable"))),
            }
        })
    }

    fn delegations(
        &self,
        filter: Filter,
    ) -> Pending<'_, Result<Listed<DelegationRecord, DelegationId>, StoreError>> {
        self.now(|state| {
            let newest_first = state.delegations.iter().rev().map(|delegation| &delegation.record);
            let found: Vec<DelegationRecord> = match filter {
                Filter::Open => newest_first.filter(|record| !record.is_settled()).cloned().collect(),
                Filter::Recent(most) => newest_first.take(most).cloned().collect(),
                Filter::OpenOf(session) => {
                    let is_wanted = |record: &&DelegationRecord| {
                        !record.is_settled() && record.accepted.lineage.session == session
                    };
                    newest_first.filter(is_wanted).cloned().collect()
                }
                Filter::Of(session) => newest_first
                    .filter(|record| record.accepted.lineage.session == session)
                    .cloned()
                    .collect(),
                Filter::Below(id) => {
                    let above = state.delegations.iter().map(|delegation| &delegation.record);
                    let above = above.filter(|record| record.accepted.delegation == id);
                    let callers: Vec<&ChildId> = above.flat_map(|record| &record.accepted.children).collect();
                    let is_wanted = |record: &&DelegationRecord| {
                        let key = record.accepted.call_key.as_ref();
                        key.is_some_and(|key| callers.iter().any(|child| child.as_str() == key.caller))
                    };
                    newest_first.filter(is_wanted).cloned().collect()
                }
            };
            let (rows, unreadable): (Vec<_>, Vec<_>) =
                found.into_iter().partition(|record| state.is_readable(record));
            let unreadable = unreadable.into_iter().map(|record| record.accepted.delegation).collect();
            Ok(Listed { rows, unreadable })
        })
    }

    fn by_call_key(&self, key: &CallKey) -> Pending<'_, Result<Option<DelegationId>, StoreError>> {
        self.now(|state| Ok(state.by_call_key(key)))
    }

    fn find(&self, text: &str) -> Pending<'_, Result<Vec<Found>, StoreError>> {
        self.now(|state| {
            let exact = whole::find(state, |id| id == text);
            let is_answer = text.is_empty() || !exact.is_empty();
            Ok(if is_answer { exact } else { whole::find(state, |id| id.starts_with(text)) })
        })
    }

    fn note_pulses(
        &self,
        fence: Fence,
        at: Timestamp,
        pulses: Vec<(ChildId, Pulse)>,
    ) -> Pending<'_, Result<(), StoreError>> {
        self.now(|state| {
            let places = pulses.iter().map(|(child, _)| state.pass_child(child, &fence));
            let places = places.collect::<Result<Vec<_>, _>>()?;
            for ((delegation, child), (_, pulse)) in places.into_iter().zip(pulses) {
                state.delegations[delegation].record.children[child].pulse = Some((pulse, at));
            }
            Ok(())
        })
    }

    fn claim(
        &self,
        unit: &UnitId,
        claim: ClaimId,
        claimant: &str,
        at: Timestamp,
    ) -> Pending<'_, Result<Option<ClaimId>, StoreError>> {
        self.now(|state| Ok(state.claim(unit, &claim, claimant, at).then_some(claim)))
    }

    fn acknowledge(&self, claims: Vec<ClaimId>, at: Timestamp) -> Pending<'_, Result<(), StoreError>> {
        self.now(|state| state.end_claims(&claims, &End::Acknowledge, at))
    }

    fn release(
        &self,
        claims: Vec<ClaimId>,
        at: Timestamp,
        reason: &str,
    ) -> Pending<'_, Result<(), StoreError>> {
        self.now(|state| state.end_claims(&claims, &End::Release(reason.to_owned()), at))
    }

    fn park(
        &self,
        claims: Vec<ClaimId>,
        at: Timestamp,
        reason: ParkReason,
    ) -> Pending<'_, Result<(), StoreError>> {
        self.now(|state| state.end_claims(&claims, &End::Park(reason), at))
    }

    fn unpark(&self, unit: &UnitId, at: Timestamp) -> Pending<'_, Result<bool, StoreError>> {
        self.now(|state| Ok(state.move_by_name(unit, DeliveryEvent::Unparked, at, "asked for again")))
    }

    fn dismiss(&self, unit: &UnitId, at: Timestamp, reason: &str) -> Pending<'_, Result<bool, StoreError>> {
        self.now(|state| Ok(state.dismiss(unit, at, reason)))
    }

    fn ask(&self, request: Request) -> Pending<'_, Result<Asked, StoreError>> {
        self.now(|state| state.ask(request))
    }

    fn news(&self, after: u64) -> Pending<'_, Result<News, StoreError>> {
        self.now(|state| Ok(state.news(after)))
    }

    fn steers(&self, child: &ChildId) -> Pending<'_, Result<Listed<RequestRecord, RequestId>, StoreError>> {
        self.now(|state| Ok(state.steers(child)))
    }

    fn set_pause(&self, pause: Pause, _at: Timestamp) -> Pending<'_, Result<bool, StoreError>> {
        self.now(|state| Ok(std::mem::replace(&mut state.pause, pause) != pause))
    }

    fn undelivered(
        &self,
        session: &SessionId,
    ) -> Pending<'_, Result<Listed<Undelivered, UnitId>, StoreError>> {
        self.now(|state| {
            let due = whole::due_to(state, session, 0, usize::MAX);
            let rows = due.rows.into_iter().map(|due| due.due).collect();
            Ok(Listed { rows, unreadable: due.unreadable.into_iter().map(|(_, unit)| unit).collect() })
        })
    }

    fn due(&self, session: &SessionId, after: u64, most: usize) -> Pending<'_, Result<Portion, StoreError>> {
        self.now(|state| Ok(whole::due_to(state, session, after, most)))
    }

    fn settle_request(
        &self,
        request: &RequestId,
        owner: &OwnerId,
        at: Timestamp,
    ) -> Pending<'_, Result<(), StoreError>> {
        self.now(|state| {
            state.living_owner(owner)?;
            state.settle_request(request, at)
        })
    }

    fn owner(&self, id: &OwnerId) -> Pending<'_, Result<Option<OwnerRecord>, StoreError>> {
        let id = id.clone();
        self.now(move |state| Ok(state.owners.values().find(|owner| owner.id == id).cloned()))
    }

    fn renew(&self, owner: &OwnerId, period: Duration, at: Timestamp) -> Pending<'_, Result<(), StoreError>> {
        self.now(|state| state.renew(owner, period, at))
    }

    fn lease(&self, owner: &OwnerId) -> Pending<'_, Result<Option<Lease>, StoreError>> {
        self.now(|state| Ok(state.leases.get(owner).cloned()))
    }

    fn declare_gone(
        &self,
        owner: &OwnerId,
        beats: u64,
        _at: Timestamp,
    ) -> Pending<'_, Result<bool, StoreError>> {
        self.now(|state| Ok(state.declare_gone(owner, beats)))
    }

    fn owners_of_open(&self) -> Pending<'_, Result<Vec<OwnerRecord>, StoreError>> {
        self.now(|state| {
            let open = |owner: &OwnerId| {
                let mut records = state.delegations.iter().map(|delegation| &delegation.record);
                records.any(|record| record.owner.id == *owner && !record.is_settled())
                    || state.groups.iter().any(|(by, _, _)| by == owner)
            };
            Ok(state.owners.values().filter(|owner| open(&owner.id)).cloned().collect())
        })
    }

    fn take_over(&self, takeover: Takeover) -> Pending<'_, Result<Vec<(DelegationId, Epoch)>, StoreError>> {
        self.now(|state| whole::take_over(state, takeover))
    }

    fn note_group(
        &self,
        fence: Fence,
        child: Actor,
        group: ProcessGroup,
    ) -> Pending<'_, Result<(), StoreError>> {
        self.now(|state| {
            state.pass(&child, &fence)?;
            if !state.groups.iter().any(|(_, actor, known)| *actor == child && *known == group) {
                state.groups.push((fence.owner, child, group));
            }
            Ok(())
        })
    }

    fn drop_group(&self, child: Actor, group: ProcessGroup) -> Pending<'_, Result<(), StoreError>> {
        self.now(|state| {
            state.groups.retain(|(_, actor, known)| *actor != child || *known != group);
            Ok(())
        })
    }

    fn groups_of(&self, owner: &OwnerId) -> Pending<'_, Result<Vec<(Actor, ProcessGroup)>, StoreError>> {
        self.now(|state| {
            let of_owner = state.groups.iter().filter(|(by, _, _)| by == owner);
            let mut groups: Vec<_> =
                of_owner.map(|(_, actor, group)| (actor.clone(), group.clone())).collect();
            groups.sort_by(|(a, first), (b, second)| {
                let keys = |actor: &Actor, group: &ProcessGroup| {
                    (actor.as_str().to_owned(), group.pgid, group.start_ticks)
                };
                keys(a, first).cmp(&keys(b, second))
            });
            Ok(groups)
        })
    }

    fn prune(&self, before: Timestamp) -> Pending<'_, Result<usize, StoreError>> {
        self.now(|state| Ok(whole::prune(state, before)))
    }

    fn health(&self) -> Pending<'_, Result<StoreHealth, StoreError>> {
        self.now(|state| Ok(whole::health(state)))
    }
}
