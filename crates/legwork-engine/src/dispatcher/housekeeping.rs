//! What the dispatcher does from time to time: stores the pulses of running children for other processes to see, and
//! takes in what others stored: stops, texts for children, and whether new children may start. It looks for them even
//! while it has no work, so that a stop of everything is read when it is asked for, and not by the first work that comes
//! after it.

use super::leaving::{self, Leaving};
use super::owed::Owed;
use crate::book::Book;
use crate::gap::Gaps;
use crate::wiring::{Clock, Wiring};
use futures::future::join_all;
use legwork_core::ids::{ChildId, ClaimId, DelegationId, Epoch, OwnerId, RequestId};
use legwork_core::ports::{Pause, Pending, Store, StoreError};
use legwork_core::pulse::Pulse;
use legwork_core::record::{OwnerRecord, Process};
use legwork_core::steering::{Request, Scope};
use legwork_core::step::Fence;
use legwork_core::time::Timestamp;
use std::collections::{BTreeMap, HashMap};
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::Instant;

/// Between two looks for news; a stop from another process takes at most about this long.
const ROUND: Duration = Duration::from_millis(200);
/// Between two rounds that store pulses.
const PULSES: Duration = Duration::from_secs(1);
/// The longest time that a store which cannot be read, or takes no writes, is left alone.
const LONGEST_GAP: Duration = Duration::from_secs(5);

/// Why a claim is given back.
const NOT_TAKEN: &str = "whoever waited for the results went away before it had them";

/// Pulses of one delegation, and the generation to store them under.
type Moved = (DelegationId, Epoch, Vec<(ChildId, Pulse)>);

/// One round under way.
type Round = Pending<'static, Looked>;

/// What a round did.
struct Looked {
    /// Delegations that are no longer ours: somebody took them over.
    lost: Vec<DelegationId>,
    /// Delegations that are left to another process now.
    left: Vec<DelegationId>,
    /// Requests that are marked as carried out now.
    marked: Vec<RequestId>,
    /// Claims that are nobody's here any more.
    paid: Vec<ClaimId>,
    /// The first write that failed; none when nothing was to be written.
    written: Option<Result<(), StoreError>>,
    /// Whether all that is open was to be read.
    reread: bool,
    /// The newest request that was read, what was asked, and whether new children may start.
    news: Result<(Option<u64>, Vec<Request>, Pause), StoreError>,
}

/// What a round found out for the dispatcher.
#[derive(Default)]
pub(super) struct Found {
    /// New requests.
    pub(super) requests: Vec<Request>,
    /// Delegations that are no longer ours: somebody took them over.
    pub(super) lost: Vec<DelegationId>,
    /// Delegations that are left to another process now.
    pub(super) left: Vec<DelegationId>,
    /// The switch, when it is not where it was.
    pub(super) pause: Option<Pause>,
}

pub(super) struct Chores {
    store: Arc<dyn Store>,
    clock: Clock,
    owner: OwnerId,
    process: Process,
    bits: Arc<dyn Fn() -> u64 + Send + Sync>,
    due: Instant,
    /// When pulses are stored next.
    pulses_due: Instant,
    /// The newest request that was read.
    cursor: u64,
    /// The next round reads all that is open, for work that came to this process after it was asked of it.
    rereads: bool,
    /// Requests that were carried out and are not marked so yet.
    carried_out: Vec<RequestId>,
    /// Requests of this process itself that are not stored yet.
    wanted: Vec<Request>,
    owed: Owed,
    /// Trees that are to be left to another process, and are not yet.
    leaving: Vec<Leaving>,
    /// The beat of each child's pulse as it was stored last.
    stored: HashMap<ChildId, u64>,
    under_way: Option<Round>,
    /// Somebody stored something after the round under way began; it may not see it.
    again: bool,
    /// Whether new children may start, as this process last knew.
    pause: Pause,
    /// The switch was turned here after the round under way began.
    turned: bool,
    reads: Gaps,
    writes: Gaps,
    /// Until when nothing is written, because the store took no writes.
    writes_due: Instant,
}

/// What a process knows of the others when it begins.
pub(super) struct Known {
    /// The newest request that was stored by then.
    pub(super) asked_before: u64,
    /// Whether new children may start.
    pub(super) pause: Pause,
}

