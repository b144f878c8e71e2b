//! A machine with one store on which processes come and go. Each of them has an engine and may open conversations.

use crate::delegate_calls::OPTIONS;
use crate::engine::no_commands;
use crate::fakes::{FakeProcesses, allowance, process, rights, route, until};
use futures::{FutureExt, StreamExt, stream};
use legwork_agent::models::{Model, ModelFacts, ModelRequest, ReplyPart, ReplyStream, RetryPolicy};
use legwork_agent::session::{
    Conversation, ConversationHandle, ConversationParts, Farewell, OpenError, SessionEvent, SessionSetup,
    Which,
};
use legwork_agent::tools::{DelegateOptions, DelegateTool, Tool, Toolbox};
use legwork_agent::turn::TurnLimits;
use legwork_agent::worker::{LocalWorker, Pictures, WorkerParts};
use legwork_core::batch::{Completions, Isolation, Reach, Route, Setting};
use legwork_core::ids::{Epoch, OwnerId, SessionId};
use legwork_core::message::{Author, Message, Part};
use legwork_core::ports::{Delegator, Facts, Filter, NewSession, Processes, SessionKind, Steps, Store};
use legwork_core::record::{DelegationRecord, OwnerRecord};
use legwork_core::report::{Cost, Usage};
use legwork_core::step::{Fence, Finish, Reply};
use legwork_core::time::Timestamp;
use legwork_engine::recovery::Orphans;
use legwork_engine::{AtCapacity, Clock, Engine, Handle, Options, Patience, Wiring, lease};
use legwork_testkit::memory::MemoryStore;
use legwork_testkit::unwritten::Unwritten;
use serde_json::json;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(240);

/// The machine.
pub struct Machine {
    /// As somebody else on the machine has it open.
    pub store: Arc<dyn Store>,
    /// Whether the tasks of a call come back by their groups.
    pub completions: Completions,
    pub processes: Arc<FakeProcesses>,
    pub children: Arc<Children>,
    bits: Arc<AtomicU64>,
    spill: tempfile::TempDir,
}

/// One process on it.
pub struct Running {
    store: Arc<dyn Store>,
    /// Through which conversations reach the engine.
    door: Arc<dyn Delegator>,
    processes: Arc<FakeProcesses>,
    spill: std::path::PathBuf,
    engine: Engine,
    owner: OwnerRecord,
}

/// An open conversation. Dropping it is what a crash does to it.
pub struct Open {
    pub handle: ConversationHandle,
    events: watch::Receiver<Vec<SessionEvent>>,
    driver: JoinSet<Farewell>,
}

impl Machine {
    pub fn new() -> Self {
        Machine::with(Arc::new(MemoryStore::new()))
    }

    /// A machine whose store somebody has open already.
    pub fn with(store: Arc<dyn Store>) -> Self {
        Machine {
            store,
            completions: Completions::Together,
            processes: FakeProcesses::new(),
            children: Children::new(),
            bits: Arc::new(AtomicU64::new(1)),
            spill: tempfile::tempdir().expect("a folder"),
        }
    }

    /// A process begins: it settles what dead ones left, and starts its engine.
    pub async fn start(&self, pid: u32) -> Running {
        self.start_over(pid, Arc::clone(&self.store)).await
    }

    /// The same with an opening of the store that is its own.
    pub async fn start_over(&self, pid: u32, store: Arc<dyn Store>) -> Running {
        let owner = OwnerRecord::new(OwnerId::from_bits(u64::from(pid)), process(pid));
        store.enter(owner.clone(), Timestamp(0)).await.expect("it enters");
        let clock = Clock::start();
        let bits = Arc::clone(&self.bits);
        let wiring = Wiring {
            store: Arc::clone(&store),
            worker: Arc::new(self.worker(&store)),
            transcripts: Arc::new(Unwritten),
            processes: Arc::clone(&self.processes) as Arc<dyn Processes>,
            clock,
            bits: Arc::new(move || bits.fetch_add(0x1_0000_0001, Ordering::SeqCst)),
            owner: owner.clone(),
        };
        let options = Options { completions: self.completions, ..options() };
        let engine = Engine::start(options, wiring).await.expect("it starts");
        engine.handle().recover(&Orphans::All).await.expect("it goes on with what is left");
        Running {
            store,
            door: Arc::new(engine.handle()),
            processes: Arc::clone(&self.processes),
            spill: self.spill.path().to_owned(),
            engine,
            owner,
        }
    }

