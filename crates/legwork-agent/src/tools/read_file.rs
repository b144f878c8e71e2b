//! Tool `read_file`: a text file, or a part of it, within a bound.
//!
//! Files that are not text are refused with their size. Bytes that are not UTF-8 are replaced and counted.

use super::off_thread::{self, Abandoned};
use super::place;
use super::port::{Effect, Invocation, Tool, ToolOutput};
use crate::models::ToolSpec;
use legwork_core::ports::Pending;
use serde::Deserialize;
use serde_json::json;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

/// Lines that are given at once when nobody asked for another number.
const LINES_DEFAULT: u64 = 2000;
/// Bytes of text that are given at once.
const BYTES_MAX: usize = 48 * 1024;
/// Bytes of one line that are given.
const LINE_BYTES_MAX: usize = 8 * 1024;
/// Bytes behind the part that is given which are read only to count the lines.
const COUNTED_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Bytes at the start that tell whether a file is text.
const SNIFFED_BYTES: u64 = 8 * 1024;

/// The tool.
#[derive(Debug, Clone, Copy, Default)]
pub struct ReadFile;

#[derive(Debug, Deserialize)]
struct Arguments {
    path: String,
    offset: Option<u64>,
    limit: Option<u64>,
}

impl Tool for ReadFile {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "read_file".to_owned(),
            description:
                "Read a text file. Long files come in parts: the first line of the result says which lines \
                          they are and which offset gives the rest."
                    .to_owned(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "path": {"type": "string", "description": "The file, relative to the working folder or absolute."},
                    "offset": {"type": "integer", "minimum": 1, "description": "The first line to give, from 1."},
                    "limit": {"type": "integer", "minimum": 1, "description": "How many lines to give; 2000 when left out."},
                },
                "required": ["path"],
                "additionalProperties": false,
            }),
        }
    }

    fn effect(&self) -> Effect {
        Effect::ReadOnly
    }

    fn call(&self, invocation: Invocation) -> Pending<'_, ToolOutput> {
        Box::pin(off_thread::call(self.spec(), invocation, read))
    }
}

fn read(folder: &Path, arguments: &Arguments, _: &Abandoned) -> Result<String, String> {
    let path = &place::resolve_in(folder, &arguments.path);
    let explain = |error: io::Error| place::explain(path, &error);
    let part = part(open(path).map_err(explain)??, arguments).map_err(explain)?;
    part.words(path, arguments.offset.unwrap_or(1))
}

/// Opens a text file. The inner error is a refusal in words. A pipe or a device is not even opened, because that may
/// never end.
fn open(path: &Path) -> io::Result<Result<BufReader<File>, String>> {
    let facts = path.metadata()?;
    if facts.is_dir() {
        return Ok(Err(format!("{} is a folder; use list_files", path.display())));
    }
    if !facts.is_file() {
        return Ok(Err(format!("{} is not a regular file and cannot be read", path.display())));
    }
    let mut reader = BufReader::with_capacity(32 * 1024, File::open(path)?);
    if reader.fill_buf()?.iter().take(SNIFFED_BYTES as usize).any(|byte| *byte == 0) {
        return Ok(Err(format!(
            "{} is not a text file ({} bytes); inspect it with a command, for example `file` or `xxd`",
            path.display(),
            facts.len()
        )));
    }
    Ok(Ok(reader))
}

/// A part of a file.
#[derive(Debug, Default)]
struct Part {
    text: String,
    /// Lines in the text.
    lines: u64,
    /// Lines of the file; a lower bound unless `counted`.
    lines_total: u64,
    counted: bool,
    invalid: u64,
    /// The first line that is given in part only, and its length.
    cut: Option<(u64, u64)>,
}

fn part(mut reader: BufReader<File>, arguments: &Arguments) -> io::Result<Part> {
    let mut part = Part::default();
    let first = arguments.offset.unwrap_or(1);
    let mut line = Vec::new();
    while part.lines_total + 1 < first && skip_line(&mut reader)? > 0 {
        part.lines_total += 1;
    }
    while part.lines < arguments.limit.unwrap_or(LINES_DEFAULT) {
        let length = read_line(&mut reader, &mut line)?;
        if length == 0 {
            part.counted = true;
            return Ok(part);
        }
        if part.lines > 0 && part.text.len() + line.len() > BYTES_MAX {
            part.lines_total += 1;
            break;
        }
        part.add(&line, length);
    }
    part.count_rest(reader)?;
    Ok(part)
}

