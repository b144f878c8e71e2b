//! What a session of a live world waits for itself: the calls of its own agent, also those that an earlier opening was in
//! the middle of; and results that wake nobody, which come in with what its user says next.
//!
//! It keeps to the order of the real conversation: what a call brought is in the session's journal first, and its claims
//! end with the turn that carries it.

use super::journal::{self, Entry, finishes, intends_to_delegate, read_in};
use super::people::{setting, task};
use super::process::Neighbours;
use super::session::Session;
use super::told;
use legwork_core::batch::{Lineage, NewBatch, Reach};
use legwork_core::below::{Below, Receiver};
use legwork_core::ids::{CallKey, ClaimId, DelegationId, UnitId};
use legwork_core::message::Author;
use legwork_core::outcome::{Force, StopReason};
use legwork_core::ports::{Conversations, Delegator, Facts, Joined, StoreError, Undelivered};
use legwork_core::record::DelegationRecord;
use legwork_core::steering::Scope;
use legwork_core::step::{Actor, Fence, StepChange, StepState};
use legwork_core::taking::{Taker, UnitAt};
use legwork_core::time::Timestamp;

/// How the message begins that carries what a call of the session's own agent brought.
pub(super) const CALL: &str = "call ";
/// How the message begins that carries what was left for the session.
pub(super) const LEFT: &str = "left ";

impl Session {
    /// A call of the session's own agent, which waits for it. Now and then its user stops the whole turn meanwhile, or what it
    /// waits for.
    pub(super) async fn call(&mut self) {
        let Ok(steps) = journal::steps(&self.weather, &self.actor()).await else { return };
        let seq = u32::try_from(steps.len()).unwrap_or(u32::MAX);
        if !self.journalled(vec![intends_to_delegate(seq)]).await {
            return;
        }
        let Ok(ticket) = self.handle.clone().dispatch(self.batch(seq)).await else {
            self.cut_off(seq).await;
            return;
        };
        self.wait_for(seq, &ticket.delegation).await;
    }

    /// An opening goes on with the call that an earlier one was in the middle of.
    pub(super) async fn go_on(&mut self) {
        let Ok(steps) = journal::steps(&self.weather, &self.actor()).await else { return };
        let Some(last) = steps.last() else { return };
        match &last.state {
            StepState::Intended => match self.weather.store.by_call_key(&self.key(last.seq)).await {
                Ok(Some(delegation)) if self.weather.chance(|chance| chance.once_in(2)) => {
                    self.wait_for(last.seq, &delegation).await;
                }
                Ok(_) | Err(_) => self.cut_off(last.seq).await,
            },
            StepState::Done(_) if read_in(last).is_some() => {
                self.carry_in(last.seq, read_in(last).unwrap_or_default()).await;
            }
            StepState::Done(_) | StepState::Failed(_) => {}
        }
    }

    /// Takes in what wakes nobody and is the session's own: what a turn had waited for that was cut off, and what a child had
    /// asked for whose own results have arrived before.
    pub(super) async fn take_in(&mut self) {
        // A store that fails now is asked again with the next message.
        let Ok(units) = self.weather.store.undelivered(&self.id).await else { return };
        for due in units.rows.iter().filter(|due| due.reach == Reach::Joined) {
            if self.lost || self.take_in_one(due).await.is_err() {
                return;
            }
        }
    }

    async fn take_in_one(&mut self, due: &Undelivered) -> Result<(), StoreError> {
        let store = self.weather.store.clone();
        let Some(record) = store.delegation(&due.delegation).await? else { return Ok(()) };
        let Some(place) = place_of(&record, &due.unit) else { return Ok(()) };
        let tasks = &record.accepted.units[place].task_indexes;
        let is_ours = Receiver::of(store.as_ref(), &record).await? == Receiver::Session;
        let below = Below::of(store.as_ref(), &record).await?;
        if !is_ours || below.open_under(tasks).next().is_some() {
            return Ok(());
        }
        let processes = Neighbours(self.weather.clone());
        let (taker, signature, claim) = (self.taker(&processes), self.signature(), self.new_claim());
        let claimed = if record.accepted.lineage.parent.is_some() {
            // Whoever held it here waited for the child that has ended.
            taker.take_unit(UnitAt { record: &record, place }, &signature, || claim.clone()).await
        } else if taker.make_ready(&due.unit, &due.state, due.claimant.as_deref()).await? {
            store.claim(&due.unit, claim.clone(), &signature, Timestamp(0)).await
        } else {
            Ok(None)
        };
        if claimed.is_err() {
            self.give_back(claim).await;
        }
        let Some(claim) = claimed? else { return Ok(()) };
        let lines = told::of_tasks(&record, tasks, &below);
        let text = [vec![format!("{LEFT}{}", due.unit)], lines].concat().join("\n");
        if !self.store(Author::Completion, text, vec![claim.clone()]).await {
            self.give_back(claim).await;
        }
        Ok(())
    }

