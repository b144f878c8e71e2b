//! Shows the progress of one delegation until all its children have settled.

use std::time::Duration;

use legwork_core::batch::Ticket;
use legwork_core::ports::{Delegator, LiveEvent, Watch};
use legwork_engine::Handle;

use super::screen::{Ended, Screen};

/// Between two looks at what runs.
const REFRESH_EVERY: Duration = Duration::from_millis(200);

/// Shows what `watch` tells of the delegation of `ticket`; `goals` by task index. Ends when every child's end was shown.
pub async fn follow(
    handle: &Handle,
    watch: &mut dyn Watch,
    (ticket, goals): (&Ticket, &[String]),
    screen: &mut Screen,
) {
    let mut refresh = tokio::time::interval(REFRESH_EVERY);
    let mut open = goals.len();
    while open > 0 {
        tokio::select! {
            event = watch.next() => match event {
                Some(event) => open -= usize::from(show(event, (ticket, goals), screen)),
                None => return,
            },
            _ = refresh.tick(), if screen.is_live() => {
                let views = handle.view(Some(&ticket.delegation)).await;
                screen.refresh(&views);
            }
        }
    }
}

/// Shows one event, and says whether a child of the delegation ended with it.
fn show(event: LiveEvent, (ticket, goals): (&Ticket, &[String]), screen: &Screen) -> bool {
    match event {
        LiveEvent::Started { delegation, task_index, .. } if delegation == ticket.delegation => {
            screen.started(task_index, goals.len(), &goals[task_index]);
            false
        }
        LiveEvent::Settled { delegation, task_index, outcome, error, elapsed, .. }
            if delegation == ticket.delegation =>
        {
            screen.ended(&Ended {
                task_index,
                of: goals.len(),
                goal: &goals[task_index],
                outcome,
                error: error.as_deref(),
                elapsed,
            });
            true
        }
        LiveEvent::Lagged(lost) => {
            screen.head(&format!("({lost} lines of progress were lost)"));
            false
        }
        LiveEvent::Started { .. } | LiveEvent::Settled { .. } | LiveEvent::Told { .. } => false,
    }
}
