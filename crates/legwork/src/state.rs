//! Opens the state database for a verb, and says what is wrong with it in words for people.

use std::sync::{Arc, Once};

use legwork_agent::process;
use legwork_core::ports::{Facts, Pause, StoreError};
use legwork_sqlite::{SqliteStore, StoreOptions};

use crate::failure::{CliError, Kind};
use crate::invocation::Invocation;
use crate::settings::variables::STATE_MAX_PAGES;
use crate::stderr;

impl From<StoreError> for CliError {
    fn from(error: StoreError) -> CliError {
        CliError::new(Kind::State, error.to_string())
    }
}

/// Opens the database to look into it. `None` when there is none yet; looking creates nothing. A database that cannot
/// be written is looked at all the same, and a line on stderr says so.
///
/// # Errors
/// When it cannot be used.
pub async fn open_to_look(invocation: &Invocation) -> Result<Option<Arc<SqliteStore>>, CliError> {
    let folder = invocation.paths.state()?;
    let store = SqliteStore::open_existing(&folder.database(), options(invocation)?)?;
    // Where a link leads nowhere the state is somewhere else, and "nothing" would be said of it wrongly.
    if store.is_none()
        && let Some(obstacle) = folder.obstacle()
    {
        return Err(obstacle.into());
    }
    if let Some(store) = &store {
        take_as_ours(store);
    }
    if let Some(why) = store.as_ref().and_then(SqliteStore::only_looks) {
        tell_only_looks(invocation, why);
    }
    Ok(store.map(Arc::new))
}

/// Says that the database is only looked at, and why.
pub fn tell_only_looks(invocation: &Invocation, why: &StoreError) {
    /// Verbs that look again and again say it once.
    static TOLD: Once = Once::new();
    if !invocation.common.quiet {
        TOLD.call_once(|| stderr::tell(&format!("note: {why}. It can be looked at; nothing new is taken")));
    }
}

/// Opens the database to change something in it. `None` when there is none yet; nothing is created then.
///
/// # Errors
/// When it cannot be used.
pub async fn open_to_change(invocation: &Invocation) -> Result<Option<Arc<SqliteStore>>, CliError> {
    match open_to_look(invocation).await? {
        Some(_) => open_to_work(invocation).map(Some),
        None => Ok(None),
    }
}

/// Whether new children may not start in any process of this state folder (KILL-1).
///
/// # Errors
/// When the database cannot be used.
pub async fn is_paused(store: &SqliteStore) -> Result<bool, CliError> {
    /// After every request that there may be.
    const NO_REQUESTS: u64 = u64::MAX;
    Ok(store.news(NO_REQUESTS).await?.pause == Pause::On)
}

/// Tells somebody who waits for work of a pause, if there is one: what has not begun does not begin then.
///
/// # Errors
/// When the database cannot be used.
pub async fn tell_of_pause(invocation: &Invocation, store: &SqliteStore) -> Result<(), CliError> {
    if !invocation.common.quiet && is_paused(store).await? {
        stderr::tell("note: there is a pause, so no subagent starts; `legwork pause off` ends it");
    }
    Ok(())
}

/// Opens the database to work with it, and creates what is missing.
///
/// # Errors
/// When the state folder or the database cannot be used.
pub fn open_to_work(invocation: &Invocation) -> Result<Arc<SqliteStore>, CliError> {
    let state = invocation.paths.state()?;
    state.prepare()?;
    let store = SqliteStore::open(&state.database(), options(invocation)?)?;
    take_as_ours(&store);
    Ok(Arc::new(store))
}

/// The commands of this process are those of this database, and not those of a copy of it.
fn take_as_ours(store: &SqliteStore) {
    if let Err(error) = process::work_with(store.path()) {
        tracing::warn!(%error, "the database cannot be told from a copy of it");
    }
}

/// The limits of the store that this invocation asks for.
///
/// # Errors
/// When a variable holds something wrong.
pub fn options(invocation: &Invocation) -> Result<StoreOptions, CliError> {
    Ok(StoreOptions { max_pages: max_pages(invocation)?, ..StoreOptions::default() })
}

/// `LEGWORK_STATE_MAX_PAGES` limits the database to so many pages, for disks that must not fill up.
fn max_pages(invocation: &Invocation) -> Result<Option<u32>, CliError> {
    let Some(text) = invocation
        .environment
        .text(STATE_MAX_PAGES)
        .map_err(|error| CliError::new(Kind::Configuration, error.to_string()))?
    else {
        return Ok(None);
    };
    let pages = text.parse().ok().filter(|pages| *pages > 0);
    let wrong = || {
        CliError::new(
            Kind::Configuration,
            format!("{STATE_MAX_PAGES} is {text:?}; it must be a whole number above 0"),
        )
    };
    pages.map(Some).ok_or_else(wrong)
}