impl Chores {
    pub(super) fn new(wiring: &Wiring, Known { asked_before, pause }: Known) -> Self {
        let gaps = Gaps::new(ROUND, LONGEST_GAP);
        Chores {
            store: wiring.store.clone(),
            clock: wiring.clock,
            owner: wiring.owner.id.clone(),
            due: Instant::now(),
            pulses_due: Instant::now() + PULSES,
            cursor: asked_before,
            rereads: false,
            carried_out: Vec::new(),
            wanted: Vec::new(),
            owed: Owed::default(),
            leaving: Vec::new(),
            bits: wiring.bits.clone(),
            process: wiring.owner.process.clone(),
            stored: HashMap::new(),
            under_way: None,
            again: false,
            pause,
            turned: false,
            reads: gaps.clone(),
            writes: gaps,
            writes_due: Instant::now(),
        }
    }

    /// When the next round begins: far off while one is under way.
    pub(super) fn due(&self) -> Instant {
        if self.under_way.is_some() { super::far_off() } else { self.due }
    }

    /// There is news for sure: a round that begins after this call sees it.
    pub(super) fn look_now(&mut self) {
        self.again = self.under_way.is_some();
        self.due = Instant::now();
    }

    /// Work came to this process: what was asked of it before is read once more, as soon as may be.
    pub(super) fn reread(&mut self) {
        self.rereads = true;
        self.look_now();
    }

    /// The switch was turned here, and that is stored. Answers whether it was elsewhere before.
    pub(super) fn turn(&mut self, pause: Pause) -> bool {
        self.turned = self.under_way.is_some();
        std::mem::replace(&mut self.pause, pause) != pause
    }

    /// Marks a request as carried out, with the next round.
    pub(super) fn carried_out(&mut self, request: RequestId) {
        self.carried_out.push(request);
    }

    /// Stores a request with the next round, which begins at once, and reads it back as any other.
    pub(super) fn ask(&mut self, request: Request) {
        self.wanted.push(request);
        self.look_now();
    }

    /// Gives claims back, with the next round, which begins at once.
    pub(super) fn give_back(&mut self, claims: Vec<ClaimId>) {
        self.owed.owe(claims);
        self.look_now();
    }

    /// A caller takes a claim up that was perhaps to be given back. Answered when no round moves it any more.
    pub(super) fn keep(&mut self, claim: &ClaimId, reply: oneshot::Sender<()>) {
        self.owed.keep(claim, reply);
    }

    /// What is to be left to another process, and is not yet.
    pub(super) fn leaving(&self) -> impl Iterator<Item = &DelegationId> {
        self.leaving.iter().flat_map(|leaving| &leaving.delegations)
    }

    /// Leaves a tree to another process, with the next round, which begins at once.
    pub(super) fn leave(&mut self, delegations: Vec<DelegationId>) {
        if !delegations.is_empty() {
            let nobody = OwnerRecord::new(OwnerId::from_bits((self.bits)()), self.process.clone());
            self.leaving.push(Leaving { nobody, delegations });
            self.look_now();
        }
    }

    /// Whether the next round stores pulses.
    pub(super) fn want_pulses(&self) -> bool {
        Instant::now() >= self.pulses_due.max(self.writes_due)
    }

