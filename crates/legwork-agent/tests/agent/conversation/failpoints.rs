//! A process dies at each failpoint, its successor at the same one, over both stores: what was promised comes once all the
//! same, and what was never promised does not happen by itself.

use super::scene::{Machine, assert_legal, new_session, stored, texts};
use super::seeded::Echo;
use legwork_core::batch::{Completions, Reach};
use legwork_core::ids::SessionId;
use legwork_core::message::{Author, Message};
use legwork_core::outcome::{Outcome, StopReason};
use legwork_core::ports::{Delegator, Inbox, Offer, Pending, Receipt, Store};
use legwork_core::step::{Actor, Product, StepState};
use legwork_core::time::Timestamp;
use legwork_sqlite::{SqliteStore, StoreOptions};
use legwork_testkit::failpoint::{Door, Failpoint, Mortal};
use legwork_testkit::memory::MemoryStore;
use legwork_testkit::shaky::{Bend, ShakyStore};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tokio::time::{sleep, timeout};

/// The task that answers at once.
const A: &str = "gA";
/// The task that answers once its gate is open.
const B: &str = "gB";
/// How often the tasks of the dead are looked at before they must be gone.
const YIELDS_MAX: u32 = 1_000_000;
/// For how long a process may live, in paused time.
const LIFE_MAX: Duration = Duration::from_secs(3600);

/// On which store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ground {
    Memory,
    File,
}

/// How the two tasks come back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// Each by itself: one comes back while the other still works.
    Apart,
    /// In one completion.
    Together,
}

/// A mistake that a store or an engine could have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bug {
    /// Claims are acknowledged in a commit after the one of their turn.
    AcknowledgesAfterTheTurn,
    /// Results count as delivered when they are offered.
    AcknowledgesTheOffer,
}

#[derive(Debug, Clone, Copy)]
struct Case {
    ground: Ground,
    shape: Shape,
    /// Where the first process dies, and the second.
    deaths: [Option<Failpoint>; 2],
    bug: Option<Bug>,
}

/// The machine, where its store is, and what was seen so far.
struct World {
    case: Case,
    machine: Machine,
    model: Arc<Echo>,
    /// The folder of the file, or the memory.
    file: Option<TempDir>,
    memory: MemoryStore,
    /// How often the first task's model had been asked when its answer was first seen stored.
    asked: Option<usize>,
    died: Vec<Failpoint>,
}

/// How a process ended.
#[derive(Debug, PartialEq, Eq)]
enum End {
    Died,
    /// Everything had come back.
    Rested,
}

impl World {
    fn new(case: Case) -> World {
        let memory = MemoryStore::new();
        let file = (case.ground == Ground::File).then(|| TempDir::new().expect("a folder"));
        let beside: Arc<dyn Store> = match &file {
            Some(folder) => Arc::new(opened(folder)),
            None => Arc::new(memory.clone()),
        };
        let mut machine = Machine::with(beside);
        if case.shape == Shape::Apart {
            machine.completions = Completions::ByUnit;
        }
        machine.children.free(A);
        World { case, machine, model: Echo::new(1), file, memory, asked: None, died: Vec::new() }
    }

    /// The store as one process opens it.
    fn opening(&self) -> ShakyStore {
        match &self.file {
            Some(folder) => ShakyStore::new(Arc::new(opened(folder))).in_its_own_time(),
            None => ShakyStore::new(Arc::new(self.memory.clone())),
        }
    }

