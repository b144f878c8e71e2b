//! `legwork sessions`: stored conversations, listed, shown, exported, copied and deleted. Nothing here talks to a model.

use clap::{Args, Subcommand, ValueEnum};

use crate::failure::{CliError, Exit, Kind};
use crate::invocation::Invocation;

mod delete;
mod digest;
mod export;
mod fork;
mod list;
mod markdown;
mod show;

/// Arguments of `sessions`.
#[derive(Debug, Args)]
pub struct SessionsArgs {
    /// What to do; `list` if nothing is named
    #[command(subcommand)]
    pub action: Option<SessionsAction>,
    #[command(flatten)]
    pub list: ListArgs,
}

/// What `sessions` can do.
#[derive(Debug, Subcommand)]
pub enum SessionsAction {
    /// List the sessions of this folder, newest first
    List(ListArgs),
    /// Show a conversation, each message cut to a readable length, and what it delegated
    Show(OneArgs),
    /// Print a conversation whole
    Export(ExportArgs),
    /// Make a new session with a copy of a conversation
    Fork(ForkArgs),
    /// Delete a session for good
    Delete(DeleteArgs),
}

/// Arguments of `sessions list`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Args)]
pub struct ListArgs {
    /// Those of every folder
    #[arg(long)]
    pub all: bool,
    /// Also those that `delegate` made, in which nobody talks
    #[arg(long)]
    pub shell: bool,
    /// How many at most; 50 if nothing is said
    #[arg(long, value_name = "N")]
    pub limit: Option<usize>,
}

/// Names one session.
#[derive(Debug, Args)]
pub struct OneArgs {
    /// A session's id or name, or the beginning of it
    pub id: String,
}

/// Arguments of `sessions export`.
#[derive(Debug, Args)]
pub struct ExportArgs {
    #[command(flatten)]
    pub session: OneArgs,
    /// Markdown to read, or JSON with everything as it is stored; `md` unless --json is given
    #[arg(long, value_enum, value_name = "md|json", hide_possible_values = true)]
    pub format: Option<Format>,
}

/// What an export is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Markdown.
    Md,
    /// JSON.
    Json,
}

/// Arguments of `sessions fork`.
#[derive(Debug, Args)]
pub struct ForkArgs {
    #[command(flatten)]
    pub session: OneArgs,
    /// What the new session is called
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
}

/// Arguments of `sessions delete`.
#[derive(Debug, Args)]
pub struct DeleteArgs {
    #[command(flatten)]
    pub session: OneArgs,
    /// Really delete it
    #[arg(long)]
    pub yes: bool,
}

impl ListArgs {
    /// These, with `others` for what they do not say.
    fn or(self, others: ListArgs) -> ListArgs {
        ListArgs {
            all: self.all || others.all,
            shell: self.shell || others.shell,
            limit: self.limit.or(others.limit),
        }
    }
}

/// Does what was asked.
///
/// # Errors
/// When there is no such session, it is not in a state for that, or the state folder cannot be used.
pub async fn run(invocation: &Invocation, args: &SessionsArgs) -> Result<Exit, CliError> {
    match &args.action {
        None => list::run(invocation, args.list).await?,
        Some(SessionsAction::List(named)) => list::run(invocation, named.or(args.list)).await?,
        Some(_) if args.list != ListArgs::default() => {
            return Err(CliError::new(
                Kind::Usage,
                "--all, --shell and --limit are options of `sessions list`",
            )
            .with_hint("leave them out"));
        }
        Some(SessionsAction::Show(args)) => show::run(invocation, &args.id).await?,
        Some(SessionsAction::Export(args)) => export::run(invocation, args).await?,
        Some(SessionsAction::Fork(args)) => fork::run(invocation, args).await?,
        Some(SessionsAction::Delete(args)) => delete::run(invocation, args).await?,
    }
    Ok(Exit::Success)
}
