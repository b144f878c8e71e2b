//! A worker that outlives this process and goes on with work that is left to it: in a terminal session of its own, with the
//! environment and the common options of this process, and its words in a file of the folder `log`.
//!
//! It marks nothing as left: as soon as this process has ended, the worker finds that the work has lost its process, takes it over
//! and goes on. Whoever dies in between leaves the same traces, so nothing depends on when that happens.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;

use legwork_agent::process::start_outliving;

use crate::failure::CliError;
use crate::invocation::Invocation;

/// Starts a worker for what `id` names: a delegation, or all that a session has delegated.
///
/// # Errors
/// When it could not be started. The work is as it was, and whoever names it goes on with it.
pub fn start(invocation: &Invocation, id: &str) -> io::Result<()> {
    let arguments = arguments(invocation, id).map_err(|error| io::Error::other(error.to_string()))?;
    let log = log(invocation, id)?;
    let program = std::env::current_exe()?;
    start_outliving(&program, &arguments, invocation.paths.working_folder(), log).map(drop)
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

fn log(invocation: &Invocation, id: &str) -> io::Result<File> {
    let folder = invocation.paths.state().map_err(|error| io::Error::other(error.to_string()))?.log();
    let path = folder.join(format!("worker-{id}.log"));
    OpenOptions::new().append(true).create(true).mode(0o600).open(path)
}
