//! Tool `process`: looks after the commands that `terminal` has started in the background.
//!
//! An agent sees its own processes and no others. Starting them is the matter of `terminal`.

mod background;
mod entry;
mod lost;
mod notices;
mod owned;
mod wording;

use super::arguments;
use super::port::{Effect, Invocation, Site, Tool, ToolOutput};
use crate::models::ToolSpec;
use crate::quoted::one_line;
pub(super) use background::Launch;
pub use background::{BackgroundProcesses, BackgroundReport, BackgroundState, Known, Leaving};
use entry::Entry;
use legwork_core::handover::PROCESS;
use legwork_core::ports::Pending;
use legwork_core::pulse::LineEvent;
use legwork_core::step::Actor;
pub(crate) use lost::{known, tell_lost};
pub(crate) use notices::ProcessEnd;
use serde::Deserialize;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

/// Bytes of output in one answer.
const SHOWN_BYTES_MAX: usize = 24 * 1024;
/// Lines that `log` shows when the call does not say.
const LOG_LINES_DEFAULT: usize = 100;
/// Lines that the other actions show then.
const END_LINES_DEFAULT: usize = 20;
/// The most lines.
const LINES_MAX: usize = 2000;
/// Seconds that `wait` takes when the call does not say.
const WAIT_SECONDS_DEFAULT: u64 = 60;
/// The longest wait of one call.
const WAIT_SECONDS_MAX: u64 = 600;
/// What the end of a killed process takes at most, and a little more.
const KILL_WAIT: Duration = Duration::from_secs(4);
/// Characters of a purpose.
const PURPOSE_CHARS_MAX: usize = 200;
/// Growing output is told of at most this often.
const MOVED_EVERY: Duration = Duration::from_millis(500);

/// The tool.
pub struct ProcessTool {
    background: Arc<BackgroundProcesses>,
}

#[derive(Debug, Deserialize)]
struct Arguments {
    action: Action,
    id: Option<String>,
    lines: Option<usize>,
    offset: Option<u64>,
    seconds: Option<u64>,
    purpose: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Action {
    List,
    Log,
    Wait,
    Kill,
    HandOff,
}

impl ProcessTool {
    /// Looks after `background`.
    pub fn new(background: Arc<BackgroundProcesses>) -> Self {
        ProcessTool { background }
    }

    async fn run(&self, invocation: Invocation) -> Result<ToolOutput, String> {
        let arguments: Arguments = arguments::read(&self.spec(), invocation.arguments)?;
        check(&arguments)?;
        let site = &invocation.site;
        let entries = self.background.entries(&site.actor);
        if arguments.action == Action::List {
            return Ok(ToolOutput::ok(wording::list(&entries)));
        }
        let entry = find(&entries, arguments.id.as_deref())?;
        match arguments.action {
            Action::HandOff => return self.hand_off(site, entry, arguments.purpose.as_deref()),
            Action::List | Action::Log => {}
            Action::Wait => wait(site, entry, arguments.seconds.unwrap_or(WAIT_SECONDS_DEFAULT)).await,
            Action::Kill => kill(entry).await?,
        }
        Ok(ToolOutput::ok(show(entry, &arguments)))
    }

    fn hand_off(&self, site: &Site, entry: &Entry, purpose: Option<&str>) -> Result<ToolOutput, String> {
        let purpose = one_line(purpose.unwrap_or_default());
        if purpose.is_empty() || purpose.chars().count() > PURPOSE_CHARS_MAX {
            return Err(format!(
                "process: `purpose` must say in one sentence of at most {PURPOSE_CHARS_MAX} characters what the process is good for. Nothing was done"
            ));
        }
        let told = self.background.hand_off(&site.actor, &entry.id(), purpose)?;
        Ok(ToolOutput::ok(format!(
            "[handed over to whoever gave you your task, who knows it as {} and hears of its end; it is no longer yours]\n",
            told.session_id
        )))
    }
}

impl Tool for ProcessTool {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: PROCESS.to_owned(),
            description: "Look after the commands that you have started with `terminal` and background: true. \
                          `list` names them; `log` shows the last lines of the output of one, or what comes after an \
                          offset; `wait` waits a bounded time for its end; `kill` ends it and all that it started; `hand_off` \
                          gives one that must go on after you, such as a server, to whoever gave you your task."
                .to_owned(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "action": {"type": "string", "enum": ["list", "log", "wait", "kill", "hand_off"]},
                    "id": {"type": "string", "description": "Which one, such as proc_1; not for list."},
                    "lines": {"type": "integer", "minimum": 1, "maximum": LINES_MAX,
                        "description": "How many of the last lines to show; when left out, 100 by log and 20 by wait and kill."},
                    "offset": {"type": "integer", "minimum": 0,
                        "description": "For log: show the output from this byte on instead of its last lines."},
                    "seconds": {"type": "integer", "minimum": 1, "maximum": WAIT_SECONDS_MAX,
                        "description": "For wait: return after that many seconds at the latest; 60 when left out. The command goes on."},
                    "purpose": {"type": "string", "description": "For hand_off: what it is good for, in one sentence."},
                },
                "required": ["action"],
                "additionalProperties": false,
            }),
        }
    }

    /// `kill` does something, and what a call shows depends on the calls before it.
    fn effect(&self) -> Effect {
        Effect::Changes
    }

    fn notices(&self, actor: &Actor) -> Vec<String> {
        self.background.notices(actor)
    }

    fn call(&self, invocation: Invocation) -> Pending<'_, ToolOutput> {
        Box::pin(async move { self.run(invocation).await.unwrap_or_else(ToolOutput::error) })
    }
}

