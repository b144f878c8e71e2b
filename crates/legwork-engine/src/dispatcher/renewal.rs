//! Renews the lease of this process, on a timer of its own and beside everything else that the store is asked, so that
//! nothing that takes long makes it look as if it stood still.

use super::far_off;
use crate::gap::Gaps;
use crate::wiring::{Clock, Wiring};
use legwork_core::ids::OwnerId;
use legwork_core::ports::{Pending, Store, StoreError};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// Renewals in one period.
const TIMES: u32 = 3;
/// Between two tries of a renewal that fails, at first.
const FIRST_GAP: Duration = Duration::from_millis(200);

/// The store takes nothing of this process any more: its lease had run out, and it was declared gone.
pub(super) struct Gone;

pub(super) struct Renewal {
    store: Arc<dyn Store>,
    clock: Clock,
    owner: OwnerId,
    period: Duration,
    due: Instant,
    gaps: Gaps,
    under_way: Option<Pending<'static, Result<(), StoreError>>>,
}

impl Renewal {
    /// Renewals of a lease that was renewed just now.
    pub(super) fn new(wiring: &Wiring, period: Duration) -> Self {
        Renewal {
            store: wiring.store.clone(),
            clock: wiring.clock,
            owner: wiring.owner.id.clone(),
            period,
            due: Instant::now() + period / TIMES,
            gaps: Gaps::new(FIRST_GAP, period / TIMES),
            under_way: None,
        }
    }

    /// Renews the lease as long as it is awaited, and resolves once when the process was declared gone. It may be dropped
    /// and awaited again at any moment.
    pub(super) async fn lost(&mut self) -> Gone {
        loop {
            let renewed = match &mut self.under_way {
                Some(renewal) => renewal.await,
                None => {
                    // Deadline: the lease is renewed so often.
                    sleep_until(self.due).await;
                    self.begin();
                    continue;
                }
            };
            self.under_way = None;
            match renewed {
                Ok(()) => {
                    self.gaps.close();
                }
                Err(StoreError::Fenced(_)) => {
                    self.due = far_off();
                    return Gone;
                }
                Err(error) => {
                    tracing::debug!(%error, "the lease could not be renewed; it is tried again");
                    self.due = Instant::now() + self.gaps.widen();
                }
            }
        }
    }

    fn begin(&mut self) {
        self.due = Instant::now() + self.period / TIMES;
        let (store, owner, period) = (self.store.clone(), self.owner.clone(), self.period);
        let at = self.clock.now().wall;
        self.under_way = Some(Box::pin(async move { store.renew(&owner, period, at).await }));
    }
}
