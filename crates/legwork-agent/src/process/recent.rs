//! The end of an output, to be read while the command still writes.
//!
//! It holds a bounded number of bytes in memory, whatever is written; what came before them is forgotten here.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What was written last.
#[derive(Debug)]
pub struct Recent {
    bytes_max: usize,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    bytes: VecDeque<u8>,
    /// Bytes that were ever written.
    total: u64,
}

/// A part of an output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// Where in the output it begins, in bytes; later than asked for when what was asked for is forgotten.
    pub start: u64,
    /// The text.
    pub text: String,
    /// Bytes that the output has in all.
    pub total: u64,
}

impl Recent {
    /// Keeps so many bytes.
    pub fn new(bytes_max: usize) -> Self {
        Recent { bytes_max, kept: Mutex::default() }
    }

    /// Bytes that were ever written.
    pub fn total(&self) -> u64 {
        self.kept().total
    }

    /// At most `bytes_max` bytes from byte `offset` of the output on.
    pub fn from(&self, offset: u64, bytes_max: usize) -> Part {
        let mut kept = self.kept();
        let total = kept.total;
        let forgotten = kept.forgotten();
        let skipped = usize::try_from(offset.clamp(forgotten, total) - forgotten).unwrap_or(usize::MAX);
        let bytes = &kept.bytes.make_contiguous()[skipped..];
        let (lead, text) = whole_characters(&bytes[..bytes.len().min(bytes_max)]);
        Part { start: forgotten + (skipped + lead) as u64, text, total }
    }

    /// The last `lines` lines, or as many of them as fit into `bytes_max` bytes.
    pub fn last(&self, lines: usize, bytes_max: usize) -> Part {
        let mut kept = self.kept();
        let total = kept.total;
        let bytes = kept.bytes.make_contiguous();
        let bytes = &bytes[bytes.len().saturating_sub(bytes_max)..];
        // The end of the last line begins no further line.
        let ends = bytes.iter().enumerate().rev().skip(1).filter(|(_, byte)| **byte == b'\n');
        let start = ends.map(|(at, _)| at + 1).nth(lines.saturating_sub(1)).unwrap_or(0);
        let (_, text) = whole_characters(&bytes[start..]);
        Part { start: total - text.len() as u64, text, total }
    }

    pub(super) fn add(&self, text: &str) {
        let mut kept = self.kept();
        let skipped = text.len().saturating_sub(self.bytes_max);
        kept.bytes.extend(&text.as_bytes()[skipped..]);
        let surplus = kept.bytes.len().saturating_sub(self.bytes_max);
        kept.bytes.drain(..surplus);
        kept.total += text.len() as u64;
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        // Whoever panicked while holding it has at worst added a part of a text.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn forgotten(&self) -> u64 {
        self.total - self.bytes.len() as u64
    }
}

/// The whole characters among some bytes of a text, and how many bytes of a torn one are before them.
fn whole_characters(bytes: &[u8]) -> (usize, String) {
    let lead = bytes.iter().take_while(|byte| **byte & 0xc0 == 0x80).count();
    let bytes = &bytes[lead..];
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => std::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default(),
    };
    (lead, text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(bytes_max: usize, texts: &[&str]) -> Recent {
        let recent = Recent::new(bytes_max);
        texts.iter().for_each(|text| recent.add(text));
        recent
    }

    fn part(start: u64, text: &str, total: u64) -> Part {
        Part { start, text: text.to_owned(), total }
    }

    #[test]
    fn the_last_lines_are_counted_from_the_end() {
        let recent = written(100, &["one\ntwo\n", "three\nfo", "ur"]);
        assert_eq!(recent.last(1, 100), part(14, "four", 18));
        assert_eq!(recent.last(2, 100), part(8, "three\nfour", 18));
        assert_eq!(recent.last(99, 100), part(0, "one\ntwo\nthree\nfour", 18));
        assert_eq!(recent.last(99, 6), part(12, "e\nfour", 18));
        assert_eq!(written(100, &["one\ntwo\n"]).last(1, 100), part(4, "two\n", 8));
        assert_eq!(written(100, &[]).last(5, 100), part(0, "", 0));
    }

    #[test]
    fn an_offset_goes_on_where_the_last_part_ended() {
        let recent = written(100, &["one\ntwo\n"]);
        assert_eq!(recent.from(0, 4), part(0, "one\n", 8));
        assert_eq!(recent.from(4, 100), part(4, "two\n", 8));
        assert_eq!(recent.from(8, 100), part(8, "", 8));
        assert_eq!(recent.from(900, 100), part(8, "", 8));
    }

    #[test]
    fn k27_what_is_written_too_early_is_forgotten_and_the_rest_says_where_it_begins() {
        let recent = written(4, &["abcdef", "gh"]);
        assert_eq!(recent.from(0, 100), part(4, "efgh", 8));
        assert_eq!(written(4, &["abcdefgh"]).last(9, 9), part(4, "efgh", 8));
    }

    #[test]
    fn k24_no_character_is_torn() {
        let recent = written(5, &["äöü"]);
        assert_eq!(recent.from(0, 100), part(2, "öü", 6), "the front is torn");
        assert_eq!(recent.from(2, 3), part(2, "ö", 6), "the end is torn");
        assert_eq!(recent.last(1, 3), part(4, "ü", 6));
    }
}
