//! `legwork completions`: shell completions on stdout.

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::args::Cli;
use crate::failure::{CliError, Exit};
use crate::invocation::Invocation;
use crate::stdout;

/// Arguments of `completions`.
#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// The shell to write them for
    pub shell: Shell,
}

/// Prints the completions of a shell; with `--json` as `{"shell", "script"}`.
///
/// # Errors
/// When stdout cannot be written.
pub fn run(invocation: &Invocation, args: &CompletionsArgs) -> Result<Exit, CliError> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "legwork", &mut script);
    let script = String::from_utf8_lossy(&script);
    if invocation.common.json {
        stdout::print_json(&serde_json::json!({"shell": args.shell.to_string(), "script": script}))?;
    } else {
        stdout::print(script.trim_end())?;
    }
    Ok(Exit::Success)
}
