//! A process of ours that outlives this program: it has a log instead of a terminal, and leaves the terminal's session
//! by itself when it begins. Nobody here waits for it, and no sweep ends it.

use super::orphans;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// Starts `program`, which is to call [`leave_terminal`] when it begins, and gives its process id. It is called as this
/// process is.
///
/// # Errors
/// What the system said.
pub fn start_outliving(program: &Path, arguments: &[OsString], folder: &Path, log: File) -> io::Result<u32> {
    let mut command = Command::new(program);
    if let Some(name) = std::env::args_os().next() {
        command.arg0(name);
    }
    command.args(arguments).current_dir(folder).stdin(Stdio::null());
    command.stdout(log.try_clone()?).stderr(log);
    let pid = command.spawn()?.id();
    orphans::let_go(pid);
    Ok(pid)
}

/// Takes a terminal session of its own, so that the end of a terminal reaches this process no longer. One that leads a group
/// already stays where it is.
pub fn leave_terminal() {
    if let Err(error) = nix::unistd::setsid() {
        tracing::debug!(%error, "this process stays in its terminal's session");
    }
}