    /// Its children are as deep as agents may be and call nothing, so that a process that ended leaves its store.
    fn worker(&self, store: &Arc<dyn Store>) -> LocalWorker {
        let children = Arc::clone(&self.children);
        LocalWorker::new(WorkerParts {
            facts: Arc::clone(store) as Arc<dyn Facts>,
            store: Arc::clone(store) as Arc<dyn Steps>,
            models: Arc::new(move |_: &Route| Ok(Arc::clone(&children) as Arc<dyn Model>)),
            toolbox: Arc::new(Toolbox::new(Vec::new())),
            commands: no_commands(store.clone()),
            limits: TurnLimits::default(),
            depth_max: 1,
            pictures: Pictures::ByModel,
            spill: self.spill.path().to_owned(),
            diagnostics: "/nowhere".into(),
        })
    }

    pub async fn history(&self, session: &SessionId) -> Vec<Message> {
        self.store.history(session).await.expect("it is readable")
    }

    pub async fn delegations(&self) -> Vec<DelegationRecord> {
        let mut records = self.store.delegations(Filter::Recent(1000)).await.expect("readable").rows;
        records.reverse();
        records
    }

    /// The words for where all results are, in the order of the delegations.
    pub async fn deliveries(&self) -> Vec<&'static str> {
        let records = self.delegations().await;
        records.iter().flat_map(|record| &record.deliveries).map(|delivery| delivery.state.as_str()).collect()
    }

    /// Waits until the children have ended whose results are at this place.
    pub async fn until_settled(&self, place: usize) {
        // Deadline: what never comes fails its test, also where time is paused.
        let begun = Instant::now();
        while self.deliveries().await[place] == "held" {
            assert!(begun.elapsed() < PATIENCE, "waited {PATIENCE:?} in vain");
            tokio::task::yield_now().await;
        }
    }
}

impl Running {
    /// Lets the conversations of this process reach the engine through such a door.
    pub fn behind(self, door: impl FnOnce(Arc<dyn Delegator>) -> Arc<dyn Delegator>) -> Self {
        Running { door: door(Arc::clone(&self.door)), ..self }
    }

    pub fn engine(&self) -> Handle {
        self.engine.handle()
    }

    pub fn setup(&self, model: Arc<dyn Model>) -> SessionSetup {
        let door =
            DelegateTool::new(DelegateOptions { reach: Reach::Push, goal_bytes_max: 10_000, ..OPTIONS });
        door.connect(Arc::new(self.engine.handle()));
        let tools: Vec<Arc<dyn Tool>> = vec![Arc::new(door)];
        SessionSetup {
            store: Arc::clone(&self.store),
            processes: Arc::clone(&self.processes) as Arc<dyn Processes>,
            model,
            toolbox: Arc::new(Toolbox::new(tools)),
            commands: no_commands(self.store.clone()),
            limits: TurnLimits {
                retry: RetryPolicy { attempts_max: 1, ..RetryPolicy::default() },
                ..TurnLimits::default()
            },
            fence: Fence { owner: self.owner.id.clone(), epoch: Epoch(1) },
            setting: Setting {
                folder: "/".to_owned(),
                route: route(),
                rights: rights(&["delegate_task"]),
                allowance: allowance(10),
                isolation: Isolation::Shared,
            },
            reach: Reach::Push,
            depth_max: 1,
            spill: self.spill.clone(),
        }
    }

    pub async fn open(&self, model: Arc<dyn Model>, which: Which) -> Open {
        self.try_open(model, which).await.expect("it opens")
    }

    pub async fn try_open(&self, model: Arc<dyn Model>, which: Which) -> Result<Open, OpenError> {
        self.open_with(self.setup(model), which).await
    }

