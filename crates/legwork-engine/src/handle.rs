//! The engine as its owner and its front doors see it. The channel to the dispatcher never shows.

mod patience;
mod waits;

use crate::courier::Ways;
use crate::detached::{self, DRAWS_MAX};
use crate::dispatcher::{Dispatcher, Message, Start, is_for_one_process};
use crate::elsewhere;
use crate::options::{Options, OptionsError};
use crate::recovery::RecoveryError;
use crate::steering;
use crate::wiring::Wiring;
use legwork_core::batch::{Completions, Lineage, NewBatch, Task, Ticket};
use legwork_core::fact::Accepted;
use legwork_core::ids::{CallKey, ChildId, ClaimId, DelegationId, RequestId, SessionId, UnitId};
use legwork_core::outcome::{Force, StopReason};
use legwork_core::ports::{
    ChildView, Delegator, DispatchError, Inbox, JoinError, Joined, LiveEvent, Liveness, LookError, OtherCall,
    Pause, Pending, Refusal, SessionView, SteerError, StopNotice, Stopped, StoreError, Watch,
};
use legwork_core::record::DelegationRecord;
use legwork_core::steering::{Asked, Request, STEERS_WAITING_MAX, Scope, Wish};
use std::collections::HashSet;
use std::sync::Arc;
use thiserror::Error;
use tokio::sync::{Semaphore, broadcast, mpsc, oneshot};
use tokio::task::JoinSet;

/// Messages that may wait for the dispatcher; a sender beyond that waits itself.
const MAILBOX_MAX: usize = 1024;
/// Events that a watcher may lie behind before it loses the oldest.
const WATCH_MAX: usize = 4096;

/// A running engine.
pub struct Engine {
    handle: Handle,
    service: JoinSet<()>,
}

/// Asks the engine.
#[derive(Clone)]
pub struct Handle {
    mailbox: mpsc::Sender<Message>,
    /// Claims that were made for callers which did not get them; read by the dispatcher. Who finds no place claims nothing yet.
    owed: mpsc::Sender<Vec<ClaimId>>,
    /// Held by the dispatcher and its lines, so that every watch ends with the engine.
    live: broadcast::WeakSender<LiveEvent>,
    wiring: Wiring,
    /// Whose turn it is to take work over.
    recovering: Arc<Semaphore>,
}

/// How a delegation stands in this process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hold {
    /// It is worked on here, or something of it here has not ended.
    InHand,
    /// It was given up here, because the store would not take what became of it; the reason. Nobody works on it until
    /// [`Handle::recover`] takes it up again, here or elsewhere.
    GivenUp(String),
    /// This process knows nothing of it.
    NotHere,
}

/// Why the engine did not start.
#[derive(Debug, Error)]
pub enum StartError {
    /// An option makes no sense.
    #[error(transparent)]
    Options(#[from] OptionsError),
    /// The store cannot take an owner.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Engine {
    /// Records this process as an owner and starts the dispatcher on the current runtime.
    ///
    /// # Errors
    /// [`StartError`]; nothing runs then.
    pub async fn start(options: Options, wiring: Wiring) -> Result<Engine, StartError> {
        let options = options.validated()?;
        wiring.store.enter(wiring.owner.clone(), wiring.clock.now().wall).await?;
        wiring.store.renew(&wiring.owner.id, options.lease, wiring.clock.now().wall).await?;
        // What was asked for before this process has any work is not meant for it.
        let news = wiring.store.news(0).await?;
        let asked_before = news.requests.iter().map(|(number, _)| *number).max().unwrap_or_default();
        let (mailbox, inbox) = mpsc::channel(MAILBOX_MAX);
        let (owed, returns) = mpsc::channel(MAILBOX_MAX);
        let (live, _) = broadcast::channel(WATCH_MAX);
        let recovering = Arc::new(Semaphore::new(1));
        let handle = Handle { mailbox, owed, live: live.downgrade(), wiring, recovering };
        let mut service = JoinSet::new();
        let start = Start { options, inbox, returns, live, asked_before, pause: news.pause };
        service.spawn(Dispatcher::new(start, &handle).run());
        Ok(Engine { handle, service })
    }

    /// A handle to it.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Ends the engine: whatever still runs is cut after the stop grace and stays resumable in the store. Returns
    /// when nothing of it runs any more.
    pub async fn close(mut self) {
        self.handle.tell(Message::Release).await;
        while let Some(ended) = self.service.join_next().await {
            if let Err(error) = ended {
                tracing::error!(%error, "BUG: the dispatcher did not end by itself");
            }
        }
    }
}

impl Handle {
    /// No new children start in any process of the store until [`Handle::resume`] (KILL-1): calls are refused, and what
    /// is queued stays queued. Running ones go on, and those that wait for their own children may come back. Here it
    /// holds at once, elsewhere within a round of the other engine. Answers whether that changed anything.
    ///
    /// # Errors
    /// When the store could not record it; nothing has changed then.
    pub async fn pause(&self) -> Result<bool, StoreError> {
        self.turn(Pause::On).await
    }

