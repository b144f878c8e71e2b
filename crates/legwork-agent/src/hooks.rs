//! Command hooks: a user's own commands that hear of subagents, with what happened as JSON on their stdin (HOOK-1…3,
//! FIN-5, FIN-6). They run one after another, off the children's own tasks, each within a limit of time and output, and
//! whatever becomes of one changes nothing.
//!
//! It goes by what is stored when it is told of it. A hook is fired at most once: what a process has not fired when it dies
//! is not fired by its successor. An end is told by the process that settles it, also where that has found it out.

mod payload;

use crate::process::End;
use crate::tools::{Commands, Errand, word};
use legwork_core::ids::{DelegationId, OwnerId};
use legwork_core::ports::{Facts, Identity, LiveEvent, Watch};
use legwork_core::record::DelegationRecord;
use legwork_core::step::{Actor, Fence};
use serde_json::Value;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::mpsc;

/// How long one hook may take.
pub const HOOK_LIMIT: Duration = Duration::from_secs(30);
/// Bytes of a hook's output that a warning repeats, from its start and again from its end.
const OUTPUT_BYTES_MAX: usize = 1024;
/// Events that may wait for hooks; those that come after them are dropped and counted in a warning.
const WAITING_MAX: usize = 10_000;

/// The command lines of a user; each is run by the shell, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hooks {
    /// When a child's first run began (`hooks.subagent_start`).
    pub subagent_start: Vec<String>,
    /// When a child has settled (`hooks.subagent_stop`).
    pub subagent_stop: Vec<String>,
    /// When all children of a unit have (`hooks.delegation_finished`).
    pub delegation_finished: Vec<String>,
}

impl Hooks {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.subagent_start.is_empty() && self.subagent_stop.is_empty() && self.delegation_finished.is_empty()
    }
}

/// Fires hooks.
pub struct HookRunner {
    /// What to run.
    pub hooks: Hooks,
    /// Where it can be seen what happened.
    pub facts: Arc<dyn Facts>,
    /// How commands are run.
    pub commands: Commands,
    /// This process; it fires for its own work only.
    pub owner: OwnerId,
    /// The depth at which agents may no longer delegate.
    pub depth_max: u32,
    /// The folder that hooks run in.
    pub folder: PathBuf,
    /// How long one may take, usually [`HOOK_LIMIT`].
    pub limit: Duration,
    /// What it has not fired hooks for, told to whoever cuts it.
    pub unfired: Unfired,
}

/// Counts the events for which hooks are still to be fired, or the firing has not ended.
#[derive(Debug, Clone, Default)]
pub struct Unfired(Arc<AtomicUsize>);

impl Unfired {
    /// How many there are now.
    pub fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    fn add(&self, events: usize) {
        self.0.fetch_add(events, Ordering::Relaxed);
    }

