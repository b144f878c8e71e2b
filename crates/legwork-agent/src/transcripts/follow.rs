//! Reads transcripts while they are written, one or several together. Lines come whole; a line that is half written waits
//! for its rest.

use super::line::is_final;
use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;

/// Bytes that are read of one file at a time.
const READ_MAX: u64 = 256 * 1024;

/// One transcript to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// What stands before each of its lines.
    pub label: String,
    /// Its file; it may not exist yet.
    pub path: PathBuf,
}

/// Several transcripts that are read together.
#[derive(Debug)]
pub struct Follow {
    readers: Vec<Reader>,
}

#[derive(Debug)]
struct Reader {
    source: Source,
    file: Option<File>,
    rest: Vec<u8>,
    ended: bool,
}

impl Follow {
    /// Reads `sources` from their beginnings.
    pub fn new(sources: Vec<Source>) -> Self {
        let reader = |source| Reader { source, file: None, rest: Vec::new(), ended: false };
        Follow { readers: sources.into_iter().map(reader).collect() }
    }

    /// The lines that were written since the last look, in the order of their times as far as one look shows them.
    ///
    /// # Errors
    /// When a file is there and cannot be read.
    pub fn look(&mut self) -> io::Result<Vec<String>> {
        let mut lines = Vec::new();
        for reader in &mut self.readers {
            reader.look(&mut lines)?;
        }
        // Head lines have no time and stay first; the sort keeps the order within a file.
        lines.sort_by(|a: &(String, String), b| a.0.cmp(&b.0));
        Ok(lines.into_iter().map(|(_, line)| line).collect())
    }

    /// Whether the end mark of every transcript was read.
    pub fn has_ended(&self) -> bool {
        self.readers.iter().all(|reader| reader.ended)
    }
}

impl Reader {
    /// Appends whole new lines, each with what it is sorted by.
    fn look(&mut self, lines: &mut Vec<(String, String)>) -> io::Result<()> {
        if self.file.is_none() {
            match File::open(&self.source.path) {
                Ok(file) => self.file = Some(file),
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        let Some(file) = &mut self.file else { return Ok(()) };
        while file.take(READ_MAX).read_to_end(&mut self.rest)? > 0 {}
        while let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.rest.drain(..=end).collect();
            let line = String::from_utf8_lossy(&line[..end]).into_owned();
            self.ended |= is_final(&line);
            let head = line.starts_with('#');
            let time = if head { String::new() } else { line.chars().take(8).collect() };
            lines.push((time, format!("{}{line}", self.source.label)));
        }
        Ok(())
    }
}