impl Part {
    fn add(&mut self, line: &[u8], length: u64) {
        self.lines += 1;
        self.lines_total += 1;
        for chunk in line.utf8_chunks() {
            self.text.push_str(chunk.valid());
            if !chunk.invalid().is_empty() {
                self.invalid += 1;
                self.text.push(char::REPLACEMENT_CHARACTER);
            }
        }
        if length > line.len() as u64 {
            self.cut.get_or_insert((self.lines_total, length));
            self.text.push_str(" […]\n");
        }
    }

    fn count_rest(&mut self, reader: BufReader<File>) -> io::Result<()> {
        let mut rest = reader.take(COUNTED_BYTES_MAX);
        let mut last = b'\n';
        loop {
            let buffer = rest.fill_buf()?;
            let Some(end) = buffer.last() else { break };
            last = *end;
            self.lines_total += buffer.iter().filter(|byte| **byte == b'\n').count() as u64;
            let length = buffer.len();
            rest.consume(length);
        }
        self.counted = rest.limit() > 0;
        self.lines_total += u64::from(last != b'\n');
        Ok(())
    }

    fn words(self, path: &Path, first: u64) -> Result<String, String> {
        if self.lines == 0 {
            return self.nothing(path, first);
        }
        let last = first + self.lines - 1;
        let mut notes = Vec::new();
        if first > 1 || last < self.lines_total || !self.counted {
            let more = if self.counted { "" } else { "more than " };
            notes.push(format!("lines {first}-{last} of {more}{}", self.lines_total));
        }
        if last < self.lines_total || !self.counted {
            notes.push(format!("the rest: offset={}", last + 1));
        }
        if let Some((line, length)) = self.cut {
            notes.push(format!(
                "line {line} has {length} bytes and is cut: a command such as `cut -c` gives the rest"
            ));
        }
        if self.invalid > 0 {
            notes.push(format!("{} places are not UTF-8 and show as \u{fffd}", self.invalid));
        }
        if notes.is_empty() {
            return Ok(self.text);
        }
        Ok(format!("[{}, {}]\n{}", path.display(), notes.join("; "), self.text))
    }

    fn nothing(&self, path: &Path, first: u64) -> Result<String, String> {
        let shown = path.display();
        match self.lines_total {
            0 => Ok(format!("[{shown} is empty]")),
            lines => Err(format!("{shown} has {lines} lines, so there is nothing from line {first} on")),
        }
    }
}

/// Reads a line with its end into `line`, but not more than the limit, and returns how long it is.
fn read_line(reader: &mut BufReader<File>, line: &mut Vec<u8>) -> io::Result<u64> {
    line.clear();
    reader.by_ref().take(LINE_BYTES_MAX as u64).read_until(b'\n', line)?;
    let mut length = line.len() as u64;
    if line.len() == LINE_BYTES_MAX && !line.ends_with(b"\n") {
        length += skip_line(reader)?;
        line.truncate(whole_characters(line));
    }
    Ok(length)
}

/// How many of the bytes are left when a character that is cut at the end is taken off.
fn whole_characters(bytes: &[u8]) -> usize {
    let end = bytes.len();
    let lead = bytes.iter().rev().take(4).position(|byte| byte & 0xc0 != 0x80);
    let Some(behind) = lead else { return end };
    let length = match bytes[end - 1 - behind] {
        0xf0.. => 4,
        0xe0.. => 3,
        0xc0.. => 2,
        _ => 1,
    };
    if length > behind + 1 { end - 1 - behind } else { end }
}

/// Passes over the rest of a line and returns how long that was.
fn skip_line(reader: &mut BufReader<File>) -> io::Result<u64> {
    let mut skipped = 0;
    loop {
        let buffer = reader.fill_buf()?;
        let end = buffer.iter().position(|byte| *byte == b'\n');
        let length = end.map_or(buffer.len(), |end| end + 1);
        reader.consume(length);
        skipped += length as u64;
        if end.is_some() || length == 0 {
            return Ok(skipped);
        }
    }
}
