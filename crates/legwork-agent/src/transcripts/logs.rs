//! The files of transcripts that are open for appending: a bounded number, however many children there are.
//!
//! A file is made new and never through a link; it is opened again by its path when its turn comes.

use super::child::{HEAD_END, Transcript};
use nix::fcntl::OFlag;
use std::collections::{HashMap, VecDeque};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Files that are kept open.
const OPEN_MAX: usize = 64;

/// No head is longer: its texts are cut, and a character has four bytes at most.
const HEAD_BYTES_MAX: u64 = 8192;

/// Open files; the one that was opened first is the first to be closed.
#[derive(Default)]
pub(super) struct Logs {
    open: HashMap<PathBuf, File>,
    order: VecDeque<PathBuf>,
}

impl Logs {
    /// Appends whole lines to a transcript, in one write.
    pub(super) fn write(&mut self, transcript: &mut Transcript, lines: &[u8]) -> io::Result<()> {
        if let Some(file) = self.open.get_mut(&transcript.path) {
            return file.write_all(lines);
        }
        let mut file = open(transcript)?;
        transcript.made = true;
        let result = file.write_all(lines);
        self.keep(transcript.path.clone(), file);
        result
    }

    /// Closes a transcript that has ended.
    pub(super) fn close(&mut self, path: &Path) {
        if self.open.remove(path).is_some() {
            self.order.retain(|open| open != path);
        }
    }

    fn keep(&mut self, path: PathBuf, file: File) {
        if self.open.len() >= OPEN_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.open.remove(&oldest);
        }
        self.order.push_back(path.clone());
        self.open.insert(path, file);
    }
}

/// What is there of a transcript that somebody goes on with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tail {
    /// Whether its whole head is there.
    pub(super) head: Head,
    /// How it ends.
    pub(super) end: End,
}

/// Whether a transcript begins as one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Head {
    /// It does.
    Whole,
    /// Its writer died before that was written, or it was damaged.
    Lacking,
}

/// How a file of lines ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// With a whole line, or before any.
    Whole,
    /// In the middle of a line.
    Torn,
}

/// What is there of a transcript. `None` when there is none.
pub(super) fn tail(path: &Path) -> Option<Tail> {
    let mut file = OpenOptions::new().read(true).custom_flags(OFlag::O_NOFOLLOW.bits()).open(path).ok()?;
    let mut beginning = Vec::new();
    // What cannot be read is not there.
    (&mut file).take(HEAD_BYTES_MAX).read_to_end(&mut beginning).ok();
    let head = if has_head(&beginning) { Head::Whole } else { Head::Lacking };
    let mut last = [0];
    let read = file.seek(SeekFrom::End(-1)).and_then(|_| file.read_exact(&mut last));
    // An empty file has no line that is not whole.
    let end = if read.is_err() || last == [b'\n'] { End::Whole } else { End::Torn };
    Some(Tail { head, end })
}

fn has_head(beginning: &[u8]) -> bool {
    beginning.split(|byte| *byte == b'\n').any(|line| line == HEAD_END.as_bytes())
}

/// The first time the file must not be there, nor a link in its place; later it must.
fn open(transcript: &Transcript) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.append(true).create_new(!transcript.made).mode(0o600).custom_flags(OFlag::O_NOFOLLOW.bits());
    options.open(&transcript.path)
}
