//! This process as an owner of work: its identity in the store, and what it does about owners that died.

use std::sync::Arc;

use legwork_agent::process::SystemProcesses;
use legwork_core::ids::{ClaimId, OwnerId, SessionId};
use legwork_core::ports::{Facts, Liveness, Processes, Store};
use legwork_core::record::OwnerRecord;
use legwork_core::taking::Taker;
use legwork_core::time::Timestamp;
use legwork_engine::recovery::{RecoveryError, Rescuer, settle_dead};
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
        let record = OwnerRecord { id: OwnerId::from_bits(bits()), process: SystemProcesses.myself() };
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
    SystemProcesses.liveness(&other.process) == Liveness::Dead
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

/// Settles the work of processes that died, and says so in a line on stderr unless `quiet`.
///
/// # Errors
/// When the store fails.
pub async fn settle_the_dead<S: Store>(store: &S, owner: &Owner, quiet: bool) -> Result<(), CliError> {
    let rescuer = Rescuer { store, clock: owner.clock, owner: &owner.record, processes: &SystemProcesses };
    let recovered = settle_dead(rescuer).await?;
    if quiet {
        return Ok(());
    }
    if !recovered.settled.is_empty() {
        stderr::tell(&format!(
            "note: {} delegation(s) of a process that died were settled: {} subagent(s) lost, {} never started",
            recovered.settled.len(),
            recovered.lost,
            recovered.unstarted
        ));
    }
    for (delegation, refusal) in recovered.refused {
        stderr::tell(&format!(
            "note: {delegation}, of a process that died, could not be settled and was left alone: {refusal}"
        ));
    }
    for unclear in recovered.unclear {
        stderr::tell(&format!(
            "note: whether process {} still lives cannot be told; its work was left alone",
            unclear.process.pid
        ));
    }
    Ok(())
}

impl From<RecoveryError> for CliError {
    fn from(error: RecoveryError) -> CliError {
        CliError::new(Kind::State, error.to_string())
            .with_hint("run the command again; what was settled stays settled")
    }
}