    /// One process, until it dies or everything has come back.
    async fn live(&mut self, pid: u32) -> Result<End, String> {
        let point = self.case.deaths.get(pid as usize - 1).copied().flatten();
        let mortal = Mortal::new(self.opening(), point);
        let store = match self.case.bug {
            Some(Bug::AcknowledgesAfterTheTurn) => {
                Arc::new(ShakyStore::bent(mortal.store(), Some(Bend::AcknowledgesAfterwards)))
            }
            Some(Bug::AcknowledgesTheOffer) | None => mortal.store(),
        };
        let alive = Arc::downgrade(&mortal.store());
        let end = tokio::select! {
            biased;
            () = mortal.death() => Ok(End::Died),
            lived = self.work(pid, &mortal, store) => lived.map(|()| End::Rested),
        };
        self.machine.processes.die(pid);
        drop(mortal);
        // Nothing of it is left once its tasks have gone, and what it had handed to its store is written.
        // Deadline: its tasks are dropped as soon as they are looked at.
        for _ in 0..YIELDS_MAX {
            if alive.strong_count() == 0 {
                break;
            }
            tokio::task::yield_now().await;
        }
        assert_eq!(alive.strong_count(), 0, "something of a dead process still has its store");
        self.look().await;
        if end == Ok(End::Died) {
            self.died.extend(point);
        }
        end
    }

    async fn work(&self, pid: u32, mortal: &Mortal, store: Arc<dyn Store>) -> Result<(), String> {
        let running = self.machine.start_over(pid, Arc::clone(&store)).await;
        let running = running.behind(|engine| self.door(mortal, store, engine));
        let point = self.case.deaths.get(pid as usize - 1).copied().flatten();
        let open = if pid == 1 {
            running.open(self.model.clone(), new_session(5)).await
        } else {
            self.nothing_runs_unasked().await?;
            running.open(self.model.clone(), stored(5)).await
        };
        if pid == 1 {
            open.handle.say(format!("u1 delegate {A}+{B}")).expect("there is room");
        }
        if point == Some(Failpoint::F9) {
            self.machine.children.begun(B).await;
            self.until_a_has_ended().await;
            mortal.ends();
            open.close(StopReason::Shutdown).await;
            running.close().await;
            return Err("it ended in good order and died of nothing".to_owned());
        }
        if pid > 1 || self.opens_early(point) {
            self.machine.children.free(B);
        }
        self.until_delivered().await;
        open.handle.wait_idle().await;
        running.close().await;
        Ok(())
    }

    /// Through which the sessions of a process reach its engine.
    fn door(&self, mortal: &Mortal, store: Arc<dyn Store>, engine: Arc<dyn Delegator>) -> Arc<dyn Delegator> {
        let bug = self.case.bug;
        let inbox = mortal.inboxes();
        Arc::new(Door::new(engine, move |behind| match bug {
            Some(Bug::AcknowledgesTheOffer) => {
                Arc::new(Hasty { store: store.clone(), behind: inbox(behind) })
            }
            Some(Bug::AcknowledgesAfterTheTurn) | None => inbox(behind),
        }))
    }

    /// Whether the gate is open before a successor opens it: who does not die has none, and two tasks that come back together
    /// are delivered when both have ended.
    fn opens_early(&self, point: Option<Failpoint>) -> bool {
        match point {
            None => true,
            Some(Failpoint::F6 | Failpoint::F7 | Failpoint::F8) => self.case.shape == Shape::Together,
            Some(
                Failpoint::F1 | Failpoint::F2 | Failpoint::F3 | Failpoint::F4 | Failpoint::F5 | Failpoint::F9,
            ) => false,
        }
    }

    /// A call that never got a handle is not carried out before its conversation makes it again.
    async fn nothing_runs_unasked(&self) -> Result<(), String> {
        if !self.machine.delegations().await.is_empty() {
            return Ok(());
        }
        // Deadline: whoever runs something by itself has time to do it.
        sleep(Duration::from_secs(60)).await;
        let asked = self.machine.children.asked(A) + self.machine.children.asked(B);
        let none = self.machine.delegations().await.is_empty() && asked == 0;
        if none { Ok(()) } else { Err("a call without a handle was carried out".to_owned()) }
    }

    /// Waits until the first task's end is stored.
    async fn until_a_has_ended(&self) {
        while !self.machine.delegations().await.iter().any(|record| record.children[0].outcome().is_some()) {
            // Deadline: a process lives for so long at most.
            sleep(Duration::from_millis(50)).await;
        }
    }

