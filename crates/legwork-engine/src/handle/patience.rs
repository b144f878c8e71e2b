//! Patience of those who wait for results with a store that cannot be read or written for a while: what failed is tried again
//! after growing pauses, as facts are offered again (docs/design/043), and nothing of it is given up for one failure (K35).

use super::Handle;
use crate::dispatcher::Message;
use crate::gap::Gaps;
use legwork_core::ids::DelegationId;
use legwork_core::ports::{Delegator, JoinError, Pending, StoreError, TROUBLE_MAX};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Pauses between two tries. The longest is short, for a stop is looked for between them.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// One step of a wait, with the tries of it that failed.
pub(super) struct Trial<'a> {
    handle: &'a Handle,
    delegation: &'a DelegationId,
    since: Option<Instant>,
    pauses: Gaps,
}

impl<'a> Trial<'a> {
    /// A step of a wait for this delegation.
    pub(super) fn of(handle: &'a Handle, delegation: &'a DelegationId) -> Self {
        Trial { handle, delegation, since: None, pauses: Gaps::new(FIRST_PAUSE, LONGEST_PAUSE) }
    }

    /// A try failed: waits until the next one is due.
    ///
    /// # Errors
    /// The failure, when there is no next try: it will not pass, the caller is told to end, or it has lasted too long.
    pub(super) async fn failed(&mut self, error: StoreError) -> Result<(), JoinError> {
        let is_first = self.since.is_none();
        let since = *self.since.get_or_insert_with(Instant::now);
        if !error.may_pass() || self.is_unwanted().await {
            return Err(error.into());
        }
        if since.elapsed() >= TROUBLE_MAX {
            return Err(error.remarked(&format!("for {} s", TROUBLE_MAX.as_secs())).into());
        }
        if is_first {
            tracing::warn!(delegation = %self.delegation, %error, "results cannot be read or taken; they are kept, and that is tried again");
        }
        // Deadline: a store in trouble is given time before it is asked again.
        sleep(self.pauses.widen()).await;
        Ok(())
    }

    /// Whether the child that waits for it is told to end, or the engine has ended.
    async fn is_unwanted(&self) -> bool {
        let Handle { mailbox, .. } = self.handle;
        let views = self.handle.view(Some(self.delegation)).await;
        let caller = views.into_iter().find(|view| view.delegation == *self.delegation);
        let Some(caller) = caller.and_then(|view| view.parent) else { return mailbox.is_closed() };
        let state = self.handle.ask(|reply| Message::Standing(caller, reply)).await;
        state.is_none_or(|state| state.is_some_and(|state| !state.takes_steers()))
    }
}

impl Handle {
    /// Asks the store with patience.
    pub(super) async fn patiently<'a, T: Send>(
        &'a self,
        delegation: &DelegationId,
        ask: impl Fn() -> Pending<'a, Result<T, StoreError>> + Send + Sync,
    ) -> Result<T, JoinError> {
        let mut trial = Trial::of(self, delegation);
        loop {
            match ask().await {
                Ok(answer) => return Ok(answer),
                Err(error) => trial.failed(error).await?,
            }
        }
    }
}
