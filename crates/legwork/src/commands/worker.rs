//! `legwork worker`: goes on with the work of this state folder whose process has gone, whether it died, was told to end or
//! left it behind on purpose. It takes nothing from a living process, and releases everything when it is told to end itself.

use std::collections::HashSet;
use std::time::Duration;

use legwork_core::below::Below;
use legwork_core::delivery::{DeliveryState, ParkReason};
use legwork_core::ids::DelegationId;
use legwork_core::ports::{Conversations, Delegator, Facts, Filter, SessionKind, StoreError};
use legwork_core::record::DelegationRecord;
use legwork_core::taking::UnitAt;
use legwork_engine::recovery::{Orphans, Recovered, RecoveryError};
use tokio::time::Instant;

use crate::args::WorkerArgs;
use crate::failure::{CliError, Exit, Kind};
use crate::invocation::Invocation;
use crate::lookup::{self, Target};
use crate::model_source::Models;
use crate::orphans::{Origin, Trouble};
use crate::settings::Settings;
use crate::signals::{Asked, EndedBy, Signals};
use crate::wire::Workplace;
use crate::{orphans, state, stderr};

/// Between two looks for work that lost its process.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// The same while it waits for the end of what it was given.
const LOOK_CLOSELY: Duration = Duration::from_millis(200);

/// How long a worker that was started apart tries to open the state folder, and the gap between two tries.
const START_PATIENCE: Duration = Duration::from_secs(600);
const START_GAP: Duration = Duration::from_secs(2);

/// Works until it is told to end, or with `--only` until that has settled.
///
/// # Errors
/// When there is no such work, it cannot be gone on with here, no model is configured, or the state folder cannot be used.
pub async fn run(invocation: &Invocation, args: &WorkerArgs) -> Result<Exit, CliError> {
    if args.apart {
        legwork_agent::process::leave_terminal();
    }
    let settings = invocation.settings()?;
    let (orphans, mut workplace) = begun(invocation, &settings, args).await?;
    let mut signals = Signals::listen()?;
    let origin = if args.apart { Origin::LeftHere } else { Origin::Ended };
    let watched = Watched { workplace: &workplace, orphans: &orphans, origin };
    let worked = work(invocation, watched, &mut signals).await;
    let ended_by = match worked {
        Ok(Exit::Success) | Err(_) => EndedBy::Itself,
        Ok(_asked_to_end) => EndedBy::Release,
    };
    if let Err(asked) = workplace.close_after(ended_by, &mut signals).await {
        return Ok(asked.exit());
    }
    if matches!(worked, Ok(Exit::Success)) {
        workplace.tidy_up(&mut signals).await;
    }
    worked.map(|exit| signals.told().map_or(exit, Asked::exit))
}

/// Finds what is meant and opens the workplace. A worker that nobody waits for has the only hand for its work: it waits
/// for a state folder that cannot be used at the moment.
async fn begun(
    invocation: &Invocation,
    settings: &Settings,
    args: &WorkerArgs,
) -> Result<(Orphans, Workplace), CliError> {
    let until = Instant::now() + START_PATIENCE;
    let mut told = false;
    loop {
        match try_to_begin(invocation, settings, args).await {
            Err(error) if args.apart && error.kind() == Kind::State && Instant::now() < until => {
                if !std::mem::replace(&mut told, true) {
                    stderr::tell(&format!("note: it cannot begin yet and tries again: {error}"));
                }
                // Deadline: whoever has the state folder is given time before it is tried again.
                tokio::time::sleep(START_GAP).await;
            }
            begun => return begun,
        }
    }
}

async fn try_to_begin(
    invocation: &Invocation,
    settings: &Settings,
    args: &WorkerArgs,
) -> Result<(Orphans, Workplace), CliError> {
    let orphans = meant(invocation, args).await?;
    let models = match &args.only {
        Some(_) => Models::for_work_of_others(invocation, settings).await?,
        None => Models::resolve(invocation, settings).await?,
    };
    Ok((orphans, Workplace::open_with(invocation, settings, models).await?))
}

