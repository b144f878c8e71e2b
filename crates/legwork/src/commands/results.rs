//! `legwork results ID`: the stored results, again and again. With `--wait` they are waited for, and work whose process has
//! died is gone on with. Results that nobody can take any more are delivered by being printed.

mod claims;
mod waiting;

use std::time::Duration;

use legwork_core::below::Below;
use legwork_core::ids::{ChildId, ClaimId, DelegationId, Epoch};
use legwork_core::ports::{Facts, StoreError};
use legwork_core::record::DelegationRecord;
use legwork_core::taking::missed_texts;
use legwork_engine::recovery::{Conclusion, Orphans, may_go_on};
use legwork_sqlite::SqliteStore;
use tokio::time::Instant;

use crate::args::ResultsArgs;
use crate::failure::{CliError, Exit};
use crate::invocation::Invocation;
use crate::lookup::{self, Target};
use crate::outcomes::Outcomes;
use crate::owner::{self, Owner};
use crate::signals::{Asked, Signals};
use crate::{handed_over, orphans, outliving, state, stderr, stdout};
use waiting::Waited;

/// How long another process may take to settle what it has taken over.
const SETTLING_MAX: Duration = Duration::from_secs(5);
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Prints what is stored; with `--wait` once all of it has settled.
///
/// # Errors
/// When there is no such delegation, it cannot be gone on with, or the state folder cannot be used.
pub async fn run(invocation: &Invocation, args: &ResultsArgs) -> Result<Exit, CliError> {
    let looked = state::open_to_look(invocation).await?.ok_or_else(|| lookup::unknown(&args.id))?;
    if let Some(why) = looked.only_looks() {
        return show_only(invocation, args, (&looked, why)).await;
    }
    drop(looked);
    let store = state::open_to_work(invocation)?;
    let target = lookup::find(invocation, &store, &args.id).await?.of_delegation(&args.id)?;
    let (id, wanted) = wanted(target).ok_or_else(|| lookup::unknown(&args.id))?;
    let (owner, mut signals) = if args.wait {
        let mut signals = Signals::listen()?;
        match waiting::until_settled(invocation, (&store, &id), &mut signals).await? {
            Waited::Settled(Some(owner)) => (owner, Some(signals)),
            Waited::Settled(None) => (owner::enter(store.as_ref()).await?, Some(signals)),
            Waited::Left(exit) => {
                left(invocation, &store, (&id, wanted), &mut signals).await;
                return Ok(exit);
            }
        }
    } else {
        let owner = Owner::new();
        match store.enter(owner.record.clone(), owner.now()).await {
            // Nothing was waited for: a signal ends the program as any other.
            Ok(()) => (owner, None),
            Err(why) if why.may_pass() => {
                state::tell_only_looks(invocation, &why);
                return show_only(invocation, args, (&store, &why)).await;
            }
            Err(error) => return Err(error.into()),
        }
    };
    let gathering = gather(invocation, store.as_ref(), &owner, (&id, &wanted, args));
    let gathered = match &mut signals {
        Some(signals) => match signals.unless_told(gathering).await {
            Ok(gathered) => gathered?,
            Err(asked) => return Ok(asked.exit()),
        },
        None => gathering.await?,
    };
    let Gathered { record, claims, missed, below } = gathered;
    let outcomes = Outcomes::of(&record, wanted).with_missed(&missed).with_below(&below);
    let printed = print(text(invocation, &outcomes), signals.as_mut()).await;
    let noting = async {
        let noted = match &printed {
            Ok(None) if !stdout::goes_nowhere() => store.acknowledge(claims, owner.now()).await,
            Ok(_) | Err(_) => {
                store.release(claims, owner.now(), "the results could not be written out").await
            }
        };
        if let Err(error) = noted {
            // The claims come free with this process; the results can be asked for again in any case.
            tracing::warn!(%error, "whether the results arrived could not be stored");
        }
    };
    match &mut signals {
        Some(signals) => drop(signals.unless_insisted(noting).await),
        None => noting.await,
    }
    printed?;
    Ok(signals.and_then(|signals| signals.told()).map_or_else(|| outcomes.exit(), Asked::exit))
}

/// What is printed, and what is claimed by that.
struct Gathered {
    record: DelegationRecord,
    claims: Vec<ClaimId>,
    missed: Vec<(ChildId, String)>,
    below: Below,
}

