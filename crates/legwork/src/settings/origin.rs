//! Where a value came from, and how it is shown.
//!
//! Owns the words for both; does no merging.

use std::fmt;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::secret::MASK;

/// The layers of the configuration, weakest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Layer {
    /// Built in.
    Default,
    /// The user's file, or the one named by `--config`.
    User,
    /// The project's file in the working folder.
    Project,
    /// A `LEGWORK_…` variable.
    Environment,
    /// An option on the command line.
    Flag,
}

/// The place that a value was read from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// The built-in default.
    Default,
    /// A configuration file.
    File {
        /// [`Layer::User`] or [`Layer::Project`].
        layer: Layer,
        /// The file.
        path: PathBuf,
        /// The line of the value, from 1.
        line: usize,
    },
    /// An environment variable.
    Env(String),
    /// An option, as it is written on the command line.
    Flag(&'static str),
}

impl Origin {
    /// The layer this origin belongs to.
    pub fn layer(&self) -> Layer {
        match self {
            Origin::Default => Layer::Default,
            Origin::File { layer, .. } => *layer,
            Origin::Env(_) => Layer::Environment,
            Origin::Flag(_) => Layer::Flag,
        }
    }

    /// The form for programs.
    pub fn to_json(&self) -> Value {
        match self {
            Origin::Default => json!({"kind": "default"}),
            Origin::File { layer, path, line } => {
                let kind = if *layer == Layer::Project { "project" } else { "user" };
                json!({"kind": kind, "path": path.display().to_string(), "line": line})
            }
            Origin::Env(name) => json!({"kind": "environment", "name": name}),
            Origin::Flag(name) => json!({"kind": "option", "name": name}),
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Default => f.write_str("default"),
            Origin::File { path, line, .. } => write!(f, "{}:{line}", path.display()),
            Origin::Env(name) => write!(f, "environment {name}"),
            Origin::Flag(name) => write!(f, "option {name}"),
        }
    }
}

/// A value in the form in which it may be shown: a secret is already masked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Shown {
    /// Nothing is set.
    Unset,
    /// Text or a choice.
    Text(String),
    /// A secret that is set.
    Masked,
    /// A switch.
    Flag(bool),
    /// A count, or a time in the unit that the key names.
    Whole(u64),
    /// A list of texts.
    List(Vec<String>),
    /// A table or a list of tables; secrets in it are already masked.
    Table(Value),
}

impl Shown {
    /// The form for programs; an unset value is null.
    pub fn to_json(&self) -> Value {
        match self {
            Shown::Unset => Value::Null,
            Shown::Text(text) => json!(text),
            Shown::Masked => json!(MASK),
            Shown::Flag(flag) => json!(flag),
            Shown::Whole(number) => json!(number),
            Shown::List(items) => json!(items),
            Shown::Table(value) => value.clone(),
        }
    }
}

/// As it would be written in a file; an unset value is a dash.
impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Shown::Unset => f.write_str("-"),
            Shown::Text(_)
            | Shown::Masked
            | Shown::Flag(_)
            | Shown::Whole(_)
            | Shown::List(_)
            | Shown::Table(_) => {
                write!(f, "{}", self.to_json())
            }
        }
    }
}

/// One value that one layer gave to a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assigned {
    /// The value.
    pub shown: Shown,
    /// Where it came from.
    pub origin: Origin,
}
