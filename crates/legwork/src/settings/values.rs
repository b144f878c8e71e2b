//! The configuration as the program uses it: plain typed values.
//!
//! Defaults, bounds and descriptions of the values live in the key table, not here.

use std::collections::BTreeMap;
use std::time::Duration;

pub use legwork_agent::models::{Protocol as ApiMode, ReasoningEffort};

use legwork_core::batch::Completions;

use super::blocks::{ModelBlock, NamedRoute, Overrides};
use super::origin::{Assigned, Origin};

/// A closed set of words as an enum, in the order in which they are listed to people.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub enum $name { $($(#[$variant_doc])* $variant),+ }

        impl $name {
            /// Every value, in order.
            pub const ALL: &[$name] = &[$($name::$variant),+];
            /// The words of [`Self::ALL`], in the same order.
            pub const WORDS: &[&str] = &[$($word),+];

            /// The word of this value.
            #[allow(dead_code, reason = "every closed set has it; some are only read")]
            pub fn word(self) -> &'static str {
                match self { $($name::$variant => $word),+ }
            }
        }
    };
}
pub(crate) use words;

words! {
    /// What a spawn call does when all slots are taken.
    AtCapacity {
        /// Wait in a bounded queue.
        #[default]
        Queue = "queue",
        /// Run inside the call.
        Sync = "sync",
        /// Refuse the call.
        Reject = "reject",
    }
}

words! {
    /// What becomes of work whose owner died.
    OnCrash {
        /// It goes on from its last finished step.
        #[default]
        Resume = "resume",
        /// It is reported as lost, with what is known.
        Report = "report",
    }
}

words! {
    /// Whether subagents are shown the pictures of their tasks.
    Images {
        /// Where the provider's models take pictures.
        #[default]
        Auto = "auto",
        /// Whatever the model is.
        Always = "always",
        /// Never: pictures are named in words.
        Never = "never",
    }
}

/// The section `[model]`: what the conversation and, unless told otherwise, its children talk to. Use
/// [`super::model::ModelChoice::resolve`] rather than these texts: it knows which of them belong together.
#[derive(Debug, Clone, Default)]
pub struct ModelSettings {
    /// `PROVIDER/NAME`, or empty.
    pub default: String,
    /// The address of the provider, or empty for its own.
    pub base_url: String,
    /// The protocol, if one is named.
    pub api_mode: Option<ApiMode>,
    /// The name of the environment variable that holds the key, or empty.
    pub api_key_env: String,
    /// None: the usual places; an empty list: nowhere.
    pub local_servers: Option<Vec<String>>,
    /// Tokens of the model's window. None: what is known of it.
    pub window_tokens: Option<usize>,
    /// How hard the model thinks. None: as it does by itself.
    pub reasoning_effort: Option<ReasoningEffort>,
    /// Fields of every request.
    pub request_overrides: Overrides,
    /// What answers when the model fails. None and an empty list: nothing does.
    pub fallback_providers: Option<Vec<ModelBlock>>,
    /// Whether subagents are shown pictures.
    pub images: Images,
}

/// The section `[delegation]`.
#[derive(Debug, Clone, Default)]
pub struct DelegationSettings {
    /// What is different about the model of all children.
    pub block: ModelBlock,
    pub max_iterations: usize,
    pub max_concurrent_children: usize,
    pub max_spawn_depth: usize,
    pub orchestrator_enabled: bool,
    pub independent_completions: bool,
    /// None: a child may take as long as it moves.
    pub child_timeout: Option<Duration>,
    /// None: summaries are never cut.
    pub max_summary_chars: Option<usize>,
    /// None: never compressed.
    pub compression_threshold_tokens: Option<usize>,
    pub inherit_mcp_toolsets: bool,
    /// None: no ceiling; an empty list: none at all.
    pub default_toolsets: Option<Vec<String>>,
    pub subagent_auto_approve: bool,
    pub surface_child_process_notifications: bool,
    pub worktree_isolation: bool,
    /// None: no limit.
    pub oneshot_max_children: Option<usize>,
    pub routes: BTreeMap<String, NamedRoute>,
    pub command: String,
    pub args: Option<Vec<String>>,
    pub at_capacity: AtCapacity,
    pub queue_max: usize,
    pub on_crash: OnCrash,
    pub stall_idle: Duration,
    /// How long a model that limits its callers is asked again; nothing: no longer than after other failures.
    pub throttled: Duration,
    pub stall_tool: Duration,
    pub stall_grace: Duration,
    pub stop_grace: Duration,
    pub lease: Duration,
    pub goal_max_bytes: usize,
    pub retention: Duration,
}

impl DelegationSettings {
    /// How the tasks of a call come back.
    pub fn completions(&self) -> Completions {
        match self.independent_completions {
            true => Completions::ByUnit,
            false => Completions::Together,
        }
    }
}

/// The section `[hooks]`: command lines, each run by the shell. None: there is none.
#[derive(Debug, Clone, Default)]
pub struct HookSettings {
    pub subagent_start: Option<Vec<String>>,
    pub subagent_stop: Option<Vec<String>>,
    pub delegation_finished: Option<Vec<String>>,
}

/// The section `[tools]`.
#[derive(Debug, Clone, Default)]
pub struct ToolSettings {
    /// Whether `web_fetch` may go to addresses that are not public.
    pub fetch_private_addresses: bool,
}

/// The merged configuration.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    pub model: ModelSettings,
    pub delegation: DelegationSettings,
    pub tools: ToolSettings,
    pub hooks: HookSettings,
    /// Every value that any layer gave to a key, weakest layer first; written while loading, read by `config show`
    /// and by the choice of the model.
    pub(super) trail: BTreeMap<&'static str, Vec<Assigned>>,
    /// What is worth saying although nothing is wrong; one sentence each.
    pub warnings: Vec<String>,
}

impl Settings {
    /// Everything that was given to the key, weakest layer first; the last one is in force. Empty for a name that is
    /// not in the key table.
    pub fn trail(&self, key: &str) -> &[Assigned] {
        self.trail.get(key).map(Vec::as_slice).unwrap_or_default()
    }

    /// Every table that says how a model is reached, stand-ins included, besides `model` itself.
    pub fn blocks(&self) -> Vec<&ModelBlock> {
        let routes = self.delegation.routes.values().map(|route| &route.block);
        let links = self.model.fallback_providers.iter().flatten();
        let mut blocks: Vec<&ModelBlock> = routes.chain(links).chain([&self.delegation.block]).collect();
        let mut seen = 0;
        while let Some(block) = blocks.get(seen) {
            blocks.extend(block.fallback_providers.iter().flatten());
            seen += 1;
        }
        blocks
    }

    /// Where the value in force came from.
    pub fn origin(&self, key: &str) -> &Origin {
        self.trail(key).last().map_or(&Origin::Default, |assigned| &assigned.origin)
    }
}
