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
pub const AGAIN: &str = "what came of it?";

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
    /// The tasks that it comes back with, where results come by groups.
    pub group: Option<&'static str>,
    /// Whether its answer has a schema, which it misses at first.
    pub misses: bool,
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
        Child { name, steps, delegates: None, group: None, misses: false }
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
            Some(_) | None if !self.misses => say(self.answer()),
            Some(_) | None if step == self.steps => say("Here it is, as plain words."),
            Some(_) | None => say(json!({ "said": self.answer() }).to_string()),
        }
    }

    /// The task as it is handed out.
    fn task(&self) -> Value {
        let mut task = json!({ "goal": self.goal() });
        if let Some(group) = self.group {
            task["group"] = json!(group);
        }
        if self.misses {
            task["output_schema"] = json!({"type": "object", "required": ["said"]});
        }
        task
    }

    /// Requests that its model is sent when nothing disturbs it.
    fn requests(&self) -> usize {
        self.steps + 1 + usize::from(self.delegates.is_some()) + usize::from(self.misses)
    }
}

impl Scene {
    fn new(name: &'static str, children: Vec<Child>) -> Scene {
        let tasks: Vec<Value> = children.iter().map(Child::task).collect();
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

    /// The subagents that another one sends out, each with that one.
    pub fn nested(&self) -> impl Iterator<Item = (&Child, &Child)> {
        let sends = |parent: &Child, child: &Child| {
            parent.delegates.as_ref().is_some_and(|tasks| tasks.to_string().contains(&child.goal()))
        };
        let of = move |parent| {
            self.children.iter().filter(move |child| sends(parent, child)).map(move |child| (parent, child))
        };
        self.children.iter().flat_map(of)
    }

    /// Requests of an undisturbed run: those of every subagent, the call, and a reply to each message that comes in.
    pub fn requests(&self) -> usize {
        let messages = self.main.len() + self.children.len();
        self.children.iter().map(Child::requests).sum::<usize>() + 2 + messages
    }

    /// The start that is killed.
    pub fn first<'a>(&self, home: &'a Home) -> Order<'a> {
        match self.first {
            First::Run => self.prompt(home),
            First::Chat => set(home.legwork(&["chat"])).env("TERM", "xterm-256color").env("NO_COLOR", "1"),
        }
    }

    /// The prompt, asked for the first time or again when it was not stored.
    pub fn prompt<'a>(&self, home: &'a Home) -> Order<'a> {
        set(home.legwork(&["run", PROMPT]))
    }

    /// The start after a kill at the terminal where the conversation was begun.
    pub fn again_at_terminal<'a>(&self, home: &'a Home, session: &str) -> Order<'a> {
        set(home.legwork(&["chat", "--resume", session])).env("TERM", "xterm-256color").env("NO_COLOR", "1")
    }

    /// The start after a kill.
    pub fn again<'a>(&self, home: &'a Home, session: &str) -> Order<'a> {
        set(home.legwork(&["run", AGAIN, "--resume", session]))
    }
}

fn set(order: Order<'_>) -> Order<'_> {
    let order = order.set("max_spawn_depth", 2).set("oneshot_max_children", 0);
    order.env("LEGWORK_DELEGATION_INDEPENDENT_COMPLETIONS", "true")
}

fn goal(name: &str) -> String {
    format!("do the work of {name}")
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
    let deeper = [Child::new("gamma", 2), Child::new("delta", 3)];
    let tasks: Vec<Value> = deeper.iter().map(Child::task).collect();
    let mut scene = Scene::new("nested", vec![Child::new("alpha", 2), Child::new("beta", 1)]);
    scene.children[0].delegates = Some(json!({ "tasks": tasks }));
    scene.children.extend(deeper);
    scene
}

/// Six subagents whose results come back as five completions.
pub fn groups() -> Scene {
    let names = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta"];
    let mut children: Vec<Child> =
        names.iter().enumerate().map(|(at, name)| Child::new(name, at % 3)).collect();
    for (child, group) in children.iter_mut().zip(["a", "a", "b"]) {
        child.group = Some(group);
    }
    Scene { first: First::Chat, ..Scene::new("groups", children) }
}

/// One subagent that misses its schema at first.
pub fn schema() -> Scene {
    let mut child = Child::new("alpha", 3);
    child.misses = true;
    Scene::new("schema", vec![child])
}

/// One subagent that is told something on its way.
pub fn steered() -> Scene {
    Scene { beside: Beside::Steer, ..Scene::new("steered", vec![Child::new("alpha", 8)]) }
}

/// A conversation into which results come one by one.
pub fn delivery() -> Scene {
    let children = vec![Child::new("alpha", 1), Child::new("beta", 2), Child::new("gamma", 3)];
    let main = children.iter().map(|child| json!({ "tasks": [child.task()] })).collect();
    Scene { main, first: First::Chat, ..Scene::new("delivery", children) }
}
