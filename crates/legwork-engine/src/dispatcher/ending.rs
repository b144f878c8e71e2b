//! The last thing that an engine stores: that it let go of its runs in good order, so that recovery does not take their
//! ends for deaths of the process (docs/design/042-deaths-in-a-row.md).

use crate::book::Book;
use crate::wiring::Wiring;
use futures::future::join_all;
use legwork_core::ids::{ChildId, Epoch};
use legwork_core::ports::StoreError;
use legwork_core::pulse::Pulse;
use legwork_core::step::Fence;
use legwork_core::time::Moment;
use std::time::Duration;
use tokio::time::timeout;

/// How long the last write of a process that ends may take.
const ACCOUNT_MAX: Duration = Duration::from_millis(250);

/// The pulses of one delegation, under the epoch of its owner.
type Account = (Epoch, Vec<(ChildId, Pulse)>);

/// The pulses of the runs that end with this process and conclude nothing, as they are to be stored.
pub(super) fn let_go(book: &Book, now: Moment) -> Vec<Account> {
    let accounts = book.delegations().map(|delegated| {
        let pulses = delegated.children.iter().enumerate().filter_map(|(index, child)| {
            let attempt = child.state.attempt_under_way()?;
            let deaths = child.pulse.deaths.but_not(attempt);
            let pulse = Pulse { deaths, ..child.pulse.clone() };
            Some((child.id.clone(), delegated.noted(index, pulse, now)))
        });
        (delegated.epoch, pulses.collect::<Vec<_>>())
    });
    accounts.filter(|(_, pulses)| !pulses.is_empty()).collect()
}

/// Stores them. Where the store does not take them in time they count as deaths, which does no harm by itself.
pub(super) async fn account(wiring: &Wiring, accounts: Vec<Account>) {
    let (owner, at) = (&wiring.owner.id, wiring.clock.now().wall);
    let writes = accounts
        .into_iter()
        .map(|(epoch, pulses)| wiring.store.note_pulses(Fence { owner: owner.clone(), epoch }, at, pulses));
    // Deadline: a process that ends waits for no store that stands still.
    match timeout(ACCOUNT_MAX, join_all(writes)).await {
        Ok(answers) => {
            if let Err(error) = answers.into_iter().collect::<Result<(), StoreError>>() {
                tracing::info!(%error, "that runs were let go of in good order could not be stored");
            }
        }
        Err(_elapsed) => tracing::info!("that runs were let go of in good order could not be stored in time"),
    }
}
