//! The one supervisor: what the passing of time does to children. Stuck is told from slow by the pulse (invariant 8); a
//! child that was asked to stop and does not is aborted after its grace.

use super::entry::Tracked;
use crate::options::{Options, Patience};
use legwork_core::child::ChildState;
use legwork_core::outcome::StopReason;
use legwork_core::pulse::{Phase, Pulse};
use legwork_core::time::Moment;
use std::time::Duration;

/// What a child needs now that time went by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It made no progress for longer than its phase allows.
    Stalled,
    /// It had its grace.
    GraceOver,
}

/// The next moment at which the child needs something, and what.
pub(super) fn deadline(child: &Tracked, options: &Options) -> Option<(Moment, Verdict)> {
    if let Some(due) = child.abort_at {
        return Some((due, Verdict::GraceOver));
    }
    match child.state {
        ChildState::Running { .. } => {
            Some((child.moved.after(patience(&child.pulse, &options.patience)), Verdict::Stalled))
        }
        // A queued or waiting child is not stuck, and a parked one is as alive as its own children.
        ChildState::Queued { .. }
        | ChildState::Parked { .. }
        | ChildState::Waiting { .. }
        | ChildState::Stopping { .. }
        | ChildState::Settled(_) => None,
    }
}

fn patience(pulse: &Pulse, patience: &Patience) -> Duration {
    match pulse.phase {
        Phase::Tool(_) => patience.tool,
        Phase::Starting | Phase::Model | Phase::Children => patience.idle,
    }
}

pub(super) fn grace(reason: StopReason, options: &Options) -> Duration {
    match reason {
        StopReason::Stalled => options.patience.grace,
        StopReason::Cancelled
        | StopReason::ParentStopped
        | StopReason::TimedOut
        | StopReason::SessionEnded
        | StopReason::OwnerLost
        | StopReason::Shutdown => options.stop_grace,
    }
}