    pub async fn open_with(&self, session: SessionSetup, which: Which) -> Result<Open, OpenError> {
        let (heard, events) = watch::channel(Vec::new());
        let parts = ConversationParts {
            session,
            delegator: Arc::clone(&self.door),
            listener: Box::new(move |event| heard.send_modify(|events| events.push(event))),
        };
        let (handle, conversation) = Conversation::open(parts, which).await?;
        let mut driver = JoinSet::new();
        driver.spawn(conversation.run());
        Ok(Open { handle, events, driver })
    }

    /// The work of the process ends in good order, and it says so. It may be there for a moment more.
    pub async fn close(self) {
        self.engine.close().await;
        let resigned = lease::resign(self.store.as_ref(), Clock::start(), &self.owner).await;
        assert_eq!(resigned, Ok(true));
    }

    /// The process dies where it is. Its conversations must be dropped before.
    pub fn die(self) {
        self.processes.die(self.owner.process.pid);
    }
}

impl Open {
    /// Says something and waits until all that follows from it by itself has been said.
    pub async fn ask(&self, text: &str) {
        self.handle.say(text).expect("there is room");
        self.handle.wait_idle().await;
    }

    pub fn events(&self) -> Vec<SessionEvent> {
        self.events.borrow().clone()
    }

    /// What happened, each event as a short word; what the agent told is left out.
    pub fn words(&self) -> Vec<String> {
        self.events().iter().filter_map(word).collect()
    }

    /// Waits until the events so far are like this.
    pub async fn until(&self, is_so: impl Fn(&[SessionEvent]) -> bool) {
        let mut events = self.events.clone();
        events.wait_for(|events| is_so(events)).await.expect("the conversation goes on");
    }

    /// Waits until the agent has told this.
    pub async fn told(&self, text: &str) {
        self.until(|events| format!("{events:?}").contains(text)).await;
    }

    pub async fn close(mut self, reason: legwork_core::outcome::StopReason) -> Farewell {
        self.handle.close(reason).await;
        self.driver.join_next().await.expect("it is driven").expect("it ends by itself")
    }

    /// How it ended by itself.
    pub async fn ended(&mut self) -> Farewell {
        self.driver.join_next().await.expect("it is driven").expect("it ends by itself")
    }
}

fn word(event: &SessionEvent) -> Option<String> {
    use legwork_agent::session::Cause;
    Some(match event {
        SessionEvent::TurnBegan(Cause::User(text)) => format!("user {text}"),
        SessionEvent::TurnBegan(Cause::Completion { title, .. }) => format!("completion {title}"),
        SessionEvent::TurnBegan(Cause::ProcessEnded { title, .. }) => format!("process {title}"),
        SessionEvent::TurnBegan(Cause::Unanswered) => "unanswered".to_owned(),
        SessionEvent::CameIn { title, .. } => format!("row {title}"),
        SessionEvent::TurnEnded(report) => format!("ended {:?}", report.ending),
        SessionEvent::TryingAgain { pause, tries } => format!("again in {} s after {tries}", pause.as_secs()),
        SessionEvent::Idle => "idle".to_owned(),
        SessionEvent::Told(_) | SessionEvent::Compacted { .. } => return None,
    })
}

pub fn new_session(bits: u64) -> Which {
    Which::New(NewSession {
        id: SessionId::from_bits(bits),
        name: None,
        kind: SessionKind::Chat,
        folder: "/".to_owned(),
        at: Timestamp(0),
    })
}

pub fn stored(bits: u64) -> Which {
    Which::Stored(SessionId::from_bits(bits))
}

/// The model of all children: each answers with its goal as soon as the test lets it.
pub struct Children {
    free: watch::Sender<BTreeSet<String>>,
    asked: Mutex<Vec<String>>,
}

impl Children {
    fn new() -> Arc<Self> {
        Arc::new(Children { free: watch::channel(BTreeSet::new()).0, asked: Mutex::default() })
    }

    /// Lets the child with this goal answer.
    pub fn free(&self, goal: &str) {
        self.free.send_modify(|free| {
            free.insert(goal.to_owned());
        });
    }

    /// How often the model was asked for this goal.
    pub fn asked(&self, goal: &str) -> usize {
        let asked = self.asked.lock().expect("no holder panics");
        asked.iter().filter(|asked| *asked == goal).count()
    }

    /// Waits until the model was asked for this goal.
    pub async fn begun(&self, goal: &str) {
        until(|| self.asked(goal) > 0).await;
    }
}

