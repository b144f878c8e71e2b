//! The worker of these tests: what a child does is written in its goal. It answers the port as an agent would and keeps
//! count of who is alive.

use crate::scene;
use legwork_core::batch::{NewBatch, Setting};
use legwork_core::ids::CallKey;
use legwork_core::outcome::{Ending, FailureKind};
use legwork_core::ports::{
    Assignment, Delegator, Line, Pending, RunEnd, StopNotice, StoreError, Unrecorded, Worker,
};
use legwork_core::pulse::LineEvent;
use legwork_core::report::Report;
use legwork_engine::Handle;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use tokio::sync::watch;
use tokio::time::timeout;

/// A model that the troupe has no key for.
pub const LACKING: &str = "scripted/lacking";

/// Plays every child by its goal.
#[derive(Clone, Default)]
pub struct Troupe {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    /// Whether there is a key for every model.
    has_keys: OnceLock<()>,
    /// The engine that the players delegate to.
    handle: OnceLock<Handle>,
    /// Written by every player, read by the tests.
    counts: watch::Sender<Counts>,
    /// Written by the tests, read by the players that wait for a word; by its number.
    words: watch::Sender<BTreeMap<String, usize>>,
    lines: Mutex<BTreeMap<String, Arc<dyn Line>>>,
    assignments: Mutex<Vec<Assignment>>,
    /// The stop that each run had been told when it was tidied up after, by goal.
    ends: Mutex<Vec<(String, Option<StopNotice>)>>,
}

/// Who came and went.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    /// Goals of those who are here now.
    pub here: Vec<String>,
    /// How many came.
    pub came: usize,
    /// The largest number that was here and not parked at once.
    pub peak: usize,
    /// Of those here, how many are parked.
    pub parked: usize,
    /// Stops that were heard, by goal.
    pub heard: Vec<(String, StopNotice)>,
}

impl Troupe {
    pub fn joins(&self, handle: Handle) {
        self.shared.handle.set(handle).ok().expect("a troupe plays in one engine");
    }

    /// From now on there is a key for every model.
    pub fn gets_keys(&self) {
        self.shared.has_keys.get_or_init(|| ());
    }

    pub fn counts(&self) -> Counts {
        self.shared.counts.borrow().clone()
    }

    /// Waits until the counts are as wanted.
    pub async fn until(&self, wanted: impl FnMut(&Counts) -> bool) {
        let mut counts = self.shared.counts.subscribe();
        // Deadline: in paused time a wait for something that never comes would turn for ever.
        let met = timeout(scene::FOR_EVER, counts.wait_for(wanted)).await;
        let met = met.unwrap_or_else(|_| panic!("waited for ever: {:?}", self.counts()));
        met.expect("the troupe itself holds the sender");
    }

    /// Waits until a child with this goal is at work.
    pub async fn until_here(&self, goal: &str) {
        self.until(|counts| counts.here.iter().any(|here| here == goal)).await;
    }

    /// Gives the players that wait for `word` one more of it.
    pub fn say(&self, word: &str) {
        self.shared.words.send_modify(|words| *words.entry(word.to_owned()).or_default() += 1);
    }

    /// The line of the child with this goal that came last.
    pub fn line(&self, goal: &str) -> Arc<dyn Line> {
        locked(&self.shared.lines)[goal].clone()
    }

    /// The stop that the run with this goal had been told when it was tidied up after.
    pub fn end_of(&self, goal: &str) -> Option<StopNotice> {
        let ends = locked(&self.shared.ends);
        let end = ends.iter().rev().find(|(of, _)| of == goal);
        end.unwrap_or_else(|| panic!("{goal} has not ended")).1
    }

    pub fn assignments(&self) -> Vec<Assignment> {
        locked(&self.shared.assignments).clone()
    }
}

impl Worker for Troupe {
    fn work(
        &self,
        assignment: Assignment,
        line: Arc<dyn Line>,
    ) -> Pending<'static, Result<Report, Unrecorded>> {
        let goal = assignment.task.goal.clone();
        locked(&self.shared.lines).insert(goal.clone(), line.clone());
        locked(&self.shared.assignments).push(assignment.clone());
        let here = Here::new(self.shared.clone(), goal.clone());
        let player = Player { shared: self.shared.clone(), assignment, line, goal };
        Box::pin(async move {
            let report = player.play().await;
            drop(here);
            let lasts = player.goal.ends_with("ever");
            let fails = player.goal.starts_with("unrecorded") && (lasts || player.assignment.attempt == 1);
            match (fails, report.ending) {
                (true, Ending::Answered) => {
                    Err(Unrecorded(StoreError::Full("no space left on device".to_owned())))
                }
                (true | false, _) => Ok(report),
            }
        })
    }

    /// Who is slow to leave tidies up until the word "left" is said.
    fn close(&self, assignment: Assignment, end: RunEnd, _: Arc<dyn Line>) -> Pending<'static, Report> {
        let is_slow = assignment.task.goal.ends_with("slow to leave");
        let mut words = self.shared.words.subscribe();
        locked(&self.shared.ends).push((assignment.task.goal, end.stop));
        Box::pin(async move {
            if is_slow {
                let left = words.wait_for(|words| words.contains_key("left")).await;
                left.expect("the troupe holds the sender");
            }
            end.report
        })
    }

    fn lacks(&self, setting: &Setting) -> Option<String> {
        let lacks = setting.route.model == LACKING && self.shared.has_keys.get().is_none();
        lacks.then(|| "the key of the model".to_owned())
    }
}

