//! A session of a live world: its user talks when it likes, a completion becomes a turn, and now and then the session is
//! closed and opened again.

use super::told;
use super::weather::Weather;
use legwork_core::batch::Reach;
use legwork_core::below::Below;
use legwork_core::ids::{ClaimId, OwnerId, SessionId, UnitId};
use legwork_core::message::{Author, Message, Part};
use legwork_core::ports::{
    Conversations, Delegator, Facts, Inbox, Offer, Pending, Receipt, StoreError, Turn,
};
use legwork_core::time::Timestamp;
use legwork_engine::Handle;
use std::sync::Arc;
use tokio::sync::{mpsc, watch};

/// How results reach a session: one of them cannot be woken and reads what was stored.
pub(super) fn reach_of(session: &SessionId) -> Reach {
    if *session == SessionId::from_bits(2) { Reach::History } else { Reach::Push }
}

/// One opening of a session.
struct Opened {
    reach: Reach,
    weather: Weather,
    mood: watch::Sender<Mood>,
    /// Filled by offers, emptied by the session's own loop; at most one waits, for the session is busy then.
    accepted: mpsc::UnboundedSender<Offer>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mood {
    Idle,
    Busy,
    Closed,
}

impl Opened {
    /// Moves from one mood to another; `false` when it was in neither.
    fn turn(&self, from: Mood, to: Mood) -> bool {
        self.mood.send_if_modified(|mood| {
            let fits = *mood == from;
            if fits {
                *mood = to;
            }
            fits
        })
    }

    /// What an idle session says to an offer.
    fn whim(&self) -> Receipt {
        if self.weather.is_calm() {
            return Receipt::Accepted;
        }
        self.weather.chance(|chance| match chance.below(12) {
            0 | 1 => Receipt::Busy,
            2 => Receipt::Gone,
            _ => Receipt::Accepted,
        })
    }
}

impl Inbox for Opened {
    fn reach(&self) -> Reach {
        self.reach
    }

    fn idle(&self) -> Pending<'_, bool> {
        let mut mood = self.mood.subscribe();
        Box::pin(async move {
            let mood = mood.wait_for(|mood| *mood != Mood::Busy).await;
            mood.is_ok_and(|mood| *mood == Mood::Idle)
        })
    }

    fn offer(&self, offer: Offer) -> Pending<'_, Receipt> {
        Box::pin(async move {
            let receipt = match self.whim() {
                Receipt::Accepted if self.turn(Mood::Idle, Mood::Busy) => {
                    // A session that ended this moment loses it, like one that dies.
                    self.accepted.send(offer).ok();
                    Receipt::Accepted
                }
                Receipt::Gone if self.turn(Mood::Idle, Mood::Closed) => Receipt::Gone,
                Receipt::Accepted | Receipt::Gone | Receipt::Busy | Receipt::Unfit => Receipt::Busy,
            };
            self.weather.count(receipt);
            // The answer takes its time, and may be given up before it comes.
            self.weather.dawdle(20).await;
            receipt
        })
    }
}

/// A session for as long as its process lives.
pub(super) struct Session {
    pub(super) weather: Weather,
    pub(super) id: SessionId,
    pub(super) owner: OwnerId,
    pub(super) handle: Handle,
    /// Claims of what is not part of the conversation yet.
    pub(super) loose: Vec<ClaimId>,
    /// How many messages it thinks its history has.
    messages: u64,
    /// Somebody else holds it.
    pub(super) lost: bool,
}

impl Session {
    pub(super) fn new(weather: Weather, id: SessionId, owner: OwnerId, handle: Handle) -> Self {
        Session { weather, id, owner, handle, loose: Vec::new(), messages: 0, lost: false }
    }

    /// The session, until somebody else holds it or its process ends: whatever is under way then is cut off, and what was taken
    /// for it and is not part of the conversation is given back.
    pub(super) async fn live(mut self, mut closing: watch::Receiver<bool>) {
        tokio::select! {
            biased;
            // A process that dies takes it along.
            _told = closing.wait_for(|closing| *closing) => {}
            () = self.go_through() => {}
        }
        self.give_back_loose().await;
    }

