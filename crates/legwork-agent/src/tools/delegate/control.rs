//! The control actions of `delegate_task`: looking at, steering and stopping what the caller owns (CTRL-1…7, 9). They work
//! at any depth, in any session, and while delegation is paused (TOOL-16), also on what another process runs.
//!
//! A caller owns what its session delegated, and a subagent only what stands below itself. Everything else is, in one and
//! the same answer, not there (CTRL-4).

use super::lists::{Line, Lists};
use crate::excerpt::head_of;
use crate::tools::Site;
use legwork_core::child::ChildState;
use legwork_core::ids::ChildId;
use legwork_core::outcome::{Force, StopReason};
use legwork_core::ports::{ChildView, Delegator, Runner, SteerError};
use legwork_core::steering::Scope;
use legwork_core::step::Actor;
use serde_json::{Value, json};

/// Subagents that one answer shows.
const SHOWN_MAX: usize = 100;
/// Bytes of a goal that it shows.
const GOAL_BYTES_MAX: usize = 200;
/// Ids that an error names.
const NAMED_MAX: usize = 20;

const EMPTY: &str =
    "no subagent of yours is running; results that have not come in yet come as messages of their own";
const UNCHANGED: &str = "nothing has changed since you last looked. Do not look again: waiting costs nothing, and each result comes by \
     itself, as a message of its own, after you have ended your turn";
const STOPPED: &str = "it was asked to end and does so at its next step; what it has done until then still comes back, in the usual way";
const STEERED: &str = "the message is stored; the subagent reads it at its next step";
const STOPPED_LATER: &str = "the process that ran it has died: it ends, with what it had done, as soon as somebody goes on with the work";
const STEERED_LATER: &str = "the message is stored; the process that ran the subagent has died, and it reads the message when somebody goes on with it";

/// The subagents of the caller that have not ended.
pub(super) async fn list(delegator: &dyn Delegator, site: &Site, lists: &Lists) -> Value {
    let Owned { views: owned, unreadable } = owned(delegator, site).await;
    let lines: Vec<Line> = owned.iter().map(|view| (view.child.clone(), status(view))).collect();
    let is_unchanged = lists.is_unchanged(&site.actor, lines);
    let shown: Vec<Value> = owned.iter().take(SHOWN_MAX).map(item).collect();
    let mut answer = json!({"action": "list", "count": owned.len(), "subagents": shown});
    let omitted = owned.len().saturating_sub(SHOWN_MAX);
    if let Some(unreadable) = unreadable {
        answer["note"] = json!(unreadable);
    } else if owned.is_empty() {
        answer["note"] = json!(EMPTY);
    } else if is_unchanged {
        answer["note"] = json!(UNCHANGED);
    } else if omitted > 0 {
        answer["note"] = json!(format!("{omitted} more are running and not shown"));
    }
    answer
}

/// Says something to a subagent of the caller.
pub(super) async fn steer(
    delegator: &dyn Delegator,
    site: &Site,
    id: String,
    message: String,
) -> Result<Value, String> {
    let owned = owned(delegator, site).await;
    let Some(view) = owned.views.iter().find(|view| view.child.as_str() == id) else {
        return Err(owned.not_found(&id));
    };
    if !view.state.takes_steers() {
        return Err(SteerError::Ending(view.child.clone()).to_string());
    }
    let steered = delegator.steer(&view.child, message, Some(&site.lineage.session)).await;
    steered.map_err(|error| match error {
        // It was there a moment ago.
        SteerError::NotFound(_) => ended_meanwhile(&id),
        other @ (SteerError::Ending(_)
        | SteerError::Blank
        | SteerError::TooLong { .. }
        | SteerError::Full { .. }
        | SteerError::Store(_)
        | SteerError::Closed) => other.to_string(),
    })?;
    let note = match view.runner {
        Runner::Here | Runner::Elsewhere { .. } => STEERED,
        Runner::Nobody => STEERED_LATER,
    };
    Ok(json!({"action": "steer", "subagent_id": id, "status": "queued", "note": note}))
}

