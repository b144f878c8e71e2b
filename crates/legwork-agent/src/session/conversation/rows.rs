//! Results that wake nobody: they become part of the conversation together with the next message of its person, and are
//! answered with it (MODE-6, DLV-14). Who can be woken gets what may wake by other ways.

use super::Conversation;
use crate::session::arrivals::{self, Taken, Waiting, Which};
use crate::session::completion::Completion;
use crate::session::event::SessionEvent;
use legwork_core::batch::Reach;
use legwork_core::ids::{ClaimId, UnitId};
use legwork_core::message::{Author, Message};

/// Units that come in with one message; further ones come with the next. Each takes at most its share of the model's window.
const ROWS_MAX: usize = 4;

/// The results of a unit that are to be stored.
pub(super) struct Row {
    pub(super) claim: ClaimId,
    pub(super) message: Message,
    unit: UnitId,
    title: String,
}

impl Row {
    /// What a front door hears of it once it is stored.
    fn into_event(self) -> SessionEvent {
        let text = self.message.plain_text();
        SessionEvent::CameIn { unit: self.unit, title: self.title, text }
    }
}

impl Conversation {
    /// Claims what waits for the next message. Whoever does not store it gives it back.
    pub(super) async fn rows(&mut self) -> Vec<Row> {
        self.pay().await;
        let mut waiting = match self.session.setup().reach {
            Reach::Push => Waiting::of(Which::NotWoken),
            Reach::History | Reach::Joined => Waiting::default(),
        };
        let mut rows = Vec::new();
        while rows.len() < ROWS_MAX {
            let setup = self.session.setup();
            let Taken { claim, record, unit } = match waiting.next(setup, self.session.id()).await {
                Ok(Some(taken)) => taken,
                Ok(None) => break,
                Err(error) => {
                    tracing::warn!(%error, "results that wait for the conversation cannot be read; they come with a later message");
                    break;
                }
            };
            match arrivals::written(setup, &record, unit).await {
                Some(Completion { title, text }) => rows.push(Row {
                    claim,
                    message: Message::text(Author::Completion, text),
                    unit: record.accepted.units[unit].id.clone(),
                    title,
                }),
                None => waiting.owed.push(claim),
            }
        }
        self.owed.append(&mut waiting.owed);
        self.pay().await;
        rows
    }

    /// They were not stored.
    pub(super) async fn give_back(&mut self, rows: &[Row]) {
        self.owed.extend(rows.iter().map(|row| row.claim.clone()));
        self.pay().await;
    }

    /// Gives back what is owed, as far as the store takes it.
    pub(super) async fn pay(&mut self) {
        for claim in std::mem::take(&mut self.owed) {
            if !arrivals::give_back(self.session.setup(), &claim).await {
                self.owed.push(claim);
            }
        }
    }

    /// They are stored, with a message that follows.
    pub(super) fn came_in(&self, rows: Vec<Row>) {
        rows.into_iter().for_each(|row| self.tell(row.into_event()));
    }
}

/// Those rows of several tries that are among what was stored, each once.
pub(super) fn stored_among(rows: Vec<Row>, stored: &[Message]) -> Vec<Row> {
    let mut open: Vec<&Message> = stored.iter().collect();
    let is_stored = |row: &Row| {
        let place = open.iter().position(|message| **message == row.message);
        place.map(|place| open.remove(place)).is_some()
    };
    rows.into_iter().filter(is_stored).collect()
}
