//! A terminal session for each command, so that none of them has the terminal that legwork runs in (invariant 17):
//! `/dev/tty` cannot be opened there, neither to write nor to change the terminal's modes.
//!
//! The way of it is chosen for its speed. The system's `setsid` program takes the new session and then becomes the
//! shell, so a start copies nothing of this process; a `fork` with a call of ours in it copies the page tables, which
//! takes tens of milliseconds when they are large. Where there is no such program, that has to do.

use std::path::{Path, PathBuf};
use tokio::process::Command;

/// How a command comes into a session of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Apart {
    /// Through this program.
    Program(PathBuf),
    /// By a call between fork and exec.
    Fork,
}

impl Apart {
    /// The way with the `setsid` program, if there is one.
    pub(super) fn new(setsid: Option<PathBuf>) -> Self {
        setsid.map_or(Apart::Fork, Apart::Program)
    }

    /// A command that starts `program` in a session of its own, whose id and whose group's id are the process id. It
    /// must not be put into a group as well: the leader of one cannot take a session.
    ///
    /// With the program this has not happened yet when the start returns, but it has before anything of `program` runs.
    pub(super) fn command(&self, program: &Path) -> Command {
        match self {
            Apart::Program(setsid) => {
                let mut command = Command::new(setsid);
                command.arg(program);
                command
            }
            Apart::Fork => {
                let mut command = Command::new(program);
                take_session(&mut command);
                command
            }
        }
    }
}

#[expect(
    unsafe_code,
    reason = "the standard library has no safe way yet to start a process in a new session"
)]
fn take_session(command: &mut Command) {
    // SAFETY: between fork and exec only async-signal-safe functions may be called. The closure calls setsid(2), which
    // is one, and allocates nothing: the error is a number.
    unsafe { command.pre_exec(|| Ok(nix::unistd::setsid().map(drop)?)) };
}