    /// Begins a round, with the pulses as they are now if they are wanted.
    pub(super) fn begin(&mut self, pulses: &BTreeMap<ChildId, Pulse>, book: &Book) {
        let mut moved = Vec::new();
        if self.want_pulses() {
            moved = self.moved_since_stored(pulses, book);
            self.pulses_due = Instant::now() + PULSES;
        }
        let writes = Instant::now() >= self.writes_due;
        let carried_out = if writes { self.carried_out.clone() } else { Vec::new() };
        let leaving = if writes { self.leaving.clone() } else { Vec::new() };
        let owed = if writes { self.owed.begin() } else { Vec::new() };
        let wanted = if writes { std::mem::take(&mut self.wanted) } else { Vec::new() };
        self.due = Instant::now() + ROUND;
        self.again = false;
        self.turned = false;
        let reread = std::mem::take(&mut self.rereads);
        let after = if reread { 0 } else { self.cursor };
        let (store, owner, at, known) =
            (self.store.clone(), self.owner.clone(), self.clock.now().wall, self.cursor);
        self.under_way = Some(Box::pin(async move {
            let writer = Writer { store: store.as_ref(), owner: &owner, at };
            // All at once, so that a store that makes its writers wait does so once for all of them.
            let (pulses, marks, asks, leaves, pays) = tokio::join!(
                writer.store_pulses(moved),
                writer.mark(carried_out),
                writer.ask(wanted),
                writer.leave(leaving),
                writer.give_back(owed)
            );
            let (lost, marked, left, paid) = (pulses.done, marks.done, leaves.done, pays.done);
            let mut written = pulses.written;
            [marks.written, asks.written, leaves.written, pays.written]
                .into_iter()
                .flatten()
                .for_each(|answer| note(&mut written, answer));
            // A store that takes no writes may still tell of new stops.
            let news = store.news(after).await.map(|news| {
                let numbers = news.requests.iter().map(|(number, _)| number);
                let newest = numbers.chain(news.unreadable.iter().map(|(number, _)| number)).max().copied();
                for (_, request) in news.unreadable.iter().filter(|(number, _)| *number > known) {
                    tracing::warn!(%request, "a stop or a message cannot be read, and nobody hears of it; `legwork doctor` says what to do");
                }
                let mut requests = news.requests;
                // What was asked of everybody was heard when it was new, and is not meant for what came since.
                requests.retain(|(number, request)| *number > known || is_for_one_process(&request.scope));
                (newest, requests.into_iter().map(|(_, request)| request).collect(), news.pause)
            });
            Looked { lost, left, marked, paid, written, reread, news }
        }));
    }

    /// Resolves with what is new when the round under way has ended; never when there is none.
    pub(super) async fn finished(&mut self) -> Found {
        let looked = match &mut self.under_way {
            Some(round) => round.await,
            None => pending().await,
        };
        self.under_way = None;
        self.carried_out.retain(|request| !looked.marked.contains(request));
        self.owed.end(&looked.paid);
        self.leaving.retain(|leaving| !leaving.delegations.iter().all(|id| looked.left.contains(id)));
        self.note_writes(looked.written);
        self.rereads |= looked.reread && looked.news.is_err();
        let (requests, pause) = self.note_news(looked.news);
        if self.again {
            self.due = Instant::now();
        }
        Found { requests, lost: looked.lost, left: looked.left, pause }
    }

    fn note_writes(&mut self, written: Option<Result<(), StoreError>>) {
        match written {
            Some(Err(error)) => {
                // Which of them were pulses is not told apart: all are written again.
                self.stored.clear();
                if self.writes.is_closed() {
                    tracing::warn!(%error, "the progress of subagents, that a stop was carried out, or that results were not taken could not be stored; it is tried again");
                }
                self.writes_due = Instant::now() + self.writes.widen();
            }
            Some(Ok(())) => {
                self.writes.close();
            }
            None => {}
        }
    }

    fn note_news(
        &mut self,
        news: Result<(Option<u64>, Vec<Request>, Pause), StoreError>,
    ) -> (Vec<Request>, Option<Pause>) {
        match news {
            Ok((newest, requests, pause)) => {
                if self.reads.close() {
                    tracing::info!("requests of other processes can be read again");
                }
                self.cursor = newest.unwrap_or_default().max(self.cursor);
                // A switch that was turned here meanwhile is known better than it was read.
                let changed = !self.turned && self.pause != pause;
                if changed {
                    self.pause = pause;
                }
                (requests, changed.then_some(pause))
            }
            Err(error) => {
                if self.reads.is_closed() {
                    tracing::warn!(%error, "stops and messages of other processes cannot be read; it is tried again");
                }
                self.due = Instant::now() + self.reads.widen();
                (Vec::new(), None)
            }
        }
    }

    /// The pulses that moved since they were stored. One write a delegation, because whose it is may have changed.
    fn moved_since_stored(&mut self, pulses: &BTreeMap<ChildId, Pulse>, book: &Book) -> Vec<Moved> {
        let now = self.clock.now().mono;
        let mut moved: BTreeMap<DelegationId, Moved> = BTreeMap::new();
        for (child, pulse) in pulses {
            if self.stored.get(child) == Some(&pulse.beat) {
                continue;
            }
            let Some((delegated, index)) = book.child(child) else { continue };
            let id = &delegated.accepted.delegation;
            let entry = moved.entry(id.clone()).or_insert_with(|| (id.clone(), delegated.epoch, Vec::new()));
            entry.2.push((child.clone(), delegated.noted(index, pulse.clone(), now)));
        }
        self.stored = pulses.iter().map(|(child, pulse)| (child.clone(), pulse.beat)).collect();
        moved.into_values().collect()
    }
}

