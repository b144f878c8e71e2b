//! The process groups of running commands, as the store knows them: noted before a command runs, forgotten after it.
//!
//! Forgetting is not urgent, so it rides along with the next note instead of paying for a commit of its own.

use super::port::Site;
use crate::patience::{Patience, Trouble};
use crate::process::is_group_gone;
use legwork_core::ports::{Facts, StoreError, TROUBLE_MAX};
use legwork_core::record::ProcessGroup;
use legwork_core::step::{Actor, Fence};
use std::sync::{Arc, Mutex, PoisonError};

/// Notes groups and forgets them.
pub struct Groups {
    facts: Arc<dyn Facts>,
    /// Groups that are gone and that the store still knows.
    gone: Mutex<Vec<(Actor, ProcessGroup)>>,
    trouble: Arc<Trouble>,
}

/// A group that is noted. Dropping this lets the group be forgotten, if nothing of it is left.
pub(super) struct Noted {
    groups: Arc<Groups>,
    actor: Actor,
    group: ProcessGroup,
}

impl Groups {
    /// Over the store that recovery reads.
    pub fn new(facts: Arc<dyn Facts>) -> Self {
        Groups { facts, gone: Mutex::new(Vec::new()), trouble: Arc::default() }
    }

    /// Stores a group durably, and waits for a store in trouble. The script may be sent after this and not before.
    pub(super) async fn note(
        self: &Arc<Self>,
        site: &Site,
        group: &ProcessGroup,
    ) -> Result<Noted, StoreError> {
        let patience = Patience::on(Arc::clone(&site.line), TROUBLE_MAX).telling(Arc::clone(&self.trouble));
        self.note_for(&site.fence, &site.actor, group, &patience).await
    }

    /// The same for a script of legwork's own.
    pub(super) async fn note_for(
        self: &Arc<Self>,
        fence: &Fence,
        actor: &Actor,
        group: &ProcessGroup,
        patience: &Patience,
    ) -> Result<Noted, StoreError> {
        let noted = Noted { groups: Arc::clone(self), actor: actor.clone(), group: group.clone() };
        let mut trial = patience.begin();
        loop {
            let noting = self.facts.note_group(fence.clone(), actor.clone(), group.clone());
            match futures::join!(noting, self.flush()) {
                (Ok(()), ()) => return Ok(noted),
                (Err(error), ()) => trial.failed(error).await?,
            }
        }
    }

    /// Forgets every group that is gone. To be awaited before the store is closed; a group that is not forgotten
    /// is recognised as gone by recovery.
    pub async fn flush(&self) {
        let gone = std::mem::take(&mut *self.gone.lock().unwrap_or_else(PoisonError::into_inner));
        let drops = gone.into_iter().map(|(actor, group)| self.facts.drop_group(actor, group));
        for result in futures::future::join_all(drops).await {
            if let Err(error) = result {
                tracing::debug!(%error, "a process group that is gone stays in the store");
            }
        }
    }
}

impl Drop for Noted {
    fn drop(&mut self) {
        if is_group_gone(&self.group) {
            let mut gone = self.groups.gone.lock().unwrap_or_else(PoisonError::into_inner);
            gone.push((self.actor.clone(), self.group.clone()));
        }
    }
}
