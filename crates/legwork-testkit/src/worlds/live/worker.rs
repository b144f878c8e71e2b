//! The workers of a live world: they work for a while, read what is said to them, and store that they did.

use super::weather::Weather;
use legwork_core::batch::Setting;
use legwork_core::ids::RequestId;
use legwork_core::message::{Author, Message, ToolCall, ToolResult};
use legwork_core::outcome::{Ending, FailureKind};
use legwork_core::ports::{Assignment, Facts, Line, Pending, Steer, Steps, StoreError, Worker, WriteSteps};
use legwork_core::report::Report;
use legwork_core::step::{Action, Actor, Product, StepChange, StepState};
use legwork_core::time::Timestamp;
use serde_json::json;
use std::sync::Arc;

pub(super) struct Workers(pub(super) Weather);

impl Worker for Workers {
    fn work(&self, assignment: Assignment, line: Arc<dyn Line>) -> Pending<'static, Report> {
        let weather = self.0.clone();
        let fails = weather.chance(|chance| chance.once_in(5));
        let rounds = weather.chance(|chance| chance.between(0, 6));
        Box::pin(async move {
            let work = async {
                let mut step = next_step(&weather, &assignment).await;
                for _ in 0..rounds {
                    weather.dawdle(500).await;
                    let steers = line.steered();
                    if !steers.is_empty() {
                        read(&weather, &assignment, step, steers).await;
                        step += 1;
                    } else if weather.chance(|chance| chance.once_in(2)) {
                        act(&weather, &assignment, step).await;
                        step += 1;
                    }
                }
            };
            tokio::select! {
                biased;
                _ = line.stopped() => Report::bare(Ending::Interrupted),
                () = work => if fails {
                    Report::bare(Ending::Failed(FailureKind::Model))
                } else {
                    Report { answer: Some("done".to_owned()), ..Report::bare(Ending::Answered) }
                },
            }
        })
    }

    fn lacks(&self, _: &Setting) -> Option<String> {
        None
    }
}

/// Where an earlier attempt ended. A step that it was in the middle of is given up.
async fn next_step(weather: &Weather, assignment: &Assignment) -> u32 {
    let steps = loop {
        match weather.store.steps(&Actor::Child(assignment.child.clone())).await {
            Ok(steps) => break steps,
            Err(_) => weather.dawdle(100).await,
        }
    };
    if let Some(last) = steps.last().filter(|last| last.state == StepState::Intended) {
        let change = StepChange::Fail { seq: last.seq, error: "the process died".to_owned() };
        store(weather, assignment, (vec![change], Vec::new())).await;
    }
    u32::try_from(steps.len()).unwrap_or(u32::MAX)
}

/// Takes a step: intent, some work, result.
async fn act(weather: &Weather, assignment: &Assignment, seq: u32) {
    let call =
        ToolCall { id: seq.to_string(), name: "work".to_owned(), arguments: json!({}), malformed: None };
    let intent = StepChange::Intend { seq, action: Action::Tool { call, read_only: false } };
    if !store(weather, assignment, (vec![intent], Vec::new())).await {
        return;
    }
    weather.dawdle(200).await;
    let result = ToolResult { call_id: seq.to_string(), content: "done".to_owned(), is_error: false };
    let finish = StepChange::Finish { seq, product: Product::Output(result) };
    if store(weather, assignment, (vec![finish], Vec::new())).await {
        *weather.shared().finished.entry((assignment.child.clone(), seq)).or_default() += 1;
    }
}

/// Stores that the texts were read.
async fn read(weather: &Weather, assignment: &Assignment, step: u32, steers: Vec<Steer>) {
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
    store(weather, assignment, (changes, seen)).await;
}

/// Stores changes of a child's journal, with the texts that were seen, however long that takes; `false` when the store
/// refuses. What is taken must be the work of whoever wrote it.
async fn store(
    weather: &Weather,
    assignment: &Assignment,
    (changes, seen): (Vec<StepChange>, Vec<(RequestId, u32)>),
) -> bool {
    let write = WriteSteps {
        actor: Actor::Child(assignment.child.clone()),
        fence: assignment.fence.clone(),
        at: Timestamp(0),
        changes,
        acknowledge: Vec::new(),
        turn: None,
        seen,
    };
    let refusal = loop {
        match weather.store.write_steps(write.clone()).await {
            Ok(()) => break None,
            Err(StoreError::Io(_)) => weather.dawdle(100).await,
            Err(refusal) => break Some(refusal),
        }
    };
    if let Some(refusal) = refusal {
        weather.shared().figures.fenced += u64::from(matches!(refusal, StoreError::Fenced(_)));
        return false;
    }
    if let Ok(Some(now)) = weather.store.delegation(&assignment.delegation).await
        && (&now.owner.id, now.epoch) != (&write.fence.owner, write.fence.epoch)
    {
        weather.shared().late.push(format!("{write:?} was taken, and the work is {}'s", now.owner.id));
    }
    true
}