/// Refuses what has no meaning for the action, instead of leaving it without effect.
fn check(arguments: &Arguments) -> Result<(), String> {
    let action = arguments.action;
    let strays = [
        ("id", arguments.id.is_some() && action == Action::List, "log, wait, kill and hand_off"),
        (
            "lines",
            arguments.lines.is_some() && matches!(action, Action::List | Action::HandOff),
            "log, wait and kill",
        ),
        ("offset", arguments.offset.is_some() && action != Action::Log, "log"),
        ("seconds", arguments.seconds.is_some() && action != Action::Wait, "wait"),
        ("purpose", arguments.purpose.is_some() && action != Action::HandOff, "hand_off"),
    ];
    if let Some((name, _, actions)) = strays.iter().find(|(_, stray, _)| *stray) {
        return Err(format!("process: `{name}` belongs to {actions}; leave it out here. Nothing was done"));
    }
    if arguments.lines.is_some() && arguments.offset.is_some() {
        return Err("process: send `lines` or `offset`, not both. Nothing was done".to_owned());
    }
    Ok(())
}

fn find<'a>(entries: &'a [Arc<Entry>], id: Option<&str>) -> Result<&'a Entry, String> {
    let ids: Vec<String> = entries.iter().map(|entry| entry.id()).collect();
    let known = match ids.as_slice() {
        [] => "you have no background processes; one ends with the run, or the program, that started it"
            .to_owned(),
        ids => format!("yours are {}", ids.join(", ")),
    };
    let id = id.ok_or_else(|| format!("process: `id` is missing: say which process; {known}"))?;
    let found = entries.iter().find(|entry| entry.id() == id);
    found.map(|entry| &**entry).ok_or_else(|| format!("process: there is no process `{id}`; {known}"))
}

/// Waits for the end or the time. Growing output counts as progress of the caller.
async fn wait(site: &Site, entry: &Entry, seconds: u64) {
    let mut seen = entry.recent.total();
    // Deadline: the caller's own.
    let limit = tokio::time::sleep(Duration::from_secs(seconds));
    let ended = entry.wait();
    tokio::pin!(limit, ended);
    loop {
        tokio::select! {
            () = &mut ended => return,
            () = &mut limit => return,
            // Deadline: a look at the output, which wakes nobody.
            () = tokio::time::sleep(MOVED_EVERY) => {
                let total = entry.recent.total();
                if total > seen {
                    seen = total;
                    site.line.tell(LineEvent::ToolMoved);
                }
            }
        }
    }
}

async fn kill(entry: &Entry) -> Result<(), String> {
    entry.stop();
    // Deadline: asking, killing and reading on are bounded; a process that the system cannot end must not hold the call.
    tokio::time::timeout(KILL_WAIT, entry.wait()).await.map_err(|_| {
        format!(
            "{} was killed but has not ended within {} s; look again later",
            entry.id(),
            KILL_WAIT.as_secs()
        )
    })
}

fn show(entry: &Entry, arguments: &Arguments) -> String {
    let lines = match arguments.action {
        Action::Log => LOG_LINES_DEFAULT,
        Action::List | Action::Wait | Action::Kill | Action::HandOff => END_LINES_DEFAULT,
    };
    // Before the output: what is written up to the end is all there when the end is seen.
    let has_ended = entry.ended().is_some();
    let part = match arguments.offset {
        Some(offset) => entry.recent.from(offset, SHOWN_BYTES_MAX),
        None => entry.recent.last(arguments.lines.unwrap_or(lines), SHOWN_BYTES_MAX),
    };
    entry.note_read(part.start + part.text.len() as u64, has_ended);
    wording::shown(entry, &part, arguments.offset)
}