    /// Waits until all results were delivered.
    async fn until_delivered(&self) {
        loop {
            let deliveries = self.machine.deliveries().await;
            if !deliveries.is_empty() && deliveries.iter().all(|state| *state == "delivered") {
                return;
            }
            // Deadline: a process lives for so long at most.
            sleep(Duration::from_millis(50)).await;
        }
    }

    /// Remembers how often the first task's model had been asked when its answer was first seen stored.
    async fn look(&mut self) {
        let records = self.machine.delegations().await;
        let Some(record) = records.first().filter(|_| self.asked.is_none()) else { return };
        let steps = self.machine.store.steps(&Actor::Child(record.children[0].id.clone())).await;
        let replied = |state: &StepState| matches!(state, StepState::Done(Product::Reply(_)));
        if steps.expect("readable").iter().any(|step| replied(&step.state)) {
            self.asked = Some(self.machine.children.asked(A));
        }
    }

    /// What must be true when everything has come back.
    async fn judge(&self) -> Result<(), String> {
        let history = self.machine.history(&SessionId::from_bits(5)).await;
        assert_legal(&history.iter().cloned().map(Arc::new).collect::<Vec<_>>());
        for task in [A, B] {
            let times = history.iter().filter(|message| brings(message, task)).count();
            if times != 1 {
                return Err(format!("the result of {task} came {times} times: {:?}", texts(&history)));
            }
        }
        let said = history.iter().filter(|message| message.author == Author::User).count();
        let records = self.machine.delegations().await;
        let ends: Vec<_> =
            records.iter().flat_map(|record| &record.children).map(|child| child.outcome()).collect();
        if (said, ends.as_slice()) != (1, &[Some(Outcome::Succeeded); 2]) {
            return Err(format!("{said} messages, {ends:?}"));
        }
        let asked = self.machine.children.asked(A);
        if self.asked.is_some_and(|before| before != asked) {
            return Err(format!("a stored answer was asked for again: {:?}, {asked}", self.asked));
        }
        Ok(())
    }

    /// Whoever opens the conversation now finds nothing left to do, and another conversation has heard of nothing.
    async fn is_at_rest(&self, pid: u32) -> Result<(), String> {
        let running = self.machine.start_over(pid, Arc::new(self.opening())).await;
        let open = running.open(self.model.clone(), stored(5)).await;
        let stranger = running.open(self.model.clone(), new_session(6)).await;
        stranger.ask("u9").await;
        open.handle.wait_idle().await;
        let heard = texts(&self.machine.history(stranger.handle.session()).await);
        let words = open.words();
        running.close().await;
        if words == ["idle"] && heard == ["u9", "answered u9"] {
            return Ok(());
        }
        Err(format!("there was something left: {words:?}; another conversation heard {heard:?}"))
    }
}

/// Whether a message is a completion with the answer of this task.
fn brings(message: &Message, task: &str) -> bool {
    let (goal, answer) = (format!("| {task}"), format!("did {task}"));
    let text = message.plain_text();
    message.author == Author::Completion && text.lines().any(|line| line == goal) && text.contains(&answer)
}

fn opened(folder: &TempDir) -> SqliteStore {
    let path = folder.path().join("legwork.db");
    SqliteStore::open(&path, StoreOptions::default()).expect("the store opens")
}

/// An inbox that takes results for delivered as soon as they are offered.
struct Hasty {
    store: Arc<dyn Store>,
    behind: Arc<dyn Inbox>,
}

impl Inbox for Hasty {
    fn reach(&self) -> Reach {
        self.behind.reach()
    }

    fn idle(&self) -> Pending<'_, bool> {
        self.behind.idle()
    }

    fn offer(&self, offer: Offer) -> Pending<'_, Receipt> {
        Box::pin(async move {
            let acknowledged = self.store.acknowledge(vec![offer.claim.clone()], Timestamp(0)).await;
            acknowledged.expect("it is a claim");
            self.behind.offer(offer).await
        })
    }
}

