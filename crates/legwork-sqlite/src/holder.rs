//! Which process has the right to write, as far as the system tells: SQLite only says that somebody has it. It is for
//! messages, and decides nothing.

use crate::files;
use nix::sys::stat::{major, minor};
use std::fmt;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The byte of the shared index that stands for the right to write (SQLite, "WAL-mode File Format", 2.3).
const WRITE_BYTE: u64 = 120;

/// A process that has the right to write.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Holder {
    pid: u32,
    stands_still: bool,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Holder { pid, stands_still } = self;
        write!(f, "process {pid} has it")?;
        if *stands_still {
            write!(f, " and stands still: continue it with `kill -CONT {pid}`, or end it")?;
        }
        Ok(())
    }
}

/// The process that may write to the database at `path` now; `None` where nobody may, or the system does not tell.
pub(crate) fn of(path: &Path) -> Option<Holder> {
    let index = fs::metadata(files::index_path(path)).ok()?;
    let file = format!("{:02x}:{:02x}:{}", major(index.dev()), minor(index.dev()), index.ino());
    let locks = fs::read_to_string("/proc/locks").ok()?;
    let pid = locks.lines().find_map(|line| writer_in(line, &file))?;
    Some(Holder { pid, stands_still: stands_still(pid) })
}

/// The process of a line of `/proc/locks` (proc(5)) that has the right to write in this file: its device and inode.
/// Locks that are only waited for have an arrow behind their number.
fn writer_in(line: &str, file: &str) -> Option<u32> {
    let mut words = line.split_whitespace().skip(1);
    if words.next() != Some("POSIX") || words.nth(1) != Some("WRITE") {
        return None;
    }
    let pid = words.next()?.parse().ok().filter(|pid| *pid > 0)?;
    let found = words.next()?;
    let first: u64 = words.next()?.parse().ok()?;
    let last: u64 = match words.next()? {
        "EOF" => u64::MAX,
        last => last.parse().ok()?,
    };
    (found == file && (first..=last).contains(&WRITE_BYTE)).then_some(pid)
}

fn stands_still(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name may have spaces and brackets; the state stands behind the last one.
    let state = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().next());
    matches!(state, Some("T" | "t"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn k35_the_process_that_may_write_is_found_in_the_list_of_locks() {
        let lines = [
            ("2: POSIX  ADVISORY  WRITE 708 08:01:77 120 120", Some(708)),
            ("2: POSIX  ADVISORY  WRITE 708 08:01:77 120 127", Some(708)),
            ("2: POSIX  ADVISORY  WRITE 708 08:01:77 0 EOF", Some(708)),
            ("2: POSIX  ADVISORY  WRITE 708 08:01:78 120 120", None),
            ("2: POSIX  ADVISORY  WRITE 708 08:02:77 120 120", None),
            ("2: POSIX  ADVISORY  WRITE 708 08:01:77 121 124", None),
            ("2: POSIX  ADVISORY  READ 708 08:01:77 120 120", None),
            ("2: -> POSIX  ADVISORY  WRITE 708 08:01:77 120 120", None),
            ("2: FLOCK  ADVISORY  WRITE 708 08:01:77 0 EOF", None),
            ("2: OFDLCK ADVISORY  WRITE -1 08:01:77 0 EOF", None),
            ("2: POSIX  ADVISORY  WRITE 0 08:01:77 120 120", None),
            ("2: POSIX", None),
            ("", None),
        ];
        for (line, pid) in lines {
            assert_eq!(writer_in(line, "08:01:77"), pid, "{line}");
        }
    }

    #[test]
    fn k35_a_process_that_stands_still_is_called_that_with_what_to_do() {
        let told = |stands_still| Holder { pid: 7, stands_still }.to_string();
        assert_eq!(told(false), "process 7 has it");
        assert!(told(true).contains("kill -CONT 7"), "{}", told(true));
        assert!(!stands_still(std::process::id()));
    }
}
