//! The engine's end of a child's line: every event goes once to the transcript, the pulse and the watchers.

use crate::dispatcher::Message;
use crate::steering::Said;
use crate::wiring::Clock;
use legwork_core::ids::ChildId;
use legwork_core::outcome::{Force, StopReason};
use legwork_core::ports::{Identity, Line, LiveEvent, Pending, Steer, StopNotice, Transcripts};
use legwork_core::pulse::{LineEvent, Pulse};
use std::sync::Arc;
use tokio::sync::{broadcast, mpsc, oneshot, watch};

/// One child's line.
pub(crate) struct EngineLine {
    pub(crate) child: ChildId,
    /// Who it is, for the watchers.
    pub(crate) identity: Arc<Identity>,
    pub(crate) clock: Clock,
    pub(crate) transcripts: Arc<dyn Transcripts>,
    /// Written here, read by every watcher; a slow one loses events.
    pub(crate) live: broadcast::Sender<LiveEvent>,
    /// Written here, read by the dispatcher's ticks; only the latest value counts.
    pub(crate) pulse: watch::Sender<Pulse>,
    /// Written by the dispatcher, read here.
    pub(crate) stop: watch::Receiver<Option<StopNotice>>,
    /// Filled by the dispatcher, emptied here.
    pub(crate) said: Said,
    /// To the dispatcher; when it is full the child waits.
    pub(crate) mailbox: mpsc::Sender<Message>,
}

/// What a child is told when the engine is gone.
const ENGINE_GONE: StopNotice = StopNotice { reason: StopReason::Shutdown, force: Force::Abort };

impl Line for EngineLine {
    fn tell(&self, event: LineEvent) {
        self.transcripts.append(&self.child, self.clock.now().wall, &event);
        self.pulse.send_modify(|pulse| pulse.apply(&event));
        if self.live.receiver_count() > 0 {
            // A send fails only when the last watcher left this moment.
            self.live.send(LiveEvent::Told { child: self.identity.clone(), event }).ok();
        }
    }

    fn stopped(&self) -> Pending<'_, StopNotice> {
        let mut stop = self.stop.clone();
        Box::pin(async move {
            match stop.wait_for(Option::is_some).await {
                Ok(notice) => notice.unwrap_or(ENGINE_GONE),
                Err(_) => ENGINE_GONE,
            }
        })
    }

    fn steered(&self) -> Vec<Steer> {
        self.said.take()
    }

    fn park(&self) -> Pending<'_, ()> {
        self.pulse.send_modify(Pulse::wait_for_children);
        Box::pin(async move {
            if self.mailbox.send(Message::Parked(self.child.clone())).await.is_err() {
                tracing::debug!(child = %self.child, "the engine ended while a child was parking");
            }
        })
    }

    fn unpark(&self) -> Pending<'_, Result<(), StopNotice>> {
        Box::pin(async move {
            let (reply, granted) = oneshot::channel();
            if self.mailbox.send(Message::Unparked(self.child.clone(), reply)).await.is_err() {
                return Err(ENGINE_GONE);
            }
            tokio::select! {
                biased;
                notice = self.stopped() => Err(notice),
                answer = granted => answer.unwrap_or(Err(ENGINE_GONE)),
            }
        })
    }
}