/// Counts one who is here, however it leaves.
struct Here {
    shared: Arc<Shared>,
    goal: String,
}

impl Here {
    fn new(shared: Arc<Shared>, goal: String) -> Self {
        shared.counts.send_modify(|counts| {
            counts.came += 1;
            counts.here.push(goal.clone());
            counts.peak = counts.peak.max(counts.here.len() - counts.parked);
        });
        Here { shared, goal }
    }
}

impl Drop for Here {
    fn drop(&mut self) {
        self.shared.counts.send_modify(|counts| {
            let place = counts.here.iter().position(|here| *here == self.goal);
            counts.here.remove(place.expect("who leaves was here"));
        });
    }
}

/// Counts one who waits without a slot, however the wait ends.
struct Parked {
    shared: Arc<Shared>,
}

impl Parked {
    fn new(shared: Arc<Shared>) -> Self {
        shared.counts.send_modify(|counts| counts.parked += 1);
        Parked { shared }
    }
}

impl Drop for Parked {
    fn drop(&mut self) {
        self.shared.counts.send_modify(|counts| counts.parked -= 1);
    }
}

struct Player {
    shared: Arc<Shared>,
    assignment: Assignment,
    line: Arc<dyn Line>,
    goal: String,
}

impl Player {
    async fn play(&self) -> Report {
        let words: Vec<&str> = self.goal.split(' ').collect();
        match words.as_slice() {
            ["answer", ..] => answered(&self.goal),
            ["fail", ..] => {
                let failed = Report::bare(Ending::Failed(FailureKind::Model));
                Report { error: Some("the model is out".to_owned()), ..failed }
            }
            ["panic", ..] => panic!("{} fell over", self.goal),
            // The store has taken nothing for too long when the word comes, and it is late for a stop.
            ["unrecorded", word, "finish"] => {
                self.line.stopped().await;
                self.said(word).await;
                answered(&self.goal)
            }
            ["until" | "unrecorded", word, ..] => self.until_stopped_or_said(word).await,
            ["deaf", ..] => std::future::pending().await,
            // It takes its time after a stop and answers all the same.
            ["finish", word, ..] => {
                let notice = self.line.stopped().await;
                self.hears(notice);
                self.said(word).await;
                answered(&self.goal)
            }
            ["tree", _, "0", ..] => self.leaf(words.get(3)).await,
            ["tree", fan, depth, ..] => self.grow(fan, number(depth), words.get(3)).await,
            _ => panic!("nobody plays {:?}", self.goal),
        }
    }

    async fn until_stopped_or_said(&self, word: &str) -> Report {
        tokio::select! {
            biased;
            notice = self.line.stopped() => {
                self.hears(notice);
                Report::bare(Ending::Interrupted)
            }
            () = self.said(word) => answered(&self.goal),
        }
    }

    fn hears(&self, notice: StopNotice) {
        self.shared.counts.send_modify(|counts| counts.heard.push((self.goal.clone(), notice)));
    }

    async fn said(&self, word: &str) {
        let mut words = self.shared.words.subscribe();
        words.wait_for(|words| words.contains_key(word)).await.expect("the troupe holds the sender");
    }

    /// A leaf answers at once, or waits for a word.
    async fn leaf(&self, word: Option<&&str>) -> Report {
        match word {
            Some(word) => Report { answer: Some("1".to_owned()), ..self.until_stopped_or_said(word).await },
            None => answered("1"),
        }
    }

    /// Delegates `fan` smaller trees, gives its slot back until they have ended, and counts them.
    async fn grow(&self, fan: &str, depth: usize, word: Option<&&str>) -> Report {
        let smaller = format!("tree {fan} {} {}", depth - 1, word.unwrap_or(&""));
        let goals = vec![smaller.trim().to_owned(); number(fan)];
        let handle = self.shared.handle.get().expect("the troupe joined an engine");
        let caller = self.assignment.child.to_string();
        let call_key = Some(CallKey { caller, call: "grow".to_owned() });
        let batch = NewBatch { call_key, ..scene::batch_from(&self.assignment, &goals) };
        let ticket = handle.dispatch(batch).await.expect("the tree is within the limits");
        let parked = Parked::new(self.shared.clone());
        self.line.tell(LineEvent::Note("waits for its children".to_owned()));
        self.line.park().await;
        let joined = handle.join(&ticket.delegation).await;
        let back = self.line.unpark().await;
        drop(parked);
        if let Err(notice) = back {
            self.hears(notice);
            return Report::bare(Ending::Interrupted);
        }
        let record = joined.expect("the children settle").record;
        let reports = record.children.iter().filter_map(|child| child.report.as_ref());
        let leaves = reports.filter_map(|report| report.answer.as_deref()).map(number).sum::<usize>();
        answered(&(leaves + 1).to_string())
    }
}

fn answered(text: &str) -> Report {
    Report { answer: Some(text.to_owned()), ..Report::bare(Ending::Answered) }
}

fn number(text: &str) -> usize {
    text.parse().expect("a number")
}

fn locked<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