    /// New children may start again in every process of the store. Answers whether that changed anything.
    ///
    /// # Errors
    /// When the store could not record it; nothing has changed then.
    pub async fn resume(&self) -> Result<bool, StoreError> {
        self.turn(Pause::Off).await
    }

    /// Accepts a call that another process is to work on, once this one has ended: it is durable when the ticket comes
    /// back, and nothing of it begins here.
    ///
    /// # Errors
    /// [`DispatchError`]; nothing exists then.
    pub async fn accept_for_another(
        &self,
        batch: NewBatch,
        completions: Completions,
    ) -> Result<Ticket, DispatchError> {
        detached::accept(&self.wiring, batch, completions).await
    }

    /// Tells the engine to end, and waits for nothing: its children have their stop grace from now on. [`Engine::close`] waits.
    pub async fn release(&self) {
        self.tell(Message::Release).await;
    }

    /// Waits until every child of the delegation has settled, and claims nothing. Ends at once for one that this
    /// process does not run.
    pub async fn settled(&self, delegation: &DelegationId) {
        // An engine that has ended has nothing left to wait for.
        self.ask(|reply| Message::Join(delegation.clone(), reply)).await;
    }

    /// Whether this process works on the delegation, and if it gave it up, why.
    ///
    /// # Errors
    /// [`RecoveryError::Closed`]: the engine has ended, and nothing is in hand any more.
    pub async fn hold(&self, delegation: &DelegationId) -> Result<Hold, RecoveryError> {
        let answer = self.ask(|reply| Message::Hold(delegation.clone(), reply)).await;
        answer.ok_or(RecoveryError::Closed)
    }

    /// The same of a delegation as it was read. Of what another process works on, which may be what this one gave up before,
    /// this one knows nothing.
    ///
    /// # Errors
    /// As [`Handle::hold`].
    pub async fn hold_of(&self, record: &DelegationRecord) -> Result<Hold, RecoveryError> {
        match self.is_mine(record) || self.is_nobodys(record) {
            true => self.hold(&record.accepted.delegation).await,
            false => Ok(Hold::NotHere),
        }
    }

    pub(crate) fn mailbox(&self) -> mpsc::Sender<Message> {
        self.mailbox.clone()
    }

    fn ways(&self) -> Ways<'_> {
        Ways { mailbox: &self.mailbox, owed: &self.owed }
    }

    pub(crate) fn wiring(&self) -> &Wiring {
        &self.wiring
    }

    pub(crate) fn recovering(&self) -> &Semaphore {
        &self.recovering
    }

    /// Has the call begun, with other ids as long as those that were drawn belong to older work.
    async fn begin(&self, batch: NewBatch) -> Result<Ticket, DispatchError> {
        for _ in 1..DRAWS_MAX {
            let drawn = self.ask(|reply| Message::Dispatch(Box::new(batch.clone()), reply)).await;
            if drawn != Some(Err(DispatchError::Refused(Refusal::IdsInUse))) {
                return drawn.unwrap_or(Err(DispatchError::Closed));
            }
        }
        let last = self.ask(|reply| Message::Dispatch(Box::new(batch), reply)).await;
        last.unwrap_or(Err(DispatchError::Closed))
    }

    async fn turn(&self, pause: Pause) -> Result<bool, StoreError> {
        let changed = self.wiring.store.set_pause(pause, self.wiring.clock.now().wall).await?;
        self.tell(Message::Turned(pause)).await;
        Ok(changed)
    }

    async fn tell(&self, message: Message) {
        if self.mailbox.send(message).await.is_err() {
            tracing::debug!("the engine had ended already");
        }
    }

