//! What the two ends of a conversation tell each other: messages that wait, the model to ask, the stop of what runs, and
//! whether it is idle or closed. Whoever waits for a change is woken by it.

use crate::models::Model;
use crate::session::event::SayError;
use crate::session::line::SessionStop;
use legwork_core::batch::Route;
use legwork_core::outcome::{Force, StopReason};
use legwork_core::ports::StopNotice;
use std::collections::VecDeque;
use std::sync::Arc;

/// Messages that may wait.
pub const WAITING_MAX: usize = 100;
/// Bytes of one message.
pub const MESSAGE_BYTES_MAX: usize = 1024 * 1024;

/// The stop of what comes to its end by itself.
const LET_GO: StopNotice = StopNotice { reason: StopReason::Shutdown, force: Force::Ask };

/// The model to ask, and the route of what is delegated.
pub(super) type Aim = (Arc<dyn Model>, Route);

/// The shared state of a conversation.
pub(super) struct Desk {
    /// Filled by the handle, emptied by the conversation.
    waiting: VecDeque<String>,
    /// Set by the handle, taken by the conversation.
    aim: Option<Aim>,
    /// Set by the handle.
    closing: Option<StopReason>,
    /// Set by the handle: a turn that runs when the process ends is not dropped yet.
    gently: bool,
    /// What the conversation does; it alone writes this.
    doing: Doing,
}

/// What a conversation does.
enum Doing {
    /// It begins, or stores something.
    Something,
    /// A turn, or the wait for its next try, which may be stopped.
    Turn(SessionStop),
    /// Nothing.
    Nothing,
    /// It is over.
    Closed,
}

impl Desk {
    pub(super) fn new() -> Self {
        Desk { waiting: VecDeque::new(), aim: None, closing: None, gently: false, doing: Doing::Something }
    }

    pub(super) fn say(&mut self, text: String) -> Result<(), SayError> {
        if self.is_closing() {
            return Err(SayError::Closed);
        }
        if text.trim().is_empty() {
            return Err(SayError::Blank);
        }
        if text.len() > MESSAGE_BYTES_MAX {
            return Err(SayError::TooLong { bytes: text.len(), bytes_max: MESSAGE_BYTES_MAX });
        }
        if self.waiting.len() >= WAITING_MAX {
            return Err(SayError::Full { waiting: self.waiting.len() });
        }
        self.waiting.push_back(text);
        Ok(())
    }

    pub(super) fn stop_turn(&self, notice: StopNotice) {
        match &self.doing {
            Doing::Turn(stop) => stop.stop(notice),
            Doing::Something | Doing::Nothing | Doing::Closed => {}
        }
    }

    pub(super) fn aim(&mut self, model: Arc<dyn Model>, route: Route) {
        self.aim = Some((model, route));
    }

    /// Nothing begins any more, and of a turn that runs what is under way comes to its end.
    pub(super) fn let_go(&mut self) {
        if self.closing.is_none() {
            (self.closing, self.gently) = (Some(StopReason::Shutdown), true);
            self.stop_turn(LET_GO);
        }
    }

    /// A turn is stopped; one that a shutdown ends is left as it is, and the conversation drops it.
    pub(super) fn close(&mut self, reason: StopReason) {
        let reason = *self.closing.get_or_insert(reason);
        self.gently = false;
        if reason != StopReason::Shutdown {
            self.stop_turn(StopNotice { reason, force: Force::Ask });
        }
    }

    pub(super) fn is_idle(&self) -> bool {
        matches!(self.doing, Doing::Nothing) && self.waiting.is_empty()
    }

    pub(super) fn is_closing(&self) -> bool {
        self.closing.is_some() || self.is_closed()
    }

    pub(super) fn is_closed(&self) -> bool {
        matches!(self.doing, Doing::Closed)
    }

    pub(super) fn is_shutting_down(&self) -> bool {
        self.closing == Some(StopReason::Shutdown)
    }

    /// Whether a turn that runs is dropped.
    pub(super) fn drops_turn(&self) -> bool {
        self.is_shutting_down() && !self.gently
    }

    pub(super) fn has_message(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// The conversation's side: the next message, and with it the end of idleness.
    pub(super) fn take_message(&mut self) -> Option<String> {
        let text = self.waiting.pop_front()?;
        self.doing = Doing::Something;
        Some(text)
    }

    /// What was taken and not stored waits again, before what came later.
    pub(super) fn give_back(&mut self, mut unsaid: Vec<String>) {
        unsaid.extend(self.waiting.drain(..));
        self.waiting = unsaid.into();
    }

    pub(super) fn take_waiting(&mut self) -> Vec<String> {
        self.waiting.drain(..).collect()
    }

    pub(super) fn take_aim(&mut self) -> Option<Aim> {
        self.aim.take()
    }

    /// Something begins that `stop` ends. A conversation that is closing ends it at once.
    pub(super) fn begin(&mut self, stop: SessionStop) {
        match self.closing {
            Some(StopReason::Shutdown) if self.gently => stop.stop(LET_GO),
            Some(StopReason::Shutdown) | None => {}
            Some(reason) => stop.stop(StopNotice { reason, force: Force::Ask }),
        }
        self.doing = Doing::Turn(stop);
    }

    pub(super) fn work(&mut self) {
        self.doing = Doing::Something;
    }

    pub(super) fn rest(&mut self) {
        self.doing = Doing::Nothing;
    }

    pub(super) fn end(&mut self) {
        self.doing = Doing::Closed;
    }
}