async fn meant(invocation: &Invocation, args: &WorkerArgs) -> Result<Orphans, CliError> {
    let Some(typed) = &args.only else { return Ok(Orphans::All) };
    let store = state::open_to_look(invocation).await?.ok_or_else(|| lookup::unknown(typed))?;
    Ok(match lookup::find(invocation, &store, typed).await? {
        Target::Delegation(record) | Target::Unit(record, _) | Target::Child(record, _) => {
            Orphans::Of(record.accepted.delegation)
        }
        Target::Session(session) => Orphans::OfSession(session),
    })
}

/// What the worker works on, and where.
#[derive(Clone, Copy)]
struct Watched<'a> {
    workplace: &'a Workplace,
    orphans: &'a Orphans,
    /// Who left that.
    origin: Origin,
}

/// A look at what there is to do.
struct Look {
    recovered: Recovered,
    /// What is open of what was named, and of what was taken up with it.
    open: Vec<DelegationRecord>,
    /// What has settled and is left where it is, since its session cannot be read.
    left: Vec<DelegationRecord>,
}

async fn work(
    invocation: &Invocation,
    watched: Watched<'_>,
    signals: &mut Signals,
) -> Result<Exit, CliError> {
    let Watched { workplace, orphans, origin } = watched;
    let voice = invocation.voice();
    voice.tell("works on what has lost its process; Ctrl-C ends it and loses nothing");
    let mut before = Recovered::default();
    let mut taken: HashSet<DelegationId> = HashSet::new();
    let (mut trouble, mut told_of_pause) = (Trouble::new(voice), false);
    loop {
        let looked = tokio::select! {
            asked = signals.next() => return Ok(asked.exit()),
            looked = look(watched, &mut taken) => looked,
        };
        let pause = match looked {
            Ok(Look { recovered, open, left }) => {
                trouble.is_over();
                left.iter().filter(|_| voice.is_aloud()).for_each(tell_of_left);
                if !std::mem::replace(&mut told_of_pause, true) {
                    tell_of_pause(invocation, workplace).await;
                }
                if voice.is_aloud() && recovered != before {
                    orphans::tell_anew(workplace, origin, &recovered, &before).await;
                }
                if let Some(ended) = ended(watched, &recovered, &open).await {
                    return ended;
                }
                before = recovered;
                if *orphans == Orphans::All { LOOK_EVERY } else { LOOK_CLOSELY }
            }
            // What runs here goes on meanwhile: its engine has a patience of its own.
            Err(RecoveryError::Store(error)) if trouble.is_worth_another_look(&error) => trouble.met(&error),
            Err(error) => return Err(error.into()),
        };
        tokio::select! {
            asked = signals.next() => return Ok(asked.exit()),
            // Deadline: a process that dies tells nobody, so the store is looked at again.
            () = tokio::time::sleep(pause) => {}
        }
    }
}

/// Whoever cannot read it now learns of it from what does not begin.
async fn tell_of_pause(invocation: &Invocation, workplace: &Workplace) {
    if let Err(error) = state::tell_of_pause(invocation, &workplace.store).await {
        tracing::debug!(%error, "whether there is a pause cannot be read");
    }
}

/// Takes up what is nobody's, and puts aside what has settled of it. What it had taken is in `taken` also when it fails.
async fn look(
    Watched { workplace, orphans, .. }: Watched<'_>,
    taken: &mut HashSet<DelegationId>,
) -> Result<Look, RecoveryError> {
    let recovered = match workplace.handle.recover(orphans).await {
        Ok(recovered) => recovered,
        Err(error) => {
            // Some of it may have been taken all the same.
            taken.extend(workplace.handle.view(None).await.into_iter().map(|view| view.delegation));
            return Err(error);
        }
    };
    taken.extend(recovered.taken.iter().cloned());
    // Asked first: what settles after that is put aside before the next time it is asked.
    let mut open = open(workplace, orphans).await?;
    add_taken(workplace, taken, &mut open).await?;
    let left = put_aside(workplace, taken).await?;
    Ok(Look { recovered, open, left })
}

/// How work that was named has come to its end, if it has.
async fn ended(
    Watched { workplace, orphans, .. }: Watched<'_>,
    recovered: &Recovered,
    open: &[DelegationRecord],
) -> Option<Result<Exit, CliError>> {
    if *orphans == Orphans::All {
        return None;
    }
    if open.is_empty() {
        return Some(orphans::is_unreadable(&recovered.unreadable).map_or(Ok(Exit::Success), Err));
    }
    // What can go on does; after that the rest of it is nobody's again.
    let is_at_work = open.iter().any(|record| record.owner.id == workplace.owner.record.id);
    orphans::cannot_go_on(workplace, recovered).await.filter(|_| !is_at_work).map(Err)
}

