//! Tool `search_files`: lines of files that match a regular expression, within a bound.
//!
//! What is found is in [`found`]; the search itself is that of ripgrep's libraries.

mod found;

use super::glob::Glob;
use super::off_thread::{self, Abandoned};
use super::place;
use super::port::{Effect, Invocation, Tool, ToolOutput};
use super::walk::Entries;
use crate::models::ToolSpec;
use found::{Found, Lines};
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder};
use legwork_core::ports::Pending;
use serde::Deserialize;
use serde_json::json;
use std::fmt::Display;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::time::Instant;

/// Lines of context that may be asked for.
const CONTEXT_MAX: usize = 10;
/// Bytes of memory for one line and for a compiled pattern.
const MEMORY_MAX: usize = 8 * 1024 * 1024;

/// The tool.
#[derive(Debug, Clone, Copy, Default)]
pub struct SearchFiles;

#[derive(Debug, Deserialize)]
struct Arguments {
    pattern: String,
    path: Option<String>,
    glob: Option<String>,
    case: Option<String>,
    context: Option<usize>,
}

impl Tool for SearchFiles {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "search_files".to_owned(),
            description: "Search the lines of text files with a regular expression. Each match is one line: \
                          path:line:text. What .gitignore names and binary files are left out."
                .to_owned(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "pattern": {"type": "string", "description": "A regular expression (Rust syntax) for one line."},
                    "path": {"type": "string", "description": "A folder or one file; the working folder when left out."},
                    "glob": {"type": "string", "description": "Only files that match, such as *.rs or src/**/*.rs."},
                    "case": {"type": "string", "enum": ["sensitive", "insensitive"],
                        "description": "Whether upper and lower case differ; sensitive when left out."},
                    "context": {"type": "integer", "minimum": 0, "maximum": CONTEXT_MAX,
                        "description": "Lines to show before and after each match."},
                },
                "required": ["pattern"],
                "additionalProperties": false,
            }),
        }
    }

    fn effect(&self) -> Effect {
        Effect::ReadOnly
    }

    fn call(&self, invocation: Invocation) -> Pending<'_, ToolOutput> {
        Box::pin(off_thread::call(self.spec(), invocation, search))
    }
}

fn search(folder: &Path, arguments: &Arguments, abandoned: &Abandoned) -> Result<String, String> {
    let path = &place::resolve_in(folder, arguments.path.as_deref().unwrap_or("."));
    path.metadata().map_err(|error| place::explain(path, &error))?;
    let matcher = matcher(arguments)?;
    let glob = arguments.glob.as_deref().map(Glob::parse).transpose()?;
    let mut searcher = searcher(arguments.context.unwrap_or(0));
    let mut entries = Entries::new(path, None, abandoned);
    let mut found = Found::default();
    while let Some(entry) = entries.next() {
        let relative = entries.relative(&entry);
        let is_file = entry.file_type().is_some_and(|kind| kind.is_file());
        if !is_file || glob.as_ref().is_some_and(|glob| !glob.matches(relative)) {
            continue;
        }
        found.files += 1;
        let reader = Stoppable::open(entry.path(), entries.until(), abandoned);
        let mut lines = Lines::new(&mut found, &matcher, relative);
        let outcome = reader.and_then(|reader| searcher.search_reader(&matcher, reader, &mut lines));
        found.note_failure(relative, outcome);
        if found.is_full() {
            break;
        }
    }
    Ok(found.finish(&arguments.pattern, &entries.notes()))
}

fn matcher(arguments: &Arguments) -> Result<RegexMatcher, String> {
    let described = |error: &dyn Display| {
        format!(
            "the pattern does not work: {error}. Escape what has a meaning of its own, such as \\( or \\."
        )
    };
    // The matcher reports places in a pattern that it has wrapped, so the pattern is read alone first.
    regex_syntax::parse(&arguments.pattern).map_err(|error| described(&error))?;
    let mut builder = RegexMatcherBuilder::new();
    builder.case_insensitive(arguments.case.as_deref() == Some("insensitive"));
    builder.line_terminator(Some(b'\n')).size_limit(MEMORY_MAX).dfa_size_limit(MEMORY_MAX);
    builder.build(&arguments.pattern).map_err(|error| described(&error))
}

fn searcher(context: usize) -> Searcher {
    let mut builder = SearcherBuilder::new();
    builder.line_number(true).before_context(context).after_context(context);
    builder.binary_detection(BinaryDetection::quit(0)).heap_limit(Some(MEMORY_MAX));
    builder.build()
}

/// A file whose reading fails once nobody waits any more or the time is up.
struct Stoppable<'a> {
    file: File,
    until: Instant,
    abandoned: &'a Abandoned,
}

impl<'a> Stoppable<'a> {
    fn open(path: &Path, until: Instant, abandoned: &'a Abandoned) -> io::Result<Self> {
        Ok(Stoppable { file: File::open(path)?, until, abandoned })
    }
}

impl Read for Stoppable<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.abandoned.is_set() || Instant::now() >= self.until {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.file.read(buffer)
    }
}
