//! A child that cannot be set up. What an earlier attempt recorded stands all the same: whoever has answered needs no
//! folder, no worktree and no model any more, and what others have done is reported with what they lack.
//!
//! It runs nothing of the child.

use super::local::Shared;
use super::setting_up::{NotReady, contract};
use crate::journal::Recorded;
use crate::turn::{Terms, concluded};
use crate::worktree::{self, Need, Tenant};
use legwork_core::aftermath;
use legwork_core::batch::Isolation;
use legwork_core::outcome::{Ending, FailureKind};
use legwork_core::ports::{Assignment, Line};
use legwork_core::pulse::LineEvent;
use legwork_core::report::Report;
use std::path::Path;

/// The report of a child that lacks something.
pub(super) async fn report(shared: &Shared, not_ready: NotReady, line: &dyn Line) -> Report {
    let NotReady { assignment, problem, recorded } = not_ready;
    let Some(recorded) = recorded else {
        line.tell(LineEvent::Note(format!("not started: {problem}")));
        return Report { error: Some(problem), ..Report::bare(Ending::Failed(FailureKind::Setup)) };
    };
    line.tell(LineEvent::Note(format!("it cannot go on, and what is stored of it stands: {problem}")));
    let terms = Terms {
        problem: &problem,
        contract: contract(&assignment.task),
        setting: &assignment.setting,
        limits: shared.parts.limits,
    };
    let report = concluded(&recorded, terms).await;
    Report { worktree: worktree(shared, &assignment, &recorded).await, ..report }
}

/// What is to be said of its worktree where that is gone. One that is there is looked into when the run is closed.
async fn worktree(
    shared: &Shared,
    assignment: &Assignment,
    recorded: &Recorded,
) -> Option<aftermath::Worktree> {
    match assignment.setting.isolation {
        Isolation::Shared => return None,
        Isolation::Worktree => {}
    }
    let folder = Path::new(&assignment.setting.folder);
    let tenant = || Tenant { child: &assignment.child, fence: &assignment.fence, folder };
    match shared.worktrees.take(tenant(), Need::Known).await {
        Ok(_used) => None,
        // After the answer legwork itself removes one in which nothing was changed.
        Err(_gone) if recorded.answer.is_some() => worktree::gone(&shared.worktrees, &tenant()).await,
        Err(_gone) => None,
    }
}
