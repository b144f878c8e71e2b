//! Results on their way into a session: the message that they become, and, for a session that cannot be woken, the units
//! that wait when it is opened. Those are taken one by one, in the order in which they became ready. What a cut-off turn
//! carries already is not among them.
//!
//! It stores no turn. Whoever takes a claim acknowledges it in the commit of the turn that carries it, or gives it back.

use super::completion::{self, Arrival, Completion, Remains};
use super::setup::SessionSetup;
use crate::journal::{OpenExchange, wall_clock};
use crate::process::is_group_living;
use crate::tools::{DELEGATE_TASK, carries_results};
use crate::worktree::state;
use legwork_core::batch::Reach;
use legwork_core::below::{Below, Receiver};
use legwork_core::delivery::DeliveryState;
use legwork_core::ids::{CallKey, ChildId, ClaimId, DelegationId, SessionId, UnitId};
use legwork_core::ports::{StoreError, Undelivered};
use legwork_core::record::{DelegationRecord, OwnerRecord};
use legwork_core::step::Actor;
use legwork_core::taking::{UnitAt, missed_texts};
use legwork_core::time::Timestamp;
use std::collections::HashSet;
use std::time::Duration;
use tokio::time::Instant;

/// How long results wait for what is about to end below them, and how often it is looked at.
const BELOW_MAX: Duration = Duration::from_secs(5);
const BELOW_EVERY: Duration = Duration::from_millis(50);
/// Why a claim is given back.
const NOT_STORED: &str = "the turn that was to carry it was not stored";

/// A unit that is claimed for the session.
pub(crate) struct Taken {
    pub(crate) claim: ClaimId,
    pub(crate) record: DelegationRecord,
    /// Which of the delegation's units it is.
    pub(crate) unit: usize,
}

/// Units that are read at once.
const PORTION: usize = 32;

/// The units that wait for a session which this process holds. Each is looked at once.
#[derive(Default)]
pub(crate) struct Waiting {
    seen: HashSet<UnitId>,
    which: Which,
    /// Claims to give back: the store failed when they were made. They come free with this process in any case.
    pub(crate) owed: Vec<ClaimId>,
}

/// Which units come in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Which {
    /// All.
    #[default]
    All,
    /// Those that nobody is woken for: made for a session that reads them later, or left by a turn that waited for them and was
    /// cut off.
    NotWoken,
}

impl Which {
    fn has(self, record: &DelegationRecord, unit: usize) -> bool {
        let is_woken = record.accepted.reach == Reach::Push && !record.accepted.units[unit].inline;
        match self {
            Which::All => true,
            Which::NotWoken => !is_woken,
        }
    }
}

impl Waiting {
    /// Those of these units.
    pub(crate) fn of(which: Which) -> Waiting {
        Waiting { which, ..Waiting::default() }
    }

