//! Everything that one command started: its process group, and orphans that left the group but carry the mark or are
//! still of its terminal session.
//!
//! It signals and looks; when to do so is decided by whoever runs the command.

use super::mark::Mark;
use super::orphans::Orphans;
use super::table::{self, Row};
use legwork_core::record::ProcessGroup;
use nix::errno::Errno;
use nix::sys::signal::{self, Signal};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

/// The processes of one command.
#[derive(Debug)]
pub(super) struct Family {
    pub(super) group: ProcessGroup,
    leader: Pid,
    orphans: Orphans,
}

impl Family {
    /// The family of a leader that has just started.
    pub(super) fn new(group: ProcessGroup, leader: Pid, mark: &Mark) -> Self {
        let orphans = Orphans::new(mark.command(), Some(group.pgid));
        Family { group, leader, orphans }
    }

    /// Sends a signal to all of them.
    pub(super) fn signal(&mut self, signal: Signal) {
        send_group(self.leader, signal);
        for orphan in self.orphans.look() {
            send(orphan, signal);
        }
    }

    /// Whether none of them is left. Must not be asked before the leader was reaped by its owner, because it reaps
    /// whatever of the group this process has adopted.
    pub(super) fn is_gone(&mut self) -> bool {
        reap_group(self.leader);
        is_group_empty(self.leader) && self.orphans.look().is_empty()
    }

    /// Those that live, without the leader.
    pub(super) fn followers(&mut self) -> Vec<Row> {
        let pgid = self.group.pgid;
        let mut rows = table::rows();
        rows.retain(|row| {
            row.stat.group == pgid && row.pid != pgid && row.stat.start_ticks >= self.group.start_ticks
        });
        rows.extend(self.orphans.look().into_iter().filter(|orphan| orphan.stat.group != pgid));
        rows
    }

    /// Kills the orphans that are there now; their own children become orphans by that. Says whether none was there.
    pub(super) fn kill_orphans(&mut self) -> bool {
        self.orphans.kill()
    }
}

/// Sends a signal to one process, and to its group if it leads one.
pub(super) fn send(row: Row, signal: Signal) {
    let Some(pid) = super::identity::pid_of(row.pid) else { return };
    if row.stat.group == row.pid {
        send_group(pid, signal);
    } else {
        ignore_gone(signal::kill(pid, signal));
    }
}

/// Sends a signal to a group.
pub(super) fn send_group(leader: Pid, signal: Signal) {
    ignore_gone(signal::killpg(leader, signal));
}

/// A process that is gone already is what was wanted; one that became another user's cannot be reached at all.
fn ignore_gone(result: nix::Result<()>) {
    if let Err(error) = result
        && error != Errno::ESRCH
    {
        tracing::debug!(%error, "a process could not be signalled");
    }
}

/// Whether no process of a command's group is left that could be found by the group.
pub fn is_group_gone(group: &ProcessGroup) -> bool {
    super::identity::pid_of(group.pgid).is_none_or(is_group_empty)
}

fn is_group_empty(leader: Pid) -> bool {
    signal::killpg(leader, None) == Err(Errno::ESRCH)
}

/// Reaps the members of the group that this process has adopted.
fn reap_group(leader: Pid) {
    let members = Pid::from_raw(-leader.as_raw());
    while waitpid(members, Some(WaitPidFlag::WNOHANG)).is_ok_and(|status| status != WaitStatus::StillAlive) {}
}
