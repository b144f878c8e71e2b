//! The face `Steps`: a journal is a list, changed on a copy that replaces it when every change fitted.

use super::claims::End;
use super::state::{Damage, State};
use super::store::MemoryStore;
use legwork_core::ports::{Pending, Steps, StoreError, Turn, WriteSteps};
use legwork_core::step::{Actor, StepChange, StepRecord, StepState};

impl Steps for MemoryStore {
    fn write_steps(&self, write: WriteSteps) -> Pending<'_, Result<(), StoreError>> {
        self.now(|state| write_steps(state, write))
    }

    fn steps(&self, actor: &Actor) -> Pending<'_, Result<Vec<StepRecord>, StoreError>> {
        self.now(|state| {
            if state.damaged.contains(&Damage::Journal(actor.clone())) {
                return Err(StoreError::Corrupt(format!("a step of {} is unreadable", actor.as_str())));
            }
            Ok(state.journals.get(actor).cloned().unwrap_or_default())
        })
    }
}

fn write_steps(state: &mut State, write: WriteSteps) -> Result<(), StoreError> {
    state.pass(&write.actor, &write.fence)?;
    let mut journal = state.journals.get(&write.actor).cloned().unwrap_or_default();
    for change in write.changes.clone() {
        apply(&mut journal, change)?;
    }
    if let Some(turn) = &write.turn {
        check_turn(state, &write.actor, turn)?;
    }
    state.check_seen(&write.actor, &write.seen, &write.changes)?;
    let mut acknowledge = write.acknowledge;
    acknowledge.extend(write.turn.iter().flat_map(|turn| turn.acknowledge.iter().cloned()));
    state.end_claims(&acknowledge, &End::Acknowledge, write.at)?;
    state.mark_seen(&write.seen, write.at);
    state.journals.insert(write.actor, journal);
    write.turn.map_or(Ok(()), |turn| state.grow(turn))
}

/// The history that grows with a journal is the one of the same session.
fn check_turn(state: &State, actor: &Actor, turn: &Turn) -> Result<(), StoreError> {
    if *actor != Actor::Session(turn.session.clone()) {
        return Err(StoreError::Conflict(format!("a turn of {} is in another journal", turn.session)));
    }
    state.check_turn(turn)
}

fn apply(journal: &mut Vec<StepRecord>, change: StepChange) -> Result<(), StoreError> {
    match change {
        StepChange::Intend { seq, action } => {
            if seq as usize != journal.len() {
                return Err(StoreError::Conflict(format!("step {seq} cannot begin")));
            }
            journal.push(StepRecord { seq, action, state: StepState::Intended });
            Ok(())
        }
        StepChange::Finish { seq, product } => end(journal, seq, StepState::Done(product)),
        StepChange::Fail { seq, error } => end(journal, seq, StepState::Failed(error)),
    }
}

fn end(journal: &mut [StepRecord], seq: u32, state: StepState) -> Result<(), StoreError> {
    let step = journal.get_mut(seq as usize).filter(|step| step.state == StepState::Intended);
    let step = step.ok_or_else(|| StoreError::Conflict(format!("step {seq} cannot end")))?;
    step.state = state;
    Ok(())
}
