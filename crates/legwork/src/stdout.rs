//! The answer of a verb on stdout: text for people or exactly one JSON document.
//!
//! Progress, warnings and failures are not answers; they go to stderr and are not written here.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use legwork_core::letters::reorders_or_hides;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use serde_json::Value;

use crate::failure::{CliError, Kind};
use crate::signals::{Asked, Signals};
use crate::wording;

/// Writes `text` and a line end, and flushes. Nothing in it moves a cursor or reorders or hides letters: it may hold
/// the words of others.
///
/// # Errors
/// When stdout is full or its reader is gone; the answer is then not known to have arrived.
pub fn print(text: &str) -> Result<(), CliError> {
    written_by(|| writeln!(io::stdout().lock(), "{}", wording::plain(text)))
}

/// Has `write` write to stdout, and flushes.
///
/// # Errors
/// As [`print`].
pub fn written_by(write: impl FnOnce() -> io::Result<()>) -> Result<(), CliError> {
    write().and_then(|()| io::stdout().lock().flush()).map_err(not_written)
}

/// Writes as [`print`] does, on a thread of its own, so that a reader who does not read keeps nobody from leaving: a signal
/// that comes meanwhile is given back, and nothing is known of the rest then. A program that was told to end before tries until
/// it has to be gone, and gives back what it was told; one that was told so twice writes nothing.
///
/// # Errors
/// As [`print`].
pub async fn print_attended(text: String, signals: &mut Signals) -> Result<Option<Asked>, CliError> {
    if let Some(asked) = signals.told().filter(|_| signals.has_insisted()) {
        return Ok(Some(asked));
    }
    let writing = tokio::task::spawn_blocking(move || print(&text));
    match signals.unless_told(writing).await {
        Ok(Ok(written)) => written.map(|()| None),
        Ok(Err(error)) => {
            Err(CliError::new(Kind::Internal, format!("BUG: writing the answer panicked: {error}")))
        }
        Err(asked) => Ok(Some(asked)),
    }
}

/// Writes one JSON document on one line.
///
/// # Errors
/// As [`print`].
pub fn print_json(document: &Value) -> Result<(), CliError> {
    print(&json_line(document))
}

/// A document on one line, which says what [`print`] would leave out by its numbers: a terminal that shows it does
/// nothing else.
pub fn json_line(document: &Value) -> String {
    let document = document.to_string();
    let is_unseen = |letter: char| letter.is_control() || reorders_or_hides(letter);
    if !document.contains(is_unseen) {
        return document;
    }
    let mut line = String::with_capacity(document.len());
    for letter in document.chars() {
        // Such a letter stands within a text: all that stands between texts is ASCII.
        if is_unseen(letter) {
            let mut units = [0; 2];
            letter.encode_utf16(&mut units).iter().for_each(|unit| line.push_str(&format!("\\u{unit:04x}")));
        } else {
            line.push(letter);
        }
    }
    line
}

/// Whether nobody can be given what is written there: this process was started without a stdout, or by a program that throws it
/// away. The run-time of the language puts the null device in the place of a stdout that is closed, for reading and writing, and so
/// do the libraries of other languages; a shell that is told to write to it opens it for writing only. That a verb was
/// carried out is not in doubt then, but no result counts as delivered.
pub fn goes_nowhere() -> bool {
    let mode = fcntl(io::stdout(), FcntlArg::F_GETFL)
        .map(|flags| OFlag::from_bits_truncate(flags) & OFlag::O_ACCMODE);
    let both_ways = mode == Ok(OFlag::O_RDWR);
    both_ways && fs::read_link("/proc/self/fd/1").is_ok_and(|path| path == Path::new("/dev/null"))
}

fn not_written(error: io::Error) -> CliError {
    CliError::new(Kind::Output, format!("the answer could not be written to stdout: {error}"))
        .caused_by(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn k30_a_document_says_by_number_what_a_terminal_would_not_show() {
        let evil = Value::from("a\u{9b}b\u{7f}c\u{202e}d\u{e0041}e\n\u{200d}ä");
        let line = json_line(&serde_json::json!({ "text": evil }));
        let shown = "{\"text\":\"a\\u009bb\\u007fc\\u202ed\\udb40\\udc41e\\n\u{200d}ä\"}";
        assert_eq!(line, shown);
        let read: Value = serde_json::from_str(&line).expect("it is JSON");
        assert_eq!(read["text"], evil);
        assert_eq!(wording::plain(&line), line, "nothing of it is left out when it is printed");
    }
}
