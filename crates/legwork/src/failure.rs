//! What the program says when it cannot do what was asked, and the exit codes of every verb.
//!
//! This module owns [`CliError`], its kinds and the two forms in which it is written. It does not decide what is an
//! error: verbs, settings and paths do, and hand their own errors over by `From`.

use std::error::Error;
use std::io::{self, Write};
use std::process::ExitCode;

use serde_json::{Value, json};

use crate::{stdout, wording};

/// Every exit code of the program. Other programs rely on the numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// It was carried out; for verbs that follow children: all of them completed, nothing missing.
    Success,
    /// Something ended otherwise than completed, is incomplete, or failed on the way.
    Incomplete,
    /// Wrong usage, arguments, configuration, provider or tasks file.
    Usage,
    /// Nothing could be started: no model, a pause, a session that is open elsewhere, or a state folder that cannot be
    /// used.
    NotStarted,
    /// What was named does not exist.
    NotFound,
    /// The user interrupted the work.
    Interrupted,
    /// A termination signal released the work.
    Terminated,
}

impl Exit {
    /// The number the operating system sees.
    pub fn code(self) -> u8 {
        match self {
            Exit::Success => 0,
            Exit::Incomplete => 1,
            Exit::Usage => 2,
            Exit::NotStarted => 3,
            Exit::NotFound => 4,
            Exit::Interrupted => 130,
            Exit::Terminated => 143,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit.code())
    }
}

/// The kind of a failure. It chooses the exit code and is the `kind` of the JSON form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The command line is wrong.
    Usage,
    /// A configuration file, variable or option holds something wrong.
    Configuration,
    /// A tasks file, a goal or a prompt is wrong.
    Input,
    /// It is known what is meant, but this version cannot do it.
    NotBuilt,
    /// The provider of a model is not known.
    UnknownProvider,
    /// No model is configured.
    NoModel,
    /// The chosen model needs a key and none was found for its address.
    NoKey,
    /// The state folder or its database cannot be used.
    State,
    /// The session is open in another process.
    OpenElsewhere,
    /// Somebody paused: no new subagents may start.
    Paused,
    /// What was named does not exist.
    NotFound,
    /// What was named is in a state in which this cannot be done to it.
    Refused,
    /// The answer could not be written.
    Output,
    /// A failure that none of the other kinds describes.
    Internal,
}

impl Kind {
    /// The word of the JSON form.
    pub fn word(self) -> &'static str {
        match self {
            Kind::Usage => "usage",
            Kind::Configuration => "configuration",
            Kind::Input => "input",
            Kind::NotBuilt => "not_built",
            Kind::UnknownProvider => "unknown_provider",
            Kind::NoModel => "no_model",
            Kind::NoKey => "no_key",
            Kind::State => "state",
            Kind::OpenElsewhere => "open_elsewhere",
            Kind::Paused => "paused",
            Kind::NotFound => "not_found",
            Kind::Refused => "refused",
            Kind::Output => "output",
            Kind::Internal => "internal",
        }
    }

    /// The exit code that goes with this kind.
    pub fn exit(self) -> Exit {
        match self {
            Kind::Usage | Kind::Configuration | Kind::Input | Kind::NotBuilt | Kind::UnknownProvider => {
                Exit::Usage
            }
            Kind::NoModel | Kind::NoKey | Kind::State | Kind::OpenElsewhere | Kind::Paused => {
                Exit::NotStarted
            }
            Kind::NotFound => Exit::NotFound,
            Kind::Refused | Kind::Output | Kind::Internal => Exit::Incomplete,
        }
    }
}

/// A failure for the person or program that started the command: what happened, where, and what to do about it.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct CliError {
    kind: Kind,
    message: String,
    hint: Option<String>,
    #[source]
    cause: Option<Box<dyn Error + Send + Sync>>,
}