/// Ends a subagent of the caller, or all of a delegation, and everything below.
pub(super) async fn stop(delegator: &dyn Delegator, site: &Site, id: String) -> Result<Value, String> {
    let owned = owned(delegator, site).await;
    let Some((scope, runner)) = aim(&owned.views, &id) else { return Err(owned.not_found(&id)) };
    let stopped = delegator.stop(scope, StopReason::Cancelled, Force::Ask).await;
    if let Some(why) = stopped.untold {
        return Err(format!("{id} could not be told to end: {why}; asking again is safe"));
    }
    if stopped.children.is_empty() {
        return Err(ended_meanwhile(&id));
    }
    let note = match runner {
        Runner::Here | Runner::Elsewhere { .. } => STOPPED,
        Runner::Nobody => STOPPED_LATER,
    };
    Ok(json!({"action": "stop", "subagent_id": id, "status": "interrupt_requested", "note": note}))
}

fn ended_meanwhile(id: &str) -> String {
    format!("{id} has ended in the same moment; its result comes in the usual way")
}

/// What an id means among one's own, and who runs it. All of a delegation has one process.
fn aim(owned: &[ChildView], id: &str) -> Option<(Scope, Runner)> {
    let child = owned.iter().find(|view| view.child.as_str() == id);
    let delegation = || owned.iter().find(|view| view.delegation.as_str() == id);
    child
        .map(|view| (Scope::Child(view.child.clone()), view.runner))
        .or_else(|| delegation().map(|view| (Scope::Delegation(view.delegation.clone()), view.runner)))
}

/// The subagents of one caller that have not ended.
struct Owned {
    views: Vec<ChildView>,
    /// Said in the place of any certainty about others, when those of other processes cannot be read.
    unreadable: Option<String>,
}

async fn owned(delegator: &dyn Delegator, site: &Site) -> Owned {
    let seen = delegator.view_session(&site.lineage.session).await;
    let views = &seen.children;
    let is_owned = |view: &&ChildView| {
        view.session == site.lineage.session
            && view.state.outcome().is_none()
            && match &site.actor {
                Actor::Session(session) => *session == view.session,
                Actor::Child(caller) => stands_below(view, caller, views),
            }
    };
    let unreadable = seen.unreadable.as_ref().map(|why| {
        format!(
            "subagents that another process runs for you cannot be looked for now: {why}; try again later"
        )
    });
    Owned { views: views.iter().filter(is_owned).cloned().collect(), unreadable }
}

/// Whether a child stands below `caller`. Those between the two wait for it, so they are among the views.
fn stands_below(view: &ChildView, caller: &ChildId, views: &[ChildView]) -> bool {
    let mut parent = view.parent.as_ref();
    // No chain is longer than there are children.
    for _ in 0..=views.len() {
        match parent {
            Some(above) if above == caller => return true,
            Some(above) => {
                parent = views.iter().find(|view| view.child == *above).and_then(|view| view.parent.as_ref());
            }
            None => return false,
        }
    }
    false
}

impl Owned {
    /// One answer for what is unknown, has ended or is somebody else's.
    fn not_found(&self, id: &str) -> String {
        let id = head_of(id, GOAL_BYTES_MAX);
        if let Some(unreadable) = &self.unreadable {
            return format!("there is no subagent {id} of yours in this process, and {unreadable}");
        }
        if self.views.is_empty() {
            return format!(
                "there is no running subagent {id} of yours: none of yours is running. Do not ask again"
            );
        }
        let named: Vec<&str> = self.views.iter().take(NAMED_MAX).map(|view| view.child.as_str()).collect();
        let more = if self.views.len() > NAMED_MAX { " and more" } else { "" };
        format!("there is no running subagent {id} of yours; there are {}{more}", named.join(", "))
    }
}

fn item(view: &ChildView) -> Value {
    json!({
        "subagent_id": view.child,
        "parent_id": view.parent,
        "goal": head_of(&view.goal, GOAL_BYTES_MAX),
        "model": view.model,
        "status": status(view),
        "running_seconds": tenths(view.elapsed.as_secs_f64()),
        "accepting_steer": view.state.takes_steers(),
        "live_transcript": view.transcript,
    })
}

fn tenths(seconds: f64) -> f64 {
    (seconds * 10.0).round() / 10.0
}

/// The word for where it stands, which is not its end.
fn status(view: &ChildView) -> &'static str {
    if view.runner == Runner::Nobody {
        return "orphaned";
    }
    match view.state {
        ChildState::Queued { .. } => "queued",
        ChildState::Running { .. } => "running",
        ChildState::Parked { .. } | ChildState::Waiting { .. } => "waiting",
        ChildState::Stopping { .. } => "stopping",
        ChildState::Settled(outcome) => outcome.status().as_str(),
    }
}
