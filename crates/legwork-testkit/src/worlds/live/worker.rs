//! The workers of a live world: they work for a while, read what is said to them, send out children of their own, and store
//! that they did, as patiently with a store in trouble as the real ones. Told to end, they do so at once or a little later.

use super::journal::{self, Entry, delegates, finishes, intends, intends_to_delegate};
use super::people::{setting, task};
use super::told;
use super::weather::Weather;
use legwork_core::batch::{Lineage, NewBatch, Reach, Setting};
use legwork_core::ids::CallKey;
use legwork_core::message::{Author, Message};
use legwork_core::outcome::{Ending, FailureKind};
use legwork_core::ports::{
    Assignment, Delegator, Facts, Joined, Line, Pending, Steer, StoreError, Unrecorded, Worker,
};
use legwork_core::report::Report;
use legwork_core::step::{Action, Actor, Product, StepChange, StepRecord, StepState};
use legwork_engine::Handle;
use std::sync::{Arc, Mutex, PoisonError};

/// For how many milliseconds a worker goes on at most that is told to end: some are cut off by then.
const LINGERS_MAX: usize = 3000;

/// The engine of a process, for its workers: they are made before it, and it ends before they do.
#[derive(Clone, Default)]
pub(super) struct Front(Arc<Mutex<Option<Handle>>>);

