//! The face `Conversations`: sessions and their histories, kept for as long as the process lives.

use super::claims::End;
use super::state::State;
use super::store::MemoryStore;
use legwork_core::ids::{OwnerId, SessionId};
use legwork_core::message::Message;
use legwork_core::ports::{
    Conversations, Held, Listed, NewSession, Pending, SessionRecord, StoreError, Turn,
};

impl Conversations for MemoryStore {
    fn create_session(&self, session: NewSession, holder: &OwnerId) -> Pending<'_, Result<(), StoreError>> {
        self.now(|state| state.create_session(session, holder))
    }

    fn session(&self, id: &SessionId) -> Pending<'_, Result<Option<SessionRecord>, StoreError>> {
        self.now(|state| Ok(state.session(id).map(|session| session.record.clone())))
    }

    fn sessions(
        &self,
        folder: Option<&str>,
    ) -> Pending<'_, Result<Listed<SessionRecord, SessionId>, StoreError>> {
        self.now(|state| {
            let newest_first = state.sessions.iter().rev().map(|session| &session.record);
            let wanted =
                newest_first.filter(|record| folder.is_none_or(|folder| record.session.folder == folder));
            Ok(Listed { rows: wanted.cloned().collect(), unreadable: Vec::new() })
        })
    }

    fn hold_session(
        &self,
        id: &SessionId,
        owner: &OwnerId,
        instead_of: Option<&OwnerId>,
    ) -> Pending<'_, Result<Held, StoreError>> {
        self.now(|state| state.hold_session(id, owner, instead_of))
    }

    fn release_session(&self, id: &SessionId, owner: &OwnerId) -> Pending<'_, Result<(), StoreError>> {
        self.now(|state| {
            state.release_session(id, owner);
            Ok(())
        })
    }

    fn rename_session(&self, id: &SessionId, name: Option<&str>) -> Pending<'_, Result<(), StoreError>> {
        self.now(|state| state.rename_session(id, name))
    }

    fn delete_session(&self, id: &SessionId) -> Pending<'_, Result<(), StoreError>> {
        self.now(|state| state.delete_session(id))
    }

    fn discard_session(&self, id: &SessionId, owner: &OwnerId) -> Pending<'_, Result<bool, StoreError>> {
        self.now(|state| Ok(state.discard_session(id, owner)))
    }

    fn append_turn(&self, turn: Turn) -> Pending<'_, Result<(), StoreError>> {
        self.now(|state| append(state, turn))
    }

    fn history(&self, id: &SessionId) -> Pending<'_, Result<Vec<Message>, StoreError>> {
        self.now(|state| Ok(state.session(id).map(|session| session.history.clone()).unwrap_or_default()))
    }
}

fn append(state: &mut State, turn: Turn) -> Result<(), StoreError> {
    state.check_turn(&turn)?;
    state.end_claims(&turn.acknowledge, &End::Acknowledge, turn.at)?;
    state.grow(turn)
}
