//! An engine whose inboxes are put behind others when they are attached.

use legwork_core::batch::{Lineage, NewBatch, Ticket};
use legwork_core::fact::Accepted;
use legwork_core::ids::{CallKey, ChildId, DelegationId, RequestId, SessionId, UnitId};
use legwork_core::outcome::{Force, StopReason};
use legwork_core::ports::{
    ChildView, Delegator, DispatchError, Inbox, JoinError, Joined, LookError, Pending, Refusal, SessionView,
    SteerError, Stopped, Watch,
};
use legwork_core::steering::Scope;
use std::sync::Arc;

type Wrap = Box<dyn Fn(Arc<dyn Inbox>) -> Arc<dyn Inbox> + Send + Sync>;

/// Passes everything on, but that an inbox is attached as `wrap` makes it.
pub struct Door {
    behind: Arc<dyn Delegator>,
    wrap: Wrap,
}

impl Door {
    /// A door before `behind`.
    pub fn new(
        behind: Arc<dyn Delegator>,
        wrap: impl Fn(Arc<dyn Inbox>) -> Arc<dyn Inbox> + Send + Sync + 'static,
    ) -> Self {
        Door { behind, wrap: Box::new(wrap) }
    }
}

impl Delegator for Door {
    fn attach(&self, session: &SessionId, inbox: Arc<dyn Inbox>) -> Pending<'_, ()> {
        self.behind.attach(session, (self.wrap)(inbox))
    }

    fn dispatch(&self, batch: NewBatch) -> Pending<'_, Result<Ticket, DispatchError>> {
        self.behind.dispatch(batch)
    }

    fn accepted(&self, key: &CallKey) -> Pending<'_, Result<Option<Accepted>, LookError>> {
        self.behind.accepted(key)
    }

    fn objection(&self, caller: &Lineage) -> Pending<'_, Option<Refusal>> {
        self.behind.objection(caller)
    }

    fn join(&self, delegation: &DelegationId) -> Pending<'_, Result<Joined, JoinError>> {
        self.behind.join(delegation)
    }

    fn join_unit(&self, delegation: &DelegationId, unit: &UnitId) -> Pending<'_, Result<Joined, JoinError>> {
        self.behind.join_unit(delegation, unit)
    }

    fn until_settled(&self, delegation: &DelegationId) -> Pending<'_, Result<(), JoinError>> {
        self.behind.until_settled(delegation)
    }

    fn stop(&self, scope: Scope, reason: StopReason, force: Force) -> Pending<'_, Stopped> {
        self.behind.stop(scope, reason, force)
    }

    fn steer(
        &self,
        child: &ChildId,
        text: String,
        session: Option<&SessionId>,
    ) -> Pending<'_, Result<RequestId, SteerError>> {
        self.behind.steer(child, text, session)
    }

    fn view(&self, delegation: Option<&DelegationId>) -> Pending<'_, Vec<ChildView>> {
        self.behind.view(delegation)
    }

    fn view_session(&self, session: &SessionId) -> Pending<'_, SessionView> {
        self.behind.view_session(session)
    }

    fn watch(&self) -> Box<dyn Watch> {
        self.behind.watch()
    }
}
