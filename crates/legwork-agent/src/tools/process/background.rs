//! The background processes of all agents of a program, each visible to its own agent only.
//!
//! It starts them, keeps what is known of them, and ends them with their agent. What the agent reads of it is worded
//! elsewhere.

use super::entry::{Entry, Ready};
use super::notices::ProcessEnd;
use super::owned::{Agents, Held};
use super::wording;
use crate::process::{Capture, Cleaner, End, Recent, Shells, kill_groups};
use crate::spill::SpillPlace;
use crate::tools::groups::Groups;
use crate::tools::{Site, ToolOutput};
use futures::future::join_all;
use legwork_core::aftermath::HandedOff;
use legwork_core::handover::{self, COMMAND_CHARS_MAX};
use legwork_core::ids::DelegationId;
use legwork_core::record::ProcessGroup;
use legwork_core::step::Actor;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::JoinSet;

/// Background processes that one agent may have running.
pub(super) const RUNNING_MAX: usize = 8;
/// Bytes of the end of an output that are at hand.
pub(super) const RECENT_BYTES_MAX: usize = 64 * 1024;
/// Bytes of the beginning of an output that its file takes.
pub(super) const FILE_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// Characters of unread output in a report.
const TAIL_CHARS_MAX: usize = 600;
/// What asking, killing and reading on take at most together, and a little more.
const END_WAIT: Duration = Duration::from_secs(4);

/// The background processes of all agents.
pub struct BackgroundProcesses {
    shells: Arc<Shells>,
    groups: Arc<Groups>,
    /// Held to look something up or to change the list, never while anything is awaited.
    agents: Arc<Mutex<Agents>>,
}

/// For whom a subagent works, and on what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    /// Who asked for it.
    pub parent: Actor,
    /// With which delegation.
    pub delegation: DelegationId,
    /// What for.
    pub goal: String,
}

