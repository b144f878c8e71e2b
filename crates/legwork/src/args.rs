//! The command line: verbs, options and what clap says about wrong ones.
//!
//! Owns the shape only. What an option means is decided by the verb, the settings or the paths it is handed to. Verbs
//! that do not exist yet are not in [`Command`].

use std::ffi::OsString;
use std::io::IsTerminal;
use std::path::PathBuf;

use clap::builder::NonEmptyStringValueParser;
use clap::error::ErrorKind;
use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::commands::completions::CompletionsArgs;
use crate::commands::config::ConfigArgs;
use crate::commands::sessions::SessionsArgs;
use crate::failure::{self, CliError, Detail, Exit, Form, Kind};
use crate::settings::Environment;
use crate::stdout;

/// Send subagents out to do the legwork, and never lose a result
#[derive(Debug, Parser)]
#[command(name = "legwork", version, max_term_width = 100, arg_required_else_help = true)]
pub struct Cli {
    #[command(flatten)]
    pub common: CommonArgs,
    #[command(subcommand)]
    pub command: Command,
}

/// Options of every verb.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Common options")]
pub struct CommonArgs {
    /// The model to talk to
    #[arg(long, global = true, value_name = "PROVIDER/NAME", value_parser = NonEmptyStringValueParser::new())]
    pub model: Option<String>,
    /// The address of the provider, if not its own
    #[arg(long, global = true, value_name = "URL", value_parser = NonEmptyStringValueParser::new())]
    pub base_url: Option<String>,
    /// The protocol to speak, if not the usual one
    #[arg(long, global = true, value_name = "MODE", value_parser = NonEmptyStringValueParser::new())]
    pub api_mode: Option<String>,
    /// Work in this folder instead of the current one
    #[arg(long, global = true, value_name = "DIR")]
    pub cwd: Option<PathBuf>,
    /// Keep results and sessions in this folder
    #[arg(long, global = true, value_name = "DIR")]
    pub state_dir: Option<PathBuf>,
    /// Read this file instead of the user's configuration
    #[arg(long, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Write one JSON document on stdout
    #[arg(long, global = true)]
    pub json: bool,
    /// Say less on stderr
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub quiet: bool,
    /// Say more on stderr; twice for even more
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub verbose: u8,
    /// When to use colours; `auto`: on a terminal, unless NO_COLOR is set
    #[arg(
        long,
        global = true,
        value_name = "auto|always|never",
        default_value = "auto",
        hide_possible_values = true
    )]
    pub color: ColorWhen,
}

/// When colours are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ColorWhen {
    /// On a terminal, unless NO_COLOR is set.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

impl ColorWhen {
    /// Whether to colour what goes to `stream`. `NO_COLOR` counts for [`ColorWhen::Auto`] only.
    pub fn applies_to(self, stream: &impl IsTerminal, environment: &Environment) -> bool {
        match self {
            ColorWhen::Always => true,
            ColorWhen::Never => false,
            ColorWhen::Auto => stream.is_terminal() && !environment.has("NO_COLOR"),
        }
    }
}

impl CommonArgs {
    /// The form in which failures are written.
    pub fn form(&self) -> Form {
        if self.json {
            return Form::Json;
        }
        Form::People(if self.verbose > 0 { Detail::Causes } else { Detail::Brief })
    }

    /// The options that set a key of the configuration.
    pub fn settings(&self) -> Vec<(&'static str, &str)> {
        let all = [
            ("model.default", &self.model),
            ("model.base_url", &self.base_url),
            ("model.api_mode", &self.api_mode),
        ];
        all.into_iter().filter_map(|(key, text)| Some((key, text.as_deref()?))).collect()
    }
}

/// Everything the program can be asked to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Talk with an agent; the results of its subagents come in while you go on talking
    Chat(ChatArgs),
    /// Give one prompt and print one answer; subagents it starts are waited for
    Run(RunArgs),
    /// Run tasks side by side and print their results
    Delegate(DelegateArgs),
    /// List running delegations, units and children
    Ps(PsArgs),
    /// Show one delegation, unit, child or session, and where its result is
    Show(ShowArgs),
    /// Print the stored results again
    Results(ResultsArgs),
    /// Go on with work whose process has gone
    Worker(WorkerArgs),
    /// Give an undelivered result up
    Dismiss(DismissArgs),
    /// Print the live transcript of a child, or of all children of a delegation
    Tail(TailArgs),
    /// Tell a running child something; it reads it at its next step
    Steer(SteerArgs),
    /// Stop work, with everything below it
    Stop(StopArgs),
    /// Keep new children from starting, or let them start again
    Pause(PauseArgs),
    /// List, show, export, copy and delete stored conversations
    Sessions(SessionsArgs),
    /// Check configuration, model, store and what is stuck
    Doctor(DoctorArgs),
    /// Show and check the configuration
    Config(ConfigArgs),
    /// Print shell completions
    Completions(CompletionsArgs),
}

