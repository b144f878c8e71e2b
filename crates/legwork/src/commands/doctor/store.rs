//! What `doctor` finds out about the state folder: the named state of the store, and what is stuck in it.

use legwork_agent::process::SystemProcesses;
use legwork_core::ids::{ChildId, DelegationId, RequestId, SessionId};
use legwork_core::ports::{Facts, Fault, Filter, Listed, Liveness, StoreError, StoreHealth};
use legwork_sqlite::SqliteStore;

use super::{Check, mending};
use crate::failure::CliError;
use crate::invocation::Invocation;
use crate::orphans::HOW_TO_GO_ON;
use crate::paths::StateFolder;
use crate::{outliving, state};

/// Looks at the store and, where it can be read, at what is in it.
pub(super) async fn checks(invocation: &Invocation) -> Vec<Check> {
    match looked_at(invocation).await {
        Ok(checks) => checks,
        Err(error) => vec![Check::failed("store", &error)],
    }
}

async fn looked_at(invocation: &Invocation) -> Result<Vec<Check>, CliError> {
    let folder = invocation.paths.state()?;
    let mut checks = Vec::new();
    if let Some(obstacle) = folder.obstacle() {
        let fix = mending::moved_away(&obstacle);
        checks.push(Check::wrong("folder", obstacle.to_string(), fix));
        if !folder.root().is_dir() {
            return Ok(checks);
        }
    }
    checks.extend(of_the_database(invocation, &folder).await?);
    Ok(checks)
}

/// The database, and what is in it.
async fn of_the_database(invocation: &Invocation, folder: &StateFolder) -> Result<Vec<Check>, CliError> {
    let store = match SqliteStore::open_existing(&folder.database(), state::options(invocation)?) {
        Ok(Some(store)) => store,
        Ok(None) => return Ok(vec![Check::ok("store", "nothing is stored yet")]),
        Err(error) => return Ok(vec![ill(&error, folder)]),
    };
    let health = match store.health().await {
        Ok(health) => health,
        Err(error) => return Ok(vec![ill(&error, folder)]),
    };
    // What is damaged would be met again in each of the others, and no other thing can be said of it.
    if !health.problems.is_empty() {
        let problems = format!("{}: {}", health.location, health.problems.join("; "));
        return Ok(vec![ill(&StoreError::Corrupt(problems), folder)]);
    }
    let mut checks = vec![whole(&store, &health, folder).await];
    checks.extend(damages(&health, folder));
    checks.extend(contents(invocation, &store).await);
    Ok(checks)
}

/// The store in a state in which it cannot be used as usual.
fn ill(error: &StoreError, folder: &StateFolder) -> Check {
    let fault = error.fault().map(Fault::as_str);
    let name = fault.map(|fault| format!("{fault}: ")).unwrap_or_default();
    let fix = error.fault().map(|fault| mending::fix(fault, folder));
    Check { fault, ..Check::wrong("store", format!("{name}{error}"), fix) }
}

/// The state of a file that is whole.
async fn whole(store: &SqliteStore, health: &StoreHealth, folder: &StateFolder) -> Check {
    if !health.broken.is_empty() || health.strays > 0 {
        return broken(health, folder);
    }
    match store.try_room().await {
        Ok(()) => Check::ok(
            "store",
            format!(
                "{}, version {}, {} bytes, {} open, {} undelivered",
                health.location, health.version, health.bytes, health.open, health.undelivered
            ),
        ),
        Err(error) => ill(&error, folder),
    }
}

/// What cannot be read beside the delegations. What stands there is not told: anybody may have said it.
fn damages(health: &StoreHealth, folder: &StateFolder) -> Vec<Check> {
    let named = |name, what: &str, ids: Vec<&str>, fix: &dyn Fn() -> String| {
        let damaged = || Check {
            fault: Some(Fault::Damaged.as_str()),
            ..Check::wrong(name, format!("damaged: {what} cannot be read: {}", ids.join(", ")), Some(fix()))
        };
        (!ids.is_empty()).then(damaged)
    };
    let journals = health.journals.iter().map(ChildId::as_str).collect();
    let requests: Vec<&str> = health.requests.iter().map(RequestId::as_str).collect();
    let sessions: Vec<&str> = health.sessions.iter().map(SessionId::as_str).collect();
    let found = [
        named("journals", "a recorded step of each of these subagents", journals, &|| {
            "each of them fails with that reason when somebody goes on with its work; nothing has to be done, and everything \
             else goes on"
                .to_owned()
        }),
        named("requests", "these stops and messages, which nobody hears of,", requests.clone(), &|| {
            mending::without_requests(&requests, folder)
        }),
        named("conversations", "what is stored of these conversations", sessions.clone(), &|| {
            mending::without_sessions(&sessions, folder)
        }),
    ];
    found.into_iter().flatten().collect()
}

