//! Who a process is: its id is used again after its death, so it is told by its start time and by the boot and the
//! process namespace it runs under. All of it is read from `/proc`.
//!
//! It does not decide what follows from a death, and it kills nothing. Where there is no `/proc` (macOS) nothing can
//! be told, and the answers say so.

use nix::errno::Errno;
use nix::sys::signal;
use nix::unistd::{Pid, SysconfVar, sysconf};
use std::fs;
use std::io;
use std::sync::OnceLock;

/// What the kernel says of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stat {
    /// It has ended and nobody has asked how.
    pub(super) zombie: bool,
    /// A signal or a debugger has stopped it.
    pub(super) stopped: bool,
    /// The process that is told of its end.
    pub(super) parent: u32,
    /// Its process group.
    pub(super) group: u32,
    /// Its terminal session.
    pub(super) session: u32,
    /// When it started, in clock ticks since boot.
    pub(super) start_ticks: u64,
}

/// What a look at a process id gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Look {
    /// There is such a process.
    Found(Stat),
    /// There is none.
    Gone,
    /// There is one, or may be one, that cannot be looked at.
    Unreadable,
}

/// How a stored boot relates to the running one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Boot {
    /// The same boot, and the same process ids.
    Same,
    /// Another boot: everything of it is gone.
    Other,
    /// The same boot, but the process ids are those of another container; or nothing is known.
    Unclear,
}

/// Looks at a process.
pub(super) fn look(pid: u32) -> Look {
    match fs::read(format!("/proc/{pid}/stat")) {
        Ok(line) => parse(&line).map_or(Look::Unreadable, Look::Found),
        Err(error) => look_without_proc(pid, &error),
    }
}

/// Now, in clock ticks since boot, rounded down.
pub(super) fn ticks() -> Option<u64> {
    counted(&fs::read_to_string("/proc/uptime").ok()?, ticks_per_second()?)
}

/// How `/proc` counts start times.
fn ticks_per_second() -> Option<u64> {
    static TICKS: OnceLock<Option<u64>> = OnceLock::new();
    *TICKS.get_or_init(|| u64::try_from(sysconf(SysconfVar::CLK_TCK).ok()??).ok())
}

/// The first time in `/proc/uptime`, in ticks.
fn counted(uptime: &str, ticks_per_second: u64) -> Option<u64> {
    let (seconds, hundredths) = uptime.split_ascii_whitespace().next()?.split_once('.')?;
    let hundredths: u64 = hundredths.get(..2)?.parse().ok()?;
    Some(seconds.parse::<u64>().ok()? * ticks_per_second + hundredths * ticks_per_second / 100)
}

/// The boot and the process namespace of this process in one text, `boot/namespace`; empty where that cannot be read.
pub(super) fn boot_id() -> &'static str {
    static BOOT_ID: OnceLock<String> = OnceLock::new();
    BOOT_ID.get_or_init(|| read_boot_id().unwrap_or_default())
}

/// Compares a stored boot with the running one.
pub(super) fn boot(stored: &str) -> Boot {
    compare(stored, boot_id())
}

fn compare(stored: &str, running: &str) -> Boot {
    if stored.is_empty() || running.is_empty() {
        return Boot::Unclear;
    }
    if stored == running {
        return Boot::Same;
    }
    let machine = |text: &str| text.split('/').next().map(str::to_owned);
    if machine(stored) == machine(running) { Boot::Unclear } else { Boot::Other }
}

fn read_boot_id() -> Option<String> {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let namespace = fs::read_link("/proc/self/ns/pid").ok()?;
    let digits: String = namespace.to_string_lossy().chars().filter(char::is_ascii_digit).collect();
    Some(format!("{}/{digits}", boot.trim()))
}

/// A hidden `/proc` shows no foreign process, so a missing entry alone proves nothing.
fn look_without_proc(pid: u32, error: &io::Error) -> Look {
    let ended_meanwhile = error.raw_os_error() == Some(Errno::ESRCH as i32);
    if error.kind() != io::ErrorKind::NotFound && !ended_meanwhile {
        return Look::Unreadable;
    }
    match pid_of(pid).map(|pid| signal::kill(pid, None)) {
        Some(Err(Errno::ESRCH)) => Look::Gone,
        Some(_) | None => Look::Unreadable,
    }
}

/// The process id as the system takes it; `None` for numbers that would mean a group or everybody.
pub(super) fn pid_of(pid: u32) -> Option<Pid> {
    i32::try_from(pid).ok().filter(|pid| *pid > 0).map(Pid::from_raw)
}

/// Reads a line of `/proc/PID/stat`. The name in parentheses may hold anything, so counting starts after the last one.
fn parse(line: &[u8]) -> Option<Stat> {
    let name_end = line.iter().rposition(|byte| *byte == b')')?;
    let rest = std::str::from_utf8(line.get(name_end + 1..)?).ok()?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().take(20).collect();
    Some(Stat {
        zombie: matches!(*fields.first()?, "Z" | "X"),
        stopped: matches!(*fields.first()?, "T" | "t"),
        parent: fields.get(1)?.parse().ok()?,
        group: fields.get(2)?.parse().ok()?,
        session: fields.get(3)?.parse().ok()?,
        start_ticks: fields.get(19)?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_and_spaces_does_not_shift_the_fields() {
        let line = b"77 (a) S 1 (b) Z 5 6 7 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 4242 9 9\n";
        let stat = parse(line).expect("the line is whole");
        assert_eq!(
            stat,
            Stat { zombie: true, stopped: false, parent: 5, group: 6, session: 7, start_ticks: 4242 }
        );
    }

    #[test]
    fn a_clock_is_counted_in_the_ticks_of_the_system() {
        assert_eq!(counted("12.34 5.00\n", 100), Some(1234));
        assert_eq!(counted("12.34 5.00\n", 1024), Some(12 * 1024 + 348), "rounded down");
        assert_eq!(counted("12", 100), None);
        assert!(ticks_per_second().is_some_and(|ticks| ticks > 0));
    }

    #[test]
    fn a_torn_line_is_not_a_stat() {
        assert_eq!(parse(b"77 (sh) S 1 2 3"), None);
        assert_eq!(parse(b""), None);
    }

    #[test]
    fn k34_a_process_of_another_container_is_not_called_dead() {
        assert_eq!(compare("b1/1", "b1/1"), Boot::Same);
        assert_eq!(compare("b1/2", "b1/1"), Boot::Unclear);
        assert_eq!(compare("b2/1", "b1/1"), Boot::Other);
        assert_eq!(compare("", "b1/1"), Boot::Unclear);
    }

    #[test]
    fn numbers_that_mean_a_group_are_no_process() {
        assert_eq!(pid_of(0), None);
        assert_eq!(pid_of(u32::MAX), None);
        assert_eq!(look(u32::MAX), Look::Unreadable);
    }
}