    /// Opens it again and again, until somebody else holds it.
    async fn go_through(&mut self) {
        while !self.lost {
            self.read().await;
            self.go_on().await;
            self.open().await;
            self.weather.dawdle(2000).await;
        }
    }

    /// One opening, until it is closed.
    async fn open(&mut self) {
        let (accepted, mut offers) = mpsc::unbounded_channel();
        let mood = watch::Sender::new(Mood::Idle);
        let opened =
            Arc::new(Opened { reach: reach_of(&self.id), weather: self.weather.clone(), mood, accepted });
        self.handle.attach(&self.id, opened.clone()).await;
        let weather = self.weather.clone();
        while !self.lost {
            tokio::select! {
                biased;
                Some(offer) = offers.recv() => {
                    self.carry(offer).await;
                    opened.turn(Mood::Busy, Mood::Idle);
                }
                () = weather.dawdle(1500) => {
                    let closes = !weather.is_calm() && weather.chance(|chance| chance.once_in(12));
                    if *opened.mood.borrow() == Mood::Closed || closes && opened.turn(Mood::Idle, Mood::Closed) {
                        return;
                    }
                    if opened.turn(Mood::Idle, Mood::Busy) {
                        self.turn().await;
                        opened.turn(Mood::Busy, Mood::Idle);
                    }
                }
            }
        }
    }

    /// A turn of the user's. When the people of the world have gone home, somebody still looks in.
    async fn turn(&mut self) {
        self.take_in().await;
        if self.weather.is_calm() || self.lost {
            return;
        }
        self.weather.dawdle(700).await;
        match self.weather.chance(|chance| chance.once_in(4)) {
            true => self.call().await,
            false => {
                self.store(Author::User, "something".to_owned(), Vec::new()).await;
            }
        }
    }

    /// The turn of a completion.
    async fn carry(&mut self, offer: Offer) {
        self.loose = vec![offer.claim.clone()];
        self.weather.dawdle(400).await;
        let accepted = &offer.record.accepted;
        let lines = match offer.notice {
            Some(task) => vec![UnitId::notice(&accepted.children[task]).to_string()],
            None => {
                let unit = &accepted.units[offer.unit];
                let below = self.below(&offer).await;
                [vec![unit.id.to_string()], told::unread(&unit.task_indexes, &below)].concat()
            }
        };
        if !self.store(Author::Completion, lines.join("\n"), vec![offer.claim]).await {
            self.give_back_loose().await;
        }
        self.loose.clear();
    }

    /// What the children of an offer have sent out themselves.
    async fn below(&self, offer: &Offer) -> Below {
        loop {
            match Below::of(self.weather.store.as_ref(), &offer.record).await {
                Ok(below) => return below,
                Err(_) => self.weather.dawdle(100).await,
            }
        }
    }

    /// Stores one message with the claims that it carries; `false` when that failed.
    pub(super) async fn store(&mut self, author: Author, text: String, acknowledge: Vec<ClaimId>) -> bool {
        let turn = Turn {
            session: self.id.clone(),
            writer: self.owner.clone(),
            expected_messages: self.messages,
            at: Timestamp(0),
            messages: vec![Message { author, parts: vec![Part::Text { text }] }],
            acknowledge,
        };
        let stored = self.weather.store.append_turn(turn).await;
        if stored.is_ok() {
            self.messages += 1;
            return true;
        }
        if let Err(StoreError::Fenced(_)) = stored {
            self.weather.shared().figures.fenced += 1;
            self.lost = true;
        }
        self.weather.shared().figures.lost_turns += 1;
        self.read().await;
        false
    }

    /// A claim that is not current any more was stored after all, or taken away.
    pub(super) async fn give_back(&self, claim: ClaimId) {
        loop {
            let given =
                self.weather.store.release(vec![claim.clone()], Timestamp(0), "the turn was lost").await;
            if !matches!(given, Err(StoreError::Io(_))) {
                return;
            }
            self.weather.dawdle(100).await;
        }
    }

    /// Reads how long its history is.
    async fn read(&mut self) {
        loop {
            if let Ok(Some(record)) = self.weather.store.session(&self.id).await {
                self.messages = record.messages;
                return;
            }
            self.weather.dawdle(100).await;
        }
    }
}
