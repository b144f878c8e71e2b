//! What the parts of a workplace refuse to begin with, as failures of the verb.

use legwork_agent::process::NoShell;
use legwork_engine::StartError;

use crate::failure::{CliError, Kind};

impl From<StartError> for CliError {
    fn from(error: StartError) -> CliError {
        let kind = match &error {
            StartError::Options(_) => Kind::Configuration,
            StartError::Store(_) => Kind::State,
        };
        CliError::new(kind, error.to_string())
    }
}

impl From<NoShell> for CliError {
    fn from(error: NoShell) -> CliError {
        CliError::new(Kind::State, error.to_string())
    }
}
