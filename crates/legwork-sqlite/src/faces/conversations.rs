//! The face `Conversations`: turns each call into a command or a look. The statements are in `sql/`.

use crate::SqliteStore;
use crate::sql::{history, sessions};
use legwork_core::ids::{OwnerId, SessionId};
use legwork_core::message::Message;
use legwork_core::ports::{
    Conversations, Held, Listed, NewSession, Pending, SessionRecord, StoreError, Turn,
};

impl Conversations for SqliteStore {
    fn create_session(&self, session: NewSession, holder: &OwnerId) -> Pending<'_, Result<(), StoreError>> {
        let holder = holder.clone();
        Box::pin(self.write(move |connection| sessions::create(connection, &session, &holder)))
    }

    fn session(&self, id: &SessionId) -> Pending<'_, Result<Option<SessionRecord>, StoreError>> {
        let id = id.clone();
        Box::pin(self.read(move |connection| sessions::session(connection, &id)))
    }

    fn sessions(
        &self,
        folder: Option<&str>,
    ) -> Pending<'_, Result<Listed<SessionRecord, SessionId>, StoreError>> {
        let folder = folder.map(str::to_owned);
        Box::pin(self.read(move |connection| sessions::sessions(connection, folder.as_deref())))
    }

    fn hold_session(
        &self,
        id: &SessionId,
        owner: &OwnerId,
        instead_of: Option<&OwnerId>,
    ) -> Pending<'_, Result<Held, StoreError>> {
        let (id, owner, instead_of) = (id.clone(), owner.clone(), instead_of.cloned());
        Box::pin(self.write(move |connection| sessions::hold(connection, &id, &owner, instead_of.as_ref())))
    }

    fn release_session(&self, id: &SessionId, owner: &OwnerId) -> Pending<'_, Result<(), StoreError>> {
        let (id, owner) = (id.clone(), owner.clone());
        Box::pin(self.write(move |connection| sessions::release(connection, &id, &owner)))
    }

    fn rename_session(&self, id: &SessionId, name: Option<&str>) -> Pending<'_, Result<(), StoreError>> {
        let (id, name) = (id.clone(), name.map(str::to_owned));
        Box::pin(self.write(move |connection| sessions::rename(connection, &id, name.as_deref())))
    }

    fn delete_session(&self, id: &SessionId) -> Pending<'_, Result<(), StoreError>> {
        let id = id.clone();
        Box::pin(self.write(move |connection| sessions::delete(connection, &id)))
    }

    fn discard_session(&self, id: &SessionId, owner: &OwnerId) -> Pending<'_, Result<bool, StoreError>> {
        let (id, owner) = (id.clone(), owner.clone());
        Box::pin(self.write(move |connection| sessions::discard(connection, &id, &owner)))
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
