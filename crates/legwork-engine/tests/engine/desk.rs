//! A session as the courier sees it: it is idle when the test says so, and answers offers as it was told.

use crate::scene::FOR_EVER;
use legwork_core::batch::Reach;
use legwork_core::ids::{SessionId, UnitId};
use legwork_core::ports::{Inbox, Offer, Pending, Receipt, Store};
use legwork_core::time::Timestamp;
use std::collections::VecDeque;
use std::sync::Arc;
use tokio::sync::watch;
use tokio::time::timeout;

/// One session.
#[derive(Clone)]
pub struct Desk {
    pub session: SessionId,
    reach: Reach,
    /// Written by the test and by the offers, read by both.
    state: Arc<watch::Sender<State>>,
}

#[derive(Default)]
struct State {
    is_idle: bool,
    is_closed: bool,
    /// What the next offers get; one that is not told otherwise is accepted.
    answers: VecDeque<Answer>,
    offers: Vec<Offer>,
    in_hand: Option<Offer>,
}

/// What an offer meets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    Receipt(Receipt),
    Panic,
    /// It is never answered.
    Hang,
}

impl Desk {
    /// An idle session.
    pub fn new(session: u64) -> Desk {
        let state = State { is_idle: true, ..State::default() };
        Desk {
            session: SessionId::from_bits(session),
            reach: Reach::Push,
            state: Arc::new(watch::Sender::new(state)),
        }
    }

    /// An idle session that takes completions so.
    pub fn taking(session: u64, reach: Reach) -> Desk {
        Desk { reach, ..Desk::new(session) }
    }

    /// A session in the middle of a turn.
    pub fn busy(session: u64) -> Desk {
        let desk = Desk::new(session);
        desk.turn_begins();
        desk
    }

    pub fn inbox(&self) -> Arc<dyn Inbox> {
        Arc::new(self.clone())
    }

    pub fn turn_begins(&self) {
        self.state.send_modify(|state| state.is_idle = false);
    }

    pub fn turn_ends(&self) {
        self.state.send_modify(|state| state.is_idle = true);
    }

    pub fn closes(&self) {
        self.state.send_modify(|state| state.is_closed = true);
    }

    /// The next offer that has no answer yet gets this one.
    pub fn answers(&self, answer: Answer) {
        self.state.send_modify(|state| state.answers.push_back(answer));
    }

    /// The units that were offered so far.
    pub fn offered(&self) -> Vec<UnitId> {
        self.state.borrow().offers.iter().map(unit).collect()
    }

    pub fn last_offer(&self) -> Offer {
        self.state.borrow().offers.last().expect("something was offered").clone()
    }

    /// Waits until so many offers were made.
    pub async fn until_offered(&self, count: usize) {
        let mut state = self.state.subscribe();
        // Deadline: in paused time a wait for something that never comes would turn for ever.
        let met = timeout(FOR_EVER, state.wait_for(|state| state.offers.len() >= count)).await;
        met.unwrap_or_else(|_| panic!("waited for ever: {:?}", self.offered()))
            .expect("the desk holds the sender");
    }

    /// The turn that carries what was accepted is stored and ends.
    pub async fn stores(&self, store: &dyn Store) {
        let claim = self.in_hand().claim;
        store.acknowledge(vec![claim], Timestamp(0)).await.expect("the store takes it");
        self.turn_ends();
    }

    /// The turn that carries what was accepted cannot be stored.
    pub async fn gives_back(&self, store: &dyn Store) {
        let claim = self.in_hand().claim;
        store
            .release(vec![claim], Timestamp(0), "the turn could not be stored")
            .await
            .expect("the store takes it");
        self.turn_ends();
    }

    fn in_hand(&self) -> Offer {
        let mut taken = None;
        self.state.send_modify(|state| taken = state.in_hand.take());
        taken.expect("something was accepted")
    }
}

fn unit(offer: &Offer) -> UnitId {
    offer.record.accepted.units[offer.unit].id.clone()
}

impl Inbox for Desk {
    fn reach(&self) -> Reach {
        self.reach
    }

    fn idle(&self) -> Pending<'_, bool> {
        let mut state = self.state.subscribe();
        Box::pin(async move {
            let state = state.wait_for(|state| state.is_idle || state.is_closed).await;
            !state.expect("the desk holds the sender").is_closed
        })
    }

    fn offer(&self, offer: Offer) -> Pending<'_, Receipt> {
        let mut answer = None;
        self.state.send_modify(|state| {
            let next = state.answers.pop_front().unwrap_or(Answer::Receipt(Receipt::Accepted));
            if next == Answer::Receipt(Receipt::Accepted) {
                state.is_idle = false;
                state.in_hand = Some(offer.clone());
            }
            state.offers.push(offer);
            answer = Some(next);
        });
        Box::pin(async move {
            match answer.expect("it was just decided") {
                Answer::Receipt(receipt) => receipt,
                Answer::Panic => panic!("the inbox fell over"),
                Answer::Hang => std::future::pending().await,
            }
        })
    }
}
