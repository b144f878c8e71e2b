//! The workers of a live world: they work for a while, read what is said to them, and store that they did, as patiently with
//! a store in trouble as the real ones.

use super::weather::Weather;
use legwork_core::batch::Setting;
use legwork_core::ids::RequestId;
use legwork_core::message::{Author, Message, ToolCall, ToolResult};
use legwork_core::outcome::{Ending, FailureKind};
use legwork_core::ports::{
    Assignment, Facts, Line, Pending, Steer, Steps, StoreError, TROUBLE_MAX, Unrecorded, Worker, WriteSteps,
};
use legwork_core::report::Report;
use legwork_core::step::{Action, Actor, Product, StepChange, StepRecord, StepState};
use legwork_core::time::Timestamp;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Pauses between tries, as those of the real journal.
const PAUSE_FIRST: Duration = Duration::from_millis(100);
const PAUSE_LAST: Duration = Duration::from_secs(5);

pub(super) struct Workers(pub(super) Weather);

impl Worker for Workers {
    fn work(
        &self,
        assignment: Assignment,
        line: Arc<dyn Line>,
    ) -> Pending<'static, Result<Report, Unrecorded>> {
        let weather = self.0.clone();
        let fails = weather.chance(|chance| chance.once_in(5));
        let rounds = weather.chance(|chance| chance.between(0, 6));
        Box::pin(async move {
            tokio::select! {
                biased;
                _ = line.stopped() => Ok(Report::bare(Ending::Interrupted)),
                ended = carry_out(&weather, &assignment, (&*line, rounds)) => match ended {
                    Ok(()) if fails => Ok(Report::bare(Ending::Failed(FailureKind::Model))),
                    Ok(()) => Ok(Report { answer: Some("done".to_owned()), ..Report::bare(Ending::Answered) }),
                    Err(error) if error.may_pass() => Err(Unrecorded(error)),
                    Err(_) => Ok(Report::bare(Ending::Failed(FailureKind::Store))),
                },
            }
        })
    }

    fn lacks(&self, _: &Setting) -> Option<String> {
        None
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

async fn carry_out(
    weather: &Weather,
    assignment: &Assignment,
    (line, rounds): (&dyn Line, usize),
) -> Result<(), StoreError> {
    let mut step = next_step(weather, assignment).await?;
    for _ in 0..rounds {
        weather.dawdle(500).await;
        let steers = line.steered();
        if !steers.is_empty() {
            read(weather, assignment, step, steers).await?;
            step += 1;
        } else if weather.chance(|chance| chance.once_in(2)) {
            act(weather, assignment, step).await?;
            step += 1;
        }
    }
    Ok(())
}

/// Where an earlier attempt ended. A step that it was in the middle of is given up.
async fn next_step(weather: &Weather, assignment: &Assignment) -> Result<u32, StoreError> {
    let mut trial = Trial::new();
    let steps = loop {
        match weather.store.steps(&Actor::Child(assignment.child.clone())).await {
            Ok(steps) => break steps,
            Err(error) => trial.failed(error).await?,
        }
    };
    if let Some(last) = steps.last().filter(|last| last.state == StepState::Intended) {
        let change = StepChange::Fail { seq: last.seq, error: "the process died".to_owned() };
        store(weather, assignment, (vec![change], Vec::new())).await?;
    }
    Ok(u32::try_from(steps.len()).unwrap_or(u32::MAX))
}

/// Takes a step: intent, some work, result.
async fn act(weather: &Weather, assignment: &Assignment, seq: u32) -> Result<(), StoreError> {
    let call =
        ToolCall { id: seq.to_string(), name: "work".to_owned(), arguments: json!({}), malformed: None };
    let intent = StepChange::Intend { seq, action: Action::Tool { call, read_only: false } };
    store(weather, assignment, (vec![intent], Vec::new())).await?;
    weather.dawdle(200).await;
    let result = ToolResult { call_id: seq.to_string(), content: "done".to_owned(), is_error: false };
    let finish = StepChange::Finish { seq, product: Product::Output(result) };
    store(weather, assignment, (vec![finish], Vec::new())).await?;
    *weather.shared().finished.entry((assignment.child.clone(), seq)).or_default() += 1;
    Ok(())
}

/// Stores that the texts were read.
async fn read(
    weather: &Weather,
    assignment: &Assignment,
    step: u32,
    steers: Vec<Steer>,
) -> Result<(), StoreError> {
    for steer in &steers {
        let taken = (steer.request.clone(), assignment.attempt);
        *weather.shared().taken.entry(taken).or_default() += 1;
    }
    let requests: Vec<_> = steers.iter().map(|steer| steer.request.clone()).collect();
    let seen = requests.iter().map(|request| (request.clone(), step)).collect();
    let said = Message { author: Author::User, parts: Vec::new() };
    let changes = vec![
        StepChange::Intend { seq: step, action: Action::Steer { requests } },
        StepChange::Finish { seq: step, product: Product::Steered(said) },
    ];
    store(weather, assignment, (changes, seen)).await
}

/// Stores changes of a child's journal, with the texts that were seen. What is taken must be the work of whoever wrote it.
async fn store(
    weather: &Weather,
    assignment: &Assignment,
    (changes, seen): (Vec<StepChange>, Vec<(RequestId, u32)>),
) -> Result<(), StoreError> {
    let write = WriteSteps {
        actor: Actor::Child(assignment.child.clone()),
        fence: assignment.fence.clone(),
        at: Timestamp(0),
        changes,
        acknowledge: Vec::new(),
        turn: None,
        seen,
    };
    let offered = offer(weather, &write).await;
    weather.shared().figures.fenced += u64::from(matches!(offered, Err(StoreError::Fenced(_))));
    offered?;
    if let Ok(Some(now)) = weather.store.delegation(&assignment.delegation).await
        && (&now.owner.id, now.epoch) != (&write.fence.owner, write.fence.epoch)
    {
        weather.shared().late.push(format!("{write:?} was taken, and the work is {}'s", now.owner.id));
    }
    Ok(())
}

/// Offers a write until it is stored. One that failed after the fact is refused then, and stands in the journal.
async fn offer(weather: &Weather, write: &WriteSteps) -> Result<(), StoreError> {
    let mut trial = Trial::new();
    loop {
        let error = match weather.store.write_steps(write.clone()).await {
            Ok(()) => return Ok(()),
            Err(refused @ StoreError::Conflict(_)) if trial.since.is_some() => {
                match weather.store.steps(&write.actor).await {
                    Ok(steps) if write.changes.iter().all(|change| holds(&steps, change)) => return Ok(()),
                    Ok(_) => refused,
                    Err(unread) => unread,
                }
            }
            Err(error) => error,
        };
        trial.failed(error).await?;
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
