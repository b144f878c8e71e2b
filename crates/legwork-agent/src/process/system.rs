//! The port `Processes` over this system: who lives, and the end of what dead owners left.
//!
//! It acts on proof only. Whatever cannot be read is left alone.

#[cfg(not(unix))]
compile_error!(
    "legwork runs on Unix systems only: it relies on process groups and signals that Windows does not have"
);

use super::family;
use super::identity::{self, Boot, Look};
use super::mark::{self, Marked, Named};
use super::orphans::until;
use super::store;
use super::table::{self, Row};
use crate::worktree;
use legwork_core::aftermath::Worktree;
use legwork_core::ids::ChildId;
use legwork_core::ports::{GroupEnd, Liveness, Pending, Processes};
use legwork_core::record::{Process, ProcessGroup};
use nix::sys::signal::Signal;
use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;
use tokio::task::spawn_blocking;

/// How long a killed process may take until it is gone.
const GONE_WAIT: Duration = Duration::from_millis(500);

/// The processes of this system.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemProcesses;

impl SystemProcesses {
    /// Whether the process is there and stopped, by a signal or a debugger, so that it does nothing until it is told to go on.
    pub fn is_stopped(self, process: &Process) -> bool {
        let is_here = identity::boot(&process.boot_id) == Boot::Same;
        match identity::look(process.pid) {
            Look::Found(stat) => is_here && stat.stopped && stat.start_ticks == process.start_ticks,
            Look::Gone | Look::Unreadable => false,
        }
    }
}

impl Processes for SystemProcesses {
    fn worktree_of(&self, child: &ChildId, folder: &str) -> Option<Worktree> {
        worktree::remains(child, Path::new(folder))
    }

    fn myself(&self) -> Process {
        let pid = std::process::id();
        let start_ticks = table::row(pid).map_or(0, |row| row.stat.start_ticks);
        Process { boot_id: identity::boot_id().to_owned(), pid, start_ticks }
    }

    fn liveness(&self, process: &Process) -> Liveness {
        match identity::boot(&process.boot_id) {
            Boot::Other => Liveness::Dead,
            Boot::Unclear => Liveness::Unclear,
            Boot::Same => liveness_now(process),
        }
    }

    fn kill_groups(&self, groups: Vec<ProcessGroup>) -> Pending<'_, Vec<GroupEnd>> {
        let count = groups.len();
        Box::pin(async move {
            spawn_blocking(move || kill_groups(&groups)).await.unwrap_or_else(|error| {
                tracing::error!(%error, "BUG: the end of process groups broke off");
                vec![GroupEnd::Doubtful; count]
            })
        })
    }

    fn ticks(&self) -> u64 {
        identity::ticks().unwrap_or_default()
    }

    fn kill_marked(&self, children: Vec<ChildId>, before: u64) -> Pending<'_, usize> {
        Box::pin(async move {
            spawn_blocking(move || kill_marked(&children, before)).await.unwrap_or_else(|error| {
                tracing::error!(%error, "BUG: the end of marked processes broke off");
                0
            })
        })
    }
}

/// Kills whatever carries the mark of one of `children` of this process's database and began before `before`, waits at most
/// 500 ms for the end of all, and says how many that were. It holds up its thread.
pub(crate) fn kill_marked(children: &[ChildId], before: u64) -> usize {
    let ids: Vec<&str> = children.iter().map(ChildId::as_str).collect();
    let (mut killed, mut left) = (BTreeSet::new(), BTreeSet::new());
    if !ids.is_empty() {
        until(GONE_WAIT, || {
            let Found { ours, elsewhere } = marked(&ids, before);
            ours.iter().for_each(|row| family::send(*row, Signal::SIGKILL));
            killed.extend(ours.iter().map(|row| row.pid));
            left = elsewhere.iter().map(|row| row.pid).collect();
            ours.is_empty()
        });
    }
    if !left.is_empty() {
        tracing::warn!(
            pids = ?left,
            "processes with our marks were started for another state folder and are left alone: this folder is a copy of that \
             one, or was on another file system then"
        );
    }
    killed.len()
}

