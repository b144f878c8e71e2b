//! A journal store that keeps every commit, and refuses them from a given one on.

use legwork_core::ids::{ClaimId, RequestId};
use legwork_core::ports::{Pending, Steps, StoreError, WriteSteps};
use legwork_core::step::{Action, Actor, Product, StepChange, StepRecord, StepState};
use std::sync::{Arc, Mutex};

pub struct FakeSteps {
    commits: Mutex<Vec<WriteSteps>>,
    refused_from: usize,
}

impl FakeSteps {
    pub fn new() -> Arc<Self> {
        Self::refusing_from(usize::MAX)
    }

    /// Refuses the commit of that number, counted from 0, and all after it.
    pub fn refusing_from(refused_from: usize) -> Arc<Self> {
        Arc::new(FakeSteps { commits: Mutex::default(), refused_from })
    }

    pub fn commits(&self) -> usize {
        self.commits.lock().expect("no holder panics").len()
    }

    pub fn acknowledged(&self) -> Vec<Vec<ClaimId>> {
        self.commits.lock().expect("no holder panics").iter().map(|write| write.acknowledge.clone()).collect()
    }

    /// The steers that each commit marks as seen, with the step that takes them in.
    pub fn seen(&self) -> Vec<(RequestId, u32)> {
        let commits = self.commits.lock().expect("no holder panics");
        commits.iter().flat_map(|write| write.seen.clone()).collect()
    }

    /// A store that holds what the first `commits` commits stored, as after a crash.
    pub fn until(&self, commits: usize) -> Arc<Self> {
        let kept = self.commits.lock().expect("no holder panics")[..commits].to_vec();
        Arc::new(FakeSteps { commits: Mutex::new(kept), refused_from: usize::MAX })
    }

    /// How many steps were begun and have not ended.
    pub async fn open(&self) -> usize {
        let rows = self.steps(&super::Bench::actor()).await.expect("it is readable");
        rows.iter().filter(|row| row.state == StepState::Intended).count()
    }

    /// Every commit as one line.
    pub fn journal(&self) -> Vec<String> {
        let commits = self.commits.lock().expect("no holder panics");
        let line = |write: &WriteSteps| write.changes.iter().map(word).collect::<Vec<_>>().join(", ");
        commits.iter().map(line).collect()
    }
}

fn word(change: &StepChange) -> String {
    match change {
        StepChange::Intend { seq, action } => match action {
            Action::Open => format!("{seq} open"),
            Action::Model => format!("{seq} model"),
            Action::Compact => format!("{seq} compact"),
            Action::Steer { requests } => {
                let requests: Vec<&str> = requests.iter().map(RequestId::as_str).collect();
                format!("{seq} steer {}", requests.join("+"))
            }
            Action::Correct { errors } => format!("{seq} correct {}", errors.join("+")),
            Action::Switch { place, model } => format!("{seq} switch {place} {model}"),
            Action::Tool { call, read_only } => {
                let kind = if *read_only { "look" } else { "change" };
                format!("{seq} {kind} {}({})", call.name, call.id)
            }
        },
        StepChange::Finish { seq, product } => match product {
            Product::Opened(messages) => {
                let texts: Vec<String> = messages.iter().map(|message| message.plain_text()).collect();
                format!("{seq}={}", texts.join("|"))
            }
            Product::Compacted(summary) => format!("{seq}={}", summary.message.plain_text()),
            Product::Steered(message) => format!("{seq}={}", message.plain_text()),
            Product::Switched => format!("{seq}=switched"),
            Product::Reply(reply) => {
                let calls: String = reply.message.calls().map(|call| format!("+{}", call.id)).collect();
                format!("{seq}={}{calls}", reply.message.plain_text())
            }
            Product::Output(result) => format!("{seq}={}:{}", result.call_id, result.content),
        },
        StepChange::Fail { seq, error } => format!("{seq} failed {error}"),
    }
}

impl Steps for FakeSteps {
    fn write_steps(&self, write: WriteSteps) -> Pending<'_, Result<(), StoreError>> {
        let mut commits = self.commits.lock().expect("no holder panics");
        if commits.len() >= self.refused_from {
            return Box::pin(async { Err(StoreError::Fenced("somebody else took over".to_owned())) });
        }
        commits.push(write);
        drop(commits);
        Box::pin(async { Ok(()) })
    }

    /// The rows that the commits amount to; it panics where a store would refuse.
    fn steps(&self, _: &Actor) -> Pending<'_, Result<Vec<StepRecord>, StoreError>> {
        let mut rows: Vec<StepRecord> = Vec::new();
        for change in
            self.commits.lock().expect("no holder panics").iter().flat_map(|write| write.changes.clone())
        {
            match change {
                StepChange::Intend { seq, action } => {
                    assert_eq!(seq as usize, rows.len(), "steps have no gaps");
                    rows.push(StepRecord { seq, action, state: StepState::Intended });
                }
                StepChange::Finish { seq, product } => end(&mut rows, seq, StepState::Done(product)),
                StepChange::Fail { seq, error } => end(&mut rows, seq, StepState::Failed(error)),
            }
        }
        Box::pin(async move { Ok(rows) })
    }
}

fn end(rows: &mut [StepRecord], seq: u32, state: StepState) {
    let row = &mut rows[seq as usize];
    assert_eq!(row.state, StepState::Intended, "a step ends once");
    row.state = state;
}
