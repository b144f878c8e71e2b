//! The worker for legwork's own agent loop: one assignment, one agent, one report.
//!
//! It holds what all children share. It does not know the engine, and keeps nothing of a child after its report.

use super::closing;
use super::setting_up::{self, Obstacle, Ready};
use super::shared_prompt::SharedPrompt;
use super::shared_tools::SharedTools;
use super::source::ModelSource;
use super::sweeper::{Finds, Sweeper};
use super::unready;
use crate::patience::Trouble;
use crate::tools::{Commands, Known, Toolbox, known, tell_lost};
use crate::turn::{self, Start, TurnLimits};
use crate::worktree::Worktrees;
use futures::FutureExt;
use legwork_core::batch::Setting;
use legwork_core::outcome::{Ending, FailureKind};
use legwork_core::ports::{Assignment, Facts, Line, Pending, RunEnd, Steps, Unrecorded, Worker};
use legwork_core::report::Report;
use legwork_core::step::Actor;
use std::path::PathBuf;
use std::sync::Arc;

/// What a worker works with.
pub struct WorkerParts {
    /// Where journals go.
    pub store: Arc<dyn Steps>,
    /// Where it can be seen what became of delegations.
    pub facts: Arc<dyn Facts>,
    /// Where models come from.
    pub models: Arc<dyn ModelSource>,
    /// All tools; each child sees those that its rights allow.
    pub toolbox: Arc<Toolbox>,
    /// How commands are run, and those that children have running in the background; a child's end with it.
    pub commands: Commands,
    /// The limits of every run.
    pub limits: TurnLimits,
    /// The depth at which agents may no longer delegate: `delegation.max_spawn_depth`, or 0 when orchestrators are
    /// switched off.
    pub depth_max: u32,
    /// Whether children are shown the pictures of their tasks (`model.images`).
    pub pictures: Pictures,
    /// The folder for outputs that are too long.
    pub spill: PathBuf,
    /// The folder for what is known of children that stood still before they had asked their models.
    pub diagnostics: PathBuf,
}

/// Whether children are shown the pictures of their tasks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Pictures {
    /// Where the model says that it takes pictures.
    #[default]
    ByModel,
    /// Whatever the model says.
    Always,
    /// Never: they are named.
    Never,
}

/// Runs children with legwork's own agent loop.
pub struct LocalWorker {
    shared: Arc<Shared>,
}

/// What the children of one process share.
pub(super) struct Shared {
    pub(super) parts: WorkerParts,
    pub(super) prompt: SharedPrompt,
    pub(super) tools: SharedTools,
    pub(super) worktrees: Worktrees,
    pub(super) finds: Arc<Finds>,
    pub(super) trouble: Arc<Trouble>,
}

impl LocalWorker {
    /// A worker with these parts.
    pub fn new(parts: WorkerParts) -> Self {
        let (prompt, tools) = (SharedPrompt::default(), SharedTools::default());
        let worktrees = Worktrees::new(parts.commands.clone());
        let (finds, trouble) = (Arc::default(), Arc::default());
        LocalWorker { shared: Arc::new(Shared { parts, prompt, tools, worktrees, finds, trouble }) }
    }
}

impl Worker for LocalWorker {
    fn work(
        &self,
        assignment: Assignment,
        line: Arc<dyn Line>,
    ) -> Pending<'static, Result<Report, Unrecorded>> {
        let shared = Arc::clone(&self.shared);
        Box::pin(async move {
            // Before anything runs for the child: whatever becomes of its run, its processes end with it.
            let sweeper = sweeper(&shared, &assignment);
            match setting_up::ready(&shared, assignment, Arc::clone(&line)).await {
                Ok(ready) => {
                    look_after_earlier(&shared, &ready).await;
                    carry_out(ready, sweeper).await
                }
                Err(Obstacle::Lacks(lacking)) => Ok(unready::report(&shared, *lacking, &*line).await),
                Err(Obstacle::Unreadable(_)) if line.stopped().now_or_never().is_some() => {
                    Ok(Report::bare(Ending::Interrupted))
                }
                Err(Obstacle::Unreadable(error)) => Err(Unrecorded(error)),
            }
        })
    }

    fn close(&self, assignment: Assignment, end: RunEnd, _line: Arc<dyn Line>) -> Pending<'static, Report> {
        let shared = Arc::clone(&self.shared);
        Box::pin(async move { closing::close(&shared, assignment, end).await })
    }

    fn lacks(&self, setting: &Setting) -> Option<String> {
        self.shared.parts.models.model(&setting.route).err()
    }
}

fn sweeper(shared: &Shared, assignment: &Assignment) -> Sweeper {
    let Assignment { child, parent, session, delegation, task, .. } = assignment;
    let parent = parent.clone().map_or_else(|| Actor::Session(session.clone()), Actor::Child);
    let background = Arc::clone(&shared.parts.commands.background);
    let known = Known { parent, delegation: delegation.clone(), goal: task.goal.clone() };
    background.introduce(Actor::Child(child.clone()), known);
    Sweeper::new(child.clone(), background, Arc::clone(&shared.finds))
}

/// What an earlier attempt had in the background is gone: what begins now is called otherwise, and the child hears of what had been
/// handed over to it.
async fn look_after_earlier(shared: &Shared, ready: &Ready) {
    let Start::Resumed(recorded) = &ready.start else { return };
    let (background, actor) = (&shared.parts.commands.background, &ready.agent.site.actor);
    background.go_on(actor, recorded.started);
    let known = known(&recorded.messages, recorded.exchange.as_ref());
    tell_lost(background, shared.parts.facts.as_ref(), actor, &known).await;
}

async fn carry_out(ready: Ready, sweeper: Sweeper) -> Result<Report, Unrecorded> {
    let Ready { agent, mut journal, mut context, start } = ready;
    let report = turn::run(&agent, &mut journal, &mut context, start).await;
    sweeper.sweep(&*agent.site.line).await;
    let given_up = journal.lost().filter(|error| error.may_pass());
    match (report.ending, given_up) {
        (Ending::Failed(FailureKind::Store), Some(error)) => Err(Unrecorded(error.clone())),
        (_, Some(_) | None) => Ok(report),
    }
}
