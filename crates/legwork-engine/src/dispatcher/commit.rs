//! The commits of the dispatcher: at most one is under way, and what comes meanwhile goes into the next one.

use crate::book::{Effect, ReplyTo};
use crate::offering::{Became, Offered, is_new, offer};
use legwork_core::fact::Append;
use legwork_core::ids::DelegationId;
use legwork_core::ports::{AppendError, Pending, Store, StoreError, TROUBLE_MAX};
use std::collections::{BTreeMap, BTreeSet};
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Pauses between tries of a commit that the store could not take: doubled each time, up to the last.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LAST_PAUSE: Duration = Duration::from_secs(5);

/// Facts on their way to the store.
pub(super) struct Commits {
    store: Arc<dyn Store>,
    next: Group,
    under_way: Option<Pending<'static, Finished>>,
    /// Effects that wait for the commit under way.
    along: Vec<Effect>,
    /// Why the last commit failed, while facts of it are kept.
    trouble: Option<Trouble>,
    /// Since when the store takes nothing of a delegation of which facts are kept.
    untaken: BTreeMap<DelegationId, Instant>,
    /// How long the store is left alone after the next failure.
    pause: Duration,
    stage: Stage,
}

/// A commit that failed and is tried again.
struct Trouble {
    error: StoreError,
    since: Instant,
    again_at: Instant,
}

/// What is made of a failure.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The facts are offered again until the store was in trouble for too long.
    Trying,
    /// The process is ending: they are offered once more, at once.
    LastTry,
    /// That was it; what is not recorded now is for the next owner to find out.
    Over,
}

/// Facts and the effects that wait for them, in order.
#[derive(Default)]
struct Group {
    appends: Vec<Append>,
    effects: Vec<Effect>,
}

struct Finished {
    group: Group,
    offered: Offered,
}

/// What a finished commit leaves to do.
#[derive(Default)]
pub(super) struct Done {
    /// Effects whose facts are durable now.
    pub(super) effects: Vec<Effect>,
    /// Delegations of which the store refused a fact.
    pub(super) refused: Vec<(DelegationId, Refused)>,
}

/// Why facts of one delegation were not recorded.
pub(super) enum Refused {
    /// They do not fit.
    Append(AppendError),
    /// The store could not take them: a new delegation never existed, another one is left to the next owner.
    Store(StoreError),
    /// The store failed, and whoever called cannot be told that it has no new delegation: it has, or nobody can read it.
    Unclear(StoreError),
}

impl Commits {
    pub(super) fn new(store: Arc<dyn Store>) -> Self {
        Commits {
            store,
            next: Group::default(),
            under_way: None,
            along: Vec::new(),
            trouble: None,
            untaken: BTreeMap::new(),
            pause: FIRST_PAUSE,
            stage: Stage::Trying,
        }
    }

    pub(super) fn record(&mut self, append: Append) {
        self.next.appends.push(append);
    }

    /// Performs an effect once everything that was recorded before it is durable.
    pub(super) fn then(&mut self, effect: Effect) {
        if self.next.appends.is_empty() {
            // Nothing begins another commit by itself.
            self.along.push(effect);
        } else {
            self.next.effects.push(effect);
        }
    }

    /// Whether facts of one of these delegations wait for the store.
    pub(super) fn holds_any_of(&self, delegations: &[DelegationId]) -> bool {
        self.next.appends.iter().any(|append| delegations.contains(&append.delegation))
    }

    /// Whether no commit is under way or waits to begin.
    pub(super) fn is_idle(&self) -> bool {
        self.under_way.is_none() && self.next.appends.is_empty()
    }

    /// Whether nothing is left to record, or nothing more is to be tried.
    pub(super) fn is_done(&self) -> bool {
        self.is_idle() || self.stage == Stage::Over
    }

    /// From now on facts are offered once more, at once, and then given up: the process is ending.
    pub(super) fn hurry(&mut self) {
        if self.stage == Stage::Trying {
            self.stage = Stage::LastTry;
        }
    }

    /// Why the last commit failed, while it is being tried again. New work is refused as long as that lasts.
    pub(super) fn trouble(&self) -> Option<String> {
        self.trouble.as_ref().map(|trouble| trouble.error.to_string())
    }

