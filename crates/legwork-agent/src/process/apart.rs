//! A terminal session for each command, so that none of them has the terminal that legwork runs in (invariant 17):
//! `/dev/tty` cannot be opened there, neither to write nor to change the terminal's modes.
//!
//! The way of it is chosen for its speed: `posix_spawn` takes the session while it starts the program. A `fork` with a
//! call of ours in it copies the page tables of this process, which takes tens of milliseconds when they are large, and
//! a program in between that takes the session costs half as much as the shell itself. In return a program starts in the
//! folder of this process, and has to go to its own by itself.

use nix::libc;
use nix::spawn::{PosixSpawnAttr, PosixSpawnFileActions, PosixSpawnFlags, posix_spawn};
use nix::sys::signal::{SigSet, Signal};
use nix::unistd::Pid;
use std::ffi::CString;
use std::io::{self, PipeReader, PipeWriter};
use std::os::fd::AsRawFd;
use std::path::Path;

/// `POSIX_SPAWN_SETSID`, which nix does not name.
#[cfg(not(target_os = "macos"))]
const NEW_SESSION: libc::c_int = libc::POSIX_SPAWN_SETSID as libc::c_int;
#[cfg(target_os = "macos")]
const NEW_SESSION: libc::c_int = 0x0400;

/// What to start.
pub(super) struct Start<'a> {
    pub(super) program: &'a Path,
    pub(super) arguments: &'a [CString],
    /// All variables, as `NAME=value`.
    pub(super) environment: &'a [CString],
    pub(super) stdin: PipeReader,
    /// Takes stdout and stderr.
    pub(super) output: PipeWriter,
}

/// Starts a program in a session of its own, whose id and whose group's id are the process id. All of that has happened
/// when this returns. Signals are as a program expects them, whatever this process does with them.
///
/// # Errors
/// What the system said; nothing was started then.
pub(super) fn start(start: Start<'_>) -> io::Result<Pid> {
    let mut files = PosixSpawnFileActions::init()?;
    files.add_dup2(start.stdin.as_raw_fd(), libc::STDIN_FILENO)?;
    files.add_dup2(start.output.as_raw_fd(), libc::STDOUT_FILENO)?;
    files.add_dup2(start.output.as_raw_fd(), libc::STDERR_FILENO)?;
    Ok(posix_spawn(start.program, &files, &attributes()?, start.arguments, start.environment)?)
}

fn attributes() -> nix::Result<PosixSpawnAttr> {
    let mut attributes = PosixSpawnAttr::init()?;
    let signals = PosixSpawnFlags::POSIX_SPAWN_SETSIGDEF | PosixSpawnFlags::POSIX_SPAWN_SETSIGMASK;
    attributes.set_flags(signals | PosixSpawnFlags::from_bits_retain(NEW_SESSION))?;
    // Programs in Rust ignore it from their start, and what is ignored stays so in another program.
    let mut ignored = SigSet::empty();
    ignored.add(Signal::SIGPIPE);
    attributes.set_sigdefault(&ignored)?;
    attributes.set_sigmask(&SigSet::empty())?;
    Ok(attributes)
}
