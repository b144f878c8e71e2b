//! One agent on the bench: a turn with everything it needs.

use super::line::FakeLine;
use super::model::FakeModel;
use super::steps::FakeSteps;
use legwork_agent::contract::Contract;
use legwork_agent::journal::Journal;
use legwork_agent::models::Model;
use legwork_agent::tools::{Site, Tool, Toolbox};
use legwork_agent::turn::{self, Agent, Context, Start, TurnLimits};
use legwork_core::batch::{Isolation, Lineage, Reach, Rights, Route, Setting};
use legwork_core::budget::Allowance;
use legwork_core::ids::{ChildId, Epoch, OwnerId, SessionId};
use legwork_core::message::{Author, Message};
use legwork_core::ports::{Facts, Line, Steps};
use legwork_core::report::Report;
use legwork_core::step::{Actor, Fence};
use legwork_testkit::memory::MemoryStore;
use serde_json::Value;
use std::sync::Arc;

pub struct Bench {
    pub model: Arc<FakeModel>,
    pub line: Arc<FakeLine>,
    pub steps: Arc<FakeSteps>,
    pub tools: Vec<Arc<dyn Tool>>,
    pub rights: Rights,
    pub steps_max: u32,
    /// How deep the agent stands.
    pub depth: u32,
    pub limits: TurnLimits,
    pub facts: Arc<dyn Facts>,
    /// A model that is asked in the place of the fake one.
    pub real: Option<Arc<dyn Model>>,
    /// The schema that the answer must meet.
    pub schema: Option<Value>,
}

impl Bench {
    pub fn new(model: Arc<FakeModel>, tools: Vec<Arc<dyn Tool>>) -> Self {
        let rights = Rights { tools: tools.iter().map(|tool| tool.spec().name).collect() };
        let limits = TurnLimits { spawns_per_reply_max: 2, ..TurnLimits::default() };
        let facts = Arc::new(MemoryStore::new());
        Bench {
            model,
            line: FakeLine::new(),
            steps: FakeSteps::new(),
            tools,
            rights,
            steps_max: 50,
            depth: 0,
            limits,
            facts,
            real: None,
            schema: None,
        }
    }

    pub fn actor() -> Actor {
        Actor::Child(ChildId::from_bits(0, 7))
    }

    pub fn fence() -> Fence {
        Fence { owner: OwnerId::from_bits(1), epoch: Epoch(1) }
    }

    pub fn site(&self) -> Site {
        let setting = Setting {
            folder: "/".to_owned(),
            route: route(),
            rights: self.rights.clone(),
            allowance: allowance(self.steps_max),
            isolation: Isolation::Shared,
        };
        Site {
            actor: Self::actor(),
            lineage: Lineage { depth: self.depth, ..Lineage::of_session(SessionId::from_bits(1)) },
            fence: Self::fence(),
            setting,
            reach: Reach::Joined,
            // A folder that nobody can make, root neither.
            spill: "/dev/null/spill".into(),
            line: Arc::clone(&self.line) as Arc<dyn Line>,
        }
    }

    pub fn agent(&self) -> Agent {
        let toolbox = Arc::new(Toolbox::new(self.tools.clone()));
        Agent {
            model: self.real.clone().unwrap_or_else(|| Arc::clone(&self.model) as Arc<dyn Model>),
            offered: toolbox.specs(&self.rights),
            toolbox,
            site: Arc::new(self.site()),
            facts: Arc::clone(&self.facts),
            limits: self.limits,
            contract: self.schema.as_ref().map(|schema| Contract::of(schema).expect("it is a schema")),
        }
    }

    /// A child's first attempt.
    pub async fn run(&self) -> Report {
        let mut context = Self::opening();
        self.run_on(&mut context).await
    }

    /// The same, on a context that can be looked at afterwards.
    pub async fn run_on(&self, context: &mut Context) -> Report {
        let store = Arc::clone(&self.steps) as Arc<dyn Steps>;
        let mut journal = Journal::fresh(store, Self::actor(), Self::fence());
        turn::run(&self.agent(), &mut journal, context, Start::Fresh).await
    }

    /// A later attempt, from what the store holds.
    pub async fn resume(&self) -> Report {
        let store = Arc::clone(&self.steps) as Arc<dyn Steps>;
        let opened = Journal::open(store, Self::actor(), Self::fence()).await;
        let (mut journal, recorded) = opened.expect("it is readable");
        let mut context = Context::new(recorded.messages.clone());
        turn::run(&self.agent(), &mut journal, &mut context, Start::Resumed(recorded)).await
    }

    pub fn opening() -> Context {
        let opening = [Message::text(Author::System, "sys"), Message::text(Author::User, "goal")];
        Context::new(opening.into_iter().map(Arc::new).collect())
    }
}

pub fn route() -> Route {
    Route {
        model: "fake/model".to_owned(),
        base_url: None,
        api_mode: "chat_completions".to_owned(),
        key_source: None,
        terms: None,
        table: None,
        fallbacks: Vec::new(),
    }
}

pub fn rights(names: &[&str]) -> Rights {
    Rights { tools: names.iter().map(|name| (*name).to_owned()).collect() }
}

pub fn allowance(steps_max: u32) -> Allowance {
    Allowance { steps_max }
}