    /// Sends a message that carries a reply slot, and waits for the answer. `None` when the engine has ended.
    pub(crate) async fn ask<T>(&self, message: impl FnOnce(oneshot::Sender<T>) -> Message) -> Option<T> {
        let (reply, answer) = oneshot::channel();
        self.mailbox.send(message(reply)).await.ok()?;
        answer.await.ok()
    }

    fn is_mine(&self, record: &DelegationRecord) -> bool {
        record.owner.id == self.wiring.owner.id
    }

    fn is_nobodys(&self, record: &DelegationRecord) -> bool {
        match record.owner.liveness(self.wiring.processes.as_ref()) {
            Liveness::Alive | Liveness::Unclear => false,
            Liveness::Dead => true,
        }
    }

    /// What was accepted under the key before.
    async fn earlier(&self, key: &CallKey) -> Result<Option<Accepted>, LookError> {
        let failed = |error: StoreError| LookError(error.to_string());
        let store = &self.wiring.store;
        let Some(delegation) = store.by_call_key(key).await.map_err(failed)? else { return Ok(None) };
        let record = store.delegation(&delegation).await.map_err(failed)?;
        Ok(record.map(|record| record.accepted))
    }
}

/// The answer to a call whose key was accepted before: the first one's ticket, if it asks for the same.
fn rejoined(key: &CallKey, first: &Accepted, tasks: &[Task]) -> Result<Ticket, DispatchError> {
    match other_call(key, &first.delegation, &first.tasks, tasks) {
        Some(other) => Err(other),
        None => Ok(first.ticket()),
    }
}

/// What a refused call is told when it cannot be read whether its key is another one's.
fn unread(error: DispatchError, unread: LookError) -> DispatchError {
    match error {
        // It says that nothing is there, and of this key nobody knows that.
        DispatchError::Store(_) => DispatchError::Unread(unread),
        DispatchError::Refused(_)
        | DispatchError::Unclear { .. }
        | DispatchError::Unread(_)
        | DispatchError::Reused(_)
        | DispatchError::NoSession(_)
        | DispatchError::Closed => error,
    }
}

/// The refusal of a call that asks for something else than the first one under its key.
pub(crate) fn other_call(
    key: &CallKey,
    delegation: &DelegationId,
    first: &[Task],
    now: &[Task],
) -> Option<DispatchError> {
    let same = first.len() == now.len() && first.iter().zip(now).all(|(first, now)| first.asks_the_same(now));
    (!same).then(|| DispatchError::Reused(Box::new(OtherCall::new(key, delegation, first, now))))
}

