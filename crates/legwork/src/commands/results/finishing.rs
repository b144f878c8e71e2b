//! What a wait has taken up besides what was asked for: a delegation is taken over with all that hangs together with
//! it, so that the subagent that had asked for a nested one goes on here too. Whatever this process has taken up it
//! brings to its end.

use std::time::Duration;

use legwork_core::ids::DelegationId;
use legwork_core::ports::{ChildView, Delegator, Facts};

use crate::invocation::Invocation;
use crate::signals::{Asked, EndedBy, Signals};
use crate::wire::Workplace;

/// Between two looks at what runs.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Delegations that a line names at most.
const NAMED_MAX: usize = 4;

/// Brings what else this process has taken up to its end, and closes the workplace. A signal leaves it to whoever asks
/// next. To cut it would be to pay for replies that nobody gets.
pub(super) async fn finish(invocation: &Invocation, mut workplace: Workplace, signals: &mut Signals) {
    let rest = at_work(&workplace).await;
    let told = match rest.is_empty() {
        true => None,
        false => until_all_has_ended(invocation, &workplace, signals).await,
    };
    let ended_by = told.map_or(EndedBy::Itself, |_asked| EndedBy::Release);
    // What it was told first is its exit code.
    workplace.close_after(ended_by, signals).await.ok();
    for id in outermost(&rest) {
        let is_settled = workplace.store.delegation(id).await.is_ok_and(|record| {
            // What is gone was delivered long ago.
            record.is_none_or(|record| record.is_settled())
        });
        if !is_settled {
            invocation
                .voice()
                .tell(&format!("note: {id} has not ended; `legwork results {id} --wait` goes on with it"));
        }
    }
}

/// Waits for the ends of all that runs here, unless a signal comes, or has come.
async fn until_all_has_ended(
    invocation: &Invocation,
    workplace: &Workplace,
    signals: &mut Signals,
) -> Option<Asked> {
    let mut told = false;
    loop {
        let rest = at_work(workplace).await;
        if let Some(asked) = signals.told().filter(|_| !rest.is_empty()) {
            return Some(asked);
        }
        if rest.is_empty() {
            return None;
        }
        if !std::mem::replace(&mut told, true) {
            let ids: Vec<&str> = outermost(&rest).into_iter().map(DelegationId::as_str).collect();
            let more = ids.len().saturating_sub(NAMED_MAX);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            let named = ids[..ids.len().min(NAMED_MAX)].join(", ");
            invocation.voice().tell(&format!(
                "note: {named}{more} was taken up with it and goes on here until its end; Ctrl-C leaves it to whoever asks for it next"
            ));
        }
        tokio::select! {
            _asked = signals.next() => {}
            // Deadline: what has ended is asked for again, and so is what was begun meanwhile.
            () = tokio::time::sleep(LOOK_EVERY) => {}
        }
    }
}

/// Whether this process has any in hand.
pub(super) async fn has_work(workplace: &Workplace) -> bool {
    !at_work(workplace).await.is_empty()
}

/// The subagents that this process has in hand.
async fn at_work(workplace: &Workplace) -> Vec<ChildView> {
    workplace.handle.view(None).await
}

/// The delegations of those that no other one of them has asked for, each once.
fn outermost(views: &[ChildView]) -> Vec<&DelegationId> {
    let is_above = |view: &ChildView, parent| {
        views.iter().any(|other| other.child == parent && other.delegation != view.delegation)
    };
    let mut ids: Vec<&DelegationId> = Vec::new();
    for view in views.iter().filter(|view| view.parent.clone().is_none_or(|parent| !is_above(view, parent))) {
        if !ids.contains(&&view.delegation) {
            ids.push(&view.delegation);
        }
    }
    ids
}
