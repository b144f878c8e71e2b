//! The end of a child's processes: whatever its commands left behind goes with the child, also when its run is dropped.

use crate::process::{Leftover, sweep};
use legwork_core::ports::Line;
use legwork_core::pulse::LineEvent;
use legwork_core::step::Actor;

/// Sweeps once: at the latest when it is dropped.
pub(super) struct Sweeper {
    actor: Option<Actor>,
}

impl Sweeper {
    pub(super) fn new(actor: Actor) -> Self {
        Sweeper { actor: Some(actor) }
    }

    /// Sweeps now, and tells what was found.
    pub(super) async fn sweep(mut self, line: &dyn Line) {
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
        let leftovers = sweep(&actor);
        if !leftovers.is_empty() {
            tracing::info!(actor = actor.as_str(), left = named(&leftovers), "ended what was left running");
        }
    }
}

fn named(leftovers: &[Leftover]) -> String {
    leftovers.iter().map(|leftover| leftover.command.as_str()).collect::<Vec<_>>().join(", ")
}