/// The file is whole, and some of what is in it cannot be read or does not belong together.
fn broken(health: &StoreHealth, folder: &StateFolder) -> Check {
    let ids: Vec<&str> = health.broken.iter().map(DelegationId::as_str).collect();
    let mut found = Vec::new();
    if !ids.is_empty() {
        found.push(format!("rows that cannot be read or do not belong together, of {}", ids.join(", ")));
    }
    if health.strays > 0 {
        found.push(format!("{} rows that belong to nothing", health.strays));
    }
    let detail = format!("damaged: {} has {}", health.location, found.join(" and "));
    let fix = mending::without(&health.broken, folder);
    Check { fault: Some(Fault::Damaged.as_str()), ..Check::wrong("store", detail, Some(fix)) }
}

/// What is said of the content of a store that can be read.
async fn contents(invocation: &Invocation, store: &SqliteStore) -> Vec<Check> {
    let mut checks = Vec::new();
    match state::is_paused(store).await {
        Ok(false) => {}
        Ok(true) => checks.push(Check::warning(
            "pause",
            "no new subagent starts in any process of this state folder",
            "`legwork pause off` lets them start again",
        )),
        Err(error) => checks.push(Check::failed("pause", &error)),
    }
    match strange_transcripts(invocation, store).await {
        Ok(found) => checks.extend(found),
        Err(error) => checks.push(Check::failed("transcripts", &error)),
    }
    match stuck(invocation, store).await {
        Ok(found) => checks.extend(found),
        Err(error) => checks.push(Check::failed("work", &error)),
    }
    checks
}

/// Transcripts of delegations that the database has never heard of: it was emptied, or another one stands in its place.
async fn strange_transcripts(
    invocation: &Invocation,
    store: &SqliteStore,
) -> Result<Option<Check>, CliError> {
    let live = invocation.paths.state()?.live();
    let Ok(folders) = std::fs::read_dir(&live) else { return Ok(None) };
    let mut strange = 0;
    for folder in folders.filter_map(Result::ok) {
        let Ok(name) = folder.file_name().into_string() else { continue };
        if name.starts_with("deleg_") {
            strange += usize::from(store.find(&name).await?.is_empty());
        }
    }
    Ok((strange > 0).then(|| {
        Check::warning(
            "transcripts",
            format!(
                "{} has transcripts of {strange} delegation(s) that the database does not know",
                live.display()
            ),
            "if the database was emptied or replaced, put the old one back; otherwise remove these folders",
        )
    }))
}

/// Work that nobody does any more.
async fn stuck(invocation: &Invocation, store: &SqliteStore) -> Result<Vec<Check>, CliError> {
    let Listed { rows: open, unreadable } = store.delegations(Filter::Open).await?;
    let of = |wanted: Liveness| {
        let those = open.iter().filter(move |record| record.owner.liveness(&SystemProcesses) == wanted);
        those.filter(|record| !outliving::has_worker(invocation, record)).count()
    };
    let (dead, unclear) = (of(Liveness::Dead), of(Liveness::Unclear));
    let mut checks = Vec::new();
    if dead > 0 {
        checks.push(Check::warning(
            "work",
            format!("{dead} delegation(s) belong to a process that has died"),
            &format!("{HOW_TO_GO_ON}; `legwork ps` names the key or the model that is lacking here"),
        ));
    }
    if unclear > 0 {
        checks.push(Check::warning(
            "work",
            format!("whether the owners of {unclear} delegation(s) live cannot be told"),
            "their work is left alone; run legwork where /proc can be read",
        ));
    }
    if !unreadable.is_empty() {
        let ids: Vec<&str> = unreadable.iter().map(DelegationId::as_str).collect();
        checks.push(Check::warning(
            "work",
            format!("open work cannot be read, and nobody goes on with it: {}", ids.join(", ")),
            "what is said of the store tells what to do; everything else goes on",
        ));
    }
    if checks.is_empty() {
        checks.push(Check::ok("work", format!("{} delegation(s) running, none stuck", open.len())));
    }
    Ok(checks)
}
