//! Many seeded interleavings of messages, completions, streams, failures of the model and deaths of the process: each
//! message and each completion is answered once, by the session it belongs to, and every request is legal.

use super::scene::{Machine, Open, Running, answer, assert_legal, delegation, new_session, stored};
use crate::fakes::failure;
use futures::{StreamExt, stream};
use legwork_agent::models::{Model, ModelFacts, ModelRequest, ReplyPart, ReplyStream};
use legwork_agent::session::{SayError, SessionEvent};
use legwork_core::ids::SessionId;
use legwork_core::message::{Author, Message, Part};
use legwork_core::outcome::Ending;
use legwork_core::report::FailureReason;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

const SEEDS: u64 = 210;
const SESSIONS: [u64; 2] = [5, 6];

/// Numbers that a seed decides.
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).expect("31 bits fit") % limit
    }
}

/// A model that answers with the marks of all it was told since its last answer, and delegates what it is told to.
pub struct Echo {
    chance: Mutex<Chance>,
    /// How many of the next requests fail.
    failing: AtomicU32,
    calls: AtomicU32,
}

impl Echo {
    pub fn new(seed: u64) -> Arc<Self> {
        let chance = Mutex::new(Chance(seed * 7919 + 13));
        Arc::new(Echo { chance, failing: AtomicU32::new(0), calls: AtomicU32::new(0) })
    }

    fn pieces(&self, text: &str) -> ReplyStream {
        let cut = self.chance.lock().expect("no holder panics").below(text.len());
        let (head, tail) = (text[..cut].to_owned(), text[cut..].to_owned());
        let pieces = [head, tail]
            .into_iter()
            .filter(|piece| !piece.is_empty())
            .map(|piece| Ok(ReplyPart::Text(piece)));
        let told = stream::iter(pieces.collect::<Vec<_>>()).then(|piece| async {
            tokio::task::yield_now().await;
            piece
        });
        told.chain(answer(vec![Part::Text { text: text.to_owned() }])).boxed()
    }
}

impl Model for Echo {
    fn facts(&self) -> ModelFacts {
        ModelFacts { name: "fake/model".to_owned(), window: None }
    }

    fn respond(&self, request: ModelRequest) -> ReplyStream {
        assert_legal(&request.messages);
        let is_failing = |left: u32| left.checked_sub(1);
        if self.failing.fetch_update(Ordering::SeqCst, Ordering::SeqCst, is_failing).is_ok() {
            return Box::pin(stream::iter([Err(failure(FailureReason::Overloaded, "503"))]));
        }
        let messages: Vec<&Message> = request.messages.iter().map(AsRef::as_ref).collect();
        let news = news(&messages);
        let asked: Vec<String> = news
            .iter()
            .filter(|_| messages.last().is_some_and(|last| last.author != Author::Tool))
            .flat_map(|message| goals(message))
            .collect();
        if asked.is_empty() {
            let marks: Vec<String> = news.iter().flat_map(|message| marks(message)).collect();
            return self.pieces(&format!("answered {}", marks.join(" ")));
        }
        let calls = asked.iter().map(|goals| {
            let number = self.calls.fetch_add(1, Ordering::SeqCst);
            Part::Call(delegation(&format!("{}-{number}", asked[0]), &goals.split('+').collect::<Vec<_>>()))
        });
        answer(calls.collect())
    }
}

/// What came after the last answer.
fn news<'a>(messages: &[&'a Message]) -> Vec<&'a Message> {
    let is_answer =
        |message: &&Message| message.author == Author::Assistant && message.calls().next().is_none();
    let from = messages.iter().rposition(is_answer).map_or(1, |last| last + 1);
    messages[from..].to_vec()
}

/// The marks of a message: the first word of what a person said, or the goals of a completion's tasks.
fn marks(message: &Message) -> Vec<String> {
    let text = message.plain_text();
    match message.author {
        Author::User => text.split(' ').take(1).map(str::to_owned).collect(),
        Author::Completion => {
            text.lines().filter_map(|line| line.strip_prefix("| g")).map(|goal| format!("g{goal}")).collect()
        }
        Author::System | Author::Assistant | Author::Tool | Author::Summary => Vec::new(),
    }
}

/// What a person tells it to delegate: `NAME delegate GOAL+GOAL`.
fn goals(message: &Message) -> Option<String> {
    let text = message.plain_text();
    let goals = (message.author == Author::User).then(|| text.split_once(" delegate ")).flatten();
    goals.map(|(_, goals)| goals.to_owned())
}

/// One world.
struct World {
    machine: Machine,
    model: Arc<Echo>,
    chance: Chance,
    running: Option<Running>,
    pid: u32,
    open: Vec<Open>,
    goals: Vec<String>,
    said: usize,
}

impl World {
    async fn new(seed: u64) -> Self {
        let (machine, model) = (Machine::new(), Echo::new(seed));
        let running = machine.start(1).await;
        let mut open = Vec::new();
        for session in SESSIONS {
            open.push(running.open(model.clone(), new_session(session)).await);
        }
        let chance = Chance(seed * 104_729 + 1);
        World { machine, model, chance, running: Some(running), pid: 1, open, goals: Vec::new(), said: 0 }
    }