/// Arguments of `chat`.
#[derive(Debug, Args)]
pub struct ChatArgs {
    /// Open the conversation of this name in this folder, or begin it
    #[arg(long, value_name = "NAME", conflicts_with = "resume")]
    pub session: Option<String>,
    /// Go on with a stored conversation; without an ID with the newest of this folder
    #[arg(long, value_name = "ID", num_args = 0..=1)]
    pub resume: Option<Option<String>>,
}

/// Arguments of `run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// The prompt; `-` reads it from stdin
    pub prompt: String,
    /// Go on with a stored session; without an ID with the newest of this folder
    #[arg(long, value_name = "ID", num_args = 0..=1, conflicts_with = "last")]
    pub resume: Option<Option<String>>,
    /// Go on with the newest session of this folder
    #[arg(long)]
    pub last: bool,
}

/// Arguments of `delegate`.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("tasks").required(true).args(["file", "goal"]))]
pub struct DelegateArgs {
    /// A TOML or JSON file of tasks; `-` reads it from stdin
    pub file: Option<PathBuf>,
    /// One task with this goal; may be given several times
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub goal: Vec<String>,
    /// What every task without a context of its own is told besides
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub context: Option<String>,
    /// Leave the work to a process in the background and come back with its handle
    #[arg(long)]
    pub detach: bool,
    /// Let the results come to this conversation
    #[arg(long, value_name = "ID", requires = "detach")]
    pub session: Option<String>,
}

/// Arguments of `ps`.
#[derive(Debug, Args)]
pub struct PsArgs {
    /// Also list what ended recently
    #[arg(long)]
    pub all: bool,
    /// Go on and list again whenever something changes
    #[arg(long)]
    pub watch: bool,
}

/// Arguments of `show`.
#[derive(Debug, Args)]
pub struct ShowArgs {
    /// A delegation, unit, child or session, or the beginning of its id; a session's name will do
    pub id: String,
}

/// Arguments of `results`.
#[derive(Debug, Args)]
pub struct ResultsArgs {
    /// A delegation, unit or child, or the beginning of its id
    pub id: String,
    /// Wait until the work has ended, and go on with it if its process has died
    #[arg(long)]
    pub wait: bool,
}

/// Arguments of `worker`.
#[derive(Debug, Args)]
pub struct WorkerArgs {
    /// Only this delegation or session, and end once its work has ended
    #[arg(long, value_name = "ID")]
    pub only: Option<String>,
    /// It was started in the background and needs no terminal
    #[arg(long, hide = true)]
    pub apart: bool,
}

/// Arguments of `tail`.
#[derive(Debug, Args)]
pub struct TailArgs {
    /// A child or a delegation, or the beginning of its id
    pub id: String,
    /// Go on until the work has ended
    #[arg(short, long)]
    pub follow: bool,
}

/// Arguments of `dismiss`.
#[derive(Debug, Args)]
pub struct DismissArgs {
    /// A delegation or unit, or the beginning of its id
    pub id: String,
    /// Why, for the ledger
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub reason: Option<String>,
}

/// Arguments of `steer`.
#[derive(Debug, Args)]
pub struct SteerArgs {
    /// A child, or the beginning of its id; a delegation or unit in which only one child is at work will do
    pub id: String,
    /// What it is told; `-` reads it from stdin
    #[arg(allow_hyphen_values = true)]
    pub text: String,
}

/// Arguments of `pause`.
#[derive(Debug, Args)]
pub struct PauseArgs {
    /// Without it, says whether there is a pause
    #[arg(value_enum, hide_possible_values = true, value_name = "on|off")]
    pub switch: Option<PauseSwitch>,
}

/// Which way a pause is switched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PauseSwitch {
    /// No new children start.
    On,
    /// They start again.
    Off,
}

/// Arguments of `stop`.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("scope").required(true).args(["id", "session", "all"]))]
pub struct StopArgs {
    /// Delegations, units or children, or the beginnings of their ids
    pub id: Vec<String>,
    /// Everything that a session started, by its id or name
    #[arg(long, value_name = "ID")]
    pub session: Option<String>,
    /// Everything in this state folder
    #[arg(long)]
    pub all: bool,
}

/// Arguments of `doctor`.
#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// Do not ask the model for a word
    #[arg(long)]
    pub offline: bool,
}

/// Answers a command line that clap did not take: help and version, or a failure in the form that was asked for. Help
/// that stdout does not take is a failure, too.
///
/// A failure that cannot be printed changes nothing: there is nowhere left to say so, and the exit code still tells.
pub fn refuse(error: &clap::Error, arguments: &[OsString]) -> Exit {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => match stdout::written_by(|| error.print()) {
            Ok(()) => Exit::Success,
            Err(unwritten) => failure::report(&unwritten, Form::People(Detail::Brief)),
        },
        _ if wants_json(arguments) => failure::report(&usage_error(error), Form::Json),
        _ => {
            drop(error.print());
            Exit::Usage
        }
    }
}

