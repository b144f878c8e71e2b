//! The stored history of a conversation, grown in whole legal records: an answer alone, or a reply with all the results
//! of its calls. After a kill at any byte what is stored may be sent to a strict provider as it is (K43).
//!
//! It does not know what the messages are for.

use crate::journal::wall_clock;
use legwork_core::ids::{ClaimId, OwnerId, SessionId};
use legwork_core::message::{Author, Message, Part, ToolResult};
use legwork_core::ports::{Conversations, StoreError, Turn};
use std::sync::Arc;

/// The growing end of one session's history.
pub(crate) struct History {
    store: Arc<dyn Conversations>,
    session: SessionId,
    /// This process, which has the session open.
    writer: OwnerId,
    /// How many messages are stored.
    stored: u64,
    /// A reply whose calls have not all ended; it is stored together with their results.
    reply: Option<Message>,
    results: Vec<Part>,
    claims: Vec<ClaimId>,
}

impl History {
    /// The history of a session that has `stored` messages.
    pub(crate) fn new(
        store: Arc<dyn Conversations>,
        session: SessionId,
        writer: OwnerId,
        stored: u64,
    ) -> Self {
        History { store, session, writer, stored, reply: None, results: Vec::new(), claims: Vec::new() }
    }

    /// Appends messages that stand for themselves, in one commit.
    ///
    /// # Errors
    /// [`StoreError`]; nothing is appended then.
    pub(crate) async fn append(&mut self, messages: Vec<Message>) -> Result<(), StoreError> {
        self.write(messages, Vec::new()).await
    }

    /// Takes a reply: an answer is appended at once, a reply with calls waits for their results. A reply that says
    /// nothing is left out, since no provider takes it back.
    pub(crate) async fn replied(&mut self, message: &Message) -> Result<(), StoreError> {
        if message.calls().next().is_some() {
            self.reply = Some(message.clone());
            return Ok(());
        }
        if message.plain_text().trim().is_empty() {
            return Ok(());
        }
        self.write(vec![message.clone()], Vec::new()).await
    }

    /// Takes the results of some calls of the reply that waits.
    pub(crate) fn ran(&mut self, results: &[ToolResult], claims: Vec<ClaimId>) {
        self.results.extend(results.iter().cloned().map(Part::Result));
        self.claims.extend(claims);
    }

    /// Appends the reply that waited, with all its results, and acknowledges the claims they carry: one commit.
    pub(crate) async fn keep_exchange(&mut self) -> Result<(), StoreError> {
        let Some(reply) = self.reply.take() else { return Ok(()) };
        let results = Message { author: Author::Tool, parts: std::mem::take(&mut self.results) };
        let claims = std::mem::take(&mut self.claims);
        self.write(vec![reply, results], claims).await
    }

    async fn write(&mut self, messages: Vec<Message>, acknowledge: Vec<ClaimId>) -> Result<(), StoreError> {
        let grown = messages.len() as u64;
        let turn = Turn {
            session: self.session.clone(),
            writer: self.writer.clone(),
            expected_messages: self.stored,
            at: wall_clock(),
            messages,
            acknowledge,
        };
        self.store.append_turn(turn).await?;
        self.stored += grown;
        Ok(())
    }
}
