//! The line of a session's own agent: what it tells goes to a listener, and a stop comes from whoever holds the handle.
//! A session holds no slot, so parking costs nothing.

use legwork_core::ports::{Line, Pending, Steer, StopNotice};
use legwork_core::pulse::LineEvent;
use std::future::{pending, ready};
use tokio::sync::watch;

/// Hears what the agent tells. It must return at once.
pub type Listener = Box<dyn Fn(LineEvent) + Send + Sync>;

/// The agent's end.
pub struct SessionLine {
    listener: Listener,
    /// Written by [`SessionStop`], read here; only the latest value counts.
    stop: watch::Receiver<Option<StopNotice>>,
}

/// The end of whoever may stop the agent.
#[derive(Debug, Clone)]
pub struct SessionStop {
    stop: watch::Sender<Option<StopNotice>>,
}

impl SessionLine {
    /// A line to `listener`, and the handle that stops its agent.
    pub fn new(listener: Listener) -> (Self, SessionStop) {
        let (sender, receiver) = watch::channel(None);
        (SessionLine { listener, stop: receiver }, SessionStop { stop: sender })
    }
}

impl SessionStop {
    /// Asks the agent to end at the next boundary. The first notice is kept.
    pub fn stop(&self, notice: StopNotice) {
        self.stop.send_if_modified(|stop| {
            let first = stop.is_none();
            stop.get_or_insert(notice);
            first
        });
    }

    /// The notice that was given, if any.
    pub fn notice(&self) -> Option<StopNotice> {
        *self.stop.borrow()
    }
}

impl Line for SessionLine {
    fn tell(&self, event: LineEvent) {
        (self.listener)(event);
    }

    fn stopped(&self) -> Pending<'_, StopNotice> {
        let mut stop = self.stop.clone();
        Box::pin(async move {
            let notice = stop.wait_for(Option::is_some).await.ok().and_then(|notice| *notice);
            match notice {
                Some(notice) => notice,
                // Nobody is left who could stop the agent.
                None => pending().await,
            }
        })
    }

    /// Nothing: what is said to a conversation is a message of its own.
    fn steered(&self) -> Vec<Steer> {
        Vec::new()
    }

    fn park(&self) -> Pending<'_, ()> {
        Box::pin(ready(()))
    }

    fn unpark(&self) -> Pending<'_, Result<(), StopNotice>> {
        Box::pin(ready(Ok(())))
    }
}
