//! The program `legwork`: reads the command line and hands it to the verb.
// The macros of the standard library panic when nobody reads any more; `stdout` and `stderr` here do not.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod args;
mod call_label;
mod chat;
mod commands;
mod embedded;
mod failure;
mod handed_over;
mod input;
mod invocation;
mod lacking;
mod logging;
mod lookup;
mod model_source;
mod orphans;
mod outcomes;
mod outliving;
mod owner;
mod paths;
mod progress;
mod retention;
mod session_choice;
mod settings;
mod signals;
mod state;
mod stderr;
mod stdout;
mod suspension;
mod tasks_file;
mod unambiguous;
mod whereabouts;
mod wire;
mod wording;

use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use legwork_agent::process;
use tokio::runtime::{Builder, Runtime};

use args::{Cli, Command, ResultsArgs};
use failure::{CliError, Exit, Kind};
use invocation::Invocation;

/// Threads that run agents. They wait for models and commands most of the time.
const WORKERS: usize = 2;
/// Threads for what blocks: reading files and the database. More of them would only wait for the same disk, and a thousand
/// subagents that begin at once would start hundreds.
const BLOCKING_MAX: usize = 16;
/// How long the program waits at its end for what still runs in the background.
const LAST_WAIT: Duration = Duration::from_millis(500);
/// The same when it was told to end: it has had its time.
const NO_MORE_WAIT: Duration = Duration::from_millis(100);

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
    logging::start(&cli.common);
    let invocation = Invocation::new(cli.common)?;
    let runtime = runtime(&cli.command)?;
    let exit = runtime.block_on(async {
        if let Err(error) = signals::take_limits_as_errors() {
            tracing::warn!(%error, "a file that meets a limit of the system would end the program");
        }
        carry_out(&invocation, cli.command).await
    });
    // A program that leaves at once has dropped nothing yet; in every other case nothing is left to find.
    process::kill_all();
    runtime.shutdown_timeout(match exit {
        Ok(Exit::Interrupted | Exit::Terminated) => NO_MORE_WAIT,
        Ok(Exit::Success | Exit::Incomplete | Exit::Usage | Exit::NotStarted | Exit::NotFound) | Err(_) => {
            LAST_WAIT
        }
    });
    for leftover in process::sweep_all() {
        tracing::info!(?leftover, "a process that its command left behind was ended");
    }
    exit
}

async fn carry_out(invocation: &Invocation, command: Command) -> Result<Exit, CliError> {
    match command {
        Command::Chat(args) => commands::chat::run(invocation, &args).await,
        Command::Run(args) => commands::run::run(invocation, &args).await,
        Command::Delegate(args) => commands::delegate::run(invocation, &args).await,
        Command::Ps(args) => commands::ps::run(invocation, &args).await,
        Command::Show(args) => commands::show::run(invocation, &args).await,
        Command::Results(args) => commands::results::run(invocation, &args).await,
        Command::Worker(args) => commands::worker::run(invocation, &args).await,
        Command::Dismiss(args) => commands::dismiss::run(invocation, &args).await,
        Command::Tail(args) => commands::tail::run(invocation, &args).await,
        Command::Steer(args) => commands::steer::run(invocation, &args).await,
        Command::Stop(args) => commands::stop::run(invocation, &args).await,
        Command::Pause(args) => commands::pause::run(invocation, &args).await,
        Command::Sessions(args) => commands::sessions::run(invocation, &args).await,
        Command::Doctor(args) => commands::doctor::run(invocation, &args).await,
        Command::Config(args) => commands::config::run(invocation, &args),
        Command::Completions(args) => commands::completions::run(invocation, &args),
    }
}

/// Verbs that only look run on one thread; those that run agents get workers.
fn runtime(command: &Command) -> Result<Runtime, CliError> {
    let mut builder = match command {
        Command::Chat(_)
        | Command::Run(_)
        | Command::Delegate(_)
        | Command::Worker(_)
        | Command::Results(ResultsArgs { wait: true, .. }) => {
            let mut builder = Builder::new_multi_thread();
            builder.worker_threads(WORKERS).max_blocking_threads(BLOCKING_MAX);
            builder
        }
        Command::Ps(_)
        | Command::Show(_)
        | Command::Results(ResultsArgs { wait: false, .. })
        | Command::Dismiss(_)
        | Command::Tail(_)
        | Command::Steer(_)
        | Command::Stop(_)
        | Command::Pause(_)
        | Command::Sessions(_)
        | Command::Doctor(_)
        | Command::Config(_)
        | Command::Completions(_) => Builder::new_current_thread(),
    };
    builder.enable_all().build().map_err(|error| {
        CliError::new(Kind::Internal, format!("the system refused a thread or a timer: {error}"))
    })
}
