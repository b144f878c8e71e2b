//! The conversation of an open session, as a front door holds it: what its person says goes in through a handle, what
//! happens comes out as events, and completions come in by themselves when it is idle (DLV-1).
//!
//! It reads no terminal, shows nothing, and never stops a child. Waiting costs no model call.

mod again;
mod desk;
mod rows;
mod talk;

use super::ends::{Ends, Telling};
use super::event::{SayError, SessionEvent};
use super::open::{Left, OpenSession};
use super::setup::{OpenError, SessionSetup, Which};
use crate::models::Model;
use desk::Desk;
use legwork_core::batch::{Reach, Route};
use legwork_core::ids::{ClaimId, SessionId};
use legwork_core::message::Message;
use legwork_core::outcome::StopReason;
use legwork_core::ports::{Delegator, Inbox, Offer, Pending, Receipt, StopNotice, StoreError};
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot, watch};

pub use again::{GAP_FIRST, GAP_LONGEST, TRIES_MAX};
pub use desk::{MESSAGE_BYTES_MAX, WAITING_MAX};

/// Hears what happens, in order. It must return at once.
pub type SessionListener = Box<dyn Fn(SessionEvent) + Send + Sync>;

/// What a conversation needs besides its session.
pub struct ConversationParts {
    /// What the session's agent needs.
    pub session: SessionSetup,
    /// The engine: completions come from it, if the session can be woken.
    pub delegator: Arc<dyn Delegator>,
    /// Who hears what happens.
    pub listener: SessionListener,
}

/// One end of a conversation. Clones are the same end.
#[derive(Clone)]
pub struct ConversationHandle {
    shared: Arc<Shared>,
}

struct Shared {
    session: SessionId,
    past: Vec<Arc<Message>>,
    /// Written by both ends, each its own fields; see [`Desk`].
    desk: watch::Sender<Desk>,
    /// Courier → conversation, one at a time; full or gone: busy.
    offers: mpsc::Sender<Arrived>,
    /// As the conversation has it.
    ends: Option<Ends>,
}

/// An offer with the slot for its answer.
struct Arrived {
    offer: Box<Offer>,
    reply: oneshot::Sender<Receipt>,
}

/// The other end: whoever opened the conversation drives it.
pub struct Conversation {
    session: OpenSession,
    delegator: Arc<dyn Delegator>,
    listener: Arc<dyn Fn(SessionEvent) + Send + Sync>,
    handle: ConversationHandle,
    desk: watch::Receiver<Desk>,
    offers: mpsc::Receiver<Arrived>,
    /// Processes that have ended and are not told of, if the session can be woken.
    ends: Option<Ends>,
    /// What is told of them and may not be stored.
    telling: Option<Telling>,
    /// What was left to answer when the session was opened.
    left: Left,
    /// A turn that is to be tried again.
    again: Option<again::Again>,
    /// What was given up without being stored.
    unsaid: Vec<String>,
    /// Claims to give back: the store failed when they were made or ended.
    owed: Vec<ClaimId>,
    /// Another process has the session.
    lost: Option<StoreError>,
    /// Whether the listener was told that nothing is going on.
    told_idle: bool,
}

/// How a conversation was left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Farewell {
    /// What was said and did not become part of the conversation, in order.
    pub unsaid: Vec<String>,
    /// Why it ended by itself: another process has the session now.
    pub lost: Option<StoreError>,
}

impl Conversation {
    /// Opens a session. Nothing is asked before [`Conversation::run`].
    ///
    /// # Errors
    /// [`OpenError`].
    pub async fn open(
        parts: ConversationParts,
        which: Which,
    ) -> Result<(ConversationHandle, Conversation), OpenError> {
        let ConversationParts { session, delegator, listener } = parts;
        let (session, left) = OpenSession::open(session, which).await?;
        let ends =
            (session.setup().reach == Reach::Push).then(|| Ends::listen(session.setup(), session.id()));
        let (desk_end, desk) = watch::channel(Desk::new());
        let (offers_end, offers) = mpsc::channel(1);
        let handle = ConversationHandle {
            shared: Arc::new(Shared {
                session: session.id().clone(),
                past: session.messages().to_vec(),
                desk: desk_end,
                offers: offers_end,
                ends: ends.clone(),
            }),
        };
        let conversation = Conversation {
            session,
            delegator,
            listener: Arc::from(listener),
            handle: handle.clone(),
            desk,
            offers,
            ends,
            telling: None,
            left,
            again: None,
            unsaid: Vec::new(),
            owed: Vec::new(),
            lost: None,
            told_idle: false,
        };
        Ok((handle, conversation))
    }
}

impl ConversationHandle {
    /// The session.
    pub fn session(&self) -> &SessionId {
        &self.shared.session
    }

