//! What an id or a name on the command line means. An exact id beats an exact name, that beats the beginning of either,
//! and a beginning must be that of one thing only.

use legwork_core::ids::{DelegationId, SessionId};
use legwork_core::ports::{Conversations, Facts, Found, Listed, SessionRecord};
use legwork_core::record::DelegationRecord;
use legwork_sqlite::SqliteStore;

use crate::failure::{CliError, Kind};
use crate::invocation::Invocation;
use crate::wording;

/// How much of what was typed a message repeats.
const TYPED_WIDTH: usize = 80;
/// How many of several meanings a message lists.
const LISTED_MAX: usize = 8;

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
    /// The delegation, and the positions of those of its tasks that are named. `None` for a session.
    pub fn into_tasks(self) -> Option<(Box<DelegationRecord>, Vec<usize>)> {
        match self {
            Target::Delegation(record) => {
                let all = (0..record.children.len()).collect();
                Some((record, all))
            }
            Target::Unit(record, place) => {
                let of_unit = record.accepted.units[place].task_indexes.clone();
                Some((record, of_unit))
            }
            Target::Child(record, task_index) => Some((record, vec![task_index])),
            Target::Session(_) => None,
        }
    }

    /// The delegation that it is or belongs to, for verbs that a session means nothing to.
    ///
    /// # Errors
    /// When it is a session.
    pub fn of_delegation(self, typed: &str) -> Result<Target, CliError> {
        match self {
            Target::Session(_) => Err(CliError::new(
                Kind::NotFound,
                format!("{} is a session, not a delegation, unit or child", shortened(typed)),
            )
            .with_hint("`legwork ps --all` lists the ids of delegations and children")),
            target => Ok(target),
        }
    }
}

/// Finds what `typed` names.
///
/// # Errors
/// Nothing has such an id or name, or several things have it as the beginning of theirs.
pub async fn find(invocation: &Invocation, store: &SqliteStore, typed: &str) -> Result<Target, CliError> {
    let mut found = store.find(typed).await?;
    if !found.iter().any(|found| id_of(found) == typed) {
        let folder = invocation.paths.folder_text();
        let Listed { rows: sessions, unreadable } = store.sessions(None).await?;
        found = with_names(found, sessions, typed, &folder);
        if found.is_empty() && !unreadable.is_empty() {
            return Err(unknown_beside(typed, unreadable.len()));
        }
    }
    match (found.pop(), found.is_empty()) {
        (None, _) => Err(unknown(typed)),
        (Some(one), true) => load(store, one, typed).await,
        (Some(last), false) => {
            found.push(last);
            Err(ambiguous(typed, &found))
        }
    }
}

/// Finds the session that `typed` names.
///
/// # Errors
/// As [`find`], and when it names something else.
pub async fn session(
    invocation: &Invocation,
    store: &SqliteStore,
    typed: &str,
) -> Result<SessionRecord, CliError> {
    let hint = "`legwork sessions --all` lists the sessions there are";
    let found = match find(invocation, store, typed).await {
        Err(error) if error.kind() == Kind::NotFound => Err(error.with_hint(hint)),
        found => found,
    };
    match found? {
        Target::Session(id) => store.session(&id).await?.ok_or_else(|| unknown(typed).with_hint(hint)),
        Target::Delegation(_) | Target::Unit(..) | Target::Child(..) => {
            Err(no_session(typed).with_hint(hint))
        }
    }
}

/// The id of the session that `typed` names, which may be one that cannot be read.
///
/// # Errors
/// As [`session`].
pub async fn session_id(
    invocation: &Invocation,
    store: &SqliteStore,
    typed: &str,
) -> Result<SessionId, CliError> {
    match find(invocation, store, typed).await? {
        Target::Session(id) => Ok(id),
        Target::Delegation(_) | Target::Unit(..) | Target::Child(..) => Err(no_session(typed)),
    }
}

fn no_session(typed: &str) -> CliError {
    CliError::new(Kind::NotFound, format!("{} is not a session", shortened(typed)))
}

/// The same where some session may have the name and cannot be read.
fn unknown_beside(typed: &str, unreadable: usize) -> CliError {
    let message = format!(
        "nothing that can be read in this state folder has the id or name {}; {unreadable} session(s) cannot be read, nor can \
         their names",
        shortened(typed)
    );
    CliError::new(Kind::NotFound, message).with_hint("`legwork sessions --all` lists their ids")
}

/// The failure when there is nothing of that name.
pub fn unknown(typed: &str) -> CliError {
    let message = format!("nothing in this state folder has the id {}", shortened(typed));
    CliError::new(Kind::NotFound, message)
        .with_hint("`legwork ps --all` lists what there is; --state-dir names another folder")
}

/// What was typed, on one line of bounded length.
pub fn shortened(typed: &str) -> String {
    wording::one_line(typed, TYPED_WIDTH)
}

/// The sessions whose name is `typed`, or else those whose name begins so beside the ids that do. Those of `folder` come
/// before those of others, since a name belongs to its folder.
fn with_names(mut found: Vec<Found>, sessions: Vec<SessionRecord>, typed: &str, folder: &str) -> Vec<Found> {
    let named = |is_it: &dyn Fn(&str) -> bool| {
        let those = sessions.iter().filter(|known| known.session.name.as_deref().is_some_and(is_it));
        let (here, elsewhere): (Vec<_>, Vec<_>) =
            those.partition(|known: &&SessionRecord| known.session.folder == folder);
        let nearest = if here.is_empty() { elsewhere } else { here };
        nearest.into_iter().map(|known| Found::Session(known.session.id.clone())).collect::<Vec<_>>()
    };
    let exact = named(&|name| name == typed);
    if !exact.is_empty() {
        return exact;
    }
    if !typed.is_empty() {
        let begun = named(&|name| name.starts_with(typed));
        found.extend(begun.into_iter().filter(|known| !found.contains(known)).collect::<Vec<_>>());
    }
    found
}

fn ambiguous(typed: &str, found: &[Found]) -> CliError {
    let mut ids: Vec<&str> = found.iter().map(id_of).collect();
    ids.sort_unstable();
    let more = ids.len().saturating_sub(LISTED_MAX);
    ids.truncate(LISTED_MAX);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let message = format!("{} may mean several ids: {}{more}", shortened(typed), ids.join(", "));
    CliError::new(Kind::Usage, message).with_hint("type more of the id")
}

fn id_of(found: &Found) -> &str {
    match found {
        Found::Delegation(id) => id.as_str(),
        Found::Unit(_, id) => id.as_str(),
        Found::Child(_, id) => id.as_str(),
        Found::Session(id) => id.as_str(),
    }
}

async fn load(store: &SqliteStore, found: Found, typed: &str) -> Result<Target, CliError> {
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
    store: &SqliteStore,
    id: &DelegationId,
    typed: &str,
) -> Result<Box<DelegationRecord>, CliError> {
    store.delegation(id).await?.map(Box::new).ok_or_else(|| unknown(typed))
}
