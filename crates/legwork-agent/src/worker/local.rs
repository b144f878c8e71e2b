//! The worker for legwork's own agent loop: one assignment, one agent, one report.
//!
//! It holds what all children share. It does not know the engine, and keeps nothing of a child after its report.

use super::closing;
use super::setting_up::{self, Ready};
use super::shared_prompt::SharedPrompt;
use super::shared_tools::SharedTools;
use super::source::ModelSource;
use super::sweeper::Sweeper;
use crate::tools::{Commands, Toolbox};
use crate::turn::{self, TurnLimits};
use crate::worktree::Worktrees;
use legwork_core::batch::Setting;
use legwork_core::outcome::{Ending, FailureKind};
use legwork_core::ports::{Assignment, Facts, Line, Pending, RunEnd, Steps, Worker};
use legwork_core::pulse::LineEvent;
use legwork_core::report::Report;
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
    /// The folder for outputs that are too long.
    pub spill: PathBuf,
    /// The folder for what is known of children that stood still before they had asked their models.
    pub diagnostics: PathBuf,
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
}

impl LocalWorker {
    /// A worker with these parts.
    pub fn new(parts: WorkerParts) -> Self {
        let (prompt, tools) = (SharedPrompt::default(), SharedTools::default());
        let worktrees = Worktrees::new(parts.commands.clone());
        LocalWorker { shared: Arc::new(Shared { parts, prompt, tools, worktrees }) }
    }
}

impl Worker for LocalWorker {
    fn work(&self, assignment: Assignment, line: Arc<dyn Line>) -> Pending<'static, Report> {
        let shared = Arc::clone(&self.shared);
        Box::pin(async move {
            match setting_up::ready(&shared, assignment, Arc::clone(&line)).await {
                Ok(ready) => carry_out(&shared, ready).await,
                Err(problem) => not_set_up(&*line, problem),
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

async fn carry_out(shared: &Shared, ready: Ready) -> Report {
    let Ready { agent, mut journal, mut context, start } = ready;
    let sweeper = Sweeper::new(agent.site.actor.clone(), Arc::clone(&shared.parts.commands.background));
    let report = turn::run(&agent, &mut journal, &mut context, start).await;
    sweeper.sweep(&*agent.site.line).await;
    report
}

fn not_set_up(line: &dyn Line, problem: String) -> Report {
    line.tell(LineEvent::Note(format!("not started: {problem}")));
    Report { error: Some(problem), ..Report::bare(Ending::Failed(FailureKind::Setup)) }
}