impl Delegator for Handle {
    fn dispatch(&self, batch: NewBatch) -> Pending<'_, Result<Ticket, DispatchError>> {
        Box::pin(async move {
            let repeatable = batch.call_key.clone().map(|key| (key, batch.tasks.clone()));
            if let Some((key, tasks)) = &repeatable
                && let Some(first) = self.earlier(key).await?
            {
                return rejoined(key, &first, tasks);
            }
            let answer = self.begin(batch).await;
            match (answer, repeatable) {
                // Somebody with the same key may have been first between the look and the record; whatever this call
                // was refused for, nobody is told that nothing was started then.
                (Err(error), Some((key, tasks))) => match self.earlier(&key).await {
                    Ok(Some(first)) => rejoined(&key, &first, &tasks),
                    Ok(None) => Err(error),
                    Err(failed) => Err(unread(error, failed)),
                },
                (answer, _) => answer,
            }
        })
    }

    fn accepted(&self, key: &CallKey) -> Pending<'_, Result<Option<Accepted>, LookError>> {
        let key = key.clone();
        Box::pin(async move { self.earlier(&key).await })
    }

    fn objection(&self, caller: &Lineage) -> Pending<'_, Option<Refusal>> {
        let caller = caller.clone();
        // An engine that has ended says so when it is asked to accept the call.
        Box::pin(async move { self.ask(|reply| Message::Objection(caller, reply)).await.flatten() })
    }

    fn join(&self, delegation: &DelegationId) -> Pending<'_, Result<Joined, JoinError>> {
        let delegation = delegation.clone();
        Box::pin(async move {
            self.settled_anywhere(&delegation, None).await?;
            self.settled_below(&delegation, None).await?;
            self.collected(&delegation, None).await
        })
    }

    fn join_unit(&self, delegation: &DelegationId, unit: &UnitId) -> Pending<'_, Result<Joined, JoinError>> {
        let (delegation, unit) = (delegation.clone(), unit.clone());
        Box::pin(async move {
            self.settled_anywhere(&delegation, Some(&unit)).await?;
            self.settled_below(&delegation, Some(&unit)).await?;
            self.collected(&delegation, Some(&unit)).await
        })
    }

    fn until_settled(&self, delegation: &DelegationId) -> Pending<'_, Result<(), JoinError>> {
        let delegation = delegation.clone();
        Box::pin(async move { self.settled_anywhere(&delegation, None).await })
    }

    fn stop(&self, scope: Scope, reason: StopReason, force: Force) -> Pending<'_, Stopped> {
        Box::pin(async move {
            let notice = StopNotice { reason, force };
            let told = self.ask(|reply| Message::Stop { scope: scope.clone(), notice, reply }).await;
            let told = told.unwrap_or_default();
            if !told.children.is_empty() || !is_for_one_process(&scope) {
                return told;
            }
            elsewhere::stop(&self.wiring, scope, notice).await
        })
    }

    fn steer(
        &self,
        child: &ChildId,
        text: String,
        session: Option<&SessionId>,
    ) -> Pending<'_, Result<RequestId, SteerError>> {
        let (child, session) = (child.clone(), session.cloned());
        Box::pin(async move {
            if self.mailbox.is_closed() {
                return Err(SteerError::Closed);
            }
            let wiring = &self.wiring;
            steering::objection(wiring.store.as_ref(), &child, &text, session.as_ref()).await?;
            // A stop is known here before it is stored.
            let here = self.ask(|reply| Message::Standing(child.clone(), reply)).await.flatten();
            if here.is_some_and(|state| !state.takes_steers()) {
                return Err(SteerError::Ending(child));
            }
            let id = RequestId::from_bits((wiring.bits)());
            let scope = Scope::Child(child.clone());
            let request =
                Request { id: id.clone(), at: wiring.clock.now().wall, scope, wish: Wish::Steer { text } };
            match wiring.store.ask(request).await.map_err(steering::failed)? {
                Asked::Stored => {}
                Asked::Ended | Asked::Unknown => return Err(SteerError::NotFound(child)),
                Asked::Full => {
                    let most = STEERS_WAITING_MAX;
                    return Err(SteerError::Full { child, waiting: most, waiting_max: most });
                }
            }
            // A child of this process finds it without waiting for the next round; it is read from the store in any
            // case, so that it is said once and in the stored order.
            self.tell(Message::Look).await;
            Ok(id)
        })
    }

    fn attach(&self, session: &SessionId, inbox: Arc<dyn Inbox>) -> Pending<'_, ()> {
        let session = session.clone();
        Box::pin(async move { self.tell(Message::Attach(session, inbox)).await })
    }

    fn view(&self, delegation: Option<&DelegationId>) -> Pending<'_, Vec<ChildView>> {
        let delegation = delegation.cloned();
        Box::pin(async move { self.ask(|reply| Message::View(delegation, reply)).await.unwrap_or_default() })
    }

    fn view_session(&self, session: &SessionId) -> Pending<'_, SessionView> {
        let session = session.clone();
        Box::pin(async move {
            // Read before what runs here is asked for: what this process takes over meanwhile is in both.
            let elsewhere = elsewhere::views(&self.wiring, &session).await;
            let mut children = self.view(None).await;
            children.retain(|view| view.session == session);
            let unreadable = match elsewhere {
                Ok(others) => {
                    let here: HashSet<ChildId> = children.iter().map(|view| view.child.clone()).collect();
                    children.extend(others.into_iter().filter(|view| !here.contains(&view.child)));
                    None
                }
                Err(error) => Some(error.to_string()),
            };
            SessionView { children, unreadable }
        })
    }

    fn watch(&self) -> Box<dyn Watch> {
        // A sender that is gone at once makes a watch that ends at once.
        let live = self.live.upgrade().unwrap_or_else(|| broadcast::Sender::new(1));
        Box::new(Watcher { events: live.subscribe() })
    }
}

struct Watcher {
    events: broadcast::Receiver<LiveEvent>,
}

impl Watch for Watcher {
    fn next(&mut self) -> Pending<'_, Option<LiveEvent>> {
        Box::pin(async move {
            match self.events.recv().await {
                Ok(event) => Some(event),
                Err(broadcast::error::RecvError::Lagged(lost)) => Some(LiveEvent::Lagged(lost)),
                Err(broadcast::error::RecvError::Closed) => None,
            }
        })
    }
}