    fn done(&self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Something that hooks are fired for.
enum Occasion {
    Started(Arc<Identity>),
    Settled(Settled),
}

/// A child that has settled.
struct Settled {
    child: Arc<Identity>,
    /// Whether no other of its unit is told of after it.
    ends_unit: bool,
}

impl HookRunner {
    /// Fires hooks until the engine has ended and all that waits was fired. Dropping the future ends the hook that runs.
    pub async fn run(self, watch: Box<dyn Watch>) {
        let (sender, occasions) = mpsc::channel(WAITING_MAX);
        let unfired = self.unfired.clone();
        tokio::join!(listen(watch, sender, &unfired), self.fire_all(occasions));
    }

    /// Fires the hooks for ends that this process has stored without an engine, by delegation and position of the task.
    pub async fn tell_ends(&self, ends: &[(DelegationId, usize)]) {
        self.unfired.add(ends.len());
        for place in 0..ends.len() {
            self.tell_end(ends, place).await;
            self.unfired.done();
        }
    }

    async fn tell_end(&self, ends: &[(DelegationId, usize)], place: usize) {
        let (delegation, index) = &ends[place];
        let Some(record) = self.record(delegation).await else { return };
        if let Some(child) = Identity::of(&record.accepted, *index) {
            let unit = record.accepted.units.iter().find(|unit| unit.id == child.unit);
            let is_sibling = |(other, index): &(DelegationId, usize)| {
                other == delegation && unit.is_some_and(|unit| unit.task_indexes.contains(index))
            };
            let ends_unit = !ends[place + 1..].iter().any(is_sibling);
            self.settled(&Settled { child: Arc::new(child), ends_unit }).await;
        }
    }

    async fn fire_all(self, mut occasions: mpsc::Receiver<Occasion>) {
        while let Some(occasion) = occasions.recv().await {
            match occasion {
                Occasion::Started(child) => self.started(&child).await,
                Occasion::Settled(end) => self.settled(&end).await,
            }
            self.unfired.done();
        }
    }

    async fn started(&self, child: &Identity) {
        if self.hooks.subagent_start.is_empty() {
            return;
        }
        let record = self.record(&child.delegation).await;
        let Some(record) = record.filter(|record| record.owner.id == self.owner) else { return };
        let payload = payload::started(&record, child, self.depth_max);
        self.fire("subagent_start", &self.hooks.subagent_start, (&record, child, &payload)).await;
    }

    /// What was told of the last child of a unit comes after all that was told of its siblings. It ended here, whoever has the
    /// rest of its delegation by the time this is heard.
    async fn settled(&self, Settled { child, ends_unit }: &Settled) {
        let Some(record) = self.record(&child.delegation).await else { return };
        if let Some(payload) = payload::stopped(&record, child, self.depth_max) {
            self.fire("subagent_stop", &self.hooks.subagent_stop, (&record, child, &payload)).await;
        }
        if *ends_unit && let Some(payload) = payload::finished(&record, &child.unit) {
            let commands = &self.hooks.delegation_finished;
            self.fire("delegation_finished", commands, (&record, child, &payload)).await;
        }
    }

    async fn record(&self, delegation: &DelegationId) -> Option<DelegationRecord> {
        match self.facts.delegation(delegation).await {
            Ok(record) => record,
            Err(error) => {
                tracing::warn!(%delegation, %error, "a hook is not fired, because the store cannot be read");
                None
            }
        }
    }

    async fn fire(
        &self,
        name: &'static str,
        commands: &[String],
        (record, child, payload): (&DelegationRecord, &Identity, &Value),
    ) {
        let (actor, fence) =
            (Actor::Child(child.child.clone()), Fence { owner: self.owner.clone(), epoch: record.epoch });
        for command in commands {
            let errand = Errand {
                // A brace on a line of its own ends the command whatever it ends with, a comment for instance.
                script: format!("printf '%s' {} | {{ {command}\n}}", word(&payload.to_string())),
                folder: &self.folder,
                actor: &actor,
                fence: &fence,
                limit: self.limit,
                output_bytes_max: OUTPUT_BYTES_MAX,
            };
            let (end, output) = match self.commands.errand(errand).await {
                Ok(ran) => (ran.end, ran.output),
                Err(error) => {
                    tracing::warn!(hook = name, command, error, "a hook was not run");
                    continue;
                }
            };
            match end {
                End::Exited(0) => {}
                End::TimedOut => tracing::warn!(
                    hook = name,
                    command,
                    output,
                    "a hook took longer than its limit of {} s and was ended",
                    self.limit.as_secs_f32()
                ),
                End::Exited(_) | End::Signalled(_) | End::Stopped | End::Untold => {
                    tracing::warn!(hook = name, command, ?end, output, "a hook failed");
                }
            }
        }
    }
}

/// Takes what hooks are fired for out of everything that happens, quickly.
async fn listen(mut watch: Box<dyn Watch>, occasions: mpsc::Sender<Occasion>, unfired: &Unfired) {
    let mut dropped = 0_usize;
    while let Some(event) = watch.next().await {
        let occasion = match event {
            LiveEvent::Started { child, attempt: 1 } => Occasion::Started(child),
            LiveEvent::Settled { child, ends_unit, .. } => Occasion::Settled(Settled { child, ends_unit }),
            LiveEvent::Lagged(lost) => {
                tracing::warn!(lost, "events were lost, and hooks for them are not fired");
                continue;
            }
            // A later attempt goes on with a run whose beginning was for an earlier process to tell.
            LiveEvent::Queued(_) | LiveEvent::Started { .. } | LiveEvent::Told { .. } => continue,
        };
        unfired.add(1);
        if occasions.try_send(occasion).is_ok() {
            tell_dropped(&mut dropped);
        } else {
            unfired.done();
            dropped += 1;
        }
    }
    tell_dropped(&mut dropped);
}

/// One warning for all that was dropped in a row.
fn tell_dropped(dropped: &mut usize) {
    if *dropped > 0 {
        tracing::warn!(
            "hooks are not fired for {dropped} events: {WAITING_MAX} events waited for hooks already"
        );
    }
    *dropped = 0;
}
