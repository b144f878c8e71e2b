//! What was typed before: the lines of this and of earlier conversations, for the arrow keys and the search.
//!
//! They are kept in a file of the state folder that only its owner can read. A file that cannot be read or written costs the
//! memory and nothing else.

use std::collections::VecDeque;
use std::fs::{self, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

/// Entries that are remembered.
const ENTRIES_MAX: usize = 1000;
/// A longer text is remembered for this conversation only.
const ENTRY_BYTES_MAX: usize = 16 << 10;
/// Bytes that are remembered; the oldest entries go first, and the newest stays in any case.
const BYTES_MAX: usize = 2 << 20;
/// A longer file is written anew with the newest half of so much.
const FILE_BYTES_MAX: usize = 1 << 20;
const PRIVATE: u32 = 0o600;

/// The lines that were typed, oldest first.
#[derive(Debug, Default)]
pub struct History {
    entries: VecDeque<String>,
    /// Which entry is shown now.
    shown: Option<usize>,
    /// What was typed before the first step back.
    draft: String,
    file: Option<PathBuf>,
}

impl History {
    /// Reads the memory in `file`. What is not an entry of ours there is passed over.
    pub fn open(file: PathBuf) -> History {
        let entries = match read(&file) {
            Ok(entries) => entries,
            Err(error) => {
                tracing::debug!(%error, "earlier input cannot be read");
                VecDeque::new()
            }
        };
        History { entries, file: Some(file), ..History::default() }
    }

    /// Remembers a text, and looks at none any more. The same text twice in a row is one. What begins with a space is
    /// remembered for this conversation only.
    ///
    /// # Errors
    /// When the file cannot be written; it is remembered here all the same.
    pub fn add(&mut self, text: &str) -> io::Result<()> {
        self.leave();
        if text.trim().is_empty() || self.entries.back().is_some_and(|last| last == text) {
            return Ok(());
        }
        self.entries.push_back(text.to_owned());
        self.bound();
        if text.starts_with(' ') || text.len() > ENTRY_BYTES_MAX { Ok(()) } else { self.write(text) }
    }

    /// The entry before the one that is shown; `typed` is what the first step back leaves behind.
    pub fn back(&mut self, typed: &str) -> Option<&str> {
        let before = self.shown.unwrap_or(self.entries.len()).checked_sub(1)?;
        if self.shown.is_none() {
            typed.clone_into(&mut self.draft);
        }
        self.shown = Some(before);
        self.entries.get(before).map(String::as_str)
    }

    /// The entry after the one that is shown; after the last comes what was typed.
    pub fn forward(&mut self) -> Option<&str> {
        let next = self.shown? + 1;
        self.shown = (next < self.entries.len()).then_some(next);
        match self.shown {
            Some(next) => self.entries.get(next).map(String::as_str),
            None => Some(&self.draft),
        }
    }

    /// No entry is shown any more.
    pub fn leave(&mut self) {
        self.shown = None;
        self.draft.clear();
    }

    /// The newest entry older than `before` that holds `wanted`, with its place.
    pub fn search(&self, wanted: &str, before: Option<usize>) -> Option<(usize, &str)> {
        let end = before.unwrap_or(self.entries.len()).min(self.entries.len());
        let mut older = self.entries.iter().enumerate().take(end).rev();
        older.find(|(_, entry)| entry.contains(wanted)).map(|(place, entry)| (place, entry.as_str()))
    }

    fn bound(&mut self) {
        let mut bytes: usize = self.entries.iter().map(String::len).sum();
        while self.entries.len() > ENTRIES_MAX || (bytes > BYTES_MAX && self.entries.len() > 1) {
            bytes -= self.entries.pop_front().map_or(0, |oldest| oldest.len());
        }
    }

    fn write(&self, text: &str) -> io::Result<()> {
        let Some(path) = &self.file else { return Ok(()) };
        let long = fs::metadata(path).is_ok_and(|file| file.len() > FILE_BYTES_MAX as u64);
        let mut options = OpenOptions::new();
        options.create(true).mode(PRIVATE);
        let lines = if long {
            options.write(true).truncate(true);
            self.newest()
        } else {
            options.append(true);
            line(text)
        };
        // One write, so that the lines of two conversations do not mix.
        options.open(path)?.write_all(lines.as_bytes())
    }

    /// The lines of the newest entries, half as many bytes as the file may have.
    fn newest(&self) -> String {
        let kept = self.entries.iter().rev();
        let kept = kept.filter(|entry| entry.len() <= ENTRY_BYTES_MAX && !entry.starts_with(' '));
        let mut bytes = 0;
        let mut lines: Vec<String> = kept
            .map(|entry| line(entry))
            .take_while(|line| {
                bytes += line.len();
                bytes <= FILE_BYTES_MAX / 2
            })
            .collect();
        lines.reverse();
        lines.concat()
    }
}

fn line(entry: &str) -> String {
    format!("{}\n", serde_json::Value::from(entry))
}

/// One JSON string a line.
fn read(file: &PathBuf) -> io::Result<VecDeque<String>> {
    let opened = match fs::File::open(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(VecDeque::new()),
        opened => opened?,
    };
    let mut bytes = Vec::new();
    // The limit is checked before each write, so a file of ours is at most one entry longer.
    opened.take(FILE_BYTES_MAX as u64 * 2).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let mut entries: VecDeque<String> =
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    entries.drain(..entries.len().saturating_sub(ENTRIES_MAX));
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn steps_back_and_forward_end_where_they_began() {
        let mut history = History::default();
        for text in ["one", "two", "two", " "] {
            history.add(text).expect("there is no file");
        }
        assert_eq!(history.back("half"), Some("two"));
        assert_eq!(history.back("two"), Some("one"));
        assert_eq!(history.back("one"), None);
        assert_eq!(history.forward(), Some("two"));
        assert_eq!(history.forward(), Some("half"));
        assert_eq!(history.forward(), None);
        assert_eq!(history.search("o", None), Some((1, "two")));
        assert_eq!(history.search("o", Some(1)), Some((0, "one")));
        assert_eq!(history.search("three", None), None);
    }

    #[test]
    fn sec_10_the_file_is_private_and_keeps_lines_together() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let file = folder.path().join("history");
        let mut history = History::open(file.clone());
        for text in ["one\ntwo", " not kept", &"x".repeat(ENTRY_BYTES_MAX + 1), "three"] {
            history.add(text).expect("it can be written");
        }
        let mode = fs::metadata(&file).expect("it is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let mut again = History::open(file);
        assert_eq!(again.back(""), Some("three"));
        assert_eq!(again.back(""), Some("one\ntwo"));
        assert_eq!(again.back(""), None);
    }

    #[test]
    fn the_file_does_not_grow_for_ever() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let file = folder.path().join("history");
        let mut history = History::open(file.clone());
        for number in 0..200 {
            history.add(&format!("{number} {}", "x".repeat(12 << 10))).expect("it can be written");
        }
        let bytes = fs::metadata(&file).expect("it is there").len();
        assert!(bytes <= FILE_BYTES_MAX as u64 + (16 << 10), "{bytes}");
        assert_eq!(History::open(file).back("").map(|last| last.starts_with("199 ")), Some(true));
    }
}