impl Model for Children {
    fn facts(&self) -> ModelFacts {
        ModelFacts { name: "fake/child".to_owned(), window: None }
    }

    fn respond(&self, request: ModelRequest) -> ReplyStream {
        let goal = request.messages[1].plain_text();
        self.asked.lock().expect("no holder panics").push(goal.clone());
        let mut free = self.free.subscribe();
        let answer = async move {
            free.wait_for(|free| free.contains(&goal)).await.expect("the test goes on");
            Ok(done(vec![Part::Text { text: format!("did {goal}") }]))
        };
        answer.into_stream().boxed()
    }
}

/// A whole reply.
pub fn done(parts: Vec<Part>) -> ReplyPart {
    ReplyPart::Done(Box::new(Reply {
        message: Message { author: Author::Assistant, parts },
        usage: Usage::default(),
        cost: Cost::Unknown,
        model: None,
        finish: Finish::Stop,
    }))
}

pub fn answer(parts: Vec<Part>) -> ReplyStream {
    Box::pin(stream::iter([Ok(done(parts))]))
}

/// A call that delegates these goals.
pub fn delegation(id: &str, goals: &[&str]) -> legwork_core::message::ToolCall {
    // A list in text, so that short goals pass the gate.
    let tasks: Vec<_> = goals.iter().map(|goal| json!({"goal": goal})).collect();
    crate::fakes::call(id, "delegate_task", json!({"tasks": json!(tasks).to_string()}))
}

fn options() -> Options {
    let patience = Duration::from_secs(3600);
    Options {
        children_max: 20,
        queue_max: 100,
        depth_max: 1,
        at_capacity: AtCapacity::Queue,
        completions: Completions::Together,
        patience: Patience { idle: patience, tool: patience, grace: patience, inactivity: None },
        stop_grace: Duration::from_secs(60),
        lease: Duration::from_secs(10),
    }
}

/// What a strict provider asks of a conversation that it is sent.
pub fn assert_legal(messages: &[impl AsRef<Message>]) {
    let authors: Vec<Author> = messages.iter().map(|message| message.as_ref().author).collect();
    assert_eq!(authors.first(), Some(&Author::System));
    let mut open: Vec<String> = Vec::new();
    for (index, message) in messages.iter().map(AsRef::as_ref).enumerate().skip(1) {
        match message.author {
            Author::System => panic!("a system message at {index}"),
            Author::Tool => {
                let answered: Vec<String> = message.parts.iter().filter_map(answered).collect();
                assert_eq!(answered, open, "results answer the calls before them");
                open.clear();
            }
            Author::Assistant => {
                assert!(open.is_empty() && !message.parts.is_empty(), "at {index}");
                assert!(
                    matches!(
                        authors[index - 1],
                        Author::User | Author::Completion | Author::Tool | Author::Summary
                    ),
                    "at {index}: {authors:?}"
                );
                open = message.calls().map(|call| call.id.clone()).collect();
            }
            Author::User | Author::Completion | Author::Summary => assert!(open.is_empty(), "at {index}"),
        }
    }
    assert!(open.is_empty(), "no call is left open");
}

fn answered(part: &Part) -> Option<String> {
    match part {
        Part::Result(result) => Some(result.call_id.clone()),
        Part::Text { .. } | Part::Reasoning { .. } | Part::Call(_) | Part::Image(_) | Part::Summary(_) => {
            None
        }
    }
}

/// The texts of a history without its system text, calls as `[calls]`, results as `[results]`, completions by what their
/// children said.
pub fn texts(history: &[Message]) -> Vec<String> {
    history.iter().skip(1).map(text).collect()
}

fn text(message: &Message) -> String {
    match message.author {
        Author::Completion => {
            let said = message.plain_text();
            let answers = said.lines().filter_map(|line| line.strip_prefix("| did "));
            format!("<{}>", answers.collect::<Vec<_>>().join(" "))
        }
        Author::Tool => "[results]".to_owned(),
        Author::Assistant if message.calls().next().is_some() => "[calls]".to_owned(),
        Author::System | Author::User | Author::Assistant | Author::Summary => message.plain_text(),
    }
}