/// What an agent that has ended leaves.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Leaving {
    /// Its own processes as they were; those that ran were ended with it.
    pub reports: Vec<BackgroundReport>,
    /// Those that it had handed over; they go on.
    pub handed_off: Vec<HandedOff>,
    /// Their groups in the same order, which a sweep after the agent must spare.
    pub spared: Vec<ProcessGroup>,
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
    /// The end of its output, at most 600 characters.
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
        BackgroundProcesses { shells, groups, agents: Arc::default() }
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
        let id = handover::process_id(owned.started);
        let entry = Arc::new(Entry::new(id, on_one_line(&launch.script), &ready));
        let (mut task, running, everybody) = (JoinSet::new(), Arc::clone(&entry), Arc::clone(&self.agents));
        task.spawn(async move {
            Arc::clone(&running).run(ready, launch.script, launch.time_limit).await;
            locked(&everybody).note_end(&running);
        });
        owned.held.push(Held::new(Arc::clone(&entry), task));
        Ok(entry)
    }

    /// Whoever asks for subagents hears of the ends of their processes, too
    /// (`delegation.surface_child_process_notifications`).
    pub fn surface(&self) {
        self.agents().surfaces = true;
    }

    /// Says for whom a subagent works, until it ends.
    pub fn introduce(&self, actor: Actor, known: Known) {
        self.agents().known.insert(actor, known);
    }

    /// A subagent goes on that had started so many processes in earlier attempts: what it starts now is called otherwise.
    pub(crate) fn go_on(&self, actor: &Actor, started: u32) {
        let mut agents = self.agents();
        let owned = agents.by_actor.entry(actor.clone()).or_default();
        owned.started = owned.started.max(started);
    }

    /// Whether an agent has a process that is called so, also one that has ended.
    pub(crate) fn has(&self, actor: &Actor, id: &str) -> bool {
        self.entries(actor).iter().any(|entry| entry.id() == id)
    }

    /// The group of a process of an agent that runs.
    pub(crate) fn running_group(&self, actor: &Actor, id: &str) -> Option<ProcessGroup> {
        let entries = self.entries(actor);
        let entry = entries.iter().find(|entry| entry.id() == id && entry.ended().is_none())?;
        Some(entry.group.clone())
    }

    /// An agent has to hear that it has no more what was handed over to it.
    pub(crate) fn note_lost(&self, actor: &Actor, lost: &HandedOff) {
        let text = (wording::lost_title(lost), wording::lost(lost));
        self.agents().notices.add(actor.clone(), text, None);
    }

    /// From now on the agent works in this process, so that it can take over what its subagents hand over.
    pub(crate) fn arrive(&self, actor: Actor) {
        self.agents().present.insert(actor);
    }

    /// The agent works here no longer. What it has taken over stays with it until it is ended.
    pub(crate) fn depart(&self, actor: &Actor) {
        self.agents().present.remove(actor);
    }

    /// Gives a running process of a subagent to whom it works for, if that one works in this process; it goes on after
    /// the subagent.
    pub(super) fn hand_off(&self, from: &Actor, id: &str, purpose: String) -> Result<HandedOff, String> {
        self.agents().hand_off(from, id, purpose)
    }

    /// What an agent has to hear of processes that ended, once; nothing while somebody listens for it.
    pub(super) fn notices(&self, actor: &Actor) -> Vec<String> {
        self.agents().notices.take(actor)
    }

    /// From now on the ends of processes that an agent has to hear of wait for whoever listens, until the agent has ended. The
    /// bell rings when there is another one.
    pub(crate) fn listen(&self, actor: &Actor) -> Arc<Notify> {
        self.agents().notices.listen(actor)
    }

    /// The ends that wait for whoever listens, the oldest first.
    pub(crate) fn untold(&self, actor: &Actor) -> Vec<ProcessEnd> {
        self.agents().notices.waiting(actor)
    }

    /// The agent knows of all ends up to this one.
    pub(crate) fn told(&self, actor: &Actor, last: u64) {
        self.agents().notices.told(actor, last);
    }

    /// What is known of the processes of `actor`, in the order of their start.
    pub fn of(&self, actor: &Actor) -> Vec<BackgroundReport> {
        self.entries(actor).iter().map(|entry| report(entry)).collect()
    }

    /// Ends the processes of an agent that has ended, and forgets all of them. Gives what was known before that: what
    /// still ran was ended by this, unless it was handed over. It takes at most four seconds.
    ///
    /// When the future is dropped, [`BackgroundProcesses::cut_off`] does the rest.
    pub async fn end(&self, actor: &Actor) -> Leaving {
        let entries = self.entries(actor);
        let reports = entries.iter().map(|entry| report(entry)).collect();
        entries.iter().for_each(|entry| entry.stop());
        let ends = join_all(entries.iter().map(|entry| entry.wait()));
        // Deadline: a process that cannot be killed must not hold whoever ends.
        if tokio::time::timeout(END_WAIT, ends).await.is_err() {
            tracing::warn!(actor = actor.as_str(), "background processes were killed but have not ended yet");
        }
        Leaving { reports, ..self.cut_off(actor) }
    }

    /// Kills the processes of an agent at once and forgets them. It waits a moment for their end, at most 500 ms. Gives
    /// what was known before that.
    pub fn cut_off(&self, actor: &Actor) -> Leaving {
        let Some(owned) = self.agents().forget(actor) else { return Leaving::default() };
        let entries: Vec<&Arc<Entry>> = owned.held.iter().map(|held| &held.entry).collect();
        let reports = entries.iter().map(|entry| report(entry)).collect();
        let running = entries.iter().filter(|entry| entry.ended().is_none());
        let groups: Vec<ProcessGroup> = running.map(|entry| entry.group.clone()).collect();
        // The tasks are dropped only when the runtime gets to it.
        kill_groups(&groups);
        let (handed_off, spared) = owned.handed.into_iter().map(|handed| (handed.told, handed.group)).unzip();
        Leaving { reports, handed_off, spared }
    }

    /// Ends everything, and lets nothing start any more.
    pub(in crate::tools) async fn close(&self) {
        let actors: Vec<Actor> = {
            let mut agents = self.agents();
            agents.closed = true;
            agents.by_actor.keys().cloned().collect()
        };
        let ends = join_all(actors.iter().map(|actor| self.end(actor))).await;
        let reports = ends.iter().flat_map(|leaving| &leaving.reports);
        for report in reports.filter(|report| report.state == BackgroundState::Running) {
            tracing::info!(id = report.id, command = report.command, "a background process was ended");
        }
    }

    pub(super) fn entries(&self, actor: &Actor) -> Vec<Arc<Entry>> {
        let agents = self.agents();
        let held = agents.by_actor.get(actor).map(|owned| owned.held.as_slice()).unwrap_or_default();
        held.iter().map(|held| Arc::clone(&held.entry)).collect()
    }

    fn agents(&self) -> MutexGuard<'_, Agents> {
        locked(&self.agents)
    }
}

fn locked(agents: &Mutex<Agents>) -> MutexGuard<'_, Agents> {
    // The list is whole whatever its last user did: every change is a single insert or remove.
    agents.lock().unwrap_or_else(PoisonError::into_inner)
}

fn report(entry: &Entry) -> BackgroundReport {
    let state = entry.ended().map_or(BackgroundState::Running, |ended| BackgroundState::Ended {
        end: ended.end,
        shown: entry.is_end_shown(),
    });
    BackgroundReport {
        id: entry.id(),
        command: entry.command.clone(),
        state,
        age: entry.age(),
        unread_bytes: entry.unread_bytes(),
        output_tail: tail(entry),
    }
}

/// The end of what a process has written.
pub(super) fn tail(entry: &Entry) -> String {
    let text = entry.recent.last(usize::MAX, TAIL_CHARS_MAX * char::MAX.len_utf8()).text;
    let skipped = text.chars().count().saturating_sub(TAIL_CHARS_MAX);
    text.chars().skip(skipped).collect()
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
