//! The program `legwork`: reads the command line and hands it to the verb.

#![allow(
    dead_code,
    unused_imports,
    reason = "settings, paths and failures stand here before the verbs that use them"
)]

#[cfg(not(unix))]
compile_error!(
    "legwork runs on Linux and macOS; it needs process groups and private files, which Windows does not have"
);

mod args;
mod commands;
mod failure;
mod invocation;
mod paths;
mod settings;
mod stdout;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser;

use args::{Cli, Command};
use failure::{CliError, Exit, Kind};
use invocation::Invocation;

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let exit = match Cli::try_parse_from(&arguments) {
        Err(error) => args::refuse(&error, &arguments),
        Ok(cli) => {
            let form = cli.common.form();
            perform(cli).unwrap_or_else(|error| failure::report(&error, form))
        }
    };
    exit.into()
}

fn perform(cli: Cli) -> Result<Exit, CliError> {
    let invocation = Invocation::new(cli.common)?;
    match cli.command {
        Command::Run(_) => Err(not_built("run")),
        Command::Delegate(_) => Err(not_built("delegate")),
        Command::Ps(_) => Err(not_built("ps")),
        Command::Show(_) => Err(not_built("show")),
        Command::Results(_) => Err(not_built("results")),
        Command::Tail(_) => Err(not_built("tail")),
        Command::Stop(_) => Err(not_built("stop")),
        Command::Doctor(_) => Err(not_built("doctor")),
        Command::Config(args) => commands::config::run(&invocation, &args),
        Command::Completions(args) => commands::completions::run(&invocation, &args),
    }
}

/// A verb whose module does not exist yet is refused by name.
fn not_built(verb: &str) -> CliError {
    CliError::new(Kind::NotBuilt, format!("`legwork {verb}` is not built yet"))
}
