//! What the dispatcher does from time to time while it has work: stores the pulses of running children for other
//! processes to see, and takes in the stops that other processes asked for.

use crate::book::{Book, Event};
use crate::wiring::{Clock, Wiring};
use legwork_core::ids::{ChildId, Epoch, OwnerId, RequestId};
use legwork_core::ports::{Pending, StopNotice, Store, StoreError};
use legwork_core::pulse::Pulse;
use legwork_core::steering::{Request, Scope, Wish};
use legwork_core::step::Fence;
use std::collections::{BTreeMap, HashMap};
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Between two looks for requests; a stop from another process takes at most about this long.
const ROUND: Duration = Duration::from_millis(200);
/// Pulses are stored every so many rounds.
const ROUNDS_A_PULSE: u32 = 5;

/// One round under way; it ends with the requests that are new.
type Round = Pending<'static, Result<Vec<(u64, Request)>, StoreError>>;

pub(super) struct Chores {
    store: Arc<dyn Store>,
    clock: Clock,
    owner: OwnerId,
    due: Instant,
    rounds: u32,
    /// The newest request that was read.
    cursor: u64,
    /// Requests that were carried out and are not marked so yet.
    carried_out: Vec<RequestId>,
    /// The beat of each child's pulse as it was stored last.
    stored: HashMap<ChildId, u64>,
    under_way: Option<Round>,
}

impl Chores {
    pub(super) fn new(wiring: &Wiring) -> Self {
        Chores {
            store: wiring.store.clone(),
            clock: wiring.clock,
            owner: wiring.owner.id.clone(),
            due: Instant::now(),
            rounds: 0,
            cursor: 0,
            carried_out: Vec::new(),
            stored: HashMap::new(),
            under_way: None,
        }
    }

    /// When the next round begins: far off while one is under way, or while there is nothing to look after.
    pub(super) fn due(&self, book: &Book) -> Instant {
        if self.under_way.is_some() || book.is_idle() { super::far_off() } else { self.due }
    }

    /// Begins a round with the pulses as they are now.
    pub(super) fn begin(&mut self, pulses: &HashMap<ChildId, Pulse>, book: &Book) {
        self.due = Instant::now() + ROUND;
        self.rounds += 1;
        let pulses = match self.rounds % ROUNDS_A_PULSE {
            0 => self.moved_since_stored(pulses, book),
            _ => BTreeMap::new(),
        };
        let (store, owner, at, after) =
            (self.store.clone(), self.owner.clone(), self.clock.now().wall, self.cursor);
        let carried_out = std::mem::take(&mut self.carried_out);
        self.under_way = Some(Box::pin(async move {
            for (epoch, pulses) in pulses {
                store.note_pulses(Fence { owner: owner.clone(), epoch }, at, pulses).await?;
            }
            for request in &carried_out {
                store.settle_request(request, &owner, at).await?;
            }
            store.requests(after).await
        }));
    }

    /// Resolves with the new requests when the round under way has ended; never when there is none.
    pub(super) async fn finished(&mut self) -> Vec<Request> {
        let answer = match &mut self.under_way {
            Some(round) => round.await,
            None => pending().await,
        };
        self.under_way = None;
        let requests = answer.unwrap_or_else(|error| {
            tracing::warn!(%error, "requests from other processes could not be read; the next round tries again");
            Vec::new()
        });
        self.cursor = requests.iter().map(|(number, _)| *number).fold(self.cursor, u64::max);
        requests.into_iter().map(|(_, request)| request).collect()
    }

    /// The events of those requests that are aimed at work of this process.
    pub(super) fn stops_of_ours(&mut self, requests: Vec<Request>, book: &Book) -> Vec<Event> {
        let mut events = Vec::new();
        for request in requests.into_iter().filter(|request| is_ours(&request.scope, book)) {
            let Wish::Stop { reason, force } = request.wish;
            events.push(Event::Stop {
                scope: request.scope,
                notice: StopNotice { reason, force },
                reply: None,
            });
            self.carried_out.push(request.id);
        }
        events
    }

    /// The pulses that moved since they were stored, by the epoch they are stored under.
    fn moved_since_stored(
        &mut self,
        pulses: &HashMap<ChildId, Pulse>,
        book: &Book,
    ) -> BTreeMap<Epoch, Vec<(ChildId, Pulse)>> {
        let mut by_epoch: BTreeMap<Epoch, Vec<(ChildId, Pulse)>> = BTreeMap::new();
        for (child, pulse) in pulses {
            if self.stored.get(child) == Some(&pulse.beat) {
                continue;
            }
            let Some((delegated, _)) = book.child(child) else { continue };
            by_epoch.entry(delegated.epoch).or_default().push((child.clone(), pulse.clone()));
        }
        self.stored = pulses.iter().map(|(child, pulse)| (child.clone(), pulse.beat)).collect();
        by_epoch
    }
}

fn is_ours(scope: &Scope, book: &Book) -> bool {
    match scope {
        Scope::Delegation(id) => book.delegation(id).is_some(),
        Scope::Child(id) => book.child(id).is_some(),
        Scope::Unit(id) => {
            book.delegations().any(|delegated| delegated.accepted.units.iter().any(|unit| unit.id == *id))
        }
        Scope::Session(id) => book.delegations().any(|delegated| delegated.accepted.lineage.session == *id),
        Scope::All => true,
    }
}
