//! What a search has found: lines as a model reads them, bounded in number and size.

use grep_matcher::Matcher;
use grep_regex::RegexMatcher;
use grep_searcher::{Searcher, Sink, SinkContext, SinkFinish, SinkMatch};
use std::io;
use std::path::Path;

/// Matches that are shown.
const MATCHES_MAX: usize = 200;
/// Bytes of text that are shown.
const BYTES_MAX: usize = 24 * 1024;
/// Bytes of one line that are shown.
const LINE_BYTES_MAX: usize = 400;
/// Bytes before the match that are shown of a longer line.
const BEFORE_BYTES: usize = 100;

/// The result so far.
#[derive(Debug, Default)]
pub(super) struct Found {
    text: String,
    matches: usize,
    /// Files that were searched.
    pub(super) files: usize,
    binary: usize,
    failures: Vec<String>,
    full: bool,
}

impl Found {
    /// Whether no more can be taken.
    pub(super) fn is_full(&self) -> bool {
        self.full
    }

    /// A file that could not be searched is told and does not end the search.
    pub(super) fn note_failure(&mut self, path: &Path, outcome: io::Result<()>) {
        match outcome {
            Err(error) if error.kind() != io::ErrorKind::TimedOut => {
                self.failures.push(format!("{}: {error}", path.display()));
            }
            // That the time is up is told by the walk.
            Ok(()) | Err(_) => {}
        }
    }

    /// The result with its notes.
    pub(super) fn finish(mut self, pattern: &str, walk_notes: &[String]) -> String {
        let mut notes = Vec::new();
        if self.matches == 0 {
            notes.push(format!("no line matches {pattern:?} in {} files", self.files));
        }
        if self.full {
            let shown = self.matches;
            notes.push(format!(
                "{shown} matches are shown and there may be more: narrow the pattern, the path or the glob"
            ));
        }
        if self.binary > 0 {
            notes.push(format!("{} binary files were left out", self.binary));
        }
        if let Some(first) = self.failures.first() {
            notes.push(format!("{} files could not be searched: {first}", self.failures.len()));
        }
        let notes = notes.iter().chain(walk_notes);
        notes.for_each(|note| self.text.push_str(&format!("[{note}]\n")));
        self.text
    }

    fn push(&mut self, head: &str, line: &[u8], from: usize) {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        self.text.push_str(head);
        self.text.push_str(&shown(&String::from_utf8_lossy(line), from));
        self.text.push('\n');
        self.full |= self.text.len() >= BYTES_MAX;
    }
}

/// A long line is shown around its match.
fn shown(line: &str, from: usize) -> String {
    if line.len() <= LINE_BYTES_MAX {
        return line.to_owned();
    }
    let start = line.floor_char_boundary(from.saturating_sub(BEFORE_BYTES).min(line.len()));
    let start = if from < LINE_BYTES_MAX / 2 { 0 } else { start };
    let end = line.floor_char_boundary((start + LINE_BYTES_MAX).min(line.len()));
    let before = if start > 0 { "[…] " } else { "" };
    let after = if end < line.len() { " […]" } else { "" };
    format!("{before}{}{after}", &line[start..end])
}

/// Takes the lines of one file.
pub(super) struct Lines<'a> {
    found: &'a mut Found,
    matcher: &'a RegexMatcher,
    path: String,
}

impl<'a> Lines<'a> {
    pub(super) fn new(found: &'a mut Found, matcher: &'a RegexMatcher, path: &Path) -> Self {
        Lines { found, matcher, path: path.display().to_string() }
    }
}

impl Sink for Lines<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, matched: &SinkMatch<'_>) -> io::Result<bool> {
        if self.found.matches >= MATCHES_MAX {
            self.found.full = true;
            return Ok(false);
        }
        self.found.matches += 1;
        let from = self.matcher.find(matched.bytes()).ok().flatten().map_or(0, |at| at.start());
        let head = format!("{}:{}:", self.path, matched.line_number().unwrap_or_default());
        self.found.push(&head, matched.bytes(), from);
        Ok(!self.found.full)
    }

    fn context(&mut self, _: &Searcher, context: &SinkContext<'_>) -> io::Result<bool> {
        let head = format!("{}-{}-", self.path, context.line_number().unwrap_or_default());
        self.found.push(&head, context.bytes(), 0);
        Ok(!self.found.full)
    }

    fn context_break(&mut self, _: &Searcher) -> io::Result<bool> {
        self.found.text.push_str("--\n");
        Ok(true)
    }

    fn finish(&mut self, _: &Searcher, finish: &SinkFinish) -> io::Result<()> {
        self.found.binary += usize::from(finish.binary_byte_offset().is_some());
        Ok(())
    }
}