    /// Waits for what a call has sent out, until its user has enough of that.
    async fn wait_for(&mut self, seq: u32, delegation: &DelegationId) {
        let handle = self.handle.clone();
        let (patience, stops) = self.weather.chance(|chance| (chance.once_in(4), chance.once_in(2)));
        let weather = self.weather.clone();
        let enough = async {
            if !patience {
                std::future::pending::<()>().await;
            }
            weather.dawdle(2000).await;
        };
        let joined = tokio::select! {
            biased;
            joined = handle.join(delegation) => joined.ok(),
            () = enough => {
                handle.stop(Scope::Delegation(delegation.clone()), StopReason::Cancelled, Force::Ask).await;
                if stops { handle.join(delegation).await.ok() } else { None }
            }
        };
        match joined {
            Some(joined) => self.brought(seq, joined).await,
            None => self.cut_off(seq).await,
        }
    }

    /// What a call brought is in the journal, and then in the conversation. Claims of what is not are given back.
    async fn brought(&mut self, seq: u32, joined: Joined) {
        let lines = told::of_all(&joined.record, &joined.below).join("\n");
        self.loose.clone_from(&joined.claims);
        if !self.journalled(vec![finishes(seq, Ok(lines.clone()))]).await {
            self.give_back_loose().await;
            return;
        }
        self.loose.clear();
        self.weather.dawdle(400).await;
        self.carry_in(seq, &lines).await;
    }

    /// Makes what a call brought part of the conversation, with whatever claims of it can be had.
    async fn carry_in(&mut self, seq: u32, lines: &str) {
        while !self.lost {
            if let Ok(false) = self.try_to_carry_in(seq, lines).await {
                return;
            }
            self.weather.dawdle(100).await;
        }
    }

    /// `true` when it is to be tried again.
    async fn try_to_carry_in(&mut self, seq: u32, lines: &str) -> Result<bool, StoreError> {
        let store = self.weather.store.clone();
        let head = format!("{CALL}{seq}");
        let history = store.history(&self.id).await?;
        if history.iter().any(|message| message.plain_text().lines().next() == Some(&head)) {
            return Ok(false);
        }
        let Some(delegation) = store.by_call_key(&self.key(seq)).await? else { return Ok(false) };
        let Some(record) = store.delegation(&delegation).await? else { return Ok(false) };
        let processes = Neighbours(self.weather.clone());
        let bits = self.weather.clone();
        let new_claim = || ClaimId::from_bits(bits.chance(|chance| chance.bits()));
        let claims = self.taker(&processes).take_all(&record, &self.signature(), new_claim).await?;
        Ok(!self.store(Author::Completion, format!("{head}\n{lines}"), claims).await)
    }

    /// A call that was cut off has no result in the conversation; what it had asked for comes in later.
    async fn cut_off(&mut self, seq: u32) {
        let change = StepChange::Fail { seq, error: "the turn was cut off".to_owned() };
        // A store that does not take it leaves the call to the next opening.
        self.journalled(vec![change]).await;
    }

    pub(super) async fn give_back_loose(&mut self) {
        while let Some(claim) = self.loose.last().cloned() {
            self.give_back(claim).await;
            self.loose.pop();
        }
    }

    /// Whether the session's journal has taken it.
    async fn journalled(&mut self, changes: Vec<StepChange>) -> bool {
        let fence = Fence { owner: self.owner.clone(), epoch: legwork_core::ids::Epoch::FIRST };
        let stored = journal::offer(&self.weather, &Entry::of(changes).by(self.actor(), fence)).await;
        if let Err(StoreError::Fenced(_)) = stored {
            self.weather.shared().figures.fenced += 1;
            self.lost = true;
        }
        stored.is_ok()
    }

    fn batch(&self, seq: u32) -> NewBatch {
        let tasks = self.weather.chance(|chance| {
            let groups = *chance.pick(&[&[None][..], &[None, Some("a")]]);
            (0..chance.between(1, 3)).map(|_| task(*chance.pick(groups))).collect()
        });
        NewBatch {
            lineage: Lineage::of_session(self.id.clone()),
            call_key: Some(self.key(seq)),
            context: None,
            reach: Reach::Joined,
            tasks,
            setting: setting(),
        }
    }

    fn key(&self, seq: u32) -> CallKey {
        CallKey { caller: self.actor().as_str().to_owned(), call: seq.to_string() }
    }

    fn actor(&self) -> Actor {
        Actor::Session(self.id.clone())
    }

    fn taker<'a>(&'a self, processes: &'a Neighbours) -> Taker<'a> {
        Taker { facts: self.weather.store.as_ref(), processes, owner: &self.owner, at: Timestamp(0) }
    }

    /// How its process signs claims, as far as anybody reads it.
    fn signature(&self) -> String {
        self.owner.to_string()
    }

    fn new_claim(&self) -> ClaimId {
        ClaimId::from_bits(self.weather.chance(|chance| chance.bits()))
    }
}

fn place_of(record: &DelegationRecord, unit: &UnitId) -> Option<usize> {
    record.accepted.units.iter().position(|known| known.id == *unit)
}
