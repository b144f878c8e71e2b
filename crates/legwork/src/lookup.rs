//! What an id on the command line means. An exact id beats a prefix, and a prefix must name one thing.

use legwork_core::ids::{DelegationId, SessionId};
use legwork_core::ports::{Facts, Found};
use legwork_core::record::DelegationRecord;

use crate::failure::{CliError, Kind};
use crate::wording;

/// How much of what was typed a message repeats.
const TYPED_WIDTH: usize = 80;

/// One thing that an id names.
#[derive(Debug)]
pub enum Target {
    /// A delegation.
    Delegation(Box<DelegationRecord>),
    /// One of several units of a delegation, by its position.
    Unit(Box<DelegationRecord>, usize),
    /// A child of a delegation, by its task index.
    Child(Box<DelegationRecord>, usize),
    /// A session.
    Session(SessionId),
}

impl Target {
    /// The delegation that it is or belongs to, for verbs that a session means nothing to.
    ///
    /// # Errors
    /// When it is a session.
    pub fn of_delegation(self, typed: &str) -> Result<Target, CliError> {
        match self {
            Target::Session(_) => Err(CliError::new(
                Kind::NotFound,
                format!("{typed} is a session, not a delegation, unit or child"),
            )
            .with_hint("`legwork ps --all` lists the ids of delegations and children")),
            target => Ok(target),
        }
    }
}

/// Finds what `typed` names.
///
/// # Errors
/// Nothing has such an id, or several things have it as the beginning of theirs.
pub async fn find(store: &dyn Facts, typed: &str) -> Result<Target, CliError> {
    let mut found = store.find(typed).await?;
    match (found.pop(), found.is_empty()) {
        (None, _) => Err(unknown(typed)),
        (Some(one), true) => load(store, one, typed).await,
        (Some(last), false) => {
            found.push(last);
            Err(ambiguous(typed, &found))
        }
    }
}

/// The failure when there is nothing of that name.
pub fn unknown(typed: &str) -> CliError {
    let typed = wording::one_line(typed, TYPED_WIDTH);
    CliError::new(Kind::NotFound, format!("nothing in this state folder has the id {typed}"))
        .with_hint("`legwork ps --all` lists what there is; --state-dir names another folder")
}

fn ambiguous(typed: &str, found: &[Found]) -> CliError {
    let typed = wording::one_line(typed, TYPED_WIDTH);
    let mut ids: Vec<&str> = found.iter().map(id_of).collect();
    ids.sort_unstable();
    let more = ids.len().saturating_sub(8);
    ids.truncate(8);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    CliError::new(Kind::Usage, format!("{typed} is the beginning of several ids: {}{more}", ids.join(", ")))
        .with_hint("type more of the id")
}

fn id_of(found: &Found) -> &str {
    match found {
        Found::Delegation(id) => id.as_str(),
        Found::Unit(_, id) => id.as_str(),
        Found::Child(_, id) => id.as_str(),
        Found::Session(id) => id.as_str(),
    }
}

async fn load(store: &dyn Facts, found: Found, typed: &str) -> Result<Target, CliError> {
    match found {
        Found::Session(id) => Ok(Target::Session(id)),
        Found::Delegation(id) => Ok(Target::Delegation(record(store, &id, typed).await?)),
        Found::Unit(delegation, unit) => {
            let record = record(store, &delegation, typed).await?;
            let place = record.accepted.units.iter().position(|known| known.id == unit);
            place.map(|place| Target::Unit(record, place)).ok_or_else(|| unknown(typed))
        }
        Found::Child(delegation, child) => {
            let record = record(store, &delegation, typed).await?;
            let place = record.accepted.children.iter().position(|known| *known == child);
            place.map(|place| Target::Child(record, place)).ok_or_else(|| unknown(typed))
        }
    }
}

async fn record(
    store: &dyn Facts,
    id: &DelegationId,
    typed: &str,
) -> Result<Box<DelegationRecord>, CliError> {
    store.delegation(id).await?.map(Box::new).ok_or_else(|| unknown(typed))
}
