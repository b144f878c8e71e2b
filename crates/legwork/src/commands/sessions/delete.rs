//! `legwork sessions delete`: removes a conversation for good, with what it delegated. It is refused as long as anything of
//! it is at work or has not arrived (invariant 5).

use legwork_core::delivery::DeliveryState;
use legwork_core::ids::{DelegationId, SessionId};
use legwork_core::ports::{Conversations, Facts, Filter, Listed, StoreError, Undelivered};
use legwork_core::record::DelegationRecord;
use legwork_engine::recovery;
use legwork_sqlite::SqliteStore;
use serde_json::json;

use super::DeleteArgs;
use super::digest::{self, Digest};
use crate::failure::{CliError, Kind};
use crate::invocation::Invocation;
use crate::orphans::HOW_TO_GO_ON;
use crate::{lookup, owner, retention, session_choice, state, stdout, wording};

/// How many ids an error lists.
const LISTED_MAX: usize = 8;
const OPENING_WIDTH: usize = 60;

/// Says what would be lost, and with `--yes` deletes it.
///
/// # Errors
/// When there is no such session, it is open, something of it is at work or undelivered, `--yes` is missing, or the store
/// cannot be used.
pub async fn run(invocation: &Invocation, args: &DeleteArgs) -> Result<(), CliError> {
    let typed = &args.session.id;
    let store = state::open_to_change(invocation).await?.ok_or_else(|| lookup::unknown(typed))?;
    let id = &lookup::session_id(invocation, &store, typed).await?;
    let digest = digest_of(&store, id).await?;
    if let Some(holder) = digest.as_ref().and_then(Digest::holder) {
        return Err(session_choice::open_elsewhere(id, holder));
    }
    refuse_if_at_work(&store, id).await?;
    refuse_if_undelivered(&store, id).await?;
    let Listed { rows: delegations, unreadable } = digest::delegations(&store, id).await?;
    refuse_if_unreadable(id, &unreadable)?;
    let loss = loss(id, digest.as_ref(), &delegations);
    if !args.yes {
        let message = format!("{loss} would be lost for good; nothing was deleted");
        return Err(CliError::new(Kind::Usage, message)
            .with_hint("repeat the command with --yes; `legwork sessions export` keeps a copy"));
    }
    delete(&store, id).await?;
    retention::forget(store.as_ref(), &invocation.paths.state()?, &names(id, &delegations)).await?;
    if invocation.common.json {
        let messages = digest.map(|digest| digest.record.messages);
        return stdout::print_json(
            &json!({"session_id": id, "messages": messages, "delegations": delegations.len()}),
        );
    }
    stdout::print(&format!("deleted: {loss}"))
}

