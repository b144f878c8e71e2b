//! The stored history of a conversation. It knows how many messages are stored, so that nothing is appended to a history
//! that somebody else has changed.
//!
//! It does not know what the messages are for, and it does not decide when the history grows: the journal does, in whole
//! legal records and in its own commits.

use crate::journal::wall_clock;
use legwork_core::ids::{ClaimId, OwnerId, SessionId};
use legwork_core::message::Message;
use legwork_core::ports::{Conversations, StoreError, Turn};
use std::sync::Arc;

/// The growing end of one session's history.
pub(crate) struct History {
    store: Arc<dyn Conversations>,
    session: SessionId,
    /// The process that has the session open.
    writer: OwnerId,
    /// How many messages are stored.
    stored: u64,
}

impl History {
    /// The history of a session that `writer` has open and that has `stored` messages.
    pub(crate) fn new(
        store: Arc<dyn Conversations>,
        session: SessionId,
        writer: OwnerId,
        stored: u64,
    ) -> Self {
        History { store, session, writer, stored }
    }

    /// Appends messages that stand for themselves, and acknowledges the claims that they carry, in one commit.
    ///
    /// # Errors
    /// [`StoreError`]; nothing is appended then.
    pub(crate) async fn append(
        &mut self,
        messages: Vec<Message>,
        acknowledge: Vec<ClaimId>,
    ) -> Result<(), StoreError> {
        let growth = messages.len() as u64;
        let turn = Turn { acknowledge, ..self.turn(messages) };
        self.store.append_turn(turn).await?;
        self.grew(growth);
        Ok(())
    }

    /// Messages as the next ones of this history, for a commit of the journal.
    pub(crate) fn turn(&self, messages: Vec<Message>) -> Turn {
        Turn {
            session: self.session.clone(),
            writer: self.writer.clone(),
            expected_messages: self.stored,
            at: wall_clock(),
            messages,
            acknowledge: Vec::new(),
        }
    }

    /// Whether the history has grown by these messages already. Nobody else lets it grow.
    ///
    /// # Errors
    /// [`StoreError`] when that cannot be read.
    pub(crate) async fn holds(&self, turn: &Turn) -> Result<bool, StoreError> {
        let whole = turn.expected_messages + turn.messages.len() as u64;
        Ok(self.store.session(&self.session).await?.is_some_and(|session| session.messages == whole))
    }

    /// Counts messages that are stored now.
    pub(crate) fn grew(&mut self, messages: u64) {
        self.stored += messages;
    }
}
