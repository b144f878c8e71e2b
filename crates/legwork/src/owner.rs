//! This process as an owner of work: its identity in the store, and what it does about owners that died.

use std::sync::Arc;
use std::time::Duration;

use legwork_agent::process::SystemProcesses;
use legwork_core::ids::{ClaimId, OwnerId, SessionId};
use legwork_core::ports::{Facts, Liveness, Processes, Store, StoreError};
use legwork_core::record::{Lease, OwnerRecord};
use legwork_core::taking::Taker;
use legwork_core::time::Timestamp;
use legwork_engine::lease;
use legwork_engine::recovery::{RecoveryError, Rescuer};
use legwork_engine::{Clock, Wiring};

use crate::failure::{CliError, Kind};
use crate::stderr;

/// This process as the store knows it.
pub struct Owner {
    /// Its entry.
    pub record: OwnerRecord,
    /// Both clocks.
    pub clock: Clock,
    /// Where ids come from.
    pub bits: Arc<dyn Fn() -> u64 + Send + Sync>,
}

impl Owner {
    /// A new identity for this process; nothing is stored yet.
    pub fn new() -> Owner {
        let bits = Wiring::system_bits();
        let record = OwnerRecord::new(OwnerId::from_bits(bits()), SystemProcesses.myself());
        Owner { record, clock: Clock::start(), bits }
    }

    /// The wall clock.
    pub fn now(&self) -> Timestamp {
        self.clock.now().wall
    }

    /// A new claim.
    pub fn new_claim(&self) -> ClaimId {
        ClaimId::from_bits((self.bits)())
    }

    /// A new session id.
    pub fn new_session(&self) -> SessionId {
        SessionId::from_bits((self.bits)())
    }

    /// This process as one that looks after the work of dead ones.
    pub fn rescuer<'a>(&'a self, store: &'a dyn Store) -> Rescuer<'a> {
        Rescuer { store, clock: self.clock, owner: &self.record, processes: &SystemProcesses }
    }

    /// This process as one that takes results, now.
    pub fn taker<'a>(&'a self, facts: &'a dyn Facts) -> Taker<'a> {
        Taker { facts, processes: &SystemProcesses, owner: &self.record.id, at: self.now() }
    }

    /// Whether `other` is another process that lives, or may.
    pub fn lives_elsewhere(&self, other: &OwnerRecord) -> bool {
        other.id != self.record.id && !is_dead(other)
    }
}

/// Whether a process is proved dead. One of which that cannot be told counts as alive.
pub fn is_dead(other: &OwnerRecord) -> bool {
    other.liveness(&SystemProcesses) == Liveness::Dead
}

/// A process that seems to live and may stand still. Nothing is decided by that.
pub struct Suspect {
    pid: u32,
    is_stopped: bool,
    lease: Lease,
}

impl Suspect {
    /// Says that it is watched, and for how long at most.
    pub fn tell(&self) {
        let seconds = self.lease.period.as_secs();
        let why = if self.is_stopped { "is stopped and" } else { "is there and" };
        stderr::tell(&format!(
            "note: process {} {why} does not renew its lease of {seconds} s; it is watched for {} s at most before its work is taken over",
            self.pid,
            3 * seconds + 1
        ));
    }

    /// Says why a stop waits for it, for `most` at most, and what else ends the work.
    pub fn tell_of_stop(&self, most: Duration) {
        let seconds = self.lease.period.as_secs();
        let why = if self.is_stopped { "is stopped and" } else { "is there and" };
        stderr::tell(&format!(
            "note: process {} {why} does not renew its lease of {seconds} s: it has not heard of the stop, which is stored and is waited \
             for {} s at most. It ends the work when the process goes on; otherwise whoever goes on with the work ends it \
             (`legwork worker`, `legwork results ID --wait`), {} s after the last renewal at the earliest",
            self.pid,
            most.as_secs(),
            3 * seconds + 1
        ));
    }
}

/// Whether a process that seems to live is worth watching: its lease looks stale, or the system says that it is stopped.
///
/// # Errors
/// When the store fails.
pub async fn may_stand_still(store: &dyn Facts, other: &OwnerRecord) -> Result<Option<Suspect>, StoreError> {
    let is_stopped = SystemProcesses.is_stopped(&other.process) && !other.gone;
    let lease = match lease::looks_stale(store, Clock::start(), other).await? {
        Some(stale) => Some(stale),
        None if is_stopped => store.lease(&other.id).await?,
        None => None,
    };
    Ok(lease.map(|lease| Suspect { pid: other.process.pid, is_stopped, lease }))
}

/// Enters this process into the store.
///
/// # Errors
/// When the store cannot be written.
pub async fn enter(store: &dyn Facts) -> Result<Owner, CliError> {
    let owner = Owner::new();
    store.enter(owner.record.clone(), owner.now()).await?;
    Ok(owner)
}

/// What to do when it may go well the next time.
const AGAIN: &str = "run the command again; what was done stays done";

impl From<RecoveryError> for CliError {
    fn from(error: RecoveryError) -> CliError {
        match error {
            RecoveryError::Store(error) if !error.may_pass() => error.into(),
            RecoveryError::Store(error) => CliError::from(error).with_hint(AGAIN),
            RecoveryError::Closed => CliError::new(Kind::State, error.to_string()).with_hint(AGAIN),
        }
    }
}
