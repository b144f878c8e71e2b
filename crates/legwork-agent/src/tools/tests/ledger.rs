//! The one part of a store that the tools use: the groups of commands. Everything else of the port is closed.

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
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// What was noted and what was dropped, in order.
#[derive(Default)]
pub(crate) struct Ledger {
    noted: Mutex<Vec<ProcessGroup>>,
    dropped: Mutex<Vec<ProcessGroup>>,
    refuses: bool,
    slow: bool,
    /// So many more groups find the store in trouble.
    troubled: AtomicUsize,
}

impl Ledger {
    /// A store that refuses every group.
    pub(super) fn refusing() -> Self {
        Ledger { refuses: true, ..Ledger::default() }
    }

    /// A store that is in trouble when the first groups come, so many times.
    pub(super) fn in_trouble(times: usize) -> Self {
        Ledger { troubled: AtomicUsize::new(times), ..Ledger::default() }
    }

    /// A store that is never done with a group.
    pub(super) fn slow() -> Self {
        Ledger { slow: true, ..Ledger::default() }
    }

    pub(super) fn noted(&self) -> Vec<ProcessGroup> {
        self.noted.lock().expect("no test panics with it").clone()
    }

    pub(super) fn dropped(&self) -> Vec<ProcessGroup> {
        self.dropped.lock().expect("no test panics with it").clone()
    }
}

fn ready<T: Send + 'static>(value: T) -> Pending<'static, T> {
    Box::pin(std::future::ready(value))
}

fn closed<T: Send + 'static>() -> Pending<'static, Result<T, StoreError>> {
    ready(Err(StoreError::Closed))
}

impl Facts for Ledger {
    fn note_group(&self, _: Fence, _: Actor, group: ProcessGroup) -> Pending<'_, Result<(), StoreError>> {
        if self.refuses {
            return ready(Err(StoreError::Fenced("for the test".to_owned())));
        }
        if self.troubled.load(Ordering::SeqCst) > 0 {
            self.troubled.fetch_sub(1, Ordering::SeqCst);
            return ready(Err(StoreError::Locked("for the test".to_owned())));
        }
        self.noted.lock().expect("no test panics with it").push(group);
        if self.slow { Box::pin(std::future::pending()) } else { ready(Ok(())) }
    }

    fn drop_group(&self, _: Actor, group: ProcessGroup) -> Pending<'_, Result<(), StoreError>> {
        self.dropped.lock().expect("no test panics with it").push(group);
        ready(Ok(()))
    }

    fn enter(&self, _: OwnerRecord, _: Timestamp) -> Pending<'_, Result<(), StoreError>> {
        closed()
    }
    fn append(&self, _: Vec<Append>) -> Pending<'_, Result<Vec<Result<(), AppendError>>, StoreError>> {
        closed()
    }
    fn delegation(&self, _: &DelegationId) -> Pending<'_, Result<Option<DelegationRecord>, StoreError>> {
        closed()
    }
    fn delegations(
        &self,
        _: Filter,
    ) -> Pending<'_, Result<Listed<DelegationRecord, DelegationId>, StoreError>> {
        closed()
    }
    fn by_call_key(&self, _: &CallKey) -> Pending<'_, Result<Option<DelegationId>, StoreError>> {
        closed()
    }
    fn find(&self, _: &str) -> Pending<'_, Result<Vec<Found>, StoreError>> {
        closed()
    }
    fn note_pulses(
        &self,
        _: Fence,
        _: Timestamp,
        _: Vec<(ChildId, Pulse)>,
    ) -> Pending<'_, Result<(), StoreError>> {
        closed()
    }
    fn claim(
        &self,
        _: &UnitId,
        _: ClaimId,
        _: &str,
        _: Timestamp,
    ) -> Pending<'_, Result<Option<ClaimId>, StoreError>> {
        closed()
    }
    fn acknowledge(&self, _: Vec<ClaimId>, _: Timestamp) -> Pending<'_, Result<(), StoreError>> {
        closed()
    }
    fn release(&self, _: Vec<ClaimId>, _: Timestamp, _: &str) -> Pending<'_, Result<(), StoreError>> {
        closed()
    }
    fn park(&self, _: Vec<ClaimId>, _: Timestamp, _: ParkReason) -> Pending<'_, Result<(), StoreError>> {
        closed()
    }
    fn unpark(&self, _: &UnitId, _: Timestamp) -> Pending<'_, Result<bool, StoreError>> {
        closed()
    }
    fn dismiss(&self, _: &UnitId, _: Timestamp, _: &str) -> Pending<'_, Result<bool, StoreError>> {
        closed()
    }
    fn ask(&self, _: Request) -> Pending<'_, Result<Asked, StoreError>> {
        closed()
    }
    fn news(&self, _: u64) -> Pending<'_, Result<News, StoreError>> {
        closed()
    }
    fn steers(&self, _: &ChildId) -> Pending<'_, Result<Listed<RequestRecord, RequestId>, StoreError>> {
        closed()
    }
    fn set_pause(&self, _: Pause, _: Timestamp) -> Pending<'_, Result<bool, StoreError>> {
        closed()
    }
    fn undelivered(&self, _: &SessionId) -> Pending<'_, Result<Listed<Undelivered, UnitId>, StoreError>> {
        closed()
    }
    fn due(&self, _: &SessionId, _: u64, _: usize) -> Pending<'_, Result<Portion, StoreError>> {
        closed()
    }
    fn settle_request(
        &self,
        _: &RequestId,
        _: &OwnerId,
        _: Timestamp,
    ) -> Pending<'_, Result<(), StoreError>> {
        closed()
    }
    fn owner(&self, _: &OwnerId) -> Pending<'_, Result<Option<OwnerRecord>, StoreError>> {
        closed()
    }
    fn renew(&self, _: &OwnerId, _: Duration, _: Timestamp) -> Pending<'_, Result<(), StoreError>> {
        closed()
    }
    fn lease(&self, _: &OwnerId) -> Pending<'_, Result<Option<Lease>, StoreError>> {
        closed()
    }
    fn declare_gone(&self, _: &OwnerId, _: u64, _: Timestamp) -> Pending<'_, Result<bool, StoreError>> {
        closed()
    }
    fn owners_of_open(&self) -> Pending<'_, Result<Vec<OwnerRecord>, StoreError>> {
        closed()
    }
    fn take_over(&self, _: Takeover) -> Pending<'_, Result<Vec<(DelegationId, Epoch)>, StoreError>> {
        closed()
    }
    fn groups_of(&self, _: &OwnerId) -> Pending<'_, Result<Vec<(Actor, ProcessGroup)>, StoreError>> {
        closed()
    }
    fn prune(&self, _: Timestamp) -> Pending<'_, Result<usize, StoreError>> {
        closed()
    }
    fn health(&self) -> Pending<'_, Result<StoreHealth, StoreError>> {
        closed()
    }
}
