//! The background processes of all agents of a program, each visible to its own agent only.
//!
//! It starts them, keeps what is known of them, and ends them with their agent. What the agent reads of it is worded
//! elsewhere.

use super::entry::{Entry, Ready};
use super::wording;
use crate::process::{Capture, Cleaner, End, Recent, Shells, kill_groups};
use crate::spill::SpillPlace;
use crate::tools::groups::Groups;
use crate::tools::{Site, ToolOutput};
use futures::future::join_all;
use legwork_core::record::ProcessGroup;
use legwork_core::step::Actor;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::task::JoinSet;

/// Background processes that one agent may have running.
pub(super) const RUNNING_MAX: usize = 8;
/// Those that have ended and are still known; the oldest goes first.
const ENDED_MAX: usize = 16;
/// Bytes of the end of an output that are at hand.
pub(super) const RECENT_BYTES_MAX: usize = 64 * 1024;
/// Bytes of the beginning of an output that its file takes.
pub(super) const FILE_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// Characters of a command that are repeated.
const COMMAND_CHARS_MAX: usize = 200;
/// Bytes of unread output in a report.
const TAIL_BYTES_MAX: usize = 600;
/// What asking, killing and reading on take at most together, and a little more.
const END_WAIT: Duration = Duration::from_secs(4);

/// The background processes of all agents.
pub struct BackgroundProcesses {
    shells: Arc<Shells>,
    groups: Arc<Groups>,
    /// Held to look something up or to change the list, never while anything is awaited.
    agents: Mutex<Agents>,
}

#[derive(Default)]
struct Agents {
    /// Nothing starts any more.
    closed: bool,
    by_actor: BTreeMap<Actor, Owned>,
}

/// What one agent has.
#[derive(Default)]
struct Owned {
    started: u32,
    entries: Vec<Arc<Entry>>,
    /// One task for each process that runs. Dropping it kills them.
    tasks: JoinSet<()>,
}

/// What to start.
pub(in crate::tools) struct Launch {
    pub(in crate::tools) script: String,
    pub(in crate::tools) folder: PathBuf,
    pub(in crate::tools) time_limit: Option<Duration>,
}

/// What is known of a background process, for whoever speaks about its agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackgroundReport {
    /// How its agent calls it.
    pub id: String,
    /// What it runs, on one line of at most 200 characters.
    pub command: String,
    /// Whether it runs, or how it ended.
    pub state: BackgroundState,
    /// How long it has run, or ran.
    pub age: Duration,
    /// Bytes of its output that its agent has not read.
    pub unread_bytes: u64,
    /// The end of its output, at most 600 bytes.
    pub output_tail: String,
}

/// Where a background process stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BackgroundState {
    /// It runs.
    Running,
    /// It has ended.
    Ended {
        /// How.
        end: End,
        /// Whether its agent was shown that.
        shown: bool,
    },
}

impl BackgroundProcesses {
    pub(in crate::tools) fn new(shells: Arc<Shells>, groups: Arc<Groups>) -> Self {
        BackgroundProcesses { shells, groups, agents: Mutex::default() }
    }

    /// Starts a process. Dropping the future before it is answered leaves nothing behind.
    pub(in crate::tools) async fn start(&self, site: &Site, launch: Launch) -> Result<ToolOutput, String> {
        self.agents().check_room(&site.actor)?;
        let started = self.shells.spawn(&launch.folder, &site.actor);
        let gated = started.map_err(|error| format!("{error}; nothing was run, so it may be tried again"))?;
        let noted = self.groups.note(site, gated.group()).await;
        let noted = noted
            .map_err(|error| format!("nothing was run, because its process could not be stored: {error}"))?;
        let recent = Arc::new(Recent::new(RECENT_BYTES_MAX));
        let place = SpillPlace::new(&site.spill, &site.actor, "background");
        let (capture, file) = Capture::while_it_grows(FILE_BYTES_MAX, &place, Arc::clone(&recent))
            .map_err(|error| format!("nothing was run, because there is no file for its output: {error}"))?;
        let entry = self.enter(&site.actor, Ready { gated, noted, capture, recent, file }, launch)?;
        Ok(ToolOutput::ok(wording::started(&entry)))
    }

    /// Lets a process run, from here on for itself.
    fn enter(&self, actor: &Actor, ready: Ready, launch: Launch) -> Result<Arc<Entry>, String> {
        let mut agents = self.agents();
        agents.check_room(actor)?;
        let owned = agents.by_actor.entry(actor.clone()).or_default();
        owned.forget();
        owned.started += 1;
        let id = format!("proc_{}", owned.started);
        let entry = Arc::new(Entry::new(id, on_one_line(&launch.script), &ready));
        owned.entries.push(Arc::clone(&entry));
        owned.tasks.spawn(Arc::clone(&entry).run(ready, launch.script, launch.time_limit));
        Ok(entry)
    }

