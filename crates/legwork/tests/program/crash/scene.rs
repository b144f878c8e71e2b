//! The scenes that the sweep kills: who is asked, what each agent does step by step, and how the program is started, first
//! and again.
//!
//! Every subagent writes one line a step into [`EFFECTS`] and ends with an answer that nobody else says.

use legwork_testkit::server::{Alternation, Call, Conversation, Reply, Script, Scripts, call, calls, say};
use serde_json::{Value, json};

use crate::harness::{Home, Order};

/// The file that takes a line for each tool call that was carried out.
pub const EFFECTS: &str = "effects.txt";
/// The first prompt of the conversation.
pub const PROMPT: &str = "send them out";
/// What a steered subagent is told.
pub const STEER: &str = "look at the second page too";
/// What is asked when the program is started again.
const AGAIN: &str = "what came of it?";

/// One thing for the sweep to kill.
pub struct Scene {
    /// What the tally calls it.
    pub name: &'static str,
    /// The subagents, by the words that their goals have and nobody else's.
    pub children: Vec<Child>,
    /// Whose calls of `delegate_task` send out whom.
    pub main: Vec<Value>,
    /// What the first start is.
    pub first: First,
    /// What else happens while it runs.
    pub beside: Beside,
}

/// A subagent of a scene.
#[derive(Clone)]
pub struct Child {
    pub name: &'static str,
    /// Commands that it runs one after another.
    pub steps: usize,
    /// What it delegates after them.
    pub delegates: Option<Value>,
}

/// How the conversation is begun.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum First {
    /// `legwork run`, which joins what it delegates.
    Run,
    /// `legwork chat` at a terminal, where results come in as turns of their own.
    Chat,
}

/// What happens beside the program.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Beside {
    Nothing,
    /// The first subagent is told something from another terminal.
    Steer,
}

impl Child {
    fn new(name: &'static str, steps: usize) -> Child {
        Child { name, steps, delegates: None }
    }

    /// The words that its answer has and nothing else.
    pub fn answer(&self) -> String {
        format!("the answer of {}", self.name)
    }

    /// The line that a step writes.
    pub fn effect(&self, step: usize) -> String {
        format!("{}-{step}", self.name)
    }

    /// The words that mark its task.
    pub fn goal(&self) -> String {
        goal(self.name)
    }

    fn script(&self) -> Script {
        let child = self.clone();
        Script::from_fn(move |talk: &Conversation| child.reply(talk.step()))
    }

    fn reply(&self, step: usize) -> Reply {
        if step < self.steps {
            let command = format!("echo {} >> {EFFECTS}", self.effect(step));
            return call("terminal", json!({ "command": command }));
        }
        match &self.delegates {
            Some(tasks) if step == self.steps => call("delegate_task", tasks.clone()),
            Some(_) | None => say(self.answer()),
        }
    }
}

impl Scene {
    fn new(name: &'static str, children: Vec<Child>) -> Scene {
        let tasks: Vec<Value> = children.iter().map(|child| task(child.name)).collect();
        let main = vec![json!({ "tasks": tasks })];
        Scene { name, children, main, first: First::Run, beside: Beside::Nothing }
    }

    /// What the model says to everybody.
    pub fn scripts(&self) -> Scripts {
        let main = self.main.clone();
        let conversation = Script::from_fn(move |talk: &Conversation| {
            if talk.messages.iter().any(|message| !message.calls.is_empty()) {
                return say("I have seen it.");
            }
            calls(main.iter().map(|arguments| Call::new("delegate_task", arguments.clone())))
        });
        let scripts = Scripts::default().agent(PROMPT, conversation).alternation(Alternation::Strict);
        self.children.iter().fold(scripts, |scripts, child| scripts.agent(goal(child.name), child.script()))
    }

    /// Whether a subagent's answer goes to the conversation itself.
    pub fn answers_to_main(&self, child: &Child) -> bool {
        self.main.iter().any(|call| call.to_string().contains(&child.goal()))
    }

    /// Requests of an undisturbed run: those of every subagent, the call, and a reply to each message that comes in.
    pub fn requests(&self) -> usize {
        let child = |child: &Child| child.steps + 1 + usize::from(child.delegates.is_some());
        self.children.iter().map(child).sum::<usize>() + 2 + self.main.len()
    }

    /// The start that is killed.
    pub fn first<'a>(&self, home: &'a Home) -> Order<'a> {
        match self.first {
            First::Run => self.from_the_start(home),
            First::Chat => set(home.legwork(&["chat"])).env("TERM", "xterm-256color").env("NO_COLOR", "1"),
        }
    }

    /// The prompt, asked for the first time or again when it was not stored.
    pub fn from_the_start<'a>(&self, home: &'a Home) -> Order<'a> {
        set(home.legwork(&["run", PROMPT]))
    }

    /// The start after a kill.
    pub fn again<'a>(&self, home: &'a Home, session: &str) -> Order<'a> {
        set(home.legwork(&["run", AGAIN, "--resume", session]))
    }
}

fn set(order: Order<'_>) -> Order<'_> {
    order.set("max_spawn_depth", 2).set("oneshot_max_children", 0)
}

fn goal(name: &str) -> String {
    format!("do the work of {name}")
}

fn task(name: &str) -> Value {
    json!({ "goal": goal(name) })
}

/// One subagent with several steps.
pub fn single() -> Scene {
    Scene::new("single", vec![Child::new("alpha", 6)])
}

/// A batch of several, of unlike length.
pub fn batch() -> Scene {
    let children = ["alpha", "beta", "gamma", "delta"];
    let children = children.iter().enumerate().map(|(at, name)| Child::new(name, 1 + 2 * at));
    Scene::new("batch", children.collect())
}

/// Two subagents, one of which sends out two more.
pub fn nested() -> Scene {
    let deeper = json!({ "tasks": [task("gamma"), task("delta")] });
    let mut scene = Scene::new("nested", vec![Child::new("alpha", 2), Child::new("beta", 1)]);
    scene.children[0].delegates = Some(deeper);
    scene.children.extend([Child::new("gamma", 2), Child::new("delta", 3)]);
    scene
}

/// One subagent that is told something on its way.
pub fn steered() -> Scene {
    Scene { beside: Beside::Steer, ..Scene::new("steered", vec![Child::new("alpha", 8)]) }
}

/// A conversation into which results come one by one.
pub fn delivery() -> Scene {
    let children = vec![Child::new("alpha", 1), Child::new("beta", 2), Child::new("gamma", 3)];
    let main = children.iter().map(|child| json!({ "tasks": [task(child.name)] })).collect();
    Scene { main, first: First::Chat, ..Scene::new("delivery", children) }
}
