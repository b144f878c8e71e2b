//! The waits for what settles, whoever runs it: here the dispatcher tells, of other processes only the store does, and
//! what has lost its process meanwhile is gone on with here. Nothing is claimed by a wait.

use super::patience::Trial;
use super::{Handle, Hold};
use crate::courier::{self, OnTheWay};
use crate::dispatcher::Message;
use crate::recovery::RecoveryError;
use legwork_core::below::Below;
use legwork_core::delivery::DeliveryState;
use legwork_core::ids::{DelegationId, UnitId};
use legwork_core::ports::{JoinError, Joined};
use legwork_core::record::DelegationRecord;
use std::time::Duration;

/// Between two looks at work that another process runs.
const LOOK_EVERY: Duration = Duration::from_millis(200);

impl Handle {
    /// Waits until the delegation, or that unit of it, has settled, whoever runs it. Nobody tells this process of what another
    /// one settles, and what loses its process meanwhile is gone on with here. What is given up here after that, or is given up and
    /// cannot be taken up, ends the wait with the reason.
    pub(super) async fn settled_anywhere(
        &self,
        delegation: &DelegationId,
        unit: Option<&UnitId>,
    ) -> Result<(), JoinError> {
        let mut was_taken_up = false;
        loop {
            let settled = self.settled_here(delegation, unit).await;
            settled.ok_or(JoinError::Closed)?.map_err(JoinError::GivenUp)?;
            let record = self.read(delegation).await?;
            let Some(record) = record.filter(|record| !has_settled(record, unit)) else { return Ok(()) };
            if was_taken_up {
                self.is_not_given_up(&record).await?;
            }
            // Also what this process had given up: nobody has that in hand.
            if self.is_mine(&record) || self.is_nobodys(&record) {
                if self.takes_up(delegation).await? {
                    was_taken_up = true;
                    continue;
                }
                // Another process may have been faster; otherwise nobody can go on with it now.
                let record = self.read(delegation).await?;
                let Some(record) = record.filter(|record| !has_settled(record, unit)) else { return Ok(()) };
                if self.is_nobodys(&record) {
                    return Err(JoinError::Orphaned(delegation.clone()));
                }
                self.is_not_given_up(&record).await?;
            }
            // Deadline: the ends are rows that another process writes, so this one looks again.
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Waits while this process runs it. `None` when the engine has ended.
    async fn settled_here(
        &self,
        delegation: &DelegationId,
        unit: Option<&UnitId>,
    ) -> Option<Result<(), String>> {
        let delegation = delegation.clone();
        match unit.cloned() {
            None => self.ask(|reply| Message::Join(delegation, reply)).await,
            Some(unit) => self.ask(|reply| Message::JoinUnit(delegation, unit, reply)).await,
        }
    }

    /// Waits until what the children of the delegation, or of one unit of it, had sent out has settled too: it was told to end
    /// when they did, and is told with their results.
    pub(super) async fn settled_below(
        &self,
        delegation: &DelegationId,
        unit: Option<&UnitId>,
    ) -> Result<(), JoinError> {
        let Some(record) = self.read(delegation).await? else { return Ok(()) };
        let units = record.accepted.units.iter().filter(|known| unit.is_none_or(|unit| known.id == *unit));
        let tasks: Vec<usize> = units.flat_map(|unit| unit.task_indexes.iter().copied()).collect();
        let store = self.wiring.store.as_ref();
        let below = self.patiently(delegation, || Box::pin(Below::of(store, &record))).await?;
        for open in below.open_under(&tasks) {
            self.settled_anywhere(&open.accepted.delegation, None).await?;
        }
        Ok(())
    }

    /// Takes the results of the delegation, or of one unit of it, for a caller. Claims of a try that failed are this
    /// caller's in the next one, and are given back when it does not get them.
    pub(super) async fn collected(
        &self,
        delegation: &DelegationId,
        unit: Option<&UnitId>,
    ) -> Result<Joined, JoinError> {
        let mut on_the_way = OnTheWay::begin(&self.wiring, self.ways()).await?;
        let mut trial = Trial::of(self, delegation);
        loop {
            let collected = match unit {
                None => courier::collect(&mut on_the_way, delegation).await,
                Some(unit) => courier::collect_unit(&mut on_the_way, delegation, unit).await,
            };
            match collected {
                Err(JoinError::Store(error)) => trial.failed(error).await?,
                collected => return collected,
            }
        }
    }

    /// The delegation as it is stored.
    async fn read(&self, delegation: &DelegationId) -> Result<Option<DelegationRecord>, JoinError> {
        self.patiently(delegation, || self.wiring.store.delegation(delegation)).await
    }

    /// Goes on with it here if nobody does. Whether it was taken for that now.
    async fn takes_up(&self, delegation: &DelegationId) -> Result<bool, JoinError> {
        let mut trial = Trial::of(self, delegation);
        loop {
            match self.recover_again(delegation).await {
                Ok(recovered) => return Ok(recovered.taken.contains(delegation)),
                Err(RecoveryError::Store(error)) => trial.failed(error).await?,
                Err(closed @ RecoveryError::Closed) => return Err(not_recovered(closed)),
            }
        }
    }

    /// Fails with the reason for what this process gave up and nobody took since.
    async fn is_not_given_up(&self, record: &DelegationRecord) -> Result<(), JoinError> {
        match self.hold_of(record).await.map_err(not_recovered)? {
            Hold::GivenUp(why) => Err(JoinError::GivenUp(why)),
            Hold::InHand | Hold::NotHere => Ok(()),
        }
    }
}

fn not_recovered(error: RecoveryError) -> JoinError {
    match error {
        RecoveryError::Store(error) => error.into(),
        RecoveryError::Closed => JoinError::Closed,
    }
}

/// Whether the delegation, or that unit of it, has settled. A unit that it does not have is waited for by nobody.
fn has_settled(record: &DelegationRecord, unit: Option<&UnitId>) -> bool {
    let Some(unit) = unit else { return record.is_settled() };
    let place = record.accepted.units.iter().position(|known| known.id == *unit);
    place.is_none_or(|place| record.deliveries[place].state != DeliveryState::Held)
}