/// Kills what is left of groups, as [`Processes::kill_groups`] says, and waits at most 500 ms for the end of all. It holds up
/// its thread.
pub fn kill_groups(groups: &[ProcessGroup]) -> Vec<GroupEnd> {
    let ours: Vec<(&ProcessGroup, Whose)> = groups.iter().map(|group| (group, whose(group))).collect();
    let meant: Vec<&ProcessGroup> =
        ours.iter().filter(|(_, whose)| *whose == Whose::Ours).map(|(group, _)| *group).collect();
    for leader in meant.iter().filter_map(|group| identity::pid_of(group.pgid)) {
        family::send_group(leader, Signal::SIGKILL);
    }
    let all_gone = until(GONE_WAIT, || {
        let left: Vec<Row> = meant.iter().flat_map(|group| living(group)).collect();
        // Those that left the group, and those that were being born while the group was killed.
        left.iter().for_each(|row| family::send(*row, Signal::SIGKILL));
        left.is_empty()
    });
    if !all_gone {
        tracing::warn!(groups = meant.len(), "process groups were killed but not all of them have ended yet");
    }
    let end = |(group, whose): (&ProcessGroup, Whose)| match whose {
        Whose::Ours if living(group).is_empty() => GroupEnd::Gone,
        Whose::Ours => GroupEnd::Dying,
        Whose::Nobodys => GroupEnd::Gone,
        Whose::OutOfSight => GroupEnd::OutOfSight,
        Whose::Elsewhere if living(group).is_empty() => GroupEnd::Gone,
        Whose::Elsewhere => GroupEnd::Elsewhere,
        Whose::Unclear => GroupEnd::Doubtful,
    };
    ours.into_iter().map(end).collect()
}

/// Whether anything of a command's group lives. What cannot be looked at counts as living.
pub fn is_group_living(group: &ProcessGroup) -> bool {
    match whose(group) {
        Whose::Ours | Whose::Elsewhere => !living(group).is_empty(),
        Whose::Nobodys => false,
        Whose::OutOfSight | Whose::Unclear => true,
    }
}

fn liveness_now(process: &Process) -> Liveness {
    match identity::look(process.pid) {
        Look::Gone => Liveness::Dead,
        Look::Unreadable => Liveness::Unclear,
        Look::Found(stat) if stat.start_ticks != process.start_ticks || stat.zombie => Liveness::Dead,
        Look::Found(_) => Liveness::Alive,
    }
}

/// Whose a process group is that was stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Whose {
    /// Still that of the command.
    Ours,
    /// That of somebody else, or nobody's: nothing is left of the command's.
    Nobodys,
    /// Still that of the command, which was started for another database.
    Elsewhere,
    /// Nothing of it can be seen from here.
    OutOfSight,
    /// There may be something that cannot be looked at.
    Unclear,
}

/// Whether the group is still the one that was stored, and the command's for this database: what a copy has stored runs for
/// the original.
fn whose(group: &ProcessGroup) -> Whose {
    let noted = store::of_group(&group.boot_id);
    match whose_command(group) {
        Whose::Ours if noted.is_some() && noted != store::mine() => Whose::Elsewhere,
        whose => whose,
    }
}

/// Whether the group is still the one that was stored. While its leader is there, even dead, the leader's start time
/// tells. Without a leader the members tell: they must have started after it, and one must carry a mark of ours.
fn whose_command(group: &ProcessGroup) -> Whose {
    match identity::boot(store::boot_of_group(&group.boot_id)) {
        Boot::Same => {}
        Boot::Other => return Whose::Nobodys,
        Boot::Unclear => return Whose::OutOfSight,
    }
    if group.pgid == std::process::id() {
        return Whose::Nobodys;
    }
    match identity::look(group.pgid) {
        Look::Found(stat) if stat.start_ticks == group.start_ticks => Whose::Ours,
        Look::Found(_) => Whose::Nobodys,
        Look::Unreadable => Whose::Unclear,
        Look::Gone => whose_is_left(group, &living(group)),
    }
}

fn whose_is_left(group: &ProcessGroup, members: &[Row]) -> Whose {
    if members.iter().any(|row| row.stat.start_ticks < group.start_ticks) {
        return Whose::Nobodys;
    }
    let marks: Vec<Marked> = members.iter().map(|row| mark::any_of(row.pid)).collect();
    if marks.contains(&Marked::Yes) {
        Whose::Ours
    } else if marks.contains(&Marked::Unreadable) {
        Whose::Unclear
    } else {
        Whose::Nobodys
    }
}

/// Those that live of a group, and of the terminal session that its leader took: whoever has left the group, with
/// whatever environment, is still of the session unless it took one of its own.
fn living(group: &ProcessGroup) -> Vec<Row> {
    let mut rows = table::rows();
    rows.retain(|row| [row.pid, row.stat.group, row.stat.session].contains(&group.pgid));
    rows
}

/// Those that carry marks.
struct Found {
    ours: Vec<Row>,
    /// Of another database.
    elsewhere: Vec<Row>,
}

fn marked(ids: &[&str], before: u64) -> Found {
    let myself = std::process::id();
    let mut found = Found { ours: Vec::new(), elsewhere: Vec::new() };
    for row in table::rows() {
        if row.pid == myself || row.stat.start_ticks >= before {
            continue;
        }
        match mark::of_one(row.pid, ids) {
            Named::Here => found.ours.push(row),
            Named::Elsewhere => found.elsewhere.push(row),
            Named::Nowhere => {}
        }
    }
    found
}
