//! The processes of one test's machine: each carries that machine's folder in its environment, however it left its
//! parent, its group or its session.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::waiting::within;

/// How long a process may take to become another program on a busy machine.
const BECOMING_MAX: Duration = Duration::from_millis(200);

/// One living process.
#[derive(Debug)]
pub struct Seen {
    pub pid: i32,
    /// Its arguments with a space between them.
    pub command: String,
    /// Its environment, entry by entry.
    pub environment: Vec<String>,
}

impl Seen {
    /// Ends it on the spot, if it is still there.
    pub fn kill(&self) {
        // It may have ended by itself since it was seen; then there is nothing to do.
        kill(Pid::from_raw(self.pid), Signal::SIGKILL).ok();
    }
}

/// Those with `folder` in their environment.
pub fn of(folder: &Path) -> Vec<Seen> {
    let entries = fs::read_dir("/proc").expect("the table of processes can be read");
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    pids.filter_map(|pid| seen(pid, folder)).collect()
}

/// A process that has ended meanwhile, or a dead one that nobody has reaped yet, has no environment.
fn seen(pid: i32, folder: &Path) -> Option<Seen> {
    let environment = environment(pid)?;
    let folder = folder.as_os_str().as_bytes();
    environment.windows(folder.len()).any(|part| part == folder).then(|| Seen {
        pid,
        command: split(&fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default()).join(" "),
        environment: split(&environment),
    })
}

/// A process has none either for the moment in which it becomes another program, and would pass for nobody's.
fn environment(pid: i32) -> Option<Vec<u8>> {
    let read = || fs::read(format!("/proc/{pid}/environ")).ok();
    let runs_a_program = || fs::read_link(format!("/proc/{pid}/exe")).is_ok();
    // Deadline: who was given no environment has none later either.
    within(BECOMING_MAX, || match read() {
        Some(environment) if environment.is_empty() && runs_a_program() => None,
        other => Some(other),
    })
    .unwrap_or_default()
}

fn split(text: &[u8]) -> Vec<String> {
    let parts = text.split(|byte| *byte == 0).filter(|part| !part.is_empty());
    parts.map(|part| String::from_utf8_lossy(part).into_owned()).collect()
}