    /// Takes out the answers to stops that wait for a commit, for those whom `is_told` names.
    pub(super) fn take_stops(&mut self, is_told: impl Fn(ReplyTo) -> bool) -> Vec<Effect> {
        let waits = |effect: &mut Effect| matches!(effect, Effect::Stopped(reply, _) if is_told(*reply));
        self.next.effects.extract_if(.., waits).collect()
    }

    /// Starts the next commit, unless one is under way, there is nothing to record, or the store is left alone.
    pub(super) fn begin(&mut self) {
        if self.under_way.is_some() || self.next.appends.is_empty() || self.again_at().is_some() {
            return;
        }
        let group = std::mem::take(&mut self.next);
        let store = self.store.clone();
        self.under_way = Some(Box::pin(async move {
            let offered = offer(store.as_ref(), &group.appends).await;
            Finished { group, offered }
        }));
    }

    /// Until when a store in trouble is left alone; `None` when that is over, or nobody waits for it.
    fn again_at(&self) -> Option<Instant> {
        let patient = self.stage == Stage::Trying;
        let again_at = self.trouble.as_ref().map(|trouble| trouble.again_at).filter(|_| patient);
        again_at.filter(|at| *at > Instant::now())
    }

    /// Resolves when the commit under way has ended; while there is none, never.
    pub(super) async fn finished(&mut self) -> Done {
        if let Some(again_at) = self.again_at() {
            // Deadline: a store in trouble is given time before the same facts are offered again.
            tokio::time::sleep_until(again_at).await;
        }
        // Also when that moment passed since the last look: nobody else might look again.
        self.begin();
        let Finished { group, offered } = match &mut self.under_way {
            Some(commit) => commit.await,
            None => pending().await,
        };
        self.under_way = None;
        let Group { appends, mut effects } = group;
        effects.append(&mut self.along);
        let (open, refused) = sorted(appends, &offered);
        match offered.error {
            Some(error) if !open.is_empty() => self.failed(Group { appends: open, effects }, refused, error),
            Some(error) => {
                tracing::debug!(%error, "a commit failed of which nothing is to be offered again");
                self.trouble = None;
                self.untaken.clear();
                self.pause = FIRST_PAUSE;
                Done { effects, refused: refused.into_iter().collect() }
            }
            None => {
                self.is_well();
                Done { effects, refused: refused.into_iter().collect() }
            }
        }
    }

    fn is_well(&mut self) {
        self.untaken.clear();
        if let Some(trouble) = self.trouble.take() {
            let took = trouble.since.elapsed().as_secs();
            tracing::warn!("the store takes facts again, after {took} s; what was kept is recorded");
        }
        self.pause = FIRST_PAUSE;
    }

    /// What was running keeps running and its facts are offered again, but not for ever.
    fn failed(
        &mut self,
        open: Group,
        mut refused: BTreeMap<DelegationId, Refused>,
        error: StoreError,
    ) -> Done {
        let since = self.trouble.as_ref().map_or_else(Instant::now, |trouble| trouble.since);
        self.first_told(&error);
        // A new one that the store does not have was refused already.
        let new: BTreeSet<DelegationId> = open
            .appends
            .iter()
            .filter(|append| is_new(append))
            .map(|append| append.delegation.clone())
            .collect();
        // One that is recorded, of which nobody was told yet.
        let untold = |delegation: &DelegationId| {
            let is_its = |effect: &Effect| matches!(effect, Effect::Accept(_, ticket) if ticket.delegation == *delegation);
            open.effects.iter().any(is_its)
        };
        let given_up = self.untaken_for_too_long(&open.appends);
        if !given_up.is_empty() {
            let why = too_long_in_trouble(error.clone());
            refused.extend(given_up.into_iter().map(|delegation| {
                let may_exist = new.contains(&delegation) || untold(&delegation);
                let why = why.clone();
                (delegation, if may_exist { Refused::Unclear(why) } else { Refused::Store(why) })
            }));
        }
        if self.stage == Stage::LastTry {
            // Nobody else could tell whoever called.
            refused.extend(new.into_iter().map(|delegation| (delegation, Refused::Unclear(error.clone()))));
        }
        let later = std::mem::take(&mut self.next);
        let kept = open.appends.into_iter().chain(later.appends);
        self.next.appends = kept.filter(|append| !refused.contains_key(&append.delegation)).collect();
        self.next.effects = open.effects.into_iter().chain(later.effects).collect();
        self.be_in_trouble(error, since);
        // With nothing to offer again there is no commit that could bring the others.
        let effects = match self.next.appends.is_empty() {
            true => std::mem::take(&mut self.next.effects),
            false => Vec::new(),
        };
        Done { effects, refused: refused.into_iter().collect() }
    }

