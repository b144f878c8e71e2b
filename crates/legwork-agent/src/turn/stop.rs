//! The stop of a run, heard once and remembered.

use futures::FutureExt;
use legwork_core::ports::{Pending, StopNotice};

/// Tells when the run is told to stop.
pub(super) struct Stop<'a> {
    /// It is polled until it resolves and never again.
    pending: Pending<'a, StopNotice>,
    heard: Option<StopNotice>,
}

impl<'a> Stop<'a> {
    pub(super) fn new(pending: Pending<'a, StopNotice>) -> Self {
        Stop { pending, heard: None }
    }

    /// Resolves once the run is told to stop, and at once when it was told before.
    pub(super) async fn heard(&mut self) -> StopNotice {
        if let Some(notice) = self.heard {
            return notice;
        }
        let notice = (&mut self.pending).await;
        self.heard = Some(notice);
        notice
    }

    /// The stop, if it has come by now.
    pub(super) fn now(&mut self) -> Option<StopNotice> {
        self.heard().now_or_never()
    }
}
