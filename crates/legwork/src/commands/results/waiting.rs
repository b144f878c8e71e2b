//! The wait for results: while a living process is at work nothing but the store is looked at; the work of one that has died
//! is taken over and gone on with here. What this process gives up on the way, because the store would not take it, it takes up
//! again a few times; where that cannot be done the wait ends with the reason, since nobody else would do it.

use std::time::Duration;

use legwork_core::ids::DelegationId;
use legwork_core::ports::Facts;
use legwork_core::record::DelegationRecord;
use legwork_engine::Hold;
use legwork_engine::recovery::Orphans;
use legwork_sqlite::SqliteStore;
use tokio::time::Instant;

use crate::failure::{CliError, Exit, Kind};
use crate::invocation::Invocation;
use crate::model_source::Models;
use crate::owner::{self, Owner, Suspect};
use crate::signals::{Asked, EndedBy, Signals};
use crate::wire::Workplace;
use crate::{lookup, orphans, state, stderr};

/// Between two looks at the store.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How often work that this process gave up is taken up again by one wait.
const TAKEN_UP_AGAIN_MAX: u32 = 3;
/// After a process was watched that may stand still, or could not be, it is left alone for this long.
const WATCH_AGAIN_AFTER: Duration = Duration::from_secs(5);

/// How the wait ended.
pub(super) enum Waited {
    /// Everything has settled; who went on with it, if this process did.
    Settled(Option<Owner>),
    /// Somebody did not want to wait any longer.
    Left(Exit),
}

/// Waits until the delegation has settled. A signal ends the wait; what this process had taken over is released then, and
/// goes on with whoever asks next.
///
/// # Errors
/// When the work cannot be gone on with here, or the store fails.
pub(super) async fn until_settled(
    invocation: &Invocation,
    (store, id): (&SqliteStore, &DelegationId),
    signals: &mut Signals,
) -> Result<Waited, CliError> {
    let mut workplace: Option<Workplace> = None;
    let waited = wait(invocation, (store, id), (signals, &mut workplace)).await;
    let Some(mut workplace) = workplace else {
        return Ok(waited?.map_or(Waited::Settled(None), Waited::Left));
    };
    let ended_by = match waited {
        Ok(None) | Err(_) => EndedBy::Itself,
        Ok(Some(_)) => EndedBy::Release,
    };
    workplace.close_after(ended_by, signals).await.ok();
    let left = waited?.or(signals.told().map(Asked::exit));
    Ok(left.map_or_else(|| Waited::Settled(Some(workplace.into_owner())), Waited::Left))
}

async fn wait(
    invocation: &Invocation,
    (store, id): (&SqliteStore, &DelegationId),
    (signals, workplace): (&mut Signals, &mut Option<Workplace>),
) -> Result<Option<Exit>, CliError> {
    let voice = invocation.voice();
    let (mut told, mut told_of_pause, mut told_of_silence, mut times) = (false, false, false, 0);
    let mut watch_again = Instant::now();
    loop {
        let record = store.delegation(id).await?.ok_or_else(|| lookup::unknown(id.as_str()))?;
        if record.is_settled() {
            return Ok(None);
        }
        if !std::mem::replace(&mut told_of_pause, true) {
            state::tell_of_pause(invocation, store).await?;
        }
        let looked = tokio::select! {
            asked = signals.next() => return Ok(Some(asked.exit())),
            looked = whose(&record, store, workplace.as_ref()) => looked?,
        };
        if let Whose::GivenUpHere(why) = &looked {
            times += 1;
            if times > TAKEN_UP_AGAIN_MAX {
                return Err(given_up(id, times, why));
            }
        }
        match looked {
            Whose::Nobodys | Whose::GivenUpHere(_) => {
                let place = equipped(invocation, workplace).await?;
                tokio::select! {
                    asked = signals.next() => return Ok(Some(asked.exit())),
                    taken = take_up(invocation, place, id, &looked) => taken?,
                }
            }
            Whose::Silents(_) if Instant::now() < watch_again => {}
            Whose::Silents(ref suspect) => {
                let place = equipped(invocation, workplace).await?;
                let obstacle = place.handle.obstacle(&Orphans::Of(id.clone())).await?;
                if voice.is_aloud() && !std::mem::replace(&mut told_of_silence, true) {
                    match &obstacle {
                        Some(lacks) => stderr::tell(&unwatched(record.owner.process.pid, id, lacks)),
                        None => suspect.tell(),
                    }
                }
                if obstacle.is_none() {
                    tokio::select! {
                        asked = signals.next() => return Ok(Some(asked.exit())),
                        taken = take_up(invocation, place, id, &looked) => taken?,
                    }
                }
                watch_again = Instant::now() + WATCH_AGAIN_AFTER;
            }
            Whose::Anothers => {
                if voice.is_aloud() && !std::mem::replace(&mut told, true) && workplace.is_none() {
                    stderr::tell(&format!(
                        "note: waits for process {}, which runs {id}",
                        record.owner.process.pid
                    ));
                }
            }
            Whose::InHand => {}
        }
        tokio::select! {
            asked = signals.next() => return Ok(Some(asked.exit())),
            // Deadline: the ends are rows of the store, so this process looks again.
            () = tokio::time::sleep(LOOK_EVERY) => {}
        }
    }
}