/// Plays a case to its end, and says at which failpoints a process died.
async fn played(case: Case) -> Result<Vec<Failpoint>, String> {
    let mut world = World::new(case);
    let mut pid = 1;
    // Deadline: in paused time nothing takes long, so what takes longer than this will never come.
    while timeout(LIFE_MAX, world.live(pid)).await.map_err(|_| "it never comes to rest".to_owned())??
        == End::Died
    {
        if pid == 1 && case.deaths[0] == Some(Failpoint::F1) && !world.machine.delegations().await.is_empty()
        {
            return Err("a call that was not stored is there".to_owned());
        }
        pid += 1;
    }
    world.judge().await?;
    world.is_at_rest(pid + 1).await?;
    Ok(world.died)
}

fn play(case: Case) -> Result<Vec<Failpoint>, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime").block_on(played(case))
}

/// Lets a process die at each failpoint, and its successor at none or at the same one. Answers which successors got there:
/// those whose predecessor had not left it behind for good.
fn sweep(ground: Ground, shape: Shape) -> Vec<Failpoint> {
    // A file takes longer, and two deaths begin as one does.
    let one_death_too = ground == Ground::Memory;
    let mut again = Vec::new();
    for point in Failpoint::ALL {
        for second in one_death_too.then_some(None).into_iter().chain([Some(point)]) {
            let case = Case { ground, shape, deaths: [Some(point), second], bug: None };
            let died = play(case).unwrap_or_else(|broken| panic!("{case:?}: {broken}"));
            assert_eq!(died.first(), Some(&point), "{case:?}: it did not get there");
            again.extend(died.get(1));
        }
    }
    again
}

#[test]
fn k02_tasks_that_come_back_apart_come_once_wherever_a_process_and_its_successor_die() {
    use Failpoint::{F1, F3, F4, F5, F6, F7, F8, F9};
    for ground in [Ground::Memory, Ground::File] {
        assert_eq!(sweep(ground, Shape::Apart), [F1, F3, F4, F5, F6, F7, F8, F9]);
    }
}

#[test]
fn k02_tasks_that_come_back_together_come_once_wherever_a_process_and_its_successor_die() {
    use Failpoint::{F1, F3, F4, F5, F6, F9};
    for ground in [Ground::Memory, Ground::File] {
        assert_eq!(sweep(ground, Shape::Together), [F1, F3, F4, F5, F6, F9]);
    }
}

#[test]
fn k06_a_death_before_the_turn_and_one_after_it_make_one_completion_turn() {
    for ground in [Ground::Memory, Ground::File] {
        for shape in [Shape::Apart, Shape::Together] {
            let deaths = [Some(Failpoint::F6), Some(Failpoint::F7)];
            let case = Case { ground, shape, deaths, bug: None };
            assert_eq!(play(case), Ok(vec![Failpoint::F6, Failpoint::F7]), "{case:?}");
        }
    }
}

fn broken(point: Option<Failpoint>, bug: Bug) -> Option<String> {
    let (ground, shape) = (Ground::Memory, Shape::Apart);
    play(Case { ground, shape, deaths: [point, None], bug: Some(bug) }).err()
}

#[test]
fn k06_a_store_that_ends_claims_after_the_turn_is_caught_by_deaths_right_after_it_and_by_no_other() {
    let bug = Bug::AcknowledgesAfterTheTurn;
    for point in Failpoint::ALL {
        let how = broken(Some(point), bug).unwrap_or_default();
        let is_right_after = matches!(point, Failpoint::F7 | Failpoint::F8);
        assert_eq!(how.contains("gA came 2 times"), is_right_after, "{point:?}: {how}");
    }
    assert_eq!(broken(None, bug), None, "without a death it does not show");
}

#[test]
fn k02_results_that_count_as_delivered_when_they_are_offered_are_caught_at_f6() {
    let how = broken(Some(Failpoint::F6), Bug::AcknowledgesTheOffer).unwrap_or_default();
    assert!(how.contains("gA came 0 times"), "{how}");
}