impl CliError {
    /// A failure with a message that says what happened and where.
    pub fn new(kind: Kind, message: impl Into<String>) -> CliError {
        CliError { kind, message: message.into(), hint: None, cause: None }
    }

    /// Adds what to do about it.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> CliError {
        self.hint = Some(hint.into());
        self
    }

    /// Keeps the error underneath; it is shown with `-v`.
    #[must_use]
    pub fn caused_by(mut self, cause: impl Into<Box<dyn Error + Send + Sync>>) -> CliError {
        self.cause = Some(cause.into());
        self
    }

    /// The kind, for callers that treat some failures in their own way.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Message and hint, for a sentence of something else.
    pub fn in_a_line(&self) -> String {
        let hint = self.hint.as_ref().map(|hint| format!("; {hint}")).unwrap_or_default();
        format!("{}{hint}", self.message)
    }

    /// The exit code of the program when this failure ends it.
    pub fn exit(&self) -> Exit {
        self.kind.exit()
    }

    /// The JSON form: `{"error": {"kind", "message", "hint"}}`; `hint` is null when there is none.
    pub fn to_json(&self) -> Value {
        json!({"error": {"kind": self.kind.word(), "message": self.message, "hint": self.hint}})
    }

    /// The form for people: message, hint and, with `-v`, the errors underneath; one fact a line.
    pub fn to_text(&self, detail: Detail) -> String {
        let mut text = format!("error: {}", lines(&self.message));
        if let Some(hint) = &self.hint {
            text.push_str(&format!("\n  hint: {}", lines(hint)));
        }
        match detail {
            Detail::Brief => {}
            Detail::Causes => {
                let mut cause = self.source();
                while let Some(error) = cause {
                    text.push_str(&format!("\n  because: {}", lines(&error.to_string())));
                    cause = error.source();
                }
            }
        }
        text
    }
}

/// How much of a failure the form for people tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// Message and hint.
    Brief,
    /// Also every error underneath.
    Causes,
}

/// How a failure is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Lines on stderr.
    People(Detail),
    /// One JSON document on stdout.
    Json,
}

/// Writes a failure in its form and gives the exit code it ends with. A document that stdout does not take is told on stderr
/// instead, as for people.
///
/// A failure that cannot be written there changes nothing: there is nowhere left to say so, and the exit code still tells.
pub fn report(error: &CliError, form: Form) -> Exit {
    let detail = match form {
        Form::People(detail) => Some(detail),
        Form::Json => stdout::print_json(&error.to_json()).is_err().then_some(Detail::Brief),
    };
    if let Some(detail) = detail {
        drop(writeln!(io::stderr().lock(), "{}", error.to_text(detail)));
    }
    error.exit()
}

/// The lines of a text, the further ones under the first. It may quote a file, a provider or a child.
fn lines(text: &str) -> String {
    wording::plain(text).replace('\n', "\n    ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_are_the_documented_numbers() {
        let table = [
            (Exit::Success, 0),
            (Exit::Incomplete, 1),
            (Exit::Usage, 2),
            (Exit::NotStarted, 3),
            (Exit::NotFound, 4),
            (Exit::Interrupted, 130),
            (Exit::Terminated, 143),
        ];
        for (exit, code) in table {
            assert_eq!(exit.code(), code);
        }
    }

    #[test]
    fn json_form_has_the_three_fields() {
        let error = CliError::new(Kind::NoModel, "no model is configured").with_hint("set one");
        let expected =
            json!({"error": {"kind": "no_model", "message": "no model is configured", "hint": "set one"}});
        assert_eq!(error.to_json(), expected);
        assert_eq!(error.exit().code(), 3);
    }

    #[test]
    fn text_form_shows_causes_only_when_asked() {
        let error = CliError::new(Kind::State, "cannot open it").caused_by(io::Error::other("disk on fire"));
        assert_eq!(error.to_text(Detail::Brief), "error: cannot open it");
        assert_eq!(error.to_text(Detail::Causes), "error: cannot open it\n  because: disk on fire");
    }
}