/// This process with what it needs to go on with work of others.
async fn equipped<'a>(
    invocation: &Invocation,
    workplace: &'a mut Option<Workplace>,
) -> Result<&'a mut Workplace, CliError> {
    match workplace {
        Some(place) => Ok(place),
        None => {
            let settings = invocation.settings()?;
            let models = Models::for_work_of_others(invocation, &settings).await?;
            Ok(workplace.insert(Workplace::open_with(invocation, &settings, models).await?))
        }
    }
}

/// Said where nobody is declared gone, because the work could not go on here.
fn unwatched(pid: u32, id: &DelegationId, lacks: &str) -> String {
    format!(
        "note: process {pid} does not renew its lease; it is waited for all the same, because {id} could not go on here: {lacks}"
    )
}

/// Who works on what is waited for.
enum Whose {
    /// The process that did is gone.
    Nobodys,
    /// Another one that lives, or may.
    Anothers,
    /// The same, and it may stand still: whoever goes on with the work watches that first.
    Silents(Suspect),
    /// This one.
    InHand,
    /// Nobody: it is this one's, and it has given it up for this reason.
    GivenUpHere(String),
}

async fn whose(
    record: &DelegationRecord,
    store: &SqliteStore,
    workplace: Option<&Workplace>,
) -> Result<Whose, CliError> {
    let hold = match workplace {
        Some(place) => place.handle.hold_of(record).await?,
        None => Hold::NotHere,
    };
    match hold {
        Hold::InHand => return Ok(Whose::InHand),
        // Also what it left to others since: they would meet the same store.
        Hold::GivenUp(why) => return Ok(Whose::GivenUpHere(why)),
        Hold::NotHere => {}
    }
    // It may not be where the record said any more; whoever takes it up reads it again.
    let was_ours = workplace.is_some_and(|place| place.owner.record.id == record.owner.id);
    if was_ours || orphans::is_orphaned(record) {
        return Ok(Whose::Nobodys);
    }
    let suspect = owner::may_stand_still(store, &record.owner).await?;
    Ok(suspect.map_or(Whose::Anothers, Whose::Silents))
}

/// Goes on with it here. What of it can go on does; after that the rest is nobody's again, and is asked for once more.
async fn take_up(
    invocation: &Invocation,
    place: &Workplace,
    id: &DelegationId,
    before: &Whose,
) -> Result<(), CliError> {
    let orphans = Orphans::Of(id.clone());
    let recovered = match before {
        Whose::GivenUpHere(_) => {
            let recovered = place.handle.recover_again(id).await?;
            if !recovered.taken.is_empty() {
                invocation.voice().tell(&format!(
                    "note: {id} had been given up here; it goes on from what is stored of it"
                ));
            }
            recovered
        }
        Whose::Nobodys | Whose::Anothers | Whose::Silents(_) | Whose::InHand => {
            orphans::take_up(invocation, place, &orphans).await?
        }
    };
    let error = orphans::cannot_go_on(place, &recovered).await;
    error.filter(|_| recovered.taken.is_empty()).map_or(Ok(()), Err)
}

/// The failure when the store takes nothing of the work again and again.
fn given_up(id: &DelegationId, times: u32, why: &str) -> CliError {
    let message =
        format!("{id} was given up here {times} times, because what became of it could not be stored: {why}");
    CliError::new(Kind::State, message).with_hint(format!(
        "nothing that is stored is lost; once the state folder takes it, `legwork results {id} --wait` goes on"
    ))
}
