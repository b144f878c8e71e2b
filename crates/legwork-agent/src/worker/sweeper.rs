//! The end of a child's processes: what it left in the background, and whatever its commands left behind, goes with the
//! child, also when its run is dropped.

use crate::process::{Leftover, sweep};
use crate::tools::{BackgroundProcesses, BackgroundReport, BackgroundState};
use legwork_core::ports::Line;
use legwork_core::pulse::LineEvent;
use legwork_core::step::Actor;
use std::sync::Arc;

/// Sweeps once: at the latest when it is dropped.
pub(super) struct Sweeper {
    actor: Option<Actor>,
    background: Arc<BackgroundProcesses>,
}

impl Sweeper {
    pub(super) fn new(actor: Actor, background: Arc<BackgroundProcesses>) -> Self {
        Sweeper { actor: Some(actor), background }
    }

    /// Ends what runs in the background and sweeps, and tells what was found.
    pub(super) async fn sweep(mut self, line: &dyn Line) {
        if let Some(actor) = &self.actor {
            let reports = self.background.end(actor).await;
            reports.iter().filter_map(told).for_each(|note| line.tell(LineEvent::Note(note)));
        }
        let Some(actor) = self.actor.take() else { return };
        match tokio::task::spawn_blocking(move || sweep(&actor)).await {
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
        let Some(actor) = self.actor.take() else { return };
        self.background.cut_off(&actor);
        let leftovers = sweep(&actor);
        if !leftovers.is_empty() {
            tracing::info!(actor = actor.as_str(), left = named(&leftovers), "ended what was left running");
        }
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
