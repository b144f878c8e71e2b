//! How a process is that has a store open, and the wait for a change of that.

use super::locked;
use std::sync::Mutex;
use tokio::sync::Notify;

/// How the process that has the store open is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Life {
    #[default]
    Alive,
    /// It does not move.
    Still,
    /// It dies of its next call.
    Doomed,
    Dead,
}

/// The life of one process. Whoever waits for a change hears of it in the order in which they began to wait, which a `watch`
/// channel leaves to chance.
#[derive(Debug, Default)]
pub(super) struct Lifetime {
    life: Mutex<Life>,
    turned: Notify,
}

impl Lifetime {
    pub(super) fn now(&self) -> Life {
        *locked(&self.life)
    }

    pub(super) fn turn(&self, to: Life) {
        *locked(&self.life) = to;
        self.turned.notify_waiters();
    }

    /// Nothing happens to one that is otherwise.
    pub(super) fn turn_from(&self, from: Life, to: Life) {
        let fits = *locked(&self.life) == from;
        if fits {
            self.turn(to);
        }
    }

    pub(super) async fn until(&self, is_so: impl Fn(Life) -> bool) {
        loop {
            // Made before the look, so that no turn comes in between.
            let turned = self.turned.notified();
            if is_so(self.now()) {
                return;
            }
            turned.await;
        }
    }
}
