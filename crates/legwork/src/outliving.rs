//! A worker that outlives this process and goes on with work that is left to it: in a terminal session of its own, with the
//! environment and the common options of this process, and its words in a file of the folder `log`.
//!
//! It marks nothing as left: as soon as this process has ended, the worker finds that the work has lost its process, takes it over
//! and goes on. Whoever dies in between leaves the same traces, so nothing depends on when that happens. That there is such a
//! worker can be seen all the same: its log is locked for as long as it lives, from before it begins, and the system lets go of
//! the lock with its end.

use std::ffi::OsString;
use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use legwork_agent::process::start_outliving;
use legwork_core::record::DelegationRecord;

use crate::failure::CliError;
use crate::invocation::Invocation;
use crate::orphans::is_orphaned;
use crate::paths::PathsError;

/// How often the lock of a log is tried, and the pause in between: whoever looks at it holds it for a moment.
const LOCK_TRIES: u32 = 20;
const LOCK_PAUSE: Duration = Duration::from_millis(5);

/// Starts a worker for what `id` names: a delegation, or all that a session has delegated.
///
/// # Errors
/// When it could not be started. The work is as it was, and whoever names it goes on with it.
pub fn start(invocation: &Invocation, id: &str) -> io::Result<()> {
    let arguments = arguments(invocation, id).map_err(|error| io::Error::other(error.to_string()))?;
    let log = log(invocation, id)?;
    mark(&log);
    let program = program()?;
    start_outliving(&program, &arguments, invocation.paths.working_folder(), log).map(drop)
}

/// The program as it runs here. An upgrade may have put another one in its place, or nothing; the system keeps the one that runs.
fn program() -> io::Result<PathBuf> {
    let path = std::env::current_exe()?;
    let running = PathBuf::from(format!("/proc/{}/exe", std::process::id()));
    Ok(if path.exists() || !running.exists() { path } else { running })
}

fn arguments(invocation: &Invocation, id: &str) -> Result<Vec<OsString>, CliError> {
    let common = &invocation.common;
    let mut arguments: Vec<OsString> = ["worker", "--apart", "--only", id].map(OsString::from).to_vec();
    let mut pass = |name: &str, value: Option<OsString>| {
        if let Some(value) = value {
            arguments.extend([OsString::from(name), value]);
        }
    };
    pass("--model", common.model.clone().map(OsString::from));
    pass("--base-url", common.base_url.clone().map(OsString::from));
    pass("--api-mode", common.api_mode.clone().map(OsString::from));
    pass("--state-dir", Some(invocation.paths.state()?.root().as_os_str().to_owned()));
    let config = common.config.as_ref().and_then(|_| invocation.paths.user_config().path());
    pass("--config", config.map(|path| path.as_os_str().to_owned()));
    Ok(arguments)
}

/// Whether the work has lost its process and a worker that was started for it lives, which has not taken it over yet.
pub fn has_worker(invocation: &Invocation, record: &DelegationRecord) -> bool {
    let accepted = &record.accepted;
    let ids = [accepted.delegation.as_str(), accepted.lineage.session.as_str()];
    is_orphaned(record) && ids.iter().any(|id| is_locked(invocation, id))
}

/// Whether nobody works on it and no worker that was started for it lives.
pub fn is_abandoned(invocation: &Invocation, record: &DelegationRecord) -> bool {
    is_orphaned(record) && !has_worker(invocation, record)
}

/// Whether somebody has the log of a worker for `id`. Where that cannot be told there is nobody.
fn is_locked(invocation: &Invocation, id: &str) -> bool {
    let Some(log) = log_path(invocation, id).ok().and_then(|path| File::open(path).ok()) else {
        return false;
    };
    matches!(log.try_lock_shared(), Err(TryLockError::WouldBlock))
}

/// Locks the log for whoever inherits it. Without the lock the worker is only not seen before it begins; an earlier worker for
/// the same work may have it.
fn mark(log: &File) {
    for _ in 0..LOCK_TRIES {
        match log.try_lock() {
            Ok(()) => return,
            // Deadline: those who look let go of it at once, and the tries have an end.
            Err(TryLockError::WouldBlock) => thread::park_timeout(LOCK_PAUSE),
            Err(TryLockError::Error(error)) => {
                tracing::debug!(%error, "the log of a worker cannot be locked");
                return;
            }
        }
    }
}

fn log(invocation: &Invocation, id: &str) -> io::Result<File> {
    let path = log_path(invocation, id).map_err(|error| io::Error::other(error.to_string()))?;
    OpenOptions::new().append(true).create(true).mode(0o600).open(path)
}

fn log_path(invocation: &Invocation, id: &str) -> Result<PathBuf, PathsError> {
    Ok(invocation.paths.state()?.log().join(format!("worker-{id}.log")))
}
