//! A text file as it was found: its text, its line ends, and what tells that it is still the same file.
//!
//! It changes nothing.

use crate::tools::beside::target;
use crate::tools::place;
use std::fs::{File, Metadata};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Bytes that a file may have before and after it is changed.
pub(super) const FILE_BYTES_MAX: usize = 8 * 1024 * 1024;

/// The mark that some editors put at the start of a file.
const BYTE_ORDER_MARK: char = '\u{feff}';

/// A file.
#[derive(Debug)]
pub(super) struct Original {
    /// Where its bytes are, behind links.
    pub(super) target: PathBuf,
    pub(super) text: String,
    pub(super) facts: Metadata,
}

impl Original {
    /// Reads a file whole.
    ///
    /// # Errors
    /// A sentence for the model.
    pub(super) fn read(path: &Path) -> Result<Self, String> {
        let shown = path.display();
        let target = target(path)?;
        let facts = target.metadata().map_err(|error| place::explain(path, &error))?;
        let mut bytes = Vec::new();
        let file = File::open(&target).map_err(|error| place::explain(path, &error))?;
        let read = file.take(FILE_BYTES_MAX as u64 + 1).read_to_end(&mut bytes);
        read.map_err(|error| place::explain(path, &error))?;
        if bytes.len() > FILE_BYTES_MAX {
            return Err(format!(
                "{shown} has {} bytes, and patch takes files of at most {FILE_BYTES_MAX}; change it with a command such as `sed -i`",
                facts.len()
            ));
        }
        if bytes.contains(&0) {
            return Err(format!(
                "{shown} is not a text file ({} bytes); change it with a command",
                facts.len()
            ));
        }
        let text = String::from_utf8(bytes).map_err(|error| {
            let before = &error.as_bytes()[..error.utf8_error().valid_up_to()];
            format!(
                "{shown} is not UTF-8: there is a wrong byte in line {}; change it with a command such as `sed -i`, or convert it with `iconv` first",
                before.iter().filter(|byte| **byte == b'\n').count() + 1
            )
        })?;
        Ok(Original { target, text, facts })
    }

    /// Whether nobody has written the file or put another in its place since it was read.
    pub(super) fn is_current(&self) -> bool {
        let same = |now: &Metadata| {
            let of = |facts: &Metadata| (facts.ino(), facts.len(), facts.mtime(), facts.mtime_nsec());
            of(now) == of(&self.facts)
        };
        self.target.metadata().is_ok_and(|now| same(&now))
    }

    /// The text without the mark at its start.
    pub(super) fn body(&self) -> &str {
        self.text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&self.text)
    }

    /// The mark at the start of the text, if it has one.
    pub(super) fn mark(&self) -> &str {
        &self.text[..self.text.len() - self.body().len()]
    }

    /// How most lines end.
    pub(super) fn line_end(&self) -> &'static str {
        let all = self.text.matches('\n').count();
        let with_return = self.text.matches("\r\n").count();
        if with_return * 2 > all { "\r\n" } else { "\n" }
    }
}

/// The numbers of lines at these places of a text, from 1. The places are in order.
pub(super) fn line_numbers(text: &str, places: impl IntoIterator<Item = usize>) -> Vec<usize> {
    let (mut line, mut at) = (1, 0);
    let number = |place: usize| {
        line += text.as_bytes()[at..place].iter().filter(|byte| **byte == b'\n').count();
        at = place;
        line
    };
    places.into_iter().map(number).collect()
}

/// Line numbers as a list, the first ten of them.
pub(super) fn list(numbers: &[usize]) -> String {
    const SHOWN_MAX: usize = 10;
    let shown: Vec<String> = numbers.iter().take(SHOWN_MAX).map(usize::to_string).collect();
    let more = if numbers.len() > SHOWN_MAX { ", …" } else { "" };
    format!("{}{more}", shown.join(", "))
}