async fn gather(
    invocation: &Invocation,
    store: &SqliteStore,
    owner: &Owner,
    (id, wanted, args): (&DelegationId, &[usize], &ResultsArgs),
) -> Result<Gathered, CliError> {
    let record = after_the_dead(invocation, store, owner, id).await?;
    let mut record = record.ok_or_else(|| lookup::unknown(id.as_str()))?;
    handed_over::look(&mut record);
    if !invocation.common.quiet && outliving::is_abandoned(invocation, &record) {
        stderr::tell(&orphans::left(id));
    }
    let below = below(store, &record, args).await?;
    let claims = claims::claim_unowned(store, (&record, &below), wanted, owner).await?;
    let children = wanted.iter().filter_map(|task| record.accepted.children.get(*task));
    let children: Vec<ChildId> = children.cloned().collect();
    let unreadable = |child: &ChildId, error: StoreError| tracing::warn!(%child, %error, "what was said to a child too late cannot be read");
    let missed = missed_texts(store, &children, unreadable).await;
    Ok(Gathered { record, claims, missed, below })
}

/// The last words of a wait that a signal has ended: nobody has taken anything, and what is not there yet goes on with whoever asks
/// next.
async fn left(
    invocation: &Invocation,
    store: &SqliteStore,
    (id, wanted): (&DelegationId, Vec<usize>),
    signals: &mut Signals,
) {
    let record = match signals.unless_insisted(store.delegation(id)).await {
        Some(Ok(Some(record))) => record,
        Some(Err(error)) => return tracing::warn!(%error, "what is stored by now cannot be read"),
        Some(Ok(None)) | None => return,
    };
    if invocation.common.json {
        let text = text(invocation, &Outcomes::of(&record, wanted));
        if let Err(error) = stdout::print_attended(text, signals).await {
            tracing::warn!(%error, "what is stored by now could not be written out");
        }
    }
    if !invocation.common.quiet && !record.is_settled() {
        stderr::tell(&format!(
            "note: nothing is lost; `legwork results {id} --wait` waits again, and goes on with what nobody else does"
        ));
    }
}

/// Prints what is stored where nothing can be written, so that nobody has taken it afterwards.
async fn show_only(
    invocation: &Invocation,
    args: &ResultsArgs,
    (store, why): (&SqliteStore, &StoreError),
) -> Result<Exit, CliError> {
    let target = lookup::find(invocation, store, &args.id).await?.of_delegation(&args.id)?;
    let (id, wanted) = wanted(target).ok_or_else(|| lookup::unknown(&args.id))?;
    let mut record = store.delegation(&id).await?.ok_or_else(|| lookup::unknown(&args.id))?;
    handed_over::look(&mut record);
    if args.wait && !record.is_settled() {
        return Err(why.clone().into());
    }
    let outcomes = Outcomes::of(&record, wanted);
    stdout::print(&text(invocation, &outcomes))?;
    Ok(outcomes.exit())
}

/// The delegation and those of its tasks that the target names; `None` for a session.
fn wanted(target: Target) -> Option<(DelegationId, Vec<usize>)> {
    let (record, tasks) = target.into_tasks()?;
    Some((record.accepted.delegation, tasks))
}

/// The delegation as it is after what is only to be reported of dead processes was settled: by this process, or by
/// another one that came first and is at it.
async fn after_the_dead(
    invocation: &Invocation,
    store: &SqliteStore,
    owner: &Owner,
    id: &DelegationId,
) -> Result<Option<DelegationRecord>, CliError> {
    let until = Instant::now() + SETTLING_MAX;
    loop {
        let orphans = Orphans::Of(id.clone());
        orphans::conclude(invocation, (store, owner), &orphans, Conclusion::Reported).await?;
        let record = store.delegation(id).await?;
        // What does not go on is taken over only to be settled.
        let is_being_settled = |record: &DelegationRecord| {
            record.epoch > Epoch::FIRST && !record.is_settled() && !may_go_on(record)
        };
        if !record.as_ref().is_some_and(is_being_settled) || Instant::now() >= until {
            return Ok(record);
        }
        // Deadline: another process writes the ends and tells nobody, so this one looks again until then.
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// What is below the delegation; with `--wait` once what is about to end of it has.
async fn below(
    store: &SqliteStore,
    record: &DelegationRecord,
    args: &ResultsArgs,
) -> Result<Below, CliError> {
    let until = Instant::now() + SETTLING_MAX;
    loop {
        let below = Below::of(store, record).await?;
        let is_ending = args.wait && below.open().any(|open| !owner::is_dead(&open.owner));
        if !is_ending || Instant::now() >= until {
            return Ok(below);
        }
        // Deadline: another process writes the ends and tells nobody, so this one looks again until then.
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

fn text(invocation: &Invocation, outcomes: &Outcomes<'_>) -> String {
    if invocation.common.json {
        stdout::json_line(&outcomes.to_json_with_delivery())
    } else {
        outcomes.to_text()
    }
}

/// Prints, and gives back the signal that came while nobody read.
async fn print(text: String, signals: Option<&mut Signals>) -> Result<Option<Asked>, CliError> {
    match signals {
        Some(signals) => stdout::print_attended(text, signals).await,
        None => stdout::print(&text).map(|()| None),
    }
}