/// What is open of what was named, and below it.
async fn open(workplace: &Workplace, orphans: &Orphans) -> Result<Vec<DelegationRecord>, StoreError> {
    let store = &workplace.store;
    Ok(match orphans {
        // Nothing was named.
        Orphans::All => Vec::new(),
        Orphans::OfSession(session) => store.delegations(Filter::OpenOf(session.clone())).await?.rows,
        Orphans::Of(id) => {
            let Some(record) = store.delegation(id).await? else { return Ok(Vec::new()) };
            let below = Below::of(store.as_ref(), &record).await?;
            let mut open: Vec<DelegationRecord> = below.open().cloned().collect();
            open.extend(Some(record).filter(|record| !record.is_settled()));
            open
        }
    })
}

/// What this process has taken up is brought to its end here, also what is not below what was named: the subagent that
/// had asked for that.
async fn add_taken(
    workplace: &Workplace,
    taken: &HashSet<DelegationId>,
    open: &mut Vec<DelegationRecord>,
) -> Result<(), StoreError> {
    for id in taken {
        if open.iter().any(|known| known.accepted.delegation == *id) {
            continue;
        }
        match workplace.store.delegation(id).await {
            Ok(record) => open.extend(
                record.filter(|record| !record.is_settled() && record.owner.id == workplace.owner.record.id),
            ),
            // Nobody can go on with it.
            Err(StoreError::Corrupt(_)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Results of the shell have no conversation to go to: they are put aside for `legwork results`. Those of a conversation
/// wait for it, and so do those of which it cannot be read what they are for; these are given back, each once.
async fn put_aside(
    workplace: &Workplace,
    taken: &mut HashSet<DelegationId>,
) -> Result<Vec<DelegationRecord>, StoreError> {
    let mut left = Vec::new();
    for id in taken.clone() {
        let record = match workplace.store.delegation(&id).await {
            Ok(record) => record,
            // It is named where work is looked for, and stays as it is.
            Err(StoreError::Corrupt(_)) => None,
            Err(error) => return Err(error),
        };
        if record.as_ref().is_some_and(|record| !record.is_settled()) {
            continue;
        }
        if let Some(record) = record {
            match of_a_shell(workplace, &record).await {
                Ok(true) => park(workplace, &record).await?,
                Ok(false) => {}
                Err(StoreError::Corrupt(_)) => left.push(record),
                Err(error) => return Err(error),
            }
        }
        taken.remove(&id);
    }
    Ok(left)
}

/// Says of a result that it stays where it is.
fn tell_of_left(record: &DelegationRecord) {
    let (id, session) = (&record.accepted.delegation, &record.accepted.lineage.session);
    stderr::tell(&format!(
        "warning: the session {session} cannot be read, so that the results of {id} stay where they are; `legwork results {id}` prints \
         them, and `legwork doctor` says more"
    ));
}

async fn of_a_shell(workplace: &Workplace, record: &DelegationRecord) -> Result<bool, StoreError> {
    let session = workplace.store.session(&record.accepted.lineage.session).await?;
    let kind = session.map(|session| session.session.kind);
    Ok(record.accepted.lineage.parent.is_none() && kind.is_none_or(|kind| kind == SessionKind::Shell))
}

async fn park(workplace: &Workplace, record: &DelegationRecord) -> Result<(), StoreError> {
    let owner = &workplace.owner;
    let claimant = owner.record.claimant();
    for (place, delivery) in record.deliveries.iter().enumerate() {
        match delivery.state {
            // What was claimed here and could not be put aside is claimed still.
            DeliveryState::Ready { .. } | DeliveryState::Claimed { .. } => {}
            DeliveryState::Held
            | DeliveryState::Parked(_)
            | DeliveryState::Delivered
            | DeliveryState::Dismissed => continue,
        }
        let taker = owner.taker(workplace.store.as_ref());
        let claim = taker.take_unit(UnitAt { record, place }, &claimant, || owner.new_claim()).await?;
        if let Some(claim) = claim {
            workplace.store.park(vec![claim], owner.now(), ParkReason::NoConversation).await?;
        }
    }
    Ok(())
}
