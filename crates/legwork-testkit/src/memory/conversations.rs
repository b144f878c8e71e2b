//! The face `Conversations`: sessions and their histories, kept for as long as the process lives.

use super::claims::End;
use super::state::{Session, State};
use super::store::MemoryStore;
use legwork_core::ids::SessionId;
use legwork_core::message::Message;
use legwork_core::ports::{Conversations, NewSession, Pending, SessionRecord, StoreError, Turn};

impl Conversations for MemoryStore {
    fn create_session(&self, session: NewSession) -> Pending<'_, Result<(), StoreError>> {
        self.now(|state| {
            if state.session(&session.id).is_some() {
                return Err(StoreError::Conflict(format!("the session id {} is taken", session.id)));
            }
            let touched_at = session.at;
            let record = SessionRecord { session, messages: 0, touched_at };
            state.sessions.push(Session { record, history: Vec::new() });
            Ok(())
        })
    }

    fn session(&self, id: &SessionId) -> Pending<'_, Result<Option<SessionRecord>, StoreError>> {
        self.now(|state| Ok(state.session(id).map(|session| session.record.clone())))
    }

    fn sessions(&self, folder: Option<&str>) -> Pending<'_, Result<Vec<SessionRecord>, StoreError>> {
        self.now(|state| {
            let newest_first = state.sessions.iter().rev().map(|session| &session.record);
            let wanted =
                newest_first.filter(|record| folder.is_none_or(|folder| record.session.folder == folder));
            Ok(wanted.cloned().collect())
        })
    }

    fn append_turn(&self, turn: Turn) -> Pending<'_, Result<(), StoreError>> {
        self.now(|state| append(state, turn))
    }

    fn history(&self, id: &SessionId) -> Pending<'_, Result<Vec<Message>, StoreError>> {
        self.now(|state| Ok(state.session(id).map(|session| session.history.clone()).unwrap_or_default()))
    }
}

fn append(state: &mut State, turn: Turn) -> Result<(), StoreError> {
    let place = state.sessions.iter().position(|session| session.record.session.id == turn.session);
    let place = place.ok_or_else(|| StoreError::Conflict(format!("there is no session {}", turn.session)))?;
    let stored = state.sessions[place].record.messages;
    if stored != turn.expected_messages {
        let expected = turn.expected_messages;
        return Err(StoreError::Conflict(format!(
            "the session has {stored} messages and the writer knew of {expected}"
        )));
    }
    state.end_claims(&turn.acknowledge, &End::Acknowledge, turn.at)?;
    let session = &mut state.sessions[place];
    session.record.messages += turn.messages.len() as u64;
    session.record.touched_at = turn.at;
    session.history.extend(turn.messages);
    Ok(())
}
