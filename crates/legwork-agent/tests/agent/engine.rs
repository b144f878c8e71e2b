//! The agent under the real engine, over the store in memory: a tree of agents that wait for each other.

use crate::delegate_calls::OPTIONS;
use crate::fakes::{Bench, FakeProcesses, FakeTool, allowance, call, rights, route, until};
use futures::{FutureExt, StreamExt, stream};
use legwork_agent::models::{Model, ModelFacts, ModelRequest, ReplyPart, ReplyStream};
use legwork_agent::process::Shells;
use legwork_agent::session::{
    RunOutcome, RunSetup, SessionLine, SessionSetup, SessionStop, Which, run_prompt,
};
use legwork_agent::tools::{Commands, DelegateOptions, DelegateTool, Tool, Toolbox};
use legwork_agent::turn::TurnLimits;
use legwork_agent::worker::{LocalWorker, Pictures, WorkerParts};
use legwork_core::batch::{Completions, Isolation, Reach, Route, Setting};
use legwork_core::ids::SessionId;
use legwork_core::message::{Author, Message, Part};
use legwork_core::outcome::{Ending, Force, Outcome, StopReason};
use legwork_core::ports::{Delegator, Facts, Filter, NewSession, SessionKind, Steps, StopNotice, Store};
use legwork_core::record::{DelegationRecord, OwnerRecord, Process};
use legwork_core::report::{Cost, Usage};
use legwork_core::step::{Finish, Reply};
use legwork_core::time::Timestamp;
use legwork_engine::{AtCapacity, Clock, Engine, Options, Patience, Wiring};
use legwork_testkit::memory::MemoryStore;
use legwork_testkit::unwritten::Unwritten;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// A model that follows its goal: `delegate GOAL & GOAL…` delegates, each goal in a call of its own, and answers with
/// what came back; `look` looks and answers; `hang` never answers.
#[derive(Default)]
struct Obedient {
    hanging: Arc<AtomicUsize>,
    asked: AtomicUsize,
}

impl Model for Obedient {
    fn facts(&self) -> ModelFacts {
        ModelFacts { name: "fake/model".to_owned(), window: None }
    }

    fn respond(&self, request: ModelRequest) -> ReplyStream {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let goal = request.messages[1].plain_text();
        let last = request.messages.last().expect("there are messages");
        let parts = match (last.author, goal.split_once(' ').unwrap_or((&goal, ""))) {
            (Author::Tool, _) => vec![Part::Text { text: results(last) }],
            (_, ("delegate", goals)) => goals.split(" & ").enumerate().map(delegate).collect(),
            (_, ("look", _)) => vec![Part::Call(call("look", "look", json!({})))],
            (_, _) => return hang(Arc::clone(&self.hanging)),
        };
        let message = Message { author: Author::Assistant, parts };
        let reply = Reply {
            message,
            usage: Usage::default(),
            cost: Cost::Unknown,
            model: None,
            finish: Finish::Stop,
        };
        Box::pin(stream::iter([Ok(ReplyPart::Done(Box::new(reply)))]))
    }
}

fn delegate((index, goal): (usize, &str)) -> Part {
    // A list in text, so that short goals pass the gate.
    let tasks = json!([{"goal": goal.replace("..", " & ").replace('.', " ")}]).to_string();
    Part::Call(call(&format!("d{index}"), "delegate_task", json!({"tasks": tasks})))
}

fn results(message: &Message) -> String {
    let result = |part: &Part| match part {
        Part::Result(result) => match serde_json::from_str::<Value>(&result.content) {
            Ok(answer) => answer["results"][0]["summary"].as_str().unwrap_or("no summary").to_owned(),
            Err(_) => result.content.clone(),
        },
        Part::Text { .. } | Part::Reasoning { .. } | Part::Call(_) | Part::Image(_) | Part::Summary(_) => {
            "no result".to_owned()
        }
    };
    format!("({})", message.parts.iter().map(result).collect::<Vec<_>>().join(" "))
}

fn hang(hanging: Arc<AtomicUsize>) -> ReplyStream {
    struct Held(Arc<AtomicUsize>);
    impl Drop for Held {
        fn drop(&mut self) {
            self.0.fetch_sub(1, Ordering::SeqCst);
        }
    }
    hanging.fetch_add(1, Ordering::SeqCst);
    let held = Held(hanging);
    let never = async move {
        let _held = held;
        std::future::pending().await
    };
    never.into_stream().boxed()
}

/// An engine with one slot, and a session that uses it.
struct House {
    store: Arc<MemoryStore>,
    model: Arc<Obedient>,
    engine: Engine,
    stop: SessionStop,
    line: Option<SessionLine>,
}

const DEPTH_MAX: u32 = 3;

fn door() -> Arc<DelegateTool> {
    Arc::new(DelegateTool::new(DelegateOptions { depth_max: DEPTH_MAX, ..OPTIONS }))
}

fn toolbox(door: &Arc<DelegateTool>) -> Arc<Toolbox> {
    Arc::new(Toolbox::new(vec![FakeTool::look("look", "seen"), Arc::clone(door) as Arc<dyn Tool>]))
}

impl House {
    async fn new() -> Self {
        let (store, model) = (Arc::new(MemoryStore::new()), Arc::new(Obedient::default()));
        let engine = engine_over(&store, &(Arc::clone(&model) as Arc<dyn Model>)).await;
        let (line, stop) = SessionLine::new(Box::new(|_| ()));
        House { store, model, engine, stop, line: Some(line) }
    }

