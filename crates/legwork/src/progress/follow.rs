//! Shows the progress of one delegation until all its children have settled.

use std::time::Duration;

use legwork_core::batch::Ticket;
use legwork_core::ports::{Delegator, LiveEvent, Watch};
use legwork_engine::Handle;

use super::screen::Screen;
use super::sets::Sets;

/// Between two looks at what runs.
const REFRESH_EVERY: Duration = Duration::from_millis(200);

/// What has been shown of a delegation.
pub struct Follow<'a> {
    handle: &'a Handle,
    ticket: &'a Ticket,
    watch: Box<dyn Watch>,
    /// Children whose end was not shown.
    open: usize,
    sets: Sets,
}

impl<'a> Follow<'a> {
    /// Follows the delegation of `ticket` with a watch that began before it was accepted.
    pub fn new(handle: &'a Handle, ticket: &'a Ticket, watch: Box<dyn Watch>) -> Follow<'a> {
        Follow { handle, ticket, watch, open: ticket.children.len(), sets: Sets::default() }
    }

    /// Shows what happens. Ends when every child's end was shown. Dropping the future loses nothing: the next one goes on.
    pub async fn run(&mut self, screen: &mut Screen) {
        let mut refresh = tokio::time::interval(REFRESH_EVERY);
        while self.open > 0 {
            tokio::select! {
                event = self.watch.next() => match event {
                    Some(event) if is_of(&event, self.ticket) => {
                        self.sets.take(&event).iter().for_each(|notice| screen.show(notice));
                        self.open -= usize::from(matches!(event, LiveEvent::Settled { .. }));
                    }
                    Some(_) => {}
                    None => self.open = 0,
                },
                _ = refresh.tick(), if screen.is_live() => {
                    let views = self.handle.view(Some(&self.ticket.delegation)).await;
                    screen.refresh(&views);
                }
            }
        }
    }
}

/// What its children delegate is their own business.
fn is_of(event: &LiveEvent, ticket: &Ticket) -> bool {
    match event {
        LiveEvent::Queued(child)
        | LiveEvent::Started { child, .. }
        | LiveEvent::Told { child, .. }
        | LiveEvent::Settled { child, .. } => child.delegation == ticket.delegation,
        LiveEvent::Lagged(_) => true,
    }
}
