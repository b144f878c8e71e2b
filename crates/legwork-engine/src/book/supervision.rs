//! The one supervisor: what the passing of time does to children. Stuck is told from slow by the pulse (invariant 8); a
//! child that was asked to stop and does not is aborted after its grace.
//!
//! Two limits may end a child that does not move: the patience for its phase, and the inactivity limit of the
//! configuration. Both are measured from its last move, the earlier one fires, and that one is reported (RUN-15).

use super::entry::Tracked;
use crate::options::{Options, Patience};
use legwork_core::aftermath::{Inactivity, QuietPhase};
use legwork_core::child::ChildState;
use legwork_core::outcome::StopReason;
use legwork_core::pulse::{Pause, Phase, Pulse};
use legwork_core::time::Moment;
use std::time::Duration;

/// What a child needs now that time went by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Most of its inactivity limit has passed: it is told so, once for each time that it stands still (RUN-11).
    Warn,
    /// It made no progress for longer than its phase allows.
    Stalled,
    /// It made no progress for longer than its inactivity limit.
    TimedOut,
    /// It had its grace.
    GraceOver,
}

/// What a child is told when most of its inactivity limit has passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Warning {
    /// How long nothing has moved.
    pub quiet: Duration,
    /// How long that may be.
    pub limit: Duration,
}

/// A verdict and its moment.
pub(super) type Due = (Moment, Verdict);

/// What comes next for a child, the warning before the end.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Schedule {
    pub(super) warning: Option<Due>,
    pub(super) end: Option<Due>,
}

impl Schedule {
    fn ends(due: Moment, verdict: Verdict) -> Self {
        Schedule { warning: None, end: Some((due, verdict)) }
    }

    /// The next moment at which something is due.
    pub(super) fn next(self) -> Option<Moment> {
        [self.warning, self.end].into_iter().flatten().map(|(due, _)| due).min()
    }

    /// What is due by `now`; an end that is due makes a warning pointless.
    pub(super) fn by(self, now: Moment) -> Option<Verdict> {
        [self.end, self.warning]
            .into_iter()
            .flatten()
            .find(|(due, _)| *due <= now)
            .map(|(_, verdict)| verdict)
    }
}

/// What comes next for a child.
pub(super) fn schedule(child: &Tracked, options: &Options) -> Schedule {
    if let Some(due) = child.abort_at {
        return Schedule::ends(due, Verdict::GraceOver);
    }
    match child.state {
        ChildState::Running { .. } => running(child, &options.patience),
        // A queued or waiting child is not stuck, and a parked one is as alive as its own children.
        ChildState::Queued { .. }
        | ChildState::Parked { .. }
        | ChildState::Waiting { .. }
        | ChildState::Stopping { .. }
        | ChildState::Settled(_) => Schedule::default(),
    }
}

fn running(child: &Tracked, patience: &Patience) -> Schedule {
    // A wait that was decided is no silence: patience begins when the model is asked again.
    let since = child.moved.after(child.pulse.pause.map(Pause::length).unwrap_or_default());
    let stall = Schedule::ends(since.after(patience_for(&child.pulse, patience)), Verdict::Stalled);
    let Some(limit) = inactivity_limit(&child.pulse, patience) else { return stall };
    let warning = (!child.warned).then(|| (since.after(limit * 4 / 5), Verdict::Warn));
    let timeout = (since.after(limit), Verdict::TimedOut);
    let end = stall.end.filter(|(due, _)| *due < timeout.0).unwrap_or(timeout);
    Schedule { warning, end: Some(end) }
}

fn patience_for(pulse: &Pulse, patience: &Patience) -> Duration {
    match pulse.phase {
        Phase::Tool(_) => patience.tool,
        Phase::Starting | Phase::Model | Phase::Children => patience.idle,
    }
}

/// A model that takes its time is alive (RUN-12), and only the patience of its phase ends a call of it.
fn inactivity_limit(pulse: &Pulse, patience: &Patience) -> Option<Duration> {
    match pulse.phase {
        Phase::Model => None,
        Phase::Starting | Phase::Tool(_) | Phase::Children => patience.inactivity,
    }
}

/// What is known of a child at the moment at which it is ended for want of progress.
pub(super) fn facts(
    child: &Tracked,
    reason: StopReason,
    now: Moment,
    options: &Options,
) -> Option<Inactivity> {
    let limit = match reason {
        StopReason::Stalled => patience_for(&child.pulse, &options.patience),
        StopReason::TimedOut => inactivity_limit(&child.pulse, &options.patience)?,
        StopReason::Cancelled
        | StopReason::ParentStopped
        | StopReason::SessionEnded
        | StopReason::OwnerLost
        | StopReason::Shutdown => return None,
    };
    let phase = match child.pulse.phase {
        Phase::Tool(_) => QuietPhase::InTool,
        Phase::Starting | Phase::Model | Phase::Children => QuietPhase::Idle,
    };
    Some(Inactivity {
        limit_ms: millis(limit),
        quiet_ms: millis(now.since(child.moved)),
        ran_ms: millis(child.worked(now)),
        phase,
        model_calls: child.pulse.model_calls,
        grace_ms: millis(grace(reason, options)),
    })
}

/// The warning of a child at this moment.
pub(super) fn warning(child: &Tracked, now: Moment, options: &Options) -> Option<Warning> {
    let limit = inactivity_limit(&child.pulse, &options.patience)?;
    Some(Warning { quiet: now.since(child.moved), limit })
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
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
