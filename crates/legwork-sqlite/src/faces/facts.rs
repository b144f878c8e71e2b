//! The face `Facts`: turns each call into a command or a look. The statements are in `sql/`.

use crate::SqliteStore;
use crate::encoding::to_json;
use crate::files;
use crate::sql::append::Prepared;
use crate::sql::claims::End;
use crate::sql::{
    accept, append, claims, due, find, groups, health, owners, prune, pulses, records, requests, switches,
};
use legwork_core::delivery::ParkReason;
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

impl Facts for SqliteStore {
    fn enter(&self, owner: OwnerRecord, at: Timestamp) -> Pending<'_, Result<(), StoreError>> {
        Box::pin(self.write(move |connection| owners::enter(connection, &owner, at)))
    }

    fn append(&self, appends: Vec<Append>) -> Pending<'_, Result<Vec<Result<(), AppendError>>, StoreError>> {
        Box::pin(async move {
            let prepared = appends.into_iter().map(Prepared::new).collect::<Result<Vec<_>, _>>()?;
            self.write(move |connection| append::append_all(connection, &prepared)).await
        })
    }

    fn delegation(&self, id: &DelegationId) -> Pending<'_, Result<Option<DelegationRecord>, StoreError>> {
        let id = id.clone();
        Box::pin(async move {
            let mut record = self.read(move |connection| records::one(connection, &id)).await?;
            record.iter_mut().for_each(|record| files::bring_along(&mut record.accepted, self.path()));
            Ok(record)
        })
    }

    fn delegations(
        &self,
        filter: Filter,
    ) -> Pending<'_, Result<Listed<DelegationRecord, DelegationId>, StoreError>> {
        Box::pin(async move {
            let mut listed = self.read(move |connection| records::many(connection, &filter)).await?;
            let rows = listed.rows.iter_mut();
            rows.for_each(|record| files::bring_along(&mut record.accepted, self.path()));
            Ok(listed)
        })
    }

    fn by_call_key(&self, key: &CallKey) -> Pending<'_, Result<Option<DelegationId>, StoreError>> {
        let key = key.clone();
        Box::pin(self.read(move |connection| accept::by_call_key(connection, &key)))
    }

    fn find(&self, text: &str) -> Pending<'_, Result<Vec<Found>, StoreError>> {
        let text = text.to_owned();
        Box::pin(self.read(move |connection| find::find(connection, &text)))
    }

    fn note_pulses(
        &self,
        fence: Fence,
        at: Timestamp,
        pulses: Vec<(ChildId, Pulse)>,
    ) -> Pending<'_, Result<(), StoreError>> {
        Box::pin(async move {
            let pulses = as_stored(&pulses)?;
            self.write(move |connection| pulses::note(connection, &fence, at, &pulses)).await
        })
    }

    fn claim(
        &self,
        unit: &UnitId,
        claim: ClaimId,
        claimant: &str,
        at: Timestamp,
    ) -> Pending<'_, Result<Option<ClaimId>, StoreError>> {
        let (unit, claimant) = (unit.clone(), claimant.to_owned());
        Box::pin(self.write(move |connection| claims::claim(connection, &unit, (&claim, &claimant), at)))
    }

    fn acknowledge(&self, claims: Vec<ClaimId>, at: Timestamp) -> Pending<'_, Result<(), StoreError>> {
        self.end(claims, End::Acknowledge, at)
    }

    fn release(
        &self,
        claims: Vec<ClaimId>,
        at: Timestamp,
        reason: &str,
    ) -> Pending<'_, Result<(), StoreError>> {
        self.end(claims, End::Release(reason.to_owned()), at)
    }

    fn park(
        &self,
        claims: Vec<ClaimId>,
        at: Timestamp,
        reason: ParkReason,
    ) -> Pending<'_, Result<(), StoreError>> {
        self.end(claims, End::Park(reason), at)
    }

    fn unpark(&self, unit: &UnitId, at: Timestamp) -> Pending<'_, Result<bool, StoreError>> {
        let unit = unit.clone();
        Box::pin(self.write(move |connection| claims::unpark(connection, &unit, at)))
    }

    fn dismiss(&self, unit: &UnitId, at: Timestamp, reason: &str) -> Pending<'_, Result<bool, StoreError>> {
        let (unit, reason) = (unit.clone(), reason.to_owned());
        Box::pin(self.write(move |connection| claims::dismiss(connection, &unit, at, &reason)))
    }

    fn ask(&self, request: Request) -> Pending<'_, Result<Asked, StoreError>> {
        Box::pin(async move {
            let (child, body) = (requests::steered(&request)?, to_json(&request)?);
            self.write(move |connection| requests::ask(connection, &request, child.as_ref(), &body)).await
        })
    }

    fn news(&self, after: u64) -> Pending<'_, Result<News, StoreError>> {
        Box::pin(self.read(move |connection| requests::news(connection, after)))
    }

    fn steers(&self, child: &ChildId) -> Pending<'_, Result<Listed<RequestRecord, RequestId>, StoreError>> {
        let child = child.clone();
        Box::pin(self.read(move |connection| requests::of_child(connection, &child)))
    }

    fn set_pause(&self, pause: Pause, at: Timestamp) -> Pending<'_, Result<bool, StoreError>> {
        Box::pin(self.write(move |connection| switches::set_pause(connection, pause, at)))
    }

    fn undelivered(
        &self,
        session: &SessionId,
    ) -> Pending<'_, Result<Listed<Undelivered, UnitId>, StoreError>> {
        let session = session.clone();
        Box::pin(self.read(move |connection| due::of(connection, &session)))
    }

    fn due(&self, session: &SessionId, after: u64, most: usize) -> Pending<'_, Result<Portion, StoreError>> {
        let session = session.clone();
        Box::pin(self.read(move |connection| due::portion(connection, &session, after, most)))
    }

    fn settle_request(
        &self,
        request: &RequestId,
        owner: &OwnerId,
        at: Timestamp,
    ) -> Pending<'_, Result<(), StoreError>> {
        let (request, owner) = (request.clone(), owner.clone());
        Box::pin(self.write(move |connection| {
            requests::settle(connection, &request, requests::By { owner: &owner, at })
        }))
    }

    fn owner(&self, id: &OwnerId) -> Pending<'_, Result<Option<OwnerRecord>, StoreError>> {
        let id = id.clone();
        Box::pin(self.read(move |connection| owners::find(connection, &id)))
    }

    fn renew(&self, owner: &OwnerId, period: Duration, at: Timestamp) -> Pending<'_, Result<(), StoreError>> {
        let owner = owner.clone();
        Box::pin(self.write(move |connection| owners::renew(connection, &owner, (period, at))))
    }

    fn lease(&self, owner: &OwnerId) -> Pending<'_, Result<Option<Lease>, StoreError>> {
        let owner = owner.clone();
        Box::pin(self.read(move |connection| owners::lease(connection, &owner)))
    }

    fn declare_gone(
        &self,
        owner: &OwnerId,
        beats: u64,
        at: Timestamp,
    ) -> Pending<'_, Result<bool, StoreError>> {
        let owner = owner.clone();
        Box::pin(self.write(move |connection| owners::declare_gone(connection, &owner, (beats, at))))
    }

    fn owners_of_open(&self) -> Pending<'_, Result<Vec<OwnerRecord>, StoreError>> {
        Box::pin(self.read(owners::of_open))
    }

    fn take_over(&self, takeover: Takeover) -> Pending<'_, Result<Vec<(DelegationId, Epoch)>, StoreError>> {
        Box::pin(async move {
            let pulses = as_stored(&takeover.pulses)?;
            self.write(move |connection| owners::take_over(connection, &takeover, &pulses)).await
        })
    }

    fn note_group(
        &self,
        fence: Fence,
        child: Actor,
        group: ProcessGroup,
    ) -> Pending<'_, Result<(), StoreError>> {
        Box::pin(self.write(move |connection| groups::note(connection, &fence, &child, &group)))
    }

    fn drop_group(&self, child: Actor, group: ProcessGroup) -> Pending<'_, Result<(), StoreError>> {
        Box::pin(self.write(move |connection| groups::forget(connection, &child, &group)))
    }

    fn groups_of(&self, owner: &OwnerId) -> Pending<'_, Result<Vec<(Actor, ProcessGroup)>, StoreError>> {
        let owner = owner.clone();
        Box::pin(self.read(move |connection| groups::of(connection, &owner)))
    }

    fn prune(&self, before: Timestamp) -> Pending<'_, Result<usize, StoreError>> {
        Box::pin(async move {
            let mut pruned = 0;
            loop {
                let slice = self.write(move |connection| prune::prune(connection, before)).await?;
                pruned += slice;
                if slice < prune::SLICE {
                    break;
                }
            }
            self.write(move |connection| prune::prune_stops(connection, before)).await?;
            Ok(pruned)
        })
    }

    fn health(&self) -> Pending<'_, Result<StoreHealth, StoreError>> {
        let path = self.path().to_owned();
        Box::pin(self.read(move |connection| health::health(connection, &path)))
    }
}

impl SqliteStore {
    fn end(&self, claims: Vec<ClaimId>, end: End, at: Timestamp) -> Pending<'_, Result<(), StoreError>> {
        Box::pin(self.write(move |connection| claims::end_all(connection, &claims, &end, at)))
    }
}

/// Pulses as rows hold them.
fn as_stored(pulses: &[(ChildId, Pulse)]) -> Result<Vec<(ChildId, String)>, StoreError> {
    pulses.iter().map(|(child, pulse)| Ok((child.clone(), to_json(pulse)?))).collect()
}