impl Front {
    pub(super) fn open(&self, handle: Handle) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(handle);
    }

    pub(super) fn close(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    fn handle(&self) -> Option<Handle> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

pub(super) struct Workers {
    pub(super) weather: Weather,
    pub(super) engine: Front,
}

impl Worker for Workers {
    fn work(
        &self,
        assignment: Assignment,
        line: Arc<dyn Line>,
    ) -> Pending<'static, Result<Report, Unrecorded>> {
        let (weather, engine) = (self.weather.clone(), self.engine.clone());
        let fails = weather.chance(|chance| chance.once_in(5));
        let lingers = weather.chance(|chance| chance.once_in(3));
        let ends = line.clone();
        Box::pin(async move {
            let told_to_end = async {
                ends.stopped().await;
                if lingers {
                    weather.dawdle(LINGERS_MAX).await;
                }
            };
            let run = Run { weather: &weather, engine: &engine, assignment: &assignment, line: &*line };
            tokio::select! {
                biased;
                () = told_to_end => Ok(Report::bare(Ending::Interrupted)),
                ended = run.carry_out() => match ended {
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

/// One run of a child.
struct Run<'a> {
    weather: &'a Weather,
    engine: &'a Front,
    assignment: &'a Assignment,
    line: &'a dyn Line,
}

impl Run<'_> {
    async fn carry_out(&self) -> Result<(), StoreError> {
        let rounds = self.weather.chance(|chance| chance.between(0, 6));
        let delegates = self.weather.chance(|chance| chance.once_in(4)).then_some(rounds / 2);
        let mut step = self.next_step().await?;
        for round in 0..=rounds {
            self.weather.dawdle(500).await;
            let steers = self.line.steered();
            if delegates == Some(round) {
                self.store(Entry::of(vec![intends_to_delegate(step)])).await?;
                self.delegate(step).await?;
            } else if !steers.is_empty() {
                self.read(step, steers).await?;
            } else if self.weather.chance(|chance| chance.once_in(2)) {
                self.act(step).await?;
            } else {
                continue;
            }
            step += 1;
        }
        Ok(())
    }

    fn actor(&self) -> Actor {
        Actor::Child(self.assignment.child.clone())
    }

    /// Where an earlier attempt ended. A step that it was in the middle of is given up; but if it was waiting for children of
    /// its own, so does this one.
    async fn next_step(&self) -> Result<u32, StoreError> {
        let steps = journal::steps(self.weather, &self.actor()).await?;
        let is_open = |step: &&StepRecord| step.state == StepState::Intended;
        match steps.last().filter(is_open) {
            Some(last) if delegates(last) => self.delegate(last.seq).await?,
            Some(last) => {
                let change = StepChange::Fail { seq: last.seq, error: "the process died".to_owned() };
                self.store(Entry::of(vec![change])).await?;
            }
            None => {}
        }
        Ok(u32::try_from(steps.len()).unwrap_or(u32::MAX))
    }

    /// Takes a step: intent, some work, result.
    async fn act(&self, seq: u32) -> Result<(), StoreError> {
        self.store(Entry::of(vec![intends(seq, "work")])).await?;
        self.weather.dawdle(200).await;
        self.store(Entry::of(vec![finishes(seq, Ok("done".to_owned()))])).await?;
        self.finished(seq);
        Ok(())
    }

    /// Sends out children and waits for them, as one call, whichever attempt makes it. What they bring is read in the
    /// commit that ends the claims.
    async fn delegate(&self, seq: u32) -> Result<(), StoreError> {
        let (answer, acknowledge) = match self.sent_out(seq).await {
            Ok(joined) => (Ok(told::of_all(&joined.record, &joined.below).join("\n")), joined.claims),
            Err(error) => (Err(error), Vec::new()),
        };
        let read = acknowledge.len() as u64;
        self.store(Entry { acknowledge, ..Entry::of(vec![finishes(seq, answer)]) }).await?;
        self.finished(seq);
        self.weather.shared().figures.read_below += read;
        Ok(())
    }

    async fn sent_out(&self, seq: u32) -> Result<Joined, String> {
        let handle = self.engine.handle().ok_or("the process is ending")?;
        // What was accepted is rejoined as it stands.
        let first = handle.accepted(&self.key(seq)).await.map_err(|error| error.to_string())?;
        let delegation = match first {
            Some(first) => first.delegation,
            None => handle.dispatch(self.batch(seq)).await.map_err(|error| error.to_string())?.delegation,
        };
        self.line.park().await;
        let joined = handle.join(&delegation).await;
        // A stop that comes after the results does not take them away.
        self.line.unpark().await.ok();
        joined.map_err(|error| error.to_string())
    }

    fn key(&self, seq: u32) -> CallKey {
        CallKey { caller: self.assignment.child.as_str().to_owned(), call: seq.to_string() }
    }

    fn batch(&self, seq: u32) -> NewBatch {
        let Assignment { child, session, depth, .. } = self.assignment;
        let second = self.weather.chance(|chance| *chance.pick(&[None, Some(None), Some(Some("a"))]));
        NewBatch {
            lineage: Lineage {
                parent: Some(child.clone()),
                depth: *depth,
                ..Lineage::of_session(session.clone())
            },
            call_key: Some(self.key(seq)),
            context: None,
            reach: Reach::Joined,
            tasks: [None].into_iter().chain(second).map(task).collect(),
            setting: setting(),
        }
    }

    /// Stores that the texts were read.
    async fn read(&self, step: u32, steers: Vec<Steer>) -> Result<(), StoreError> {
        for steer in &steers {
            let taken = (steer.request.clone(), self.assignment.attempt);
            *self.weather.shared().taken.entry(taken).or_default() += 1;
        }
        let requests: Vec<_> = steers.iter().map(|steer| steer.request.clone()).collect();
        let seen = requests.iter().map(|request| (request.clone(), step)).collect();
        let said = Message { author: Author::User, parts: Vec::new() };
        let changes = vec![
            StepChange::Intend { seq: step, action: Action::Steer { requests } },
            StepChange::Finish { seq: step, product: Product::Steered(said) },
        ];
        self.store(Entry { seen, ..Entry::of(changes) }).await
    }

    fn finished(&self, seq: u32) {
        *self.weather.shared().finished.entry((self.assignment.child.clone(), seq)).or_default() += 1;
    }

    /// Stores changes of the child's journal. What is taken must be the work of whoever wrote it.
    async fn store(&self, entry: Entry) -> Result<(), StoreError> {
        let write = entry.by(self.actor(), self.assignment.fence.clone());
        let offered = journal::offer(self.weather, &write).await;
        self.weather.shared().figures.fenced += u64::from(matches!(offered, Err(StoreError::Fenced(_))));
        offered?;
        if let Ok(Some(now)) = self.weather.store.delegation(&self.assignment.delegation).await
            && (&now.owner.id, now.epoch) != (&write.fence.owner, write.fence.epoch)
        {
            self.weather
                .shared()
                .late
                .push(format!("{write:?} was taken, and the work is {}'s", now.owner.id));
        }
        Ok(())
    }
}
