//! The output of a command: plain text of which the head and the tail are kept, and all of it in a file once it is
//! too long.
//!
//! Memory is bounded by the limits, whatever a command writes, and so is the file. It does not word the result.

use super::plain::Cleaner;
use super::recent::Recent;
use crate::spill::SpillPlace;
use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::fs::File;
use tokio::io::AsyncWriteExt;

/// How much is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CaptureLimits {
    /// Bytes of text kept from the start.
    pub head_bytes: usize,
    /// Bytes of text kept from the end.
    pub tail_bytes: usize,
    /// Bytes of text that the file takes; what comes after them is counted and dropped. With 0 there is no file.
    pub file_bytes_max: u64,
}

/// Takes output piece by piece.
#[derive(Debug)]
pub struct Capture {
    limits: CaptureLimits,
    place: SpillPlace,
    cleaner: Cleaner,
    scratch: String,
    /// Everything while it fits, the head afterwards.
    head: String,
    /// The end of what is not in the head; may be longer than its limit until it is used.
    tail: VecDeque<u8>,
    total_bytes: u64,
    file: Spilling,
    /// Takes everything as well, for those who read while the command runs.
    recent: Option<Arc<Recent>>,
}

/// Where the whole text goes.
#[derive(Debug)]
enum Spilling {
    /// It still fits.
    NotYet,
    /// Into this file, which holds so many bytes.
    Open { path: PathBuf, file: File, bytes: u64 },
    /// The file could not be written.
    Failed(io::Error),
}

/// What was captured.
#[derive(Debug)]
pub struct Captured {
    /// The text from the start, or all of it.
    pub head: String,
    /// The text at the end, if something is left out in between.
    pub tail: String,
    /// Bytes left out between the two.
    pub left_out_bytes: u64,
    /// Bytes of text in all.
    pub total_bytes: u64,
    /// Places where bytes were not UTF-8 and were replaced.
    pub invalid: u64,
    /// Where all of the text is.
    pub whole: Whole,
}

/// Where the whole text is.
#[derive(Debug)]
pub enum Whole {
    /// It is the head.
    Here,
    /// In this file.
    Filed(PathBuf),
    /// The first so many bytes of it are in this file.
    Cut {
        /// The file.
        path: PathBuf,
        /// Bytes in it.
        bytes: u64,
    },
    /// It could not be stored.
    Lost(io::Error),
}

impl Capture {
    /// Starts with nothing. The file is made in `place` when it is needed.
    pub fn new(limits: CaptureLimits, place: SpillPlace) -> Self {
        Capture {
            limits,
            place,
            cleaner: Cleaner::default(),
            scratch: String::new(),
            head: String::new(),
            tail: VecDeque::new(),
            total_bytes: 0,
            file: Spilling::NotYet,
            recent: None,
        }
    }

    /// Starts with nothing, and with its file, so that both the file and `recent` can be read while the output grows. Gives the
    /// file's path, too.
    ///
    /// # Errors
    /// When the file cannot be made.
    pub fn while_it_grows(
        file_bytes_max: u64,
        place: &SpillPlace,
        recent: Arc<Recent>,
    ) -> io::Result<(Self, PathBuf)> {
        let (path, file) = place.create()?;
        let limits = CaptureLimits { head_bytes: 0, tail_bytes: 0, file_bytes_max };
        let file = Spilling::Open { path: path.clone(), file: File::from_std(file), bytes: 0 };
        let capture = Capture { file, recent: Some(recent), ..Capture::new(limits, place.clone()) };
        Ok((capture, path))
    }

    /// Takes a piece.
    pub async fn take(&mut self, bytes: &[u8]) {
        let mut text = std::mem::take(&mut self.scratch);
        self.cleaner.push(bytes, &mut text);
        self.add(&text).await;
        text.clear();
        self.scratch = text;
    }

    /// Ends the capture; the file is whole then.
    pub async fn finish(mut self) -> Captured {
        let mut rest = String::new();
        self.cleaner.finish(&mut rest);
        self.add(&rest).await;
        let whole = self.close().await;
        let tail = text_of(self.tail, self.limits.tail_bytes);
        let shown = (self.head.len() + tail.len()) as u64;
        Captured {
            left_out_bytes: self.total_bytes.saturating_sub(shown),
            head: self.head,
            tail,
            total_bytes: self.total_bytes,
            invalid: self.cleaner.invalid(),
            whole,
        }
    }

    async fn add(&mut self, text: &str) {
        self.total_bytes += text.len() as u64;
        if let Some(recent) = &self.recent {
            recent.add(text);
        }
        if !matches!(self.file, Spilling::NotYet) {
            self.file(text).await;
            self.keep_tail(text.as_bytes());
            return;
        }
        self.head.push_str(text);
        if self.head.len() > self.limits.head_bytes + self.limits.tail_bytes {
            self.overflow().await;
        }
    }

    /// From now on there is a head, a tail and a file.
    async fn overflow(&mut self) {
        let so_far = std::mem::take(&mut self.head);
        let place = if self.limits.file_bytes_max == 0 {
            Err(io::Error::other("no file is kept of it"))
        } else {
            self.place.create()
        };
        self.file = match place {
            Ok((path, file)) => Spilling::Open { path, file: File::from_std(file), bytes: 0 },
            Err(error) => Spilling::Failed(error),
        };
        self.file(&so_far).await;
        let end = so_far.floor_char_boundary(self.limits.head_bytes);
        self.keep_tail(&so_far.as_bytes()[end..]);
        so_far[..end].clone_into(&mut self.head);
    }

    /// Trims only now and then, so that many small pieces cost little.
    fn keep_tail(&mut self, bytes: &[u8]) {
        let skipped = bytes.len().saturating_sub(self.limits.tail_bytes);
        self.tail.extend(&bytes[skipped..]);
        if self.tail.len() > 2 * self.limits.tail_bytes {
            self.tail.drain(..self.tail.len() - self.limits.tail_bytes);
        }
    }

    async fn file(&mut self, text: &str) {
        let Spilling::Open { file, bytes, .. } = &mut self.file else { return };
        let room = usize::try_from(self.limits.file_bytes_max - *bytes).unwrap_or(usize::MAX);
        let end = text.floor_char_boundary(room);
        let written = file.write_all(&text.as_bytes()[..end]).await;
        // A file that is full takes no smaller piece later, or it would have a hole.
        *bytes = if end < text.len() { self.limits.file_bytes_max } else { *bytes + end as u64 };
        if let Err(error) = written {
            self.file = Spilling::Failed(error);
        }
    }

    async fn close(&mut self) -> Whole {
        match std::mem::replace(&mut self.file, Spilling::NotYet) {
            Spilling::NotYet => Whole::Here,
            Spilling::Failed(error) => Whole::Lost(error),
            Spilling::Open { path, mut file, bytes } => match file.flush().await {
                Err(error) => Whole::Lost(error),
                Ok(()) if bytes < self.total_bytes => Whole::Cut { path, bytes },
                Ok(()) => Whole::Filed(path),
            },
        }
    }
}

/// The last bytes as text; a character that is cut at its front is left out.
fn text_of(bytes: VecDeque<u8>, bytes_max: usize) -> String {
    let bytes = Vec::from(bytes);
    let mut start = bytes.len().saturating_sub(bytes_max);
    while bytes.get(start).is_some_and(|byte| byte & 0xc0 == 0x80) {
        start += 1;
    }
    String::from_utf8_lossy(&bytes[start..]).into_owned()
}
