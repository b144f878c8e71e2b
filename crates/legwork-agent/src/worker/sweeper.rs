//! The end of a child's processes: what it left in the background, and whatever its commands left behind, goes with the
//! child, also when its run is dropped. What was found is kept until the child's report is completed.

use crate::process::{End, Leftover, sweep_but};
use crate::tools::{BackgroundProcesses, BackgroundReport, BackgroundState, Leaving};
use legwork_core::aftermath::{ChildProcesses, Orphaned, UnreadCompletion};
use legwork_core::ids::ChildId;
use legwork_core::ports::Line;
use legwork_core::pulse::LineEvent;
use legwork_core::step::Actor;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// What was found of children whose reports are not complete yet.
#[derive(Default)]
pub(super) struct Finds {
    by_child: Mutex<HashMap<ChildId, ChildProcesses>>,
}

impl Finds {
    fn keep(&self, child: ChildId, found: ChildProcesses) {
        self.by_child.lock().unwrap_or_else(PoisonError::into_inner).insert(child, found);
    }

    /// What was found of a child, once.
    pub(super) fn take(&self, child: &ChildId) -> ChildProcesses {
        self.by_child.lock().unwrap_or_else(PoisonError::into_inner).remove(child).unwrap_or_default()
    }
}

/// Sweeps once: at the latest when it is dropped.
pub(super) struct Sweeper {
    child: Option<ChildId>,
    background: Arc<BackgroundProcesses>,
    finds: Arc<Finds>,
}

impl Sweeper {
    pub(super) fn new(child: ChildId, background: Arc<BackgroundProcesses>, finds: Arc<Finds>) -> Self {
        Sweeper { child: Some(child), background, finds }
    }

    /// Ends what runs in the background and sweeps, and tells what was found.
    pub(super) async fn sweep(mut self, line: &dyn Line) {
        let Some(child) = self.child.clone() else { return };
        let actor = Actor::Child(child.clone());
        let leaving = self.background.end(&actor).await;
        leaving.reports.iter().filter_map(told).for_each(|note| line.tell(LineEvent::Note(note)));
        let spared = leaving.spared.clone();
        self.finds.keep(child, found(leaving));
        self.child = None;
        match tokio::task::spawn_blocking(move || sweep_but(&actor, &spared)).await {
            Ok(leftovers) if leftovers.is_empty() => {}
            Ok(leftovers) => {
                line.tell(LineEvent::Note(format!("ended what was left running: {}", named(&leftovers))))
            }
            Err(error) => tracing::error!(%error, "the sweep after a child broke off"),
        }
    }
}

impl Drop for Sweeper {
    fn drop(&mut self) {
        let Some(child) = self.child.take() else { return };
        let actor = Actor::Child(child.clone());
        let leaving = self.background.cut_off(&actor);
        let leftovers = sweep_but(&actor, &leaving.spared);
        self.finds.keep(child, found(leaving));
        if !leftovers.is_empty() {
            tracing::info!(actor = actor.as_str(), left = named(&leftovers), "ended what was left running");
        }
    }
}

/// The facts for the child's report (PROC-4, PROC-5).
fn found(leaving: Leaving) -> ChildProcesses {
    let Leaving { reports, handed_off, spared: handed_groups } = leaving;
    let mut processes = ChildProcesses { handed_off, handed_groups, ..ChildProcesses::default() };
    for report in reports {
        let BackgroundReport { id: session_id, command, age, output_tail, .. } = report;
        match report.state {
            BackgroundState::Running => {
                let runtime_seconds = (age.as_secs_f64() * 100.0).round() / 100.0;
                processes.orphaned.push(Orphaned { session_id, command, runtime_seconds });
            }
            BackgroundState::Ended { end, shown: false } => {
                let exit_code = exit_code(end);
                processes.unread.push(UnreadCompletion { session_id, command, exit_code, output_tail });
            }
            BackgroundState::Ended { shown: true, .. } => {}
        }
    }
    processes
}

fn exit_code(end: End) -> Option<i32> {
    match end {
        End::Exited(code) => Some(code),
        End::Signalled(_) | End::TimedOut | End::Stopped | End::Untold => None,
    }
}

/// What a reader of the transcript should know of a background process.
fn told(report: &BackgroundReport) -> Option<String> {
    let BackgroundReport { id, command, age, .. } = report;
    match report.state {
        BackgroundState::Running => {
            Some(format!("ended {id}, which ran in the background for {:.1} s: {command}", age.as_secs_f32()))
        }
        BackgroundState::Ended { shown: false, .. } => {
            Some(format!("{id} had ended in the background, and its end was not looked at: {command}"))
        }
        BackgroundState::Ended { shown: true, .. } => None,
    }
}

fn named(leftovers: &[Leftover]) -> String {
    leftovers.iter().map(|leftover| leftover.command.as_str()).collect::<Vec<_>>().join(", ")
}
