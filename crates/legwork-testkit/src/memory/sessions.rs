//! Sessions: who has them open, what they are called, and their end.

use super::state::{Delegation, Session, State};
use legwork_core::ids::{ChildId, OwnerId, SessionId, UnitId};
use legwork_core::ports::{Held, NewSession, SessionRecord, StoreError, Turn};
use legwork_core::record::OwnerRecord;
use legwork_core::steering::Scope;
use legwork_core::step::Actor;

impl State {
    pub(super) fn create_session(&mut self, session: NewSession, holder: &OwnerId) -> Result<(), StoreError> {
        let holder = self.entered(holder)?;
        if self.session(&session.id).is_some() {
            return Err(StoreError::Conflict(format!("the session id {} is taken", session.id)));
        }
        self.check_name(&session.id, session.name.as_deref(), &session.folder)?;
        let touched_at = session.at;
        let record =
            SessionRecord { session, holder: Some(holder), opening: None, messages: 0, touched_at, last: 0 };
        self.sessions.push(Session { record, history: Vec::new() });
        Ok(())
    }

    pub(super) fn hold_session(
        &mut self,
        id: &SessionId,
        owner: &OwnerId,
        instead_of: Option<&OwnerId>,
    ) -> Result<Held, StoreError> {
        let owner = self.entered(owner)?;
        let Ok(session) = self.session_mut(id) else { return Ok(Held::Unknown) };
        match &session.record.holder {
            Some(holder) if holder.id != owner.id && Some(&holder.id) != instead_of => {
                Ok(Held::By(holder.clone()))
            }
            Some(_) | None => {
                session.record.holder = Some(owner);
                Ok(Held::Here)
            }
        }
    }

    pub(super) fn release_session(&mut self, id: &SessionId, owner: &OwnerId) {
        if self.check_holder(id, owner).is_ok()
            && let Ok(session) = self.session_mut(id)
        {
            session.record.holder = None;
        }
    }

    pub(super) fn rename_session(&mut self, id: &SessionId, name: Option<&str>) -> Result<(), StoreError> {
        let folder = self.session_mut(id)?.record.session.folder.clone();
        self.check_name(id, name, &folder)?;
        self.session_mut(id)?.record.session.name = name.map(str::to_owned);
        Ok(())
    }

    pub(super) fn delete_session(&mut self, id: &SessionId) -> Result<(), StoreError> {
        if self.session_mut(id)?.record.holder.is_some() {
            return Err(StoreError::Conflict(format!("{id} is open")));
        }
        let records = self.delegations.iter().map(|delegation| &delegation.record);
        let mut own = records.filter(|record| record.accepted.lineage.session == *id);
        let is_over = own.all(|record| record.deliveries.iter().all(|delivery| delivery.state.is_final()));
        if !is_over {
            return Err(StoreError::Conflict(format!("something of {id} has not ended, or has not arrived")));
        }
        self.remove_delegations(|delegation| delegation.record.accepted.lineage.session == *id);
        self.remove_session(id);
        Ok(())
    }

    pub(super) fn discard_session(&mut self, id: &SessionId, owner: &OwnerId) -> bool {
        let is_silent = self.session(id).is_some_and(|session| session.record.messages == 0);
        let mut records = self.delegations.iter().map(|delegation| &delegation.record);
        let is_used = !is_silent || records.any(|record| record.accepted.lineage.session == *id);
        if is_used || self.check_holder(id, owner).is_err() {
            return false;
        }
        self.remove_session(id);
        true
    }

    fn remove_session(&mut self, id: &SessionId) {
        self.requests.retain(|_, record| record.request.scope != Scope::Session(id.clone()));
        self.journals.remove(&Actor::Session(id.clone()));
        self.sessions.retain(|session| session.record.session.id != *id);
    }

    /// Removes delegations with all that belongs to them; says how many.
    pub(super) fn remove_delegations(&mut self, is_wanted: impl Fn(&Delegation) -> bool) -> usize {
        let (gone, kept): (Vec<_>, Vec<_>) = self.delegations.drain(..).partition(is_wanted);
        self.delegations = kept;
        let children: Vec<ChildId> =
            gone.iter().flat_map(|delegation| delegation.record.accepted.children.iter().cloned()).collect();
        for child in &children {
            self.journals.remove(&Actor::Child(child.clone()));
        }
        self.drop_steers_of(&children);
        let is_gone = |unit: &UnitId| {
            gone.iter()
                .any(|delegation| delegation.record.accepted.units.iter().any(|other| other.id == *unit))
        };
        self.ready.retain(|_, unit| !is_gone(unit));
        gone.len()
    }

    /// Refuses anybody but the process that has the session open and was not declared gone.
    pub(super) fn pass_session(&self, id: &SessionId, owner: &OwnerId) -> Result<(), StoreError> {
        self.check_holder(id, owner)?;
        self.living_owner(owner).map(drop)
    }

    fn check_holder(&self, id: &SessionId, owner: &OwnerId) -> Result<(), StoreError> {
        let session = self.session(id);
        let session = session.ok_or_else(|| StoreError::Conflict(format!("there is no session {id}")))?;
        match &session.record.holder {
            Some(holder) if holder.id == *owner => Ok(()),
            Some(holder) => Err(StoreError::Fenced(format!("{id} is open in {}, not in {owner}", holder.id))),
            None => Err(StoreError::Fenced(format!("{id} is open nowhere, and not in {owner}"))),
        }
    }

    /// Refuses a turn whose writer does not hold the session, or knows another history.
    pub(super) fn check_turn(&self, turn: &Turn) -> Result<(), StoreError> {
        self.pass_session(&turn.session, &turn.writer)?;
        let stored = self.session(&turn.session).map_or(0, |session| session.record.messages);
        if stored == turn.expected_messages {
            return Ok(());
        }
        let expected = turn.expected_messages;
        Err(StoreError::Conflict(format!(
            "the session has {stored} messages and the writer knew of {expected}"
        )))
    }

    /// Appends the messages of a turn that was let pass.
    pub(super) fn grow(&mut self, turn: Turn) -> Result<(), StoreError> {
        let stored = self.sessions.iter().map(|session| session.record.last).max().unwrap_or_default();
        let session = self.session_mut(&turn.session)?;
        let record = &mut session.record;
        if !turn.messages.is_empty() {
            record.last = stored + turn.messages.len() as u64;
        }
        record.opening = record.opening.take().or_else(|| turn.opening());
        record.messages += turn.messages.len() as u64;
        record.touched_at = turn.at;
        session.history.extend(turn.messages);
        Ok(())
    }

    fn entered(&self, owner: &OwnerId) -> Result<OwnerRecord, StoreError> {
        self.living_owner(owner).cloned()
    }

    fn session_mut(&mut self, id: &SessionId) -> Result<&mut Session, StoreError> {
        let session = self.sessions.iter_mut().find(|session| session.record.session.id == *id);
        session.ok_or_else(|| StoreError::Conflict(format!("there is no session {id}")))
    }

    fn check_name(&self, id: &SessionId, name: Option<&str>, folder: &str) -> Result<(), StoreError> {
        let mut others = self.sessions.iter().map(|session| &session.record.session);
        let is_taken = name.is_some()
            && others.any(|other| other.id != *id && other.folder == folder && other.name.as_deref() == name);
        if is_taken {
            return Err(StoreError::Conflict(format!("the name {name:?} is taken in {folder}")));
        }
        Ok(())
    }
}
