//! The wait for results: while a living process is at work nothing but the store is looked at; the work of one that has died
//! is taken over and gone on with here.

use std::time::Duration;

use legwork_core::ids::DelegationId;
use legwork_core::ports::Facts;
use legwork_engine::recovery::Orphans;
use legwork_sqlite::SqliteStore;

use crate::failure::{CliError, Exit};
use crate::invocation::Invocation;
use crate::owner::{self, Owner};
use crate::signals::{EndedBy, Signals};
use crate::wire::Workplace;
use crate::{lookup, orphans, state, stderr};

/// Between two looks at the store.
const LOOK_EVERY: Duration = Duration::from_millis(100);

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
    workplace.close_after(ended_by, signals).await;
    Ok(waited?.map_or_else(|| Waited::Settled(Some(workplace.into_owner())), Waited::Left))
}

async fn wait(
    invocation: &Invocation,
    (store, id): (&SqliteStore, &DelegationId),
    (signals, workplace): (&mut Signals, &mut Option<Workplace>),
) -> Result<Option<Exit>, CliError> {
    let quiet = invocation.common.quiet;
    let (mut told, mut told_of_pause) = (false, false);
    loop {
        let record = store.delegation(id).await?.ok_or_else(|| lookup::unknown(id.as_str()))?;
        if record.is_settled() {
            return Ok(None);
        }
        if !std::mem::replace(&mut told_of_pause, true) {
            state::tell_of_pause(invocation, store).await?;
        }
        let is_ours = workplace.as_ref().is_some_and(|place| place.owner.record.id == record.owner.id);
        let stands_still = async {
            let is_suspect = !is_ours && !orphans::is_orphaned(&record);
            Ok::<_, CliError>(is_suspect && owner::has_stood_still(store, &record.owner, quiet).await?)
        };
        let stands_still = tokio::select! {
            asked = signals.next() => return Ok(Some(asked.exit())),
            stands_still = stands_still => stands_still?,
        };
        if stands_still || orphans::is_orphaned(&record) {
            let place = match workplace {
                Some(place) => place,
                None => workplace.insert(Workplace::open(invocation, &invocation.settings()?).await?),
            };
            let orphans = Orphans::Of(id.clone());
            let recovered = tokio::select! {
                asked = signals.next() => return Ok(Some(asked.exit())),
                recovered = orphans::take_up(place, &orphans, quiet) => recovered?,
            };
            // What can go on does; after that the rest of it is nobody's again.
            if let Some(error) = orphans::cannot_go_on(&recovered).filter(|_| recovered.taken.is_empty()) {
                return Err(error);
            }
        } else if !quiet && !std::mem::replace(&mut told, true) && workplace.is_none() {
            stderr::tell(&format!("note: waits for process {}, which runs {id}", record.owner.process.pid));
        }
        tokio::select! {
            asked = signals.next() => return Ok(Some(asked.exit())),
            // Deadline: the ends are rows of the store, so this process looks again.
            () = tokio::time::sleep(LOOK_EVERY) => {}
        }
    }
}
