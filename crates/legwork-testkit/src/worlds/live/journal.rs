//! The journals of a live world: what its agents store of their steps, as patiently with a store in trouble as the real
//! ones.

use super::weather::Weather;
use legwork_core::ids::{ClaimId, RequestId};
use legwork_core::message::{ToolCall, ToolResult};
use legwork_core::ports::{Steps, StoreError, TROUBLE_MAX, WriteSteps};
use legwork_core::step::{Action, Actor, Fence, Product, StepChange, StepRecord, StepState};
use legwork_core::time::Timestamp;
use serde_json::json;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Pauses between tries, as those of the real journal.
const PAUSE_FIRST: Duration = Duration::from_millis(100);
const PAUSE_LAST: Duration = Duration::from_secs(5);
/// The tool by which agents send out children.
const DELEGATE: &str = "delegate";

/// What is stored together.
#[derive(Default)]
pub(super) struct Entry {
    pub(super) changes: Vec<StepChange>,
    pub(super) seen: Vec<(RequestId, u32)>,
    pub(super) acknowledge: Vec<ClaimId>,
}

impl Entry {
    pub(super) fn of(changes: Vec<StepChange>) -> Entry {
        Entry { changes, ..Entry::default() }
    }

    pub(super) fn by(self, actor: Actor, fence: Fence) -> WriteSteps {
        let Entry { changes, seen, acknowledge } = self;
        WriteSteps { actor, fence, at: Timestamp(0), changes, acknowledge, turn: None, seen }
    }
}

/// A call of a tool begins.
pub(super) fn intends(seq: u32, tool: &str) -> StepChange {
    let call = ToolCall { id: seq.to_string(), name: tool.to_owned(), arguments: json!({}), malformed: None };
    StepChange::Intend { seq, action: Action::Tool { call, read_only: false } }
}

/// A call that sends out children begins.
pub(super) fn intends_to_delegate(seq: u32) -> StepChange {
    intends(seq, DELEGATE)
}

/// Its result.
pub(super) fn finishes(seq: u32, answer: Result<String, String>) -> StepChange {
    let is_error = answer.is_err();
    let content = answer.unwrap_or_else(|error| error);
    let result = ToolResult { call_id: seq.to_string(), content, is_error };
    StepChange::Finish { seq, product: Product::Output(result) }
}

/// Whether the step is a call that sends out children.
pub(super) fn delegates(step: &StepRecord) -> bool {
    matches!(&step.action, Action::Tool { call, .. } if call.name == DELEGATE)
}

/// What the call of a step brought, if it sent out children and read of them.
pub(super) fn read_in(step: &StepRecord) -> Option<&str> {
    match &step.state {
        StepState::Done(Product::Output(result)) if delegates(step) && !result.is_error => {
            Some(&result.content)
        }
        StepState::Done(_) | StepState::Intended | StepState::Failed(_) => None,
    }
}

/// The steps of an agent, however long the store can be read with some patience.
pub(super) async fn steps(weather: &Weather, actor: &Actor) -> Result<Vec<StepRecord>, StoreError> {
    let mut trial = Trial::new();
    loop {
        match weather.store.steps(actor).await {
            Ok(steps) => return Ok(steps),
            Err(error) => trial.failed(error).await?,
        }
    }
}

/// Offers a write until it is stored. One that failed after the fact is refused then, and stands in the journal.
pub(super) async fn offer(weather: &Weather, write: &WriteSteps) -> Result<(), StoreError> {
    let mut trial = Trial::new();
    loop {
        let error = match weather.store.write_steps(write.clone()).await {
            Ok(()) => return Ok(()),
            Err(refused @ StoreError::Conflict(_)) if trial.since.is_some() => {
                match weather.store.steps(&write.actor).await {
                    Ok(steps) if write.changes.iter().all(|change| holds(&steps, change)) => return Ok(()),
                    Ok(_) => refused,
                    Err(unreadable) => unreadable,
                }
            }
            Err(error) => error,
        };
        trial.failed(error).await?;
    }
}

/// A write that fails is tried again and again, but not for ever.
struct Trial {
    since: Option<Instant>,
    pause: Duration,
}

impl Trial {
    fn new() -> Trial {
        Trial { since: None, pause: PAUSE_FIRST }
    }

    async fn failed(&mut self, error: StoreError) -> Result<(), StoreError> {
        let since = *self.since.get_or_insert_with(Instant::now);
        if !error.may_pass() || since.elapsed() >= TROUBLE_MAX {
            return Err(error);
        }
        // Deadline: a store in trouble is given time.
        sleep(self.pause).await;
        self.pause = (self.pause * 2).min(PAUSE_LAST);
        Ok(())
    }
}

fn holds(steps: &[StepRecord], change: &StepChange) -> bool {
    let step = |seq: u32| steps.iter().find(|step| step.seq == seq);
    match change {
        StepChange::Intend { seq, action } => step(*seq).is_some_and(|step| step.action == *action),
        StepChange::Finish { seq, product } => {
            step(*seq).is_some_and(|step| step.state == StepState::Done(product.clone()))
        }
        StepChange::Fail { seq, error } => {
            step(*seq).is_some_and(|step| step.state == StepState::Failed(error.clone()))
        }
    }
}