    /// What is known of the processes of `actor`, in the order of their start.
    pub fn of(&self, actor: &Actor) -> Vec<BackgroundReport> {
        self.entries(actor).iter().map(|entry| report(entry)).collect()
    }

    /// Ends the processes of an agent that has ended, and forgets all of them. Gives what was known before that: what
    /// still ran was ended by this. It takes at most four seconds.
    ///
    /// When the future is dropped, [`BackgroundProcesses::cut_off`] does the rest.
    pub async fn end(&self, actor: &Actor) -> Vec<BackgroundReport> {
        let entries = self.entries(actor);
        let reports = entries.iter().map(|entry| report(entry)).collect();
        entries.iter().for_each(|entry| entry.stop());
        let ends = join_all(entries.iter().map(|entry| entry.wait()));
        // Deadline: a process that cannot be killed must not hold whoever ends.
        if tokio::time::timeout(END_WAIT, ends).await.is_err() {
            tracing::warn!(actor = actor.as_str(), "background processes were killed but have not ended yet");
        }
        self.cut_off(actor);
        reports
    }

    /// Kills the processes of an agent at once and forgets them. It waits a moment for their end, at most 500 ms.
    pub fn cut_off(&self, actor: &Actor) {
        let Some(owned) = self.agents().by_actor.remove(actor) else { return };
        let running = owned.entries.iter().filter(|entry| entry.ended().is_none());
        let groups: Vec<ProcessGroup> = running.map(|entry| entry.group.clone()).collect();
        // The tasks are dropped only when the runtime gets to it.
        kill_groups(&groups);
    }

    /// Ends everything, and lets nothing start any more.
    pub(in crate::tools) async fn close(&self) {
        let actors: Vec<Actor> = {
            let mut agents = self.agents();
            agents.closed = true;
            agents.by_actor.keys().cloned().collect()
        };
        let ends = join_all(actors.iter().map(|actor| self.end(actor))).await;
        for report in ends.iter().flatten().filter(|report| report.state == BackgroundState::Running) {
            tracing::info!(id = report.id, command = report.command, "a background process was ended");
        }
    }

    pub(super) fn entries(&self, actor: &Actor) -> Vec<Arc<Entry>> {
        self.agents().by_actor.get(actor).map(|owned| owned.entries.clone()).unwrap_or_default()
    }

    fn agents(&self) -> MutexGuard<'_, Agents> {
        // The list is whole whatever its last user did: every change is a single insert or remove.
        self.agents.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Agents {
    fn check_room(&self, actor: &Actor) -> Result<(), String> {
        if self.closed {
            return Err("the program is ending; nothing was run".to_owned());
        }
        let entries = self.by_actor.get(actor).map(|owned| owned.entries.as_slice()).unwrap_or_default();
        let running: Vec<&str> =
            entries.iter().filter(|entry| entry.ended().is_none()).map(|entry| entry.id.as_str()).collect();
        if running.len() < RUNNING_MAX {
            return Ok(());
        }
        Err(format!(
            "nothing was run: an agent may have {RUNNING_MAX} background processes running, and these do: {}; \
             end one with the tool `process` and the action `kill`, or wait for one",
            running.join(", ")
        ))
    }
}

impl Owned {
    /// Forgets tasks that are done, and the oldest processes of too many that have ended.
    fn forget(&mut self) {
        while let Some(done) = self.tasks.try_join_next() {
            if let Err(error) = done {
                tracing::error!(%error, "the task of a background process broke off");
            }
        }
        let ended = self.entries.iter().filter(|entry| entry.ended().is_some()).count();
        let mut surplus = ended.saturating_sub(ENDED_MAX);
        self.entries.retain(|entry| {
            let goes = surplus > 0 && entry.ended().is_some();
            surplus -= usize::from(goes);
            !goes
        });
    }
}

fn report(entry: &Entry) -> BackgroundReport {
    let state = entry.ended().map_or(BackgroundState::Running, |ended| BackgroundState::Ended {
        end: ended.end,
        shown: entry.is_end_shown(),
    });
    BackgroundReport {
        id: entry.id.clone(),
        command: entry.command.clone(),
        state,
        age: entry.age(),
        unread_bytes: entry.unread_bytes(),
        output_tail: entry.recent.last(usize::MAX, TAIL_BYTES_MAX).text,
    }
}

fn on_one_line(script: &str) -> String {
    let plain = Cleaner::clean(script.as_bytes());
    let mut line = plain.split_whitespace().collect::<Vec<_>>().join(" ");
    if let Some((end, _)) = line.char_indices().nth(COMMAND_CHARS_MAX - 1) {
        line.truncate(end);
        line.push('…');
    }
    line
}
