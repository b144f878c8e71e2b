//! Tool `terminal`: a command under a shell, with a time limit and a bounded output, or in the background.
//!
//! It words results. How processes start and end is the matter of the process module; the group is stored before
//! anything runs.

pub(super) mod wording;

use super::arguments;
use super::commands::Commands;
use super::place;
use super::port::{Effect, Invocation, Site, Tool, ToolOutput};
use super::process::Launch;
use crate::models::ToolSpec;
use crate::process::{Capture, CaptureLimits, Order, time_limit};
use crate::spill::SpillPlace;
use legwork_core::handover::TERMINAL;
use legwork_core::ports::Pending;
use legwork_core::pulse::LineEvent;
use serde::Deserialize;
use serde_json::json;
use std::path::Path;
use std::time::Duration;

/// Seconds that a command may take when the call does not say.
const TIMEOUT_SECONDS_DEFAULT: u64 = 120;
/// The longest time limit.
const TIMEOUT_SECONDS_MAX: u64 = 1200;
/// What is kept of the output.
const LIMITS: CaptureLimits =
    CaptureLimits { head_bytes: 10 * 1024, tail_bytes: 20 * 1024, file_bytes_max: 64 * 1024 * 1024 };

/// The tool.
pub struct Terminal {
    commands: Commands,
}

#[derive(Debug, Deserialize)]
struct Arguments {
    command: String,
    timeout_seconds: Option<u64>,
    workdir: Option<String>,
    background: Option<bool>,
}

impl Terminal {
    /// Runs commands with what the tools of the program share.
    pub fn new(commands: Commands) -> Self {
        Terminal { commands }
    }

    async fn run(&self, invocation: Invocation) -> Result<ToolOutput, String> {
        let arguments: Arguments = arguments::read(&self.spec(), invocation.arguments)?;
        if arguments.command.contains('\0') {
            return Err("terminal: the command holds a NUL character, which no shell can run; leave it out"
                .to_owned());
        }
        let site = &invocation.site;
        let folder = place::resolve(site, arguments.workdir.as_deref().unwrap_or("."));
        check_folder(&folder)?;
        match arguments.background {
            Some(true) => self.leave_running(site, &folder, arguments).await,
            Some(false) | None => self.carry_out(site, &folder, &arguments).await,
        }
    }

    async fn leave_running(
        &self,
        site: &Site,
        folder: &Path,
        arguments: Arguments,
    ) -> Result<ToolOutput, String> {
        let launch = Launch {
            script: arguments.command,
            folder: folder.to_owned(),
            time_limit: arguments.timeout_seconds.map(Duration::from_secs),
        };
        self.commands.background.start(site, launch).await
    }

    async fn carry_out(
        &self,
        site: &Site,
        folder: &Path,
        arguments: &Arguments,
    ) -> Result<ToolOutput, String> {
        let started = self.commands.shells.spawn(folder, &site.actor);
        let gated = started.map_err(|error| format!("{error}; nothing was run, so it may be tried again"))?;
        let noted = self.commands.groups.note(site, gated.group()).await;
        let _noted = noted
            .map_err(|error| format!("nothing was run, because its process could not be stored: {error}"))?;
        let place = SpillPlace::new(&site.spill, &site.actor, "terminal");
        let mut capture = Capture::new(LIMITS, place);
        let line = &site.line;
        let seconds = arguments.timeout_seconds.unwrap_or(TIMEOUT_SECONDS_DEFAULT);
        let order = Order {
            script: &arguments.command,
            until: time_limit(Duration::from_secs(seconds)),
            capture: &mut capture,
            moved: &|| line.tell(LineEvent::ToolMoved),
        };
        let finished = gated.run(order).await;
        Ok(wording::output(&finished, &capture.finish().await, seconds))
    }
}

impl Tool for Terminal {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: TERMINAL.to_owned(),
            description: "Run a shell command (bash) and get its exit code and its output, stdout and stderr together. \
                          stdin is empty: nothing can be asked. Whatever still runs in the background when the \
                          command ends is ended too. A long output is cut in the middle and is whole in a file. \
                          For a server or another command that must go on while you do something else, set \
                          `background`: the call returns at once, and the tool `process` looks after the command."
                .to_owned(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "command": {"type": "string", "description": "The command; may have several lines."},
                    "timeout_seconds": {"type": "integer", "minimum": 1, "maximum": TIMEOUT_SECONDS_MAX,
                        "description": "The command is ended after that many seconds; 120 when left out, and no limit in the background."},
                    "workdir": {"type": "string", "description": "The folder to run in; the working folder when left out."},
                    "background": {"type": "boolean", "description": "Start it and return at once, with an id for the tool `process`. It is ended at the latest when you end."},
                },
                "required": ["command"],
                "additionalProperties": false,
            }),
        }
    }

    fn effect(&self) -> Effect {
        Effect::Changes
    }

    fn call(&self, invocation: Invocation) -> Pending<'_, ToolOutput> {
        Box::pin(async move { self.run(invocation).await.unwrap_or_else(ToolOutput::error) })
    }
}

fn check_folder(folder: &Path) -> Result<(), String> {
    match folder.metadata() {
        Ok(facts) if facts.is_dir() => Ok(()),
        Ok(_) => Err(format!("{} is not a folder; nothing was run", folder.display())),
        Err(error) => Err(format!("{}; nothing was run", place::explain(folder, &error))),
    }
}
