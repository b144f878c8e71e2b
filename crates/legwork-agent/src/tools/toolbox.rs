//! The closed set of tools of this program, by name. Rights are checked here, at the call (invariant 18), and a tool
//! that panics gives an error instead of ending the agent.
//!
//! It does not know what a tool does, and it does not shrink rights; whoever makes the caller's setting does.

use super::port::{Effect, Invocation, Tool, ToolOutput};
use crate::models::ToolSpec;
use futures::FutureExt;
use legwork_core::batch::Rights;
use legwork_core::step::Actor;
use serde_json::Value;
use std::any::Any;
use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

/// Shorter texts are too common to be masked.
const SECRET_MIN_BYTES: usize = 8;

/// All tools that there are.
pub struct Toolbox {
    tools: BTreeMap<String, Entry>,
    /// The specs of all tools, for callers that may use every one of them.
    all: Arc<[ToolSpec]>,
    /// Texts that no result may carry to a model or into the store.
    secrets: Vec<String>,
}

struct Entry {
    tool: Arc<dyn Tool>,
    spec: ToolSpec,
}

impl Toolbox {
    /// A box with these tools. Of two with the same name the later one counts.
    pub fn new(tools: Vec<Arc<dyn Tool>>) -> Self {
        let entries = tools.into_iter().map(|tool| Entry { spec: tool.spec(), tool });
        let tools: BTreeMap<String, Entry> = entries.map(|entry| (entry.spec.name.clone(), entry)).collect();
        let all = tools.values().map(|entry| entry.spec.clone()).collect();
        Toolbox { tools, all, secrets: Vec::new() }
    }

    /// The same box, whose results show none of these texts: keys of this process that a command may have found out
    /// (invariant 26). Texts under eight bytes are left alone, because they stand in everything.
    #[must_use]
    pub fn hiding(mut self, secrets: impl IntoIterator<Item = String>) -> Self {
        self.secrets.extend(secrets.into_iter().filter(|secret| secret.len() >= SECRET_MIN_BYTES));
        self
    }

    /// The names of all tools.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tools.keys().map(String::as_str)
    }

    /// The tools that a caller with `rights` is offered, by name.
    pub fn specs(&self, rights: &Rights) -> Arc<[ToolSpec]> {
        if self.names().all(|name| rights.allow(name)) {
            return Arc::clone(&self.all);
        }
        self.all.iter().filter(|spec| rights.allow(&spec.name)).cloned().collect()
    }

    /// What a call of `name` with these arguments does to the world; `None` when there is no such tool.
    pub fn effect(&self, name: &str, arguments: &Value) -> Option<Effect> {
        self.tools.get(name).map(|entry| entry.tool.effect_of(arguments))
    }

    /// What an agent has to hear without having asked; each notice is given once.
    pub fn notices(&self, actor: &Actor) -> Vec<String> {
        let notices = self.tools.values().flat_map(|entry| entry.tool.notices(actor));
        notices.map(|notice| self.hidden(notice)).collect()
    }

    /// Carries a call out. Whatever goes wrong is an output that says what happened and what to do.
    ///
    /// Dropping the future ends the call.
    pub async fn call(&self, name: &str, invocation: Invocation) -> ToolOutput {
        let rights = &invocation.site.setting.rights;
        let entry = match self.tools.get(name) {
            Some(entry) if rights.allow(name) => entry,
            Some(_) => return self.refuse(&format!("the tool `{name}` is not allowed here"), rights),
            None => return self.refuse(&format!("there is no tool `{name}`"), rights),
        };
        let call = AssertUnwindSafe(async { entry.tool.call(invocation).await });
        let mut output = call.catch_unwind().await.unwrap_or_else(|panic| broken(name, panic.as_ref()));
        output.content = self.hidden(output.content);
        output
    }

    /// The text without secrets.
    pub(crate) fn hidden(&self, mut text: String) -> String {
        for secret in &self.secrets {
            if text.contains(secret.as_str()) {
                text = text.replace(secret.as_str(), "[masked]");
            }
        }
        text
    }

    fn refuse(&self, problem: &str, rights: &Rights) -> ToolOutput {
        let allowed: Vec<&str> = self.names().filter(|name| rights.allow(name)).collect();
        match allowed.as_slice() {
            [] => ToolOutput::error(format!(
                "{problem}; this agent may call no tool at all, so answer without one"
            )),
            names => ToolOutput::error(format!("{problem}; call one of: {}", names.join(", "))),
        }
    }
}

fn broken(name: &str, panic: &(dyn Any + Send)) -> ToolOutput {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let reason = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
    tracing::error!(tool = name, reason, "a tool panicked");
    ToolOutput::error(format!(
        "BUG: the tool `{name}` broke down ({reason}). Whether it had an effect is not known: check before you try again or go on"
    ))
}