    /// What was said before the session was opened here, the system text first.
    pub fn past(&self) -> &[Arc<Message>] {
        &self.shared.past
    }

    /// Says something. It becomes a turn of its own once the turns before it have ended; until then it waits.
    ///
    /// # Errors
    /// [`SayError`]; the message was not taken then.
    pub fn say(&self, text: impl Into<String>) -> Result<(), SayError> {
        let mut taken = Ok(());
        self.shared.desk.send_if_modified(|desk| {
            taken = desk.say(text.into());
            taken.is_ok()
        });
        taken
    }

    /// Ends the turn that runs, or gives up one that waits to be tried again. Children in the background go on, those
    /// that the turn waits for end with it, and messages that wait become turns as before. Without a turn nothing
    /// happens.
    pub fn stop_turn(&self, notice: StopNotice) {
        self.shared.desk.borrow().stop_turn(notice);
    }

    /// Asks this model from the next turn on; what the agent delegates from then on runs with its route.
    pub fn set_model(&self, model: Arc<dyn Model>, route: Route) {
        self.shared.desk.send_modify(|desk| desk.aim(model, route));
    }

    /// Whether no turn runs, nothing is being stored, and neither a message nor the end of a process waits. All events of the
    /// turns before have been told then.
    pub fn is_idle(&self) -> bool {
        self.shared.ends.as_ref().is_none_or(Ends::is_empty) && self.shared.desk.borrow().is_idle()
    }

    /// Takes what was said and has not become part of the conversation, for whoever does not wait for its [`Farewell`].
    /// A message that is being stored at the moment is not among it.
    pub fn take_unsaid(&self) -> Vec<String> {
        let mut unsaid = Vec::new();
        self.shared.desk.send_modify(|desk| unsaid = desk.take_waiting());
        unsaid
    }

    /// Waits until no turn runs and no message waits, or until the conversation is closed.
    pub async fn wait_idle(&self) {
        let mut desk = self.shared.desk.subscribe();
        wait(&mut desk, |desk| desk.is_idle() || desk.is_closed()).await;
    }

    /// Lets go of the conversation for whoever opens the session next: no turn begins any more, and of the one that
    /// runs a reply or a command that is under way comes to its end and is stored. Returns when [`Conversation::run`]
    /// has ended, which may take as long as they do; [`ConversationHandle::close`] drops them.
    pub async fn let_go(&self) {
        let mut desk = self.shared.desk.subscribe();
        self.shared.desk.send_modify(Desk::let_go);
        wait(&mut desk, Desk::is_closed).await;
    }

    /// Ends the conversation: the turn that runs is stopped for `reason`, and results that have not come in yet stay stored. A
    /// [`StopReason::Shutdown`] drops the turn instead, to be taken up by whoever opens the session next. Children go on in any
    /// case, so the session stays held until this process ends, or says that nothing of it goes on any more
    /// (docs/design/044). Returns when [`Conversation::run`] has ended.
    pub async fn close(&self, reason: StopReason) {
        let mut desk = self.shared.desk.subscribe();
        self.shared.desk.send_modify(|desk| desk.close(reason));
        wait(&mut desk, Desk::is_closed).await;
    }
}

impl ConversationHandle {
    /// Puts an offer before the conversation if it is idle. No message can be taken between the look and that.
    fn hand_in(&self, offer: Offer) -> Option<oneshot::Receiver<Receipt>> {
        let desk = self.shared.desk.borrow();
        if !desk.is_idle() || desk.is_closing() {
            return None;
        }
        let (reply, answer) = oneshot::channel();
        self.shared.offers.try_send(Arrived { offer: Box::new(offer), reply }).ok().map(|()| answer)
    }
}

impl Inbox for ConversationHandle {
    fn reach(&self) -> Reach {
        Reach::Push
    }

    fn idle(&self) -> Pending<'_, bool> {
        let mut desk = self.shared.desk.subscribe();
        Box::pin(async move {
            wait(&mut desk, |desk| desk.is_idle() || desk.is_closing()).await;
            let desk = desk.borrow();
            !desk.is_closing()
        })
    }

    fn offer(&self, offer: Offer) -> Pending<'_, Receipt> {
        Box::pin(async move {
            if offer.session != self.shared.session {
                return Receipt::Gone;
            }
            match self.hand_in(offer) {
                // A conversation that has ended, or has something better to do, has not taken it.
                Some(answer) => answer.await.unwrap_or(Receipt::Busy),
                None => Receipt::Busy,
            }
        })
    }
}

/// Waits until the desk is as it should be. The writing end is in the handle that waits, so it is never gone.
async fn wait(desk: &mut watch::Receiver<Desk>, is_so: impl FnMut(&Desk) -> bool) {
    if desk.wait_for(is_so).await.is_err() {
        tracing::debug!("the desk of a conversation is gone");
    }
}