/// Writes what a round has to write.
struct Writer<'a> {
    store: &'a dyn Store,
    owner: &'a OwnerId,
    at: Timestamp,
}

/// How some of a round's writes went.
struct Wrote<T> {
    /// What they were about.
    done: Vec<T>,
    /// The first failure, or that it went well; none when nothing was to be written.
    written: Option<Result<(), StoreError>>,
}

impl Writer<'_> {
    /// Stores pulses, and says which delegations are not ours any more.
    async fn store_pulses(&self, pulses: Vec<Moved>) -> Wrote<DelegationId> {
        let stored = pulses.into_iter().map(async |(delegation, epoch, pulses)| {
            let fence = Fence { owner: self.owner.clone(), epoch };
            (delegation, self.store.note_pulses(fence, self.at, pulses).await)
        });
        let mut wrote = Wrote { done: Vec::new(), written: None };
        for (delegation, answer) in join_all(stored).await {
            match answer {
                Err(StoreError::Fenced(_)) => wrote.done.push(delegation),
                answer => note(&mut wrote.written, answer),
            }
        }
        wrote
    }

    /// Marks requests as carried out, and says which of them are marked now.
    async fn mark(&self, requests: Vec<RequestId>) -> Wrote<RequestId> {
        let marks = requests.into_iter().map(async |request| {
            let answer = self.store.settle_request(&request, self.owner, self.at).await;
            (request, answer)
        });
        let mut wrote = Wrote { done: Vec::new(), written: None };
        for (request, answer) in join_all(marks).await {
            match answer {
                // One that was pruned meanwhile has no row left to mark.
                Ok(()) | Err(StoreError::Conflict(_)) => {
                    wrote.done.push(request);
                    note(&mut wrote.written, Ok(()));
                }
                Err(error) => note(&mut wrote.written, Err(error)),
            }
        }
        wrote
    }

    /// Stores requests. One that the store does not take is dropped: it would be out of date when the store is back.
    async fn ask(&self, wanted: Vec<Request>) -> Wrote<()> {
        let asked = join_all(wanted.into_iter().map(|request| self.store.ask(request))).await;
        let mut wrote = Wrote { done: Vec::new(), written: None };
        asked.into_iter().for_each(|answer| note(&mut wrote.written, answer.map(drop)));
        wrote
    }

    /// Gives claims back one by one, and says which of them nobody here holds any more.
    async fn give_back(&self, owed: Vec<ClaimId>) -> Wrote<ClaimId> {
        let paid = owed.into_iter().map(async |claim| {
            let answer = self.store.release(vec![claim.clone()], self.at, NOT_TAKEN).await;
            (claim, answer)
        });
        let mut wrote = Wrote { done: Vec::new(), written: None };
        for (claim, answer) in join_all(paid).await {
            match answer {
                // It was never made, or has ended by other means.
                Ok(()) | Err(StoreError::Conflict(_)) => {
                    wrote.done.push(claim);
                    note(&mut wrote.written, Ok(()));
                }
                Err(error) => note(&mut wrote.written, Err(error)),
            }
        }
        wrote
    }

    /// Leaves trees to other processes, and says which delegations are left.
    async fn leave(&self, leaving: Vec<Leaving>) -> Wrote<DelegationId> {
        let mut wrote = Wrote { done: Vec::new(), written: None };
        for one in leaving {
            let answer = leaving::leave(self.store, self.owner, &one, self.at).await;
            if answer.is_ok() {
                wrote.done.extend(one.delegations);
            }
            note(&mut wrote.written, answer);
        }
        wrote
    }
}

/// The first failure counts.
fn note(written: &mut Option<Result<(), StoreError>>, answer: Result<(), StoreError>) {
    if !matches!(written, Some(Err(_))) {
        *written = Some(answer);
    }
}

/// Whether no other process can be meant. Who marks a request takes it from all others.
pub(crate) fn is_for_one_process(scope: &Scope) -> bool {
    match scope {
        Scope::Delegation(_) | Scope::Unit(_) | Scope::Child(_) => true,
        Scope::Session(_) | Scope::All => false,
    }
}

/// Whether work of this process is meant.
pub(super) fn is_ours(scope: &Scope, book: &Book) -> bool {
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