    /// Notes of which delegations the store takes nothing, and gives those that are given up: each has its own time, whatever
    /// else is recorded meanwhile.
    fn untaken_for_too_long(&mut self, open: &[Append]) -> Vec<DelegationId> {
        let is_open = |delegation: &DelegationId| open.iter().any(|append| append.delegation == *delegation);
        self.untaken.retain(|delegation, _| is_open(delegation));
        for append in open {
            self.untaken.entry(append.delegation.clone()).or_insert_with(Instant::now);
        }
        let given_up = self.untaken.extract_if(.., |_, since| since.elapsed() >= TROUBLE_MAX);
        given_up.map(|(delegation, _)| delegation).collect()
    }

    /// Says once what is wrong with the store.
    fn first_told(&self, error: &StoreError) {
        let is_known = self.trouble.as_ref().is_some_and(|known| known.error.fault() == error.fault());
        if is_known {
            tracing::debug!(%error, "facts could not be recorded again");
        } else {
            let most = TROUBLE_MAX.as_secs();
            tracing::warn!(%error, "facts could not be recorded; they are kept and offered again for {most} s, and nothing new is taken meanwhile");
        }
    }

    /// With nothing to offer again there is nothing that could show the end of the trouble but the next call.
    fn be_in_trouble(&mut self, error: StoreError, since: Instant) {
        if self.stage == Stage::LastTry {
            self.stage = Stage::Over;
        }
        if self.next.appends.is_empty() {
            self.trouble = None;
            self.pause = FIRST_PAUSE;
        } else {
            self.trouble = Some(Trouble { error, since, again_at: Instant::now() + self.pause });
            self.pause = (self.pause * 2).min(LAST_PAUSE);
        }
    }

    /// Takes out the effects of delegations of which nothing is kept: what the store does not take of others does not hold them up.
    pub(super) fn take_free(&mut self, delegations_of: impl Fn(&Effect) -> Vec<DelegationId>) -> Vec<Effect> {
        if self.trouble.is_none() {
            return Vec::new();
        }
        let Group { appends, effects } = &mut self.next;
        let kept: BTreeSet<&DelegationId> = appends.iter().map(|append| &append.delegation).collect();
        let is_free = |effect: &mut Effect| {
            let waits_for = delegations_of(effect);
            !waits_for.is_empty() && waits_for.iter().all(|id| !kept.contains(id))
        };
        effects.extract_if(.., is_free).collect()
    }

    /// Drops the facts of a delegation that is given up, and takes out the effects that belong to it.
    pub(super) fn forget(
        &mut self,
        delegation: &DelegationId,
        concerns: impl Fn(&Effect) -> bool,
    ) -> Vec<Effect> {
        self.next.appends.retain(|append| append.delegation != *delegation);
        self.untaken.remove(delegation);
        self.next.effects.extract_if(.., |effect| concerns(effect)).collect()
    }
}

/// Says that a store took nothing for too long; the error as it is told to those who wait.
fn too_long_in_trouble(error: StoreError) -> StoreError {
    let most = TROUBLE_MAX.as_secs();
    tracing::error!(%error, "facts could not be recorded for {most} s; their work is given up");
    error.remarked(&format!("for {most} s"))
}

/// What is to be offered again, and the delegations of which something is not recorded for good. A new one that the store does
/// not have is given up at once, because nobody was told of it.
fn sorted(appends: Vec<Append>, offered: &Offered) -> (Vec<Append>, BTreeMap<DelegationId, Refused>) {
    let (mut open, mut refused) = (Vec::new(), BTreeMap::new());
    for (append, fate) in appends.into_iter().zip(&offered.fates) {
        let why = match (fate, &offered.error) {
            (Became::Recorded, _) => continue,
            (Became::Refused(error), _) => Refused::Append(error.clone()),
            (Became::Absent, Some(error)) if is_new(&append) => Refused::Store(error.clone()),
            (Became::Absent | Became::Unclear, _) => {
                open.push(append);
                continue;
            }
        };
        // The first refusal of a delegation says why; the others follow from it.
        refused.entry(append.delegation).or_insert(why);
    }
    open.retain(|append| !refused.contains_key(&append.delegation));
    (open, refused)
}
