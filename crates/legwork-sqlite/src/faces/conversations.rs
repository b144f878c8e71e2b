//! The face `Conversations`: turns each call into a command or a look. The statements are in `sql/`.

use crate::SqliteStore;
use crate::sql::history;
use legwork_core::ids::SessionId;
use legwork_core::message::Message;
use legwork_core::ports::{Conversations, NewSession, Pending, SessionRecord, StoreError, Turn};

impl Conversations for SqliteStore {
    fn create_session(&self, session: NewSession) -> Pending<'_, Result<(), StoreError>> {
        Box::pin(self.write(move |connection| history::create(connection, &session)))
    }

    fn session(&self, id: &SessionId) -> Pending<'_, Result<Option<SessionRecord>, StoreError>> {
        let id = id.clone();
        Box::pin(self.read(move |connection| history::session(connection, &id)))
    }

    fn sessions(&self, folder: Option<&str>) -> Pending<'_, Result<Vec<SessionRecord>, StoreError>> {
        let folder = folder.map(str::to_owned);
        Box::pin(self.read(move |connection| history::sessions(connection, folder.as_deref())))
    }

    fn append_turn(&self, turn: Turn) -> Pending<'_, Result<(), StoreError>> {
        Box::pin(async move {
            let prepared = history::Prepared::new(turn)?;
            self.write(move |connection| history::append(connection, &prepared)).await
        })
    }

    fn history(&self, id: &SessionId) -> Pending<'_, Result<Vec<Message>, StoreError>> {
        let id = id.clone();
        Box::pin(self.read(move |connection| history::messages(connection, &id)))
    }
}
