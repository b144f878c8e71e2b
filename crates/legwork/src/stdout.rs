//! The answer of a verb on stdout: text for people or exactly one JSON document.
//!
//! Progress, warnings and failures are not answers; they go to stderr and are not written here.

use std::io::{self, Write};

use serde_json::Value;

use crate::failure::{CliError, Kind};

/// Writes `text` and a line end, and flushes.
///
/// # Errors
/// When stdout is closed or full; the answer is then not known to have arrived.
pub fn print(text: &str) -> Result<(), CliError> {
    let mut out = io::stdout().lock();
    writeln!(out, "{text}").and_then(|()| out.flush()).map_err(not_written)
}

/// Writes one JSON document on one line.
///
/// # Errors
/// As [`print`].
pub fn print_json(document: &Value) -> Result<(), CliError> {
    print(&document.to_string())
}

fn not_written(error: io::Error) -> CliError {
    CliError::new(Kind::Output, format!("the answer could not be written to stdout: {error}"))
        .caused_by(error)
}
