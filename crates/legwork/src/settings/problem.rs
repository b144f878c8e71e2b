//! What can be wrong with a configuration: where, what, and what to do.
//!
//! Owns the error types and their words; finds nothing by itself.

use std::fmt;
use std::io;
use std::path::PathBuf;

use crate::failure::{CliError, Kind};

/// A place that a person can go to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// A position in a file; line and column from 1, columns in characters.
    File { path: PathBuf, line: usize, column: usize },
    /// An environment variable.
    Variable(String),
    /// An option of the command line.
    Flag(&'static str),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::File { path, line, column } => write!(f, "{}:{line}:{column}", path.display()),
            Place::Variable(name) => write!(f, "environment variable {name}"),
            Place::Flag(name) => write!(f, "option {name}"),
        }
    }
}

/// A position in a file; line and column from 1, columns in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spot {
    pub line: usize,
    pub column: usize,
}

/// What a key says about a value it does not accept.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Complaint {
    /// The value has the wrong type or form.
    #[error("expects {expected}, found {found}")]
    WrongType { expected: String, found: String },
    /// The value has the right type but lies outside the bounds.
    #[error("must be {accepts}, found {found}")]
    OutOfBounds { accepts: String, found: String },
    /// A name within a table is not known there.
    #[error("is unknown there{}", suggestion(nearest.as_deref()))]
    Unknown { nearest: Option<String> },
    /// Something within a table is wrong.
    #[error("has a mistake: `{path}` {complaint}")]
    Inside { path: String, spot: Option<Spot>, complaint: Box<Complaint> },
    /// The value is understood, but this version cannot do it.
    #[error("is not built yet for {value}; {instead}")]
    NotBuilt { value: String, instead: String },
}

impl Complaint {
    /// The same, about something within the table.
    pub fn inside(self, name: &str, at: Spot) -> Complaint {
        match self {
            Complaint::Inside { path, spot, complaint } => {
                Complaint::Inside { path: format!("{name}.{path}"), spot: spot.or(Some(at)), complaint }
            }
            other @ (Complaint::WrongType { .. }
            | Complaint::OutOfBounds { .. }
            | Complaint::Unknown { .. }
            | Complaint::NotBuilt { .. }) => {
                Complaint::Inside { path: name.to_owned(), spot: Some(at), complaint: Box::new(other) }
            }
        }
    }

    /// Where exactly it is, when that is known better than the place of the whole value.
    pub fn spot(&self) -> Option<Spot> {
        match self {
            Complaint::Inside { spot, .. } => *spot,
            Complaint::WrongType { .. }
            | Complaint::OutOfBounds { .. }
            | Complaint::Unknown { .. }
            | Complaint::NotBuilt { .. } => None,
        }
    }
}

/// One thing that is wrong with the configuration.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    /// A file that must be read cannot be.
    #[error("{}: the configuration file cannot be read: {cause}", path.display())]
    Unreadable { path: PathBuf, cause: io::Error },
    /// A file is longer than any configuration.
    #[error("{}: the configuration file is larger than {limit} bytes", path.display())]
    TooLong { path: PathBuf, limit: u64 },
    /// A file is not TOML.
    #[error("{place}: syntax error: {message}")]
    Syntax { place: Place, message: String },
    /// No key or section has this name.
    #[error("{place}: unknown {what} `{name}`{}", suggestion(nearest.as_deref()))]
    Unknown { place: Place, what: &'static str, name: String, nearest: Option<String> },
    /// A section was given a value as if it were a key.
    #[error(
        "{place}: `{name}` is a section, not a key: write `[{name}]` on a line of its own and its keys below, as in `{example}`"
    )]
    SectionAsKey { place: Place, name: String, example: &'static str },
    /// A key does not accept the value.
    #[error("{place}: `{key}` {complaint}")]
    Refused { place: Place, key: &'static str, complaint: Complaint },
    /// A project file sets a key that could widen rights or spending.
    #[error("{place}: `{key}` may not be set by a project; it belongs in the user file {user_file}")]
    NotForProject { place: Place, key: &'static str, user_file: String },
    /// Two names of one setting disagree.
    #[error("environment variables {first} and {second} both set `{key}`; unset one of them")]
    SetTwice { key: &'static str, first: String, second: String },
    /// A variable is not valid text.
    #[error(transparent)]
    NotUnicode(#[from] super::environment::NotUnicode),
}

fn suggestion(nearest: Option<&str>) -> String {
    nearest.map(|name| format!("; did you mean `{name}`?")).unwrap_or_default()
}

impl Problem {
    /// A key that does not accept its value, which stands at `place`.
    pub fn refused(place: Place, key: &'static str, complaint: Complaint) -> Problem {
        let place = match (place, complaint.spot()) {
            (Place::File { path, .. }, Some(Spot { line, column })) => Place::File { path, line, column },
            (place, _) => place,
        };
        Problem::Refused { place, key, complaint }
    }

    fn is_not_built(&self) -> bool {
        matches!(self, Problem::Refused { complaint: Complaint::NotBuilt { .. }, .. })
    }
}

/// Everything that is wrong with the configuration, in the order in which it was found.
#[derive(Debug, thiserror::Error)]
#[error("{}", lines(problems))]
pub struct SettingsError {
    /// At least one problem.
    pub problems: Vec<Problem>,
}

fn lines(problems: &[Problem]) -> String {
    problems.iter().map(Problem::to_string).collect::<Vec<_>>().join("\n")
}

impl From<SettingsError> for CliError {
    fn from(error: SettingsError) -> CliError {
        let only_not_built = error.problems.iter().all(Problem::is_not_built);
        let kind = if only_not_built { Kind::NotBuilt } else { Kind::Configuration };
        CliError::new(kind, error.to_string())
            .with_hint("`legwork config schema` lists every key with its bounds")
    }
}
