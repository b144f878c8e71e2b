//! A tool that does what a test says.

use futures::future::BoxFuture;
use legwork_agent::models::ToolSpec;
use legwork_agent::tools::{Effect, Invocation, Tool, ToolOutput};
use legwork_core::ports::Pending;
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

type Behaviour = Box<dyn Fn(Invocation) -> BoxFuture<'static, ToolOutput> + Send + Sync>;

pub struct FakeTool {
    name: &'static str,
    effect: Effect,
    required: Vec<&'static str>,
    behaviour: Behaviour,
    calls: AtomicUsize,
}

impl FakeTool {
    pub fn new(
        name: &'static str,
        effect: Effect,
        behaviour: impl Fn(Invocation) -> BoxFuture<'static, ToolOutput> + Send + Sync + 'static,
    ) -> Arc<Self> {
        let behaviour = Box::new(behaviour);
        Arc::new(FakeTool { name, effect, required: Vec::new(), behaviour, calls: AtomicUsize::new(0) })
    }

    /// A tool that only looks and says `output`.
    pub fn look(name: &'static str, output: &'static str) -> Arc<Self> {
        Self::new(name, Effect::ReadOnly, move |_| Box::pin(async move { ToolOutput::ok(output) }))
    }

    /// A tool that changes something, needs `what`, and says `output`.
    pub fn change(name: &'static str, output: &'static str) -> Arc<Self> {
        let behaviour: Behaviour = Box::new(move |_| Box::pin(async move { ToolOutput::ok(output) }));
        let calls = AtomicUsize::new(0);
        Arc::new(FakeTool { name, effect: Effect::Changes, required: vec!["what"], behaviour, calls })
    }

    pub fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }
}

impl Tool for FakeTool {
    fn spec(&self) -> ToolSpec {
        let parameters = json!({"type": "object", "required": self.required});
        ToolSpec { name: self.name.to_owned(), description: String::new(), parameters }
    }

    fn effect(&self) -> Effect {
        self.effect
    }

    fn call(&self, invocation: Invocation) -> Pending<'_, ToolOutput> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        (self.behaviour)(invocation)
    }
}

/// Is set when the last copy that is held in a future goes away.
#[derive(Clone, Default)]
pub struct Dropped(Arc<Flag>);

#[derive(Default)]
struct Flag(Arc<AtomicBool>);

impl Drop for Flag {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

impl Dropped {
    /// The mark and what tells whether it is gone.
    pub fn new() -> (Self, impl Fn() -> bool) {
        let mark = Dropped::default();
        let set = Arc::clone(&mark.0.0);
        (mark, move || set.load(Ordering::SeqCst))
    }
}
