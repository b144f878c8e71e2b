//! What people are told beside the answer: progress, notes and warnings, a line at a time.
//!
//! A reader that has left must end nothing: the answer on stdout and the exit code still tell.

use std::io::{self, Write};

use crate::wording;

/// Writes a line to stderr, without anything that moves a cursor. What cannot be written is lost, because there is
/// nowhere left to say so.
pub fn tell(line: &str) {
    drop(writeln!(io::stderr().lock(), "{}", wording::plain(line)));
}
