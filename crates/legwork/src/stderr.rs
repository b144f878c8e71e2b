//! What people are told beside the answer: progress, notes and warnings, a line at a time.
//!
//! A reader that has left must end nothing: the answer on stdout and the exit code still tell. While a conversation has the
//! terminal, the lines go to it, because it alone knows where on the screen they belong.

use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};

use tokio::sync::mpsc;

use crate::wording;

/// Lines that may wait for a conversation; further ones are lost.
const LINES_MAX: usize = 256;

/// Whoever has the terminal. It holds a sender while that is a conversation.
static DIVERTED: Mutex<Option<mpsc::Sender<String>>> = Mutex::new(None);

/// Writes a line to stderr, without anything that moves a cursor. What cannot be written is lost, because there is
/// nowhere left to say so.
pub fn tell(line: &str) {
    match &*DIVERTED.lock().unwrap_or_else(PoisonError::into_inner) {
        Some(lines) => drop(lines.try_send(wording::plain(line))),
        None => drop(writeln!(io::stderr().lock(), "{}", wording::plain(line))),
    }
}

/// Whether people are told what is not the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Voice {
    /// They are.
    Aloud,
    /// They asked not to be (`-q`).
    Quiet,
}

impl Voice {
    /// Whether anything is told.
    pub fn is_aloud(self) -> bool {
        match self {
            Voice::Aloud => true,
            Voice::Quiet => false,
        }
    }

    /// [Tells](tell) a line, or keeps it to itself.
    pub fn tell(self, line: &str) {
        if self.is_aloud() {
            tell(line);
        }
    }
}

/// Whether lines go to a conversation now.
pub fn is_diverted() -> bool {
    DIVERTED.lock().unwrap_or_else(PoisonError::into_inner).is_some()
}

/// While this lives, lines go to a conversation.
#[derive(Debug)]
pub struct Diverted(());

/// From now on lines come out of the receiver.
pub fn divert() -> (mpsc::Receiver<String>, Diverted) {
    let (sender, receiver) = mpsc::channel(LINES_MAX);
    *DIVERTED.lock().unwrap_or_else(PoisonError::into_inner) = Some(sender);
    (receiver, Diverted(()))
}

impl Drop for Diverted {
    fn drop(&mut self) {
        *DIVERTED.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// Takes what is written and tells it line by line.
#[derive(Debug, Default)]
pub struct Teller(Vec<u8>);

impl Write for Teller {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let text = String::from_utf8_lossy(&self.0).into_owned();
        self.0.clear();
        text.lines().for_each(tell);
        Ok(())
    }
}

impl Drop for Teller {
    fn drop(&mut self) {
        // It never fails.
        drop(self.flush());
    }
}