    async fn step(&mut self) {
        match self.chance.below(12) {
            0..=2 => self.say(""),
            3..=4 => {
                let (a, b) = (format!("g{}a", self.said), format!("g{}b", self.said));
                let goals = if self.chance.below(2) == 0 { a } else { format!("{a}+{b}") };
                self.say(&format!(" delegate {goals}"));
                self.goals.extend(goals.split('+').map(str::to_owned));
            }
            5..=7 => {
                for _ in 0..self.chance.below(40) {
                    tokio::task::yield_now().await;
                }
            }
            8..=9 if !self.goals.is_empty() => {
                let index = self.chance.below(self.goals.len());
                self.machine.children.free(&self.goals[index]);
            }
            10 => {
                let times = u32::try_from(self.chance.below(3)).expect("it is small");
                self.model.failing.store(times, Ordering::SeqCst);
            }
            _ => {}
        }
    }

    fn say(&mut self, more: &str) {
        self.said += 1;
        let open = &self.open[self.chance.below(self.open.len())];
        match open.handle.say(format!("u{}{more}", self.said)) {
            Ok(()) => {}
            Err(SayError::Blank | SayError::TooLong { .. } | SayError::Full { .. } | SayError::Closed) => {
                panic!("there is room")
            }
        }
    }

    /// The process dies, and another one opens its sessions.
    async fn die(&mut self) {
        self.open.clear();
        self.running.take().expect("a process runs").die();
        self.pid += 1;
        let running = self.machine.start(self.pid).await;
        for session in SESSIONS {
            self.open.push(running.open(self.model.clone(), stored(session)).await);
        }
        self.running = Some(running);
    }

    /// Lets everything come to rest.
    async fn rest(&mut self) {
        self.model.failing.store(0, Ordering::SeqCst);
        self.goals.iter().for_each(|goal| self.machine.children.free(goal));
        for open in &self.open {
            open.handle.wait_idle().await;
        }
        for (open, session) in self.open.iter().zip(SESSIONS) {
            let id = SessionId::from_bits(session);
            let records = self.machine.delegations().await;
            let own = records.iter().filter(|record| record.accepted.lineage.session == id);
            let wanted: Vec<&String> =
                own.flat_map(|record| &record.accepted.tasks).map(|task| &task.goal).collect();
            // What an earlier process answered is in the history and not among the events.
            let history = self.machine.history(&id).await;
            let before: BTreeSet<String> =
                history.iter().flat_map(|message| words(&message.plain_text())).collect();
            open.until(|events| {
                let answers = events.iter().filter_map(answer_of);
                let told: BTreeSet<String> = answers.flat_map(|answer| words(&answer)).collect();
                wanted.iter().all(|goal| before.contains(*goal) || told.contains(*goal))
            })
            .await;
            open.handle.wait_idle().await;
        }
    }

    /// The law: walking through a history, each answer names exactly what came since the one before, nothing is left
    /// over, nothing came twice, and nothing belongs to somebody else.
    async fn check(&self, seed: u64) -> usize {
        let mut seen = BTreeSet::new();
        for session in SESSIONS {
            let id = SessionId::from_bits(session);
            let mut history = self.machine.store.history(&id).await.expect("readable");
            let mut waiting: Vec<String> = Vec::new();
            for message in history.drain(..) {
                match message.author {
                    Author::User | Author::Completion => {
                        for mark in marks(&message) {
                            assert!(seen.insert(mark.clone()), "seed {seed}: {mark} came twice");
                            waiting.push(mark);
                        }
                    }
                    Author::Assistant if message.calls().next().is_none() => {
                        let expected = format!("answered {}", waiting.join(" "));
                        assert_eq!(message.plain_text(), expected, "seed {seed}");
                        waiting.clear();
                    }
                    Author::Assistant | Author::Tool | Author::System | Author::Summary => {}
                }
            }
            assert_eq!(
                waiting,
                Vec::<String>::new(),
                "seed {seed}: session {session} left something unanswered"
            );
        }
        let own = |goal: &String| seen.contains(goal);
        for record in self.machine.delegations().await {
            let goals: Vec<String> = record.accepted.tasks.iter().map(|task| task.goal.clone()).collect();
            assert!(goals.iter().all(own), "seed {seed}: {goals:?} did not come back");
            assert_eq!(record.deliveries[0].state.as_str(), "delivered", "seed {seed}");
        }
        seen.len()
    }
}

fn answer_of(event: &SessionEvent) -> Option<String> {
    match event {
        SessionEvent::TurnEnded(report) if report.ending == Ending::Answered => report.answer.clone(),
        SessionEvent::TurnEnded(_)
        | SessionEvent::TurnBegan(_)
        | SessionEvent::CameIn { .. }
        | SessionEvent::Told(_)
        | SessionEvent::Compacted { .. }
        | SessionEvent::TryingAgain { .. }
        | SessionEvent::Idle => None,
    }
}

/// The marks that an answer names.
fn words(answer: &str) -> Vec<String> {
    let named = answer.strip_prefix("answered ").unwrap_or_default();
    named.split(' ').map(str::to_owned).collect()
}

async fn play(seed: u64) -> usize {
    let mut world = World::new(seed).await;
    let steps = 10 + world.chance.below(20);
    let dies_at = seed.is_multiple_of(3).then(|| world.chance.below(steps));
    for step in 0..steps {
        world.step().await;
        if dies_at == Some(step) {
            world.die().await;
        }
    }
    world.rest().await;
    world.check(seed).await
}

#[test]
fn inv_06_every_message_and_every_completion_is_answered_once_in_many_interleavings() {
    let mut answered = 0;
    for seed in 1..=SEEDS {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        answered += runtime.expect("a runtime").block_on(play(seed));
    }
    assert!(answered > 1200, "{answered} messages and tasks were answered");
}
