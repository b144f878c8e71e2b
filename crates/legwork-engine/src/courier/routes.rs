//! Which sessions take completions in this process, and the tasks that bring them. One session has one courier, whatever
//! number of inboxes it had.

use super::round::Courier;
use crate::wiring::Wiring;
use legwork_core::ids::SessionId;
use legwork_core::ports::Inbox;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use tokio::sync::{Notify, watch};
use tokio::task::{Id, JoinError, JoinSet};

/// The inbox that a session has now.
#[derive(Clone)]
pub(super) struct Attached {
    /// Tells it from those that the session had before.
    pub(super) number: u64,
    pub(super) inbox: Arc<dyn Inbox>,
}

/// Why a courier ended: the inbox with this number was closed.
pub(crate) struct Left {
    pub(super) session: SessionId,
    pub(super) number: u64,
}

/// What is kept of one courier.
struct Route {
    /// Written here, read by the courier; only the newest inbox counts. Dropping it ends the courier.
    inbox: watch::Sender<Attached>,
    /// Rung here when something of the session may have become ready.
    bell: Arc<Notify>,
}

/// The couriers of this process.
pub(crate) struct Routes {
    wiring: Wiring,
    couriers: JoinSet<Left>,
    routes: BTreeMap<SessionId, Route>,
    /// Which session a task belongs to, should its own code fail.
    tasks: HashMap<Id, SessionId>,
    attached: u64,
    closing: bool,
}

/// How a courier's task came back.
pub(crate) type Returned = Result<(Id, Left), JoinError>;

impl Routes {
    pub(crate) fn new(wiring: Wiring) -> Self {
        Routes {
            wiring,
            couriers: JoinSet::new(),
            routes: BTreeMap::new(),
            tasks: HashMap::new(),
            attached: 0,
            closing: false,
        }
    }

    /// Lets completions of `session` go to `inbox` from now on, and to no other.
    pub(crate) fn attach(&mut self, session: SessionId, inbox: Arc<dyn Inbox>) {
        if self.closing {
            tracing::debug!(%session, "the engine is ending; completions wait for the next process");
            return;
        }
        self.attached += 1;
        let attached = Attached { number: self.attached, inbox };
        match self.routes.get(&session) {
            // Its courier may be ending this moment; the number then tells that it has not served this inbox.
            Some(route) => {
                route.inbox.send_replace(attached);
            }
            None => self.open(session, attached),
        }
    }

    /// Something of `session` may have become ready.
    pub(crate) fn ring(&self, session: &SessionId) {
        if let Some(route) = self.routes.get(session) {
            route.bell.notify_one();
        }
    }

    /// From now on nothing is offered; what is under way is finished or given back.
    pub(crate) fn close(&mut self) {
        self.closing = true;
        self.routes.clear();
    }

    /// Whether no courier is at work.
    pub(crate) fn is_empty(&self) -> bool {
        self.couriers.is_empty()
    }

    /// The next courier that came back; `None` when there is none.
    pub(crate) async fn next_ended(&mut self) -> Option<Returned> {
        self.couriers.join_next_with_id().await
    }

    /// A courier has come back: its session takes nothing here any more, unless it got a new inbox meanwhile.
    pub(crate) fn ended(&mut self, returned: Returned) {
        let (session, served) = match returned {
            Ok((task, left)) => {
                self.tasks.remove(&task);
                (left.session, Some(left.number))
            }
            Err(error) => {
                let Some(session) = self.tasks.remove(&error.id()) else { return };
                tracing::error!(%session, %error, "BUG: a courier failed; results stay stored until the session is opened again");
                (session, None)
            }
        };
        let Some(route) = self.routes.remove(&session) else { return };
        let attached = route.inbox.borrow().clone();
        if served.is_some_and(|number| number != attached.number) {
            self.open(session, attached);
        }
    }

    fn open(&mut self, session: SessionId, attached: Attached) {
        let bell = Arc::new(Notify::new());
        let (inbox, newest) = watch::channel(attached);
        let courier = Courier::new(session.clone(), self.wiring.clone(), newest, bell.clone());
        let task = self.couriers.spawn(courier.run());
        self.tasks.insert(task.id(), session.clone());
        self.routes.insert(session, Route { inbox, bell });
    }
}
