//! The environment of the process, read once at start.
//!
//! Owns the snapshot; which variable means which key is told by the key table.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;

/// A variable whose value is not valid Unicode.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("environment variable {name} is not valid UTF-8; set it again as plain text")]
pub struct NotUnicode {
    /// The variable.
    pub name: String,
}

/// A snapshot of the environment. A variable set to nothing counts as not set.
#[derive(Clone, Default)]
pub struct Environment {
    variables: BTreeMap<String, OsString>,
}

impl Environment {
    /// The environment this process was started with. Variables whose names are not valid Unicode are left out: no
    /// name of ours is among them.
    pub fn of_process() -> Environment {
        let variables =
            std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value)));
        Environment { variables: variables.filter(|(_, value)| !value.is_empty()).collect() }
    }

    /// The text of a variable.
    ///
    /// # Errors
    /// When its value is not valid Unicode.
    pub fn text(&self, name: &str) -> Result<Option<&str>, NotUnicode> {
        match self.variables.get(name) {
            None => Ok(None),
            Some(value) => value.to_str().map(Some).ok_or_else(|| NotUnicode { name: name.to_owned() }),
        }
    }

    /// A variable as a path, in whatever encoding it has.
    pub fn path(&self, name: &str) -> Option<PathBuf> {
        self.variables.get(name).map(PathBuf::from)
    }

    /// Whether a variable is set to something.
    pub fn has(&self, name: &str) -> bool {
        self.variables.contains_key(name)
    }

    /// The names of all set variables, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.variables.keys().map(String::as_str)
    }
}

impl<const N: usize> From<[(&str, &str); N]> for Environment {
    fn from(pairs: [(&str, &str); N]) -> Environment {
        let variables = pairs.into_iter().filter(|(_, value)| !value.is_empty());
        Environment { variables: variables.map(|(name, value)| (name.to_owned(), value.into())).collect() }
    }
}

/// Values are left out: the environment holds keys.
impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.variables.keys()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_variables_are_not_set_and_values_are_not_debugged() {
        let environment = Environment::from([("A", ""), ("B", "secret")]);
        assert_eq!(environment.text("A"), Ok(None));
        assert_eq!(environment.text("B"), Ok(Some("secret")));
        assert_eq!(format!("{environment:?}"), "{\"B\"}");
    }
}
