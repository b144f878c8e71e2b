//! What the dispatcher does from time to time: stores the pulses of running children for other processes to see, and
//! takes in the stops that other processes asked for. It looks for them even while it has no work, so that a stop of
//! everything is read when it is asked for, and not by the first work that comes after it.

use crate::book::{Book, Event};
use crate::wiring::{Clock, Wiring};
use legwork_core::ids::{ChildId, DelegationId, Epoch, OwnerId, RequestId};
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

/// Pulses of one delegation, and the generation to store them under.
type Moved = (DelegationId, Epoch, Vec<(ChildId, Pulse)>);

/// One round under way.
type Round = Pending<'static, Result<Looked, StoreError>>;

/// What a round did.
#[derive(Default)]
struct Looked {
    found: Found,
    /// Requests that are marked as carried out now.
    marked: Vec<RequestId>,
    /// The newest request that was read.
    newest: Option<u64>,
}

/// What a round found out for the dispatcher.
#[derive(Default)]
pub(super) struct Found {
    /// New requests.
    pub(super) requests: Vec<Request>,
    /// Delegations that are no longer ours: somebody took them over.
    pub(super) lost: Vec<DelegationId>,
}

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
    pub(super) fn new(wiring: &Wiring, asked_before: u64) -> Self {
        Chores {
            store: wiring.store.clone(),
            clock: wiring.clock,
            owner: wiring.owner.id.clone(),
            due: Instant::now(),
            rounds: 0,
            cursor: asked_before,
            carried_out: Vec::new(),
            stored: HashMap::new(),
            under_way: None,
        }
    }

    /// When the next round begins: far off while one is under way.
    pub(super) fn due(&self) -> Instant {
        if self.under_way.is_some() { super::far_off() } else { self.due }
    }

    /// Begins a round with the pulses as they are now.
    pub(super) fn begin(&mut self, pulses: &HashMap<ChildId, Pulse>, book: &Book) {
        self.due = Instant::now() + ROUND;
        self.rounds += 1;
        let pulses = match self.rounds % ROUNDS_A_PULSE {
            0 => self.moved_since_stored(pulses, book),
            _ => Vec::new(),
        };
        let (store, owner, at, after) =
            (self.store.clone(), self.owner.clone(), self.clock.now().wall, self.cursor);
        let carried_out = self.carried_out.clone();
        self.under_way = Some(Box::pin(async move {
            let mut looked = Looked::default();
            for (delegation, epoch, pulses) in pulses {
                match store.note_pulses(Fence { owner: owner.clone(), epoch }, at, pulses).await {
                    Ok(()) => {}
                    Err(StoreError::Fenced(_)) => looked.found.lost.push(delegation),
                    // Stops matter more than pulses.
                    Err(error) => tracing::warn!(%delegation, %error, "pulses could not be stored"),
                }
            }
            for request in carried_out {
                match store.settle_request(&request, &owner, at).await {
                    // One that was pruned meanwhile has no row left to mark.
                    Ok(()) | Err(StoreError::Conflict(_)) => looked.marked.push(request),
                    // A store that takes no writes may still tell of new stops.
                    Err(error) => {
                        tracing::warn!(%request, %error, "a stop that was carried out could not be marked so")
                    }
                }
            }
            let requests = store.requests(after).await?;
            looked.newest = requests.iter().map(|(number, _)| *number).max();
            looked.found.requests = requests.into_iter().map(|(_, request)| request).collect();
            Ok(looked)
        }));
    }

    /// Resolves with what is new when the round under way has ended; never when there is none.
    pub(super) async fn finished(&mut self) -> Found {
        let answer = match &mut self.under_way {
            Some(round) => round.await,
            None => pending().await,
        };
        self.under_way = None;
        let looked = answer.unwrap_or_else(|error| {
            tracing::warn!(%error, "requests from other processes could not be read; the next round tries again");
            Looked::default()
        });
        self.carried_out.retain(|request| !looked.marked.contains(request));
        self.cursor = looked.newest.unwrap_or(self.cursor);
        looked.found
    }

    /// The events of those requests that are aimed at work of this process.
    pub(super) fn stops_of_ours(&mut self, requests: Vec<Request>, book: &Book) -> Vec<Event> {
        let mut events = Vec::new();
        for request in requests.into_iter().filter(|request| is_ours(&request.scope, book)) {
            let Wish::Stop { reason, force } = request.wish;
            if is_for_one_process(&request.scope) {
                self.carried_out.push(request.id);
            }
            events.push(Event::Stop {
                scope: request.scope,
                notice: StopNotice { reason, force },
                reply: None,
            });
        }
        events
    }

    /// The pulses that moved since they were stored. One write a delegation, because whose it is may have changed.
    fn moved_since_stored(&mut self, pulses: &HashMap<ChildId, Pulse>, book: &Book) -> Vec<Moved> {
        let mut moved: BTreeMap<DelegationId, Moved> = BTreeMap::new();
        for (child, pulse) in pulses {
            if self.stored.get(child) == Some(&pulse.beat) {
                continue;
            }
            let Some((delegated, _)) = book.child(child) else { continue };
            let id = &delegated.accepted.delegation;
            let entry = moved.entry(id.clone()).or_insert_with(|| (id.clone(), delegated.epoch, Vec::new()));
            entry.2.push((child.clone(), pulse.clone()));
        }
        self.stored = pulses.iter().map(|(child, pulse)| (child.clone(), pulse.beat)).collect();
        moved.into_values().collect()
    }
}

/// Whether no other process can be meant. Who marks a request takes it from all others.
fn is_for_one_process(scope: &Scope) -> bool {
    match scope {
        Scope::Delegation(_) | Scope::Unit(_) | Scope::Child(_) => true,
        Scope::Session(_) | Scope::All => false,
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
