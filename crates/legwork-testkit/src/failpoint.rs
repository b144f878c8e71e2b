//! Failpoints: nine moments in the life of a delegation at which a process dies. They lie in the ports `Store` and `Inbox`,
//! and not in the program, which has no branch for them: whatever the process asks at that moment is carried out or not, as
//! the failpoint says, there is never an answer, and nothing that it asks later has any effect.

mod door;

pub use door::Door;

use crate::shaky::{Call, Content, Luck, ShakyStore};
use legwork_core::child::ChildEvent;
use legwork_core::fact::{Append, Fact};
use legwork_core::message::Author;
use legwork_core::ports::{Inbox, Offer, Pending, Receipt, Store, Turn};
use legwork_core::step::Actor;
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A moment at which a process dies, the first time it gets there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Failpoint {
    /// A call was accepted, and nothing of it is stored.
    F1,
    /// The call is stored, and its handle has not come back.
    F2,
    /// The handle came back, and no child has asked its model: the first write of its journal comes before that.
    F3,
    /// A child has ended, and that is not stored.
    F4,
    /// A child's end is stored, and nobody knows of it.
    F5,
    /// A unit is claimed and offered to its session, and no turn is in the conversation.
    F6,
    /// The turn is in the conversation, and whoever stored it does not know. Where the end of the claim is a part of that
    /// commit, it is stored too.
    F7,
    /// The turn is in the conversation, and whoever stored it knows: it dies of whatever it does next.
    F8,
    /// The process is ending in good order, and dies of the first thing that it stores then.
    F9,
}

impl Failpoint {
    /// All of them.
    pub const ALL: [Failpoint; 9] = [
        Failpoint::F1,
        Failpoint::F2,
        Failpoint::F3,
        Failpoint::F4,
        Failpoint::F5,
        Failpoint::F6,
        Failpoint::F7,
        Failpoint::F8,
        Failpoint::F9,
    ];

    /// What a call of the store meets in a process that dies here.
    fn luck(self, call: Call<'_>, is_ending: bool) -> Luck {
        let (hit, luck) = match self {
            Failpoint::F1 => (is_fact(call, accepts), Luck::Dies),
            Failpoint::F2 => (is_fact(call, accepts), Luck::DiesLate),
            Failpoint::F3 => (is_of_a_child(call), Luck::Dies),
            Failpoint::F4 => (is_fact(call, ends), Luck::Dies),
            Failpoint::F5 => (is_fact(call, ends), Luck::DiesLate),
            // It lies in the inbox.
            Failpoint::F6 => (false, Luck::Good),
            Failpoint::F7 => (is_completion(call), Luck::DiesLate),
            Failpoint::F8 => (is_completion(call), Luck::Last),
            Failpoint::F9 => (is_ending && call.writes(), Luck::Dies),
        };
        if hit { luck } else { Luck::Good }
    }
}

fn is_fact(call: Call<'_>, is_it: fn(&Fact) -> bool) -> bool {
    match call.content {
        Content::Facts(appends) => appends.iter().flat_map(|append: &Append| &append.facts).any(is_it),
        Content::Steps(_) | Content::Turn(_) | Content::Other => false,
    }
}

fn accepts(fact: &Fact) -> bool {
    matches!(fact, Fact::Accepted(_))
}

fn ends(fact: &Fact) -> bool {
    matches!(fact, Fact::Moved { event: ChildEvent::Returned(_), .. })
}

fn is_of_a_child(call: Call<'_>) -> bool {
    match call.content {
        Content::Steps(write) => matches!(write.actor, Actor::Child(_)),
        Content::Facts(_) | Content::Turn(_) | Content::Other => false,
    }
}

fn is_completion(call: Call<'_>) -> bool {
    let carries = |turn: &Turn| turn.messages.iter().any(|message| message.author == Author::Completion);
    match call.content {
        Content::Turn(turn) => carries(turn),
        Content::Facts(_) | Content::Steps(_) | Content::Other => false,
    }
}

/// One process as far as its death is concerned: the store that it has open, and the inboxes of its sessions.
pub struct Mortal {
    store: Arc<ShakyStore>,
    point: Option<Failpoint>,
    /// Written by whoever ends the process, read by its store.
    is_ending: Arc<AtomicBool>,
}

impl Mortal {
    /// A process that has `store` open and dies at `point`, if at all.
    pub fn new(store: ShakyStore, point: Option<Failpoint>) -> Self {
        let is_ending = Arc::new(AtomicBool::new(false));
        if let Some(point) = point {
            let is_ending = Arc::clone(&is_ending);
            store.let_judge(move |call| point.luck(call, is_ending.load(Ordering::SeqCst)));
        }
        Mortal { store: Arc::new(store), point, is_ending }
    }

    /// Its store.
    pub fn store(&self) -> Arc<dyn Store> {
        Arc::clone(&self.store) as Arc<dyn Store>
    }

    /// It begins to end in good order.
    pub fn ends(&self) {
        self.is_ending.store(true, Ordering::SeqCst);
    }

    /// Resolves when it has died.
    pub fn death(&self) -> impl Future<Output = ()> + Send + use<> {
        self.store.death()
    }

    /// Makes inboxes of this process's sessions out of others.
    pub fn inboxes(&self) -> impl Fn(Arc<dyn Inbox>) -> Arc<dyn Inbox> + Send + Sync + use<> {
        let (point, store) = (self.point, Arc::clone(&self.store));
        move |behind| Arc::new(MortalInbox { behind, point, store: Arc::clone(&store) })
    }
}

struct MortalInbox {
    behind: Arc<dyn Inbox>,
    point: Option<Failpoint>,
    store: Arc<ShakyStore>,
}

impl Inbox for MortalInbox {
    fn reach(&self) -> legwork_core::batch::Reach {
        self.behind.reach()
    }

    fn idle(&self) -> Pending<'_, bool> {
        self.behind.idle()
    }

    fn offer(&self, offer: Offer) -> Pending<'_, Receipt> {
        if self.point == Some(Failpoint::F6) {
            self.store.die();
        }
        if self.store.is_dead() {
            return Box::pin(pending());
        }
        self.behind.offer(offer)
    }
}