/// What is known of it; nothing of one that cannot be read, which is deleted all the same.
async fn digest_of(store: &SqliteStore, id: &SessionId) -> Result<Option<Digest>, CliError> {
    match store.session(id).await {
        Ok(Some(record)) => Ok(Some(Digest::of(store, record).await?)),
        Ok(None) => Err(lookup::unknown(id.as_str())),
        Err(StoreError::Corrupt(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

async fn refuse_if_at_work(store: &SqliteStore, id: &SessionId) -> Result<(), CliError> {
    let Listed { rows: open, unreadable } = store.delegations(Filter::OpenOf(id.clone())).await?;
    refuse_if_unreadable(id, &unreadable)?;
    if open.is_empty() {
        return Ok(());
    }
    let ids = listed(open.iter().map(|record| record.accepted.delegation.as_str()));
    let hint = if open.iter().all(|record| owner::is_dead(&record.owner)) {
        format!(
            "the process that ran it has died; `legwork stop --session {id}` ends the work, and {HOW_TO_GO_ON}"
        )
    } else {
        format!("`legwork stop --session {id}` ends the work first")
    };
    let message = format!("the session {id} has work that is not finished: {ids}; nothing was deleted");
    Err(CliError::new(Kind::Refused, message).with_hint(hint))
}

/// Whether something is at work or undelivered in it cannot be told.
fn refuse_if_unreadable(id: &SessionId, delegations: &[DelegationId]) -> Result<(), CliError> {
    if delegations.is_empty() {
        return Ok(());
    }
    let ids = listed(delegations.iter().map(DelegationId::as_str));
    let message = format!("the session {id} has work that cannot be read: {ids}; nothing was deleted");
    Err(CliError::new(Kind::Refused, message).with_hint("`legwork doctor` says more, and what to do"))
}

async fn refuse_if_undelivered(store: &SqliteStore, id: &SessionId) -> Result<(), CliError> {
    let Listed { rows: mut waiting, unreadable } = store.undelivered(id).await?;
    let unreadable: Vec<DelegationId> =
        unreadable.iter().map(|unit| DelegationId::from_stored(unit.as_str())).collect();
    refuse_if_unreadable(id, &unreadable)?;
    waiting.retain(|known| known.notice.is_none());
    if waiting.is_empty() {
        return Ok(());
    }
    let ids = listed(waiting.iter().map(|known| known.unit.as_str()));
    let message = format!("results of the session {id} have not arrived: {ids}; nothing was deleted");
    Err(CliError::new(Kind::Refused, message).with_hint(hint(id, &waiting)))
}

fn hint(id: &SessionId, waiting: &[Undelivered]) -> String {
    let dismissible = waiting
        .iter()
        .find(|known| !matches!(known.state, DeliveryState::Claimed { .. }))
        .map(|known| &known.unit);
    match dismissible {
        Some(unit) => format!(
            "`legwork results {unit}` prints them, `legwork chat --resume {id}` takes them in, `legwork dismiss {unit}` \
             gives them up"
        ),
        None => "a process has taken them and is about to confirm it; try again in a moment".to_owned(),
    }
}

fn listed<'a>(ids: impl Iterator<Item = &'a str>) -> String {
    let all: Vec<&str> = ids.collect();
    let more = all.len().saturating_sub(LISTED_MAX);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}", all[..all.len().min(LISTED_MAX)].join(", "))
}

/// What the deletion takes away, in words.
fn loss(id: &SessionId, digest: Option<&Digest>, delegations: &[DelegationRecord]) -> String {
    let Some(digest) = digest else {
        return format!("{id}, which cannot be read, with {} delegations", delegations.len());
    };
    let opening = digest.record.opening.as_deref().map(|text| wording::one_line(text, OPENING_WIDTH));
    let opening = opening.map(|text| format!(", which begins with “{text}”")).unwrap_or_default();
    format!(
        "{} with {} messages and {} delegations{opening}",
        digest.title(),
        digest.record.messages,
        delegations.len()
    )
}

/// Deletes the session. What changed since it was looked at is refused by the store.
async fn delete(store: &SqliteStore, id: &SessionId) -> Result<(), CliError> {
    // A process that died with the session open still stands in its row; it is taken out by holding the session once.
    let owner = owner::enter(store).await?;
    // What its last process left running has nobody who would ask for it any more (invariant 13).
    recovery::sweep(owner.rescuer(store)).await?;
    session_choice::hold(store, &owner, id).await?;
    store.release_session(id, &owner.record.id).await?;
    store.delete_session(id).await.map_err(|error| match error {
        StoreError::Conflict(why) => CliError::new(Kind::Refused, format!("{why}; nothing was deleted"))
            .with_hint(format!("`legwork sessions show {id}` tells what is left of it to do")),
        other => other.into(),
    })
}

/// The ids that its files are named by.
fn names(id: &SessionId, delegations: &[DelegationRecord]) -> Vec<String> {
    let mut names = vec![id.to_string()];
    for record in delegations {
        names.push(record.accepted.delegation.to_string());
        names.extend(record.children.iter().map(|child| child.id.to_string()));
    }
    names
}