    async fn run(&mut self, prompt: &str) -> RunOutcome {
        let handle = Arc::new(self.engine.handle());
        let session_door = door();
        session_door.connect(Arc::clone(&handle) as Arc<dyn Delegator>);
        let which = Which::New(NewSession {
            id: SessionId::from_bits(5),
            name: None,
            kind: SessionKind::Run,
            folder: "/".to_owned(),
            at: Timestamp(0),
        });
        let session = SessionSetup {
            store: Arc::clone(&self.store) as Arc<dyn Store>,
            processes: FakeProcesses::new(),
            model: Arc::clone(&self.model) as Arc<dyn Model>,
            toolbox: toolbox(&session_door),
            commands: no_commands(self.store.clone()),
            limits: TurnLimits::default(),
            fence: Bench::fence(),
            setting: setting(),
            reach: Reach::Joined,
            depth_max: DEPTH_MAX,
            spill: "/nowhere".into(),
        };
        let setup = RunSetup {
            session,
            delegator: handle,
            which,
            prompt: prompt.to_owned(),
            listener: Box::new(|_| ()),
        };
        let line = self.line.take().expect("a house runs once");
        run_prompt(setup, line, &self.stop).await.expect("it starts")
    }

    /// All delegations, when the engine has ended.
    async fn close(self) -> Vec<DelegationRecord> {
        self.engine.close().await;
        self.store.delegations(Filter::Recent(100)).await.expect("readable").rows
    }
}

/// An engine with one slot, whose agents ask this model.
pub async fn engine_over(store: &Arc<MemoryStore>, model: &Arc<dyn Model>) -> Engine {
    let worker_door = door();
    let bits = AtomicU64::new(1);
    let wiring = Wiring {
        store: Arc::clone(store) as Arc<dyn Store>,
        worker: Arc::new(worker(store, model, &worker_door)),
        transcripts: Arc::new(Unwritten),
        processes: FakeProcesses::new(),
        clock: Clock::start(),
        bits: Arc::new(move || bits.fetch_add(0x1_0000_0001, Ordering::SeqCst)),
        owner: OwnerRecord::new(
            Bench::fence().owner,
            Process { boot_id: "boot".to_owned(), pid: 1, start_ticks: 1 },
        ),
    };
    let engine = Engine::start(options(), wiring).await.expect("it starts");
    worker_door.connect(Arc::new(engine.handle()));
    engine
}

fn worker(store: &Arc<MemoryStore>, model: &Arc<dyn Model>, door: &Arc<DelegateTool>) -> LocalWorker {
    let model = Arc::clone(model);
    LocalWorker::new(WorkerParts {
        store: Arc::clone(store) as Arc<dyn Steps>,
        facts: Arc::clone(store) as Arc<dyn Facts>,
        models: Arc::new(move |_: &Route| Ok(Arc::clone(&model))),
        toolbox: toolbox(door),
        commands: no_commands(store.clone()),
        limits: TurnLimits::default(),
        depth_max: DEPTH_MAX,
        pictures: Pictures::ByModel,
        spill: "/nowhere".into(),
        diagnostics: "/nowhere".into(),
    })
}

/// These agents run no commands.
pub fn no_commands(facts: Arc<dyn Facts>) -> Commands {
    let shells = Shells::new(std::env::vars_os()).expect("there is a shell");
    Commands::new(shells, facts)
}

pub fn setting() -> Setting {
    Setting {
        folder: "/".to_owned(),
        route: route(),
        rights: rights(&["look", "delegate_task"]),
        allowance: allowance(10),
        isolation: Isolation::Shared,
    }
}

fn options() -> Options {
    let patience = Duration::from_secs(3600);
    Options {
        children_max: 1,
        queue_max: 100,
        depth_max: DEPTH_MAX,
        at_capacity: AtCapacity::Queue,
        completions: Completions::Together,
        patience: Patience { idle: patience, tool: patience, grace: patience, inactivity: None },
        stop_grace: Duration::from_secs(60),
        lease: Duration::from_secs(10),
    }
}

#[tokio::test]
async fn k16_a_tree_of_agents_gets_through_with_a_single_slot() {
    let mut house = House::new().await;
    let outcome = house.run("delegate delegate.look..look & look").await;
    assert_eq!(
        (outcome.report.ending, outcome.report.answer.as_deref()),
        (Ending::Answered, Some("(((seen) (seen)) (seen))"))
    );
    assert_eq!(outcome.delegations.map(|delegations| delegations.len()), Ok(2));
    let records = house.close().await;
    assert_eq!(records.len(), 4);
    for record in records {
        assert_eq!(record.children[0].outcome(), Some(Outcome::Succeeded), "{record:?}");
        assert_eq!(record.deliveries[0].state.as_str(), "delivered", "{record:?}");
    }
}

#[tokio::test]
async fn inv_11_a_stop_ends_the_whole_tree_and_all_its_model_calls() {
    let mut house = House::new().await;
    let (stop, hanging) = (house.stop.clone(), Arc::clone(&house.model.hanging));
    let (outcome, ()) = tokio::join!(house.run("delegate delegate.hang & look"), async {
        until(|| hanging.load(Ordering::SeqCst) > 0).await;
        stop.stop(StopNotice { reason: StopReason::Cancelled, force: Force::Ask });
    });
    assert_eq!(outcome.report.ending, Ending::Interrupted);
    let handle = house.engine.handle();
    for delegation in outcome.delegations.expect("readable") {
        handle.settled(&delegation).await;
    }
    let asked = house.model.asked.load(Ordering::SeqCst);
    assert_eq!(hanging.load(Ordering::SeqCst), 0);
    let model = Arc::clone(&house.model);
    for record in house.close().await {
        assert!(
            matches!(record.children[0].outcome(), Some(Outcome::Stopped(_) | Outcome::Succeeded)),
            "{record:?}"
        );
    }
    assert_eq!(model.asked.load(Ordering::SeqCst), asked, "nothing is asked after the stop");
}
