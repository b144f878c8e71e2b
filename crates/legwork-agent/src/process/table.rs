//! The table of processes as `/proc` shows it: who is there, whose child, under what name.
//!
//! It only looks. Where there is no `/proc` the table is empty.

use super::identity::{self, Look, Stat};
use super::plain::Cleaner;
use super::shell;
use std::collections::BTreeSet;
use std::fs;

/// The longest name that is shown.
const NAME_CHARS_MAX: usize = 80;

/// A process that a command left behind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leftover {
    /// Its id, when it lived.
    pub pid: u32,
    /// Its command line on one line, cut to a readable length.
    pub command: String,
}

/// A line of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) pid: u32,
    pub(super) stat: Stat,
}

/// All processes that can be seen and live.
pub(super) fn rows() -> Vec<Row> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter_map(row)
        .filter(|row| !row.stat.zombie)
        .collect()
}

/// One process, dead or alive.
pub(super) fn row(pid: u32) -> Option<Row> {
    match identity::look(pid) {
        Look::Found(stat) => Some(Row { pid, stat }),
        Look::Gone | Look::Unreadable => None,
    }
}

/// The direct children of this process that the kernel hands to its first thread. Orphans that this process adopts
/// are among them.
pub(super) fn children() -> Vec<u32> {
    let myself = std::process::id();
    match fs::read_to_string(format!("/proc/self/task/{myself}/children")) {
        Ok(list) => list.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).collect(),
        Err(_) => children_by_scan(myself),
    }
}

/// The way for kernels that do not list children.
fn children_by_scan(myself: u32) -> Vec<u32> {
    rows().into_iter().filter(|row| row.stat.parent == myself).map(|row| row.pid).collect()
}

/// Names the processes among `rows` that no other one of them started: what a person would call the leftovers.
pub(super) fn name_roots(rows: &[Row]) -> Vec<Leftover> {
    let pids: BTreeSet<u32> = rows.iter().map(|row| row.pid).collect();
    let roots = rows.iter().filter(|row| !pids.contains(&row.stat.parent));
    roots.map(|root| Leftover { pid: root.pid, command: name(*root, rows) }).collect()
}

/// A part of the shell that runs the script has no name of its own, so it is called by what it runs.
fn name(row: Row, rows: &[Row]) -> String {
    let own = command_line(row.pid);
    if !shell::is_bootstrap(&own) {
        return shown(&own);
    }
    let below = rows.iter().filter(|other| other.stat.parent == row.pid).map(|other| command_line(other.pid));
    let inner: Vec<String> =
        below.filter(|line| !shell::is_bootstrap(line)).map(|line| shown(&line)).collect();
    if inner.is_empty() { "a subshell".to_owned() } else { format!("({})", inner.join("; ")) }
}

fn command_line(pid: u32) -> String {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let text = String::from_utf8_lossy(&line).trim_end_matches('\0').replace('\0', " ");
    if !text.is_empty() {
        return text;
    }
    fs::read_to_string(format!("/proc/{pid}/comm"))
        .map_or_else(|_| "?".to_owned(), |comm| comm.trim().to_owned())
}

fn shown(command: &str) -> String {
    let plain = Cleaner::clean(command.as_bytes());
    let line: String = plain.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(NAME_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}
