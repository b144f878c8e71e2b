//! Shows the progress of one delegation until all its children have settled.

use std::time::Duration;

use legwork_core::batch::Ticket;
use legwork_core::ports::{Delegator, LiveEvent, Watch};
use legwork_engine::Handle;

use super::screen::Screen;
use super::sets::Sets;

/// Between two looks at what runs.
const REFRESH_EVERY: Duration = Duration::from_millis(200);

/// Shows what `watch` tells of the delegation of `ticket`. Ends when every child's end was shown.
pub async fn follow(handle: &Handle, watch: &mut dyn Watch, ticket: &Ticket, screen: &mut Screen) {
    let mut refresh = tokio::time::interval(REFRESH_EVERY);
    let mut open = ticket.children.len();
    let mut sets = Sets::default();
    while open > 0 {
        tokio::select! {
            event = watch.next() => match event {
                Some(event) if is_of(&event, ticket) => {
                    sets.take(&event).iter().for_each(|notice| screen.show(notice));
                    open -= usize::from(matches!(event, LiveEvent::Settled { .. }));
                }
                Some(_) => {}
                None => return,
            },
            _ = refresh.tick(), if screen.is_live() => {
                let views = handle.view(Some(&ticket.delegation)).await;
                screen.refresh(&views);
            }
        }
    }
}

/// What its children delegate is their own business.
fn is_of(event: &LiveEvent, ticket: &Ticket) -> bool {
    match event {
        LiveEvent::Queued(child)
        | LiveEvent::Started(child)
        | LiveEvent::Told { child, .. }
        | LiveEvent::Settled { child, .. } => child.delegation == ticket.delegation,
        LiveEvent::Lagged(_) => true,
    }
}
