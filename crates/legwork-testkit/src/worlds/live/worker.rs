//! The workers of a live world: they work for a while, read what is said to them, and store that they did.

use super::weather::Weather;
use legwork_core::batch::Setting;
use legwork_core::message::{Author, Message};
use legwork_core::outcome::{Ending, FailureKind};
use legwork_core::ports::{Assignment, Line, Pending, Steer, Steps, StoreError, Worker, WriteSteps};
use legwork_core::report::Report;
use legwork_core::step::{Action, Actor, Product, StepChange};
use legwork_core::time::Timestamp;
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

/// Where an earlier attempt ended.
async fn next_step(weather: &Weather, assignment: &Assignment) -> u32 {
    loop {
        match weather.store.steps(&Actor::Child(assignment.child.clone())).await {
            Ok(steps) => return u32::try_from(steps.len()).unwrap_or(u32::MAX),
            Err(_) => weather.dawdle(100).await,
        }
    }
}

/// Stores that the texts were read, however long that takes.
async fn read(weather: &Weather, assignment: &Assignment, step: u32, steers: Vec<Steer>) {
    for steer in &steers {
        let taken = (steer.request.clone(), assignment.attempt);
        *weather.shared().taken.entry(taken).or_default() += 1;
    }
    let requests: Vec<_> = steers.iter().map(|steer| steer.request.clone()).collect();
    let seen = requests.iter().map(|request| (request.clone(), step)).collect();
    let said = Message { author: Author::User, parts: Vec::new() };
    let write = WriteSteps {
        actor: Actor::Child(assignment.child.clone()),
        fence: assignment.fence.clone(),
        at: Timestamp(0),
        changes: vec![
            StepChange::Intend { seq: step, action: Action::Steer { requests } },
            StepChange::Finish { seq: step, product: Product::Steered(said) },
        ],
        acknowledge: Vec::new(),
        turn: None,
        seen,
    };
    while let Err(StoreError::Io(_)) = weather.store.write_steps(write.clone()).await {
        weather.dawdle(100).await;
    }
}