    /// Claims the next unit. Results that a child of the session takes, or that are told with those of another unit,
    /// are not its own and stay.
    ///
    /// # Errors
    /// [`StoreError`]; a claim that may have been made all the same is owed.
    pub(crate) async fn next(
        &mut self,
        setup: &SessionSetup,
        session: &SessionId,
    ) -> Result<Option<Taken>, StoreError> {
        loop {
            let Some(next) = self.first_unseen(setup, session).await? else { return Ok(None) };
            self.seen.insert(next.unit.clone());
            match self.take(setup, &next).await {
                Ok(Some(taken)) => return Ok(Some(taken)),
                Ok(None) => {}
                // It keeps nothing back that comes after it (invariant 3).
                Err(error @ StoreError::Corrupt(_)) => {
                    tracing::error!(unit = %next.unit, %error, "results cannot be read; they are kept, and others go before them");
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// The first in order that was not looked at. What arrived since is not listed any more, so it stands near the front.
    async fn first_unseen(
        &mut self,
        setup: &SessionSetup,
        session: &SessionId,
    ) -> Result<Option<Undelivered>, StoreError> {
        let mut after = 0;
        loop {
            let portion = setup.store.due(session, after, PORTION).await?;
            let Some(last) = portion.last_place() else { return Ok(None) };
            after = last;
            for (_, unit) in portion.unreadable {
                if self.seen.insert(unit.clone()) {
                    tracing::error!(%unit, "where results are cannot be read; they are kept, and others go before them");
                }
            }
            let next = portion.rows.into_iter().find(|due| !self.seen.contains(&due.due.unit));
            if let Some(next) = next {
                return Ok(Some(next.due));
            }
        }
    }

    async fn take(&mut self, setup: &SessionSetup, due: &Undelivered) -> Result<Option<Taken>, StoreError> {
        let Some(record) = setup.store.delegation(&due.delegation).await? else { return Ok(None) };
        let unit = record.accepted.units.iter().position(|unit| unit.id == due.unit);
        let Some(unit) = unit.filter(|unit| self.which.has(&record, *unit)) else { return Ok(None) };
        if Receiver::of(setup.store.as_ref(), &record).await? != Receiver::Session
            || !has_all_below(setup, &record, unit).await?
        {
            return Ok(None);
        }
        let (taker, signature, claim) = (setup.taker(), signature(setup).await?, new_claim()?);
        let claimed = if record.accepted.lineage.parent.is_some() {
            // Whoever held it here waited for the child that has ended.
            taker.take_unit(UnitAt { record: &record, place: unit }, &signature, || claim.clone()).await
        } else if taker.make_ready(&due.unit, &due.state, due.claimant.as_deref()).await? {
            setup.store.claim(&due.unit, claim.clone(), &signature, wall_clock()).await
        } else {
            Ok(None)
        };
        if claimed.is_err() {
            self.owed.push(claim);
        }
        Ok(claimed?.map(|claim| Taken { claim, record, unit }))
    }
}

/// Waits a while for what is to end below a unit and is told with it. Whether that has happened: whatever settled between the
/// look and the turn would count as told.
async fn has_all_below(
    setup: &SessionSetup,
    record: &DelegationRecord,
    unit: usize,
) -> Result<bool, StoreError> {
    let until = Instant::now() + BELOW_MAX;
    loop {
        let below = Below::of(setup.store.as_ref(), record).await?;
        if below.open_under(&record.accepted.units[unit].task_indexes).next().is_none() {
            return Ok(true);
        }
        if Instant::now() >= until {
            return Ok(false);
        }
        // Deadline: see the constant; the ends are rows that somebody else writes.
        tokio::time::sleep(BELOW_EVERY).await;
    }
}

/// The claims of the results that an exchange carries which was cut off between its groups of calls: they end in the
/// commit that makes the exchange part of the conversation, and do not come in once more (invariant 6).
///
/// # Errors
/// [`StoreError`]; claims that were made are given back, or come free with this process. A conflict when some of the results
/// are in other hands: they would come in once more from there.
pub(crate) async fn carried(
    setup: &SessionSetup,
    actor: &Actor,
    open: &OpenExchange,
) -> Result<Vec<ClaimId>, StoreError> {
    let mut claims = Vec::new();
    let taken = take_carried(setup, actor, open, &mut claims).await;
    if taken.is_err() {
        for claim in std::mem::take(&mut claims) {
            if !give_back(setup, &claim).await {
                tracing::debug!("results that a conversation carries come free with this process");
            }
        }
    }
    taken.map(|()| claims)
}

async fn take_carried(
    setup: &SessionSetup,
    actor: &Actor,
    open: &OpenExchange,
    claims: &mut Vec<ClaimId>,
) -> Result<(), StoreError> {
    for (call, result) in open.reply.message.calls().zip(&open.results) {
        if call.name != DELEGATE_TASK {
            continue;
        }
        let key = CallKey { caller: actor.as_str().to_owned(), call: call.id.clone() };
        let Some(delegation) = setup.store.by_call_key(&key).await? else { continue };
        let Some(record) = setup.store.delegation(&delegation).await? else { continue };
        if carries_results(result, record.accepted.reach) {
            let mut fresh = Vec::new();
            for _ in &record.accepted.units {
                fresh.push(new_claim()?);
            }
            let mut fresh = fresh.into_iter();
            let next = || fresh.next().expect("BUG: one claim for each unit");
            claims.extend(setup.taker().take_all(&record, &signature(setup).await?, next).await?);
            no_other_hand(setup, &delegation, claims).await?;
        }
    }
    Ok(())
}

/// Refuses results that are on their way elsewhere.
async fn no_other_hand(
    setup: &SessionSetup,
    delegation: &DelegationId,
    mine: &[ClaimId],
) -> Result<(), StoreError> {
    let Some(record) = setup.store.delegation(delegation).await? else { return Ok(()) };
    for delivery in &record.deliveries {
        let who = match &delivery.state {
            DeliveryState::Claimed { claim, .. } if !mine.contains(claim) => {
                let taker = OwnerRecord::id_of_claimant(delivery.claimant().unwrap_or_default());
                let taker = setup.store.owner(&taker).await?;
                taker.map_or_else(|| "somebody".to_owned(), |taker| format!("process {}", taker.process.pid))
            }
            // Somebody took it and gave it back meanwhile.
            DeliveryState::Ready { .. } | DeliveryState::Parked(_) => "somebody".to_owned(),
            DeliveryState::Claimed { .. }
            | DeliveryState::Held
            | DeliveryState::Delivered
            | DeliveryState::Dismissed => continue,
        };
        return Err(StoreError::Conflict(format!(
            "results of {delegation}, which the conversation has taken in already, are in the hands of {who}; try again in a moment"
        )));
    }
    Ok(())
}

/// How this process signs its claims.
async fn signature(setup: &SessionSetup) -> Result<String, StoreError> {
    let myself = setup.store.owner(&setup.fence.owner).await?;
    Ok(myself.map_or_else(|| setup.fence.owner.to_string(), |myself| myself.claimant()))
}

fn new_claim() -> Result<ClaimId, StoreError> {
    let bits = getrandom::u64().map_err(|error| StoreError::Io(format!("no random bits: {error}")))?;
    Ok(ClaimId::from_bits(bits))
}

/// Gives a claim back whose turn was not stored. Answers whether nobody here holds it any more; where the store fails it may
/// be tried again, and the claim comes free with this process in any case.
pub(crate) async fn give_back(setup: &SessionSetup, claim: &ClaimId) -> bool {
    match setup.store.release(vec![claim.clone()], wall_clock(), NOT_STORED).await {
        // It was never made, or ended by other means: its turn was stored after all.
        Ok(()) | Err(StoreError::Conflict(_)) => true,
        Err(error) => {
            tracing::debug!(%error, "a claim could not be given back");
            false
        }
    }
}

/// The message that the results of a unit become. `None` when it cannot be written now: the store does not give all that
/// belongs to it.
pub(crate) async fn written(
    setup: &SessionSetup,
    record: &DelegationRecord,
    unit: usize,
) -> Option<Completion> {
    let tasks = record.accepted.units.get(unit).map(|unit| unit.task_indexes.as_slice()).unwrap_or_default();
    let children = tasks.iter().filter_map(|task| record.accepted.children.get(*task));
    let children: Vec<ChildId> = children.cloned().collect();
    let unreadable = |child: &ChildId, error: StoreError| tracing::warn!(%child, %error, "what was said to a child too late cannot be read");
    let missed = missed_texts(setup.store.as_ref(), &children, unreadable).await;
    let below = match Below::of(setup.store.as_ref(), record).await {
        Ok(below) => below,
        Err(error) => {
            // Without it the message would not be whole, and what is below would count as told.
            tracing::warn!(%error, "what subagents of subagents have brought cannot be read; the results wait");
            return None;
        }
    };
    let now = wall_clock();
    let remains = remains(setup, record, unit, now).await;
    let record = record.clone();
    let mut arrival = Arrival { record, unit, missed, below, remains, now };
    let bytes_max = completion::bytes_max(setup.model.facts().window);
    let spill = setup.spill.clone();
    let writing = tokio::task::spawn_blocking(move || {
        arrival.record.note_ended_processes(is_group_living);
        completion::write(&arrival, bytes_max, &spill)
    });
    writing.await.inspect_err(|error| tracing::error!(%error, "BUG: a completion could not be written")).ok()
}

/// What is left to tell of children whose end is not known. Nothing of the store is held meanwhile.
async fn remains(
    setup: &SessionSetup,
    record: &DelegationRecord,
    unit: usize,
    now: Timestamp,
) -> Vec<Remains> {
    let lost = record.clone();
    let gathering = tokio::task::spawn_blocking(move || completion::gather(&lost, unit, now));
    let mut remains = match gathering.await {
        Ok(remains) => remains,
        Err(error) => {
            tracing::error!(%error, "BUG: what remains of lost subagents could not be gathered");
            Vec::new()
        }
    };
    if let Some(first) = remains.first_mut() {
        let actor = Actor::Session(record.accepted.lineage.session.clone());
        first.git = state(&setup.commands, &actor, &setup.fence, &record.accepted.setting.folder).await;
    }
    remains
}
