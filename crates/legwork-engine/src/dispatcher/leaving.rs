//! Leaves trees to other processes: their owner becomes nobody, so that whoever looks finds the work of a process that is gone.
//!
//! It does not decide which trees those are; the book does.

use legwork_core::ids::{DelegationId, OwnerId};
use legwork_core::ports::{Store, StoreError};
use legwork_core::record::OwnerRecord;
use legwork_core::time::Timestamp;

/// A tree that is to be left.
#[derive(Clone)]
pub(super) struct Leaving {
    /// Owns it from then on; nobody is behind it.
    pub(super) nobody: OwnerRecord,
    pub(super) delegations: Vec<DelegationId>,
}

/// Leaves a tree. Where it breaks off it may be done again.
///
/// # Errors
/// [`StoreError`]; some of it may be done then.
pub(super) async fn leave(
    store: &dyn Store,
    owner: &OwnerId,
    leaving: &Leaving,
    at: Timestamp,
) -> Result<(), StoreError> {
    let Leaving { nobody, delegations } = leaving;
    store.enter(nobody.clone(), at).await?;
    store.take_over(owner, &nobody.id, delegations.clone(), at).await?;
    store.declare_gone(&nobody.id, 0, at).await?;
    Ok(())
}