/// Whether `--json` stands among the options, for command lines that could not be read.
fn wants_json(arguments: &[OsString]) -> bool {
    arguments.iter().take_while(|argument| *argument != "--").any(|argument| argument == "--json")
}

/// Clap's text, taken apart: the first paragraph says what is wrong, the others what would be right.
fn usage_error(error: &clap::Error) -> CliError {
    let text = error.render().to_string();
    let mut paragraphs = text.trim().split("\n\n").map(|paragraph| {
        let lines: Vec<&str> = paragraph.lines().map(str::trim).collect();
        lines.join(" ")
    });
    let first = paragraphs.next().unwrap_or_default();
    let message = first.strip_prefix("error: ").unwrap_or(&first);
    let hint: Vec<String> =
        paragraphs.filter(|paragraph| !paragraph.starts_with("For more information")).collect();
    let failure = CliError::new(Kind::Usage, message);
    if hint.is_empty() { failure } else { failure.with_hint(hint.join("\n")) }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn parse(line: &str) -> Result<Cli, clap::Error> {
        Cli::try_parse_from(line.split_whitespace())
    }

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn common_options_stand_before_or_after_the_verb() {
        for line in ["legwork --model a/b --json ps", "legwork ps --model a/b --json"] {
            let cli = parse(line).expect("it is right");
            assert!(cli.common.json);
            assert_eq!(cli.common.settings(), [("model.default", "a/b")]);
        }
    }

    #[test]
    fn delegate_takes_a_file_or_goals() {
        let goals = parse("legwork delegate --goal a --goal b --context c").expect("goals are enough");
        assert!(
            matches!(goals.command, Command::Delegate(args) if args.goal == ["a", "b"] && args.file.is_none())
        );
        let stdin = parse("legwork delegate -").expect("stdin is a file");
        assert!(matches!(stdin.command, Command::Delegate(args) if args.file == Some("-".into())));
        assert!(parse("legwork delegate").is_err());
        assert!(parse("legwork delegate tasks.toml --goal a").is_err());
    }

    #[test]
    fn a_delegation_belongs_to_a_conversation_only_when_it_is_left() {
        let left = parse("legwork delegate t.toml --detach --session s").expect("it is right");
        assert!(matches!(left.command, Command::Delegate(args) if args.detach));
        assert!(parse("legwork delegate t.toml --session s").is_err());
    }

    #[test]
    fn chat_opens_a_new_a_named_or_a_stored_conversation() {
        let chat = |line: &str| match parse(line).expect("it is right").command {
            Command::Chat(args) => (args.session, args.resume),
            other => panic!("{other:?}"),
        };
        assert_eq!(chat("legwork chat"), (None, None));
        assert_eq!(chat("legwork chat --session release"), (Some("release".into()), None));
        assert_eq!(chat("legwork chat --resume"), (None, Some(None)));
        assert_eq!(chat("legwork chat --resume ses_1"), (None, Some(Some("ses_1".into()))));
        assert!(parse("legwork chat --session a --resume").is_err());
    }

    #[test]
    fn run_goes_on_with_the_newest_session_or_a_named_one() {
        let resumed = |line: &str| match parse(line).expect("it is right").command {
            Command::Run(args) => (args.prompt, args.resume, args.last),
            other => panic!("{other:?}"),
        };
        assert_eq!(resumed("legwork run p"), ("p".into(), None, false));
        assert_eq!(resumed("legwork run p --last"), ("p".into(), None, true));
        assert_eq!(resumed("legwork run p --resume"), ("p".into(), Some(None), false));
        assert_eq!(resumed("legwork run --resume ses_1 p"), ("p".into(), Some(Some("ses_1".into())), false));
        assert!(parse("legwork run p --last --resume").is_err());
        assert!(parse("legwork run --resume p").is_err(), "an ID is taken for the prompt by nobody");
    }

    /// Proves ROUTE-9.
    #[test]
    fn stop_needs_a_scope_and_only_one() {
        assert!(parse("legwork stop").is_err());
        assert!(parse("legwork stop a --all").is_err());
        assert!(parse("legwork stop a b").is_ok());
    }

    #[test]
    fn a_usage_error_is_taken_apart() {
        let error = parse("legwork ps --al").expect_err("it has a slip");
        let failure = usage_error(&error);
        assert_eq!(failure.kind(), Kind::Usage);
        assert_eq!(failure.to_string(), "unexpected argument '--al' found");
        let json = failure.to_json();
        let hint = json["error"]["hint"].as_str().expect("there is a hint");
        assert!(hint.contains("--all") && hint.contains("Usage:"), "{hint}");
    }

    #[test]
    fn json_is_seen_on_a_wrong_command_line_but_not_behind_the_end_of_options() {
        let line = |text: &str| text.split_whitespace().map(OsString::from).collect::<Vec<_>>();
        assert!(wants_json(&line("legwork --json nonsense")));
        assert!(!wants_json(&line("legwork run -- --json")));
    }
}
