//! Reads transcripts while they are written, one or several together. Lines come whole; a line that is half written waits
//! for its rest.
//!
//! It does not wait for anything: whoever reads decides when to look again, and whether a writer is dead that has left no
//! end mark.

use super::line::{is_final, is_one};
use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;

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
    /// The beginning of a line that is not whole yet.
    rest: Vec<u8>,
    /// When the last line was written.
    last: When,
    ended: bool,
}

/// The place of a line among those of other transcripts: its day, counted from the first, and its time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
struct When {
    day: u32,
    second: u32,
}

impl Follow {
    /// Reads `sources` from their beginnings.
    pub fn new(sources: Vec<Source>) -> Self {
        let reader =
            |source| Reader { source, file: None, rest: Vec::new(), last: When::default(), ended: false };
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
        // The sort keeps the order within a file, so head lines stay before the first line that has a time.
        lines.sort_by_key(|(when, _)| *when);
        Ok(lines.into_iter().map(|(_, line)| line).collect())
    }

    /// The beginnings of lines that were never written to their ends. For whoever knows that nobody writes any more.
    pub fn cut_off(&self) -> Vec<String> {
        let torn = self.readers.iter().filter(|reader| !reader.rest.is_empty());
        torn.map(|reader| format!("{}{} [cut off here]", reader.source.label, text_of(&reader.rest)))
            .collect()
    }

    /// Whether the end mark of every transcript was read.
    pub fn has_ended(&self) -> bool {
        self.readers.iter().all(|reader| reader.ended)
    }
}

impl Reader {
    /// Appends whole new lines, each with what it is sorted by.
    fn look(&mut self, lines: &mut Vec<(When, String)>) -> io::Result<()> {
        if self.file.is_none() {
            match File::open(&self.source.path) {
                Ok(file) => self.file = Some(file),
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        let Some(file) = &mut self.file else { return Ok(()) };
        file.read_to_end(&mut self.rest)?;
        let Some(end) = self.rest.iter().rposition(|byte| *byte == b'\n') else { return Ok(()) };
        let unfinished = self.rest.split_off(end + 1);
        let whole = std::mem::replace(&mut self.rest, unfinished);
        for line in whole.split_inclusive(|byte| *byte == b'\n') {
            let line = legible(line.strip_suffix(b"\n").unwrap_or(line));
            self.ended |= is_final(&line);
            self.last = self.last.next(&line);
            lines.push((self.last, format!("{}{line}", self.source.label)));
        }
        Ok(())
    }
}

/// A line as it may be shown. No writer here writes what is no text, or anything but lines of one form: where that is so, the
/// file was damaged, and the line says so (K43).
fn legible(line: &[u8]) -> String {
    let text = text_of(line);
    if is_one(&text) { text } else { format!("{text} [damaged: this is not a whole line]") }
}

/// What of these bytes is text, and how many are not.
fn text_of(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    let mut no_text = 0;
    for chunk in bytes.utf8_chunks() {
        no_text += chunk.invalid().len();
        for character in chunk.valid().chars() {
            if character.is_control() { no_text += character.len_utf8() } else { text.push(character) }
        }
    }
    if no_text > 0 {
        text.push_str(&format!(" [damaged: {no_text} bytes here are no text]"));
    }
    text
}

impl When {
    /// The time of the next line; one without a time, such as a head line or half a line, belongs to the one before it.
    fn next(self, line: &str) -> When {
        let Some(second) = second_of_day(line).filter(|_| is_one(line)) else { return self };
        // A step back of half a day is midnight; a smaller one is a clock that was set.
        let day = self.day + u32::from(second + 12 * 3600 < self.second);
        When { day, second }
    }
}

fn second_of_day(line: &str) -> Option<u32> {
    let (time, _) = line.split_once(' ')?;
    let mut parts = time.splitn(3, ':').map(|part| part.parse::<u32>().ok());
    let (hour, minute, second) = (parts.next()??, parts.next()??, parts.next()??);
    let is_time = hour < 24 && minute < 60 && second < 60;
    is_time.then(|| hour * 3600 + minute * 60 + second)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn source(folder: &tempfile::TempDir, label: &str, content: &str) -> Source {
        let path = folder.path().join(label);
        std::fs::write(&path, content).expect("a file");
        Source { label: format!("[{label}] "), path }
    }

    #[test]
    fn several_transcripts_are_merged_by_time_also_over_midnight() {
        let folder = tempfile::tempdir().expect("a folder");
        let a = source(&folder, "0", "# head a\n23:59:58 user     | a1\n00:00:02 result   | a2\n");
        let b = source(
            &folder,
            "1",
            "# head b\n23:59:59 user     | b1\n23:59:59 tool     | b2\n00:00:01 final    | b3\n",
        );
        let lines = Follow::new(vec![a, b]).look().expect("files");
        let shown: Vec<&str> = lines.iter().map(|line| &line[line.len() - 2..]).collect();
        assert_eq!(shown, [" a", " b", "a1", "b1", "b2", "b3", "a2"]);
        assert_eq!(lines[2], "[0] 23:59:58 user     | a1");
    }

    #[test]
    fn k43_a_line_comes_when_it_is_whole_and_the_end_mark_ends() {
        let folder = tempfile::tempdir().expect("a folder");
        let source = source(&folder, "0", "10:00:00 user     | one\n10:00:01 tool     | tw");
        let mut file = std::fs::OpenOptions::new().append(true).open(&source.path).expect("the file");
        let missing = Source { label: String::new(), path: folder.path().join("later") };
        let mut follow = Follow::new(vec![source, missing.clone()]);
        let mut check = |expected: &[&str], ended: bool| {
            assert_eq!(follow.look().expect("files"), expected);
            assert_eq!(follow.has_ended(), ended);
        };
        check(&["[0] 10:00:00 user     | one"], false);
        check(&[], false);
        file.write_all("o ü\n10:00:02 final    | completed\n".as_bytes()).expect("it can be written");
        check(&["[0] 10:00:01 tool     | two ü", "[0] 10:00:02 final    | completed"], false);
        std::fs::write(&missing.path, "10:00:03 final    | failed\n").expect("a file");
        check(&["10:00:03 final    | failed"], true);
    }
}
