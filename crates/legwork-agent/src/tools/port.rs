//! Port `Tool`: one thing an agent can do. Asked by the turn loop through the toolbox, which checks rights at the call.

use crate::models::ToolSpec;
use legwork_core::batch::{Lineage, Reach, Setting};
use legwork_core::ids::ClaimId;
use legwork_core::ports::{Line, Pending};
use legwork_core::step::{Actor, Fence, Repeat};
use serde_json::Value;
use std::path::PathBuf;
use std::sync::Arc;

/// One tool.
pub trait Tool: Send + Sync {
    /// How it is offered to the model.
    fn spec(&self) -> ToolSpec;

    /// Whether repeating a call is harmless.
    fn effect(&self) -> Effect;

    /// The same for a call with these arguments, for a tool whose calls differ in that.
    fn effect_of(&self, _arguments: &Value) -> Effect {
        self.effect()
    }

    /// What the agent has to hear of things that it has under way here, without having asked; each once.
    fn notices(&self, _actor: &Actor) -> Vec<String> {
        Vec::new()
    }

    /// Carries a call out. A failure is an output that says what happened and what to do; it is never a panic.
    ///
    /// Dropping the future ends the call: nothing it started goes on.
    fn call(&self, invocation: Invocation) -> Pending<'_, ToolOutput>;
}

/// What a call does to the world.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Nothing: it may be repeated, and run beside others.
    ReadOnly,
    /// Something: after a crash its effect is in doubt, and it runs alone.
    Changes,
    /// It starts work that is recorded under the call's id: repeating it rejoins that work.
    Rejoins,
}

impl Effect {
    /// What a second time would mean.
    #[must_use]
    pub const fn repeat(self) -> Repeat {
        match self {
            Effect::ReadOnly | Effect::Rejoins => Repeat::Harmless,
            Effect::Changes => Repeat::InDoubt,
        }
    }
}

/// One call.
#[derive(Clone)]
pub struct Invocation {
    /// The id of the call within its conversation.
    pub call_id: String,
    /// The arguments; an object.
    pub arguments: Value,
    /// Who calls and from where.
    pub site: Arc<Site>,
}

/// The agent that calls.
#[derive(Clone)]
pub struct Site {
    /// Whose journal the call is in.
    pub actor: Actor,
    /// The conversation, and the calling child if there is one; `depth` is the caller's own.
    pub lineage: Lineage,
    /// Who may write that journal.
    pub fence: Fence,
    /// Folder, model, rights and allowance of the caller.
    pub setting: Setting,
    /// How results that come after the call can reach the caller.
    pub reach: Reach,
    /// Where outputs that are too long are put whole; created when needed, mode 0700.
    pub spill: PathBuf,
    /// The caller's line to the engine.
    pub line: Arc<dyn Line>,
}

/// What a call gave.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ToolOutput {
    /// What the model reads.
    pub content: String,
    /// Whether the tool says that it failed.
    pub is_error: bool,
    /// Claims whose results the content carries; they are acknowledged in the commit that stores it.
    pub acknowledge: Vec<ClaimId>,
}

impl ToolOutput {
    /// A good result.
    pub fn ok(content: impl Into<String>) -> Self {
        ToolOutput { content: content.into(), ..ToolOutput::default() }
    }

    /// A failure, in words that the model can act on.
    pub fn error(content: impl Into<String>) -> Self {
        ToolOutput { content: content.into(), is_error: true, ..ToolOutput::default() }
    }
}
