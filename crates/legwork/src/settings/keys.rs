//! The one table of all configuration keys. Parsing, defaults, bounds, variables, schema, nearest names and the guide
//! come from here.
//!
//! The last column says what a project's own file may do. Such a file comes with a repository that somebody else wrote,
//! so it may tighten limits and turn things off, and nothing else: no key that chooses a model, an address, a key, a
//! command, or that keeps or deletes stored results.

use super::field::{Bounds, Field, Right, Unit};
use super::values::{ApiMode, AtCapacity, Images, OnCrash, ReasoningEffort, Settings};

/// One key of the configuration.
#[derive(Debug, Clone, Copy)]
pub struct Key {
    /// `section.name`.
    pub name: &'static str,
    /// One sentence for people.
    pub doc: &'static str,
    /// Kind, bounds, default and place.
    pub field: Field,
    /// What a project file may do to it, if anything.
    pub project: Option<Right>,
    /// A shorter variable beside `LEGWORK_<SECTION>_<KEY>`.
    pub short_variable: Option<&'static str>,
    /// The option of the command line that sets it.
    pub flag: Option<&'static str>,
}

impl Key {
    /// The section: the part before the dot.
    pub fn section(&self) -> &'static str {
        self.name.split_once('.').map_or("", |(section, _)| section)
    }

    /// The name within the section.
    pub fn leaf(&self) -> &'static str {
        self.name.split_once('.').map_or(self.name, |(_, leaf)| leaf)
    }

    /// The environment variables that set it.
    pub fn variables(&self) -> Vec<String> {
        let long = format!("LEGWORK_{}", self.name.replace('.', "_").to_ascii_uppercase());
        self.short_variable.map(str::to_owned).into_iter().chain([long]).collect()
    }
}

/// The key of a name, if there is one.
pub fn find(name: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.name == name)
}

/// The sections, in the order of the table.
pub fn sections() -> Vec<&'static str> {
    let mut sections: Vec<&'static str> = KEYS.iter().map(Key::section).collect();
    sections.dedup();
    sections
}

const fn key(name: &'static str, field: Field, doc: &'static str) -> Key {
    Key { name, doc, field, project: None, short_variable: None, flag: None }
}

impl Key {
    const fn project(self, right: Right) -> Key {
        Key { project: Some(right), ..self }
    }

    const fn also(self, variable: &'static str, flag: &'static str) -> Key {
        Key { short_variable: Some(variable), flag: Some(flag), ..self }
    }
}

const fn flag(slot: fn(&mut Settings) -> &mut bool, default: bool) -> Field {
    Field::Flag { slot, default }
}

const fn at_least(min: u64) -> Bounds {
    Bounds { min, max: Bounds::NO_CEILING, zero: None }
}

const fn or_zero(min: u64, zero: &'static str) -> Bounds {
    Bounds { min, max: Bounds::NO_CEILING, zero: Some(zero) }
}

const fn between(min: u64, max: u64) -> Bounds {
    Bounds { min, max, zero: None }
}

/// No wait is longer: a year in seconds.
const YEAR: u64 = 366 * 24 * 60 * 60;

/// With less no conversation has room for its system text, its tools and an answer.
const WINDOW_TOKENS_MIN: u64 = 4096;

/// Every key, in the order in which they are shown.
pub static KEYS: &[Key] = &[
    key(
        "model.default",
        Field::Text { slot: |s| &mut s.model.default },
        "The model to talk to, as PROVIDER/NAME.",
    )
    .also("LEGWORK_MODEL", "--model"),
    key(
        "model.base_url",
        Field::Url { slot: |s| &mut s.model.base_url },
        "The address of the provider, if not its own.",
    )
    .also("LEGWORK_BASE_URL", "--base-url"),
    key(
        "model.api_mode",
        Field::Choice {
            put: |s, i| s.model.api_mode = i.map(|i| ApiMode::ALL[i]),
            default: None,
            words: ApiMode::WORDS,
        },
        "The protocol to speak, if not the provider's usual one.",
    )
    .also("LEGWORK_API_MODE", "--api-mode"),
    key(
        "model.api_key_env",
        Field::Variable { slot: |s| &mut s.model.api_key_env },
        "The name of the environment variable that holds the key for `base_url` or the provider beside it.",
    ),
    key(
        "model.local_servers",
        Field::List { slot: |s| &mut s.model.local_servers },
        "Addresses of this machine where a server is looked for when no model is configured; unset: where Ollama and \
         llama-server usually are; an empty list: nowhere.",
    ),
    key(
        "model.window_tokens",
        Field::Limit {
            slot: |s| &mut s.model.window_tokens,
            default: 0,
            bounds: or_zero(WINDOW_TOKENS_MIN, "what is known of the model"),
        },
        "Tokens that fit into one request and its reply together. Earlier messages are summarised before a request is larger; \
         of a model of which nothing is known 128000 are assumed.",
    ),
    key(
        "model.reasoning_effort",
        Field::Choice {
            put: |s, i| s.model.reasoning_effort = i.map(|i| ReasoningEffort::ALL[i]),
            default: None,
            words: ReasoningEffort::WORDS,
        },
        "How hard the model thinks; empty: as it does by itself. `none` or false turns it off.",
    ),
    key(
        "model.request_overrides",
        Field::Overrides { slot: |s| &mut s.model.request_overrides },
        "Extra fields of every model request, laid over what legwork sends; those in `extra_body` stand beside the others.",
    ),
    key(
        "model.fallback_providers",
        Field::Links { slot: |s| &mut s.model.fallback_providers },
        "What answers when the model fails, in order: `PROVIDER/NAME` or tables.",
    ),
    key(
        "model.images",
        Field::Choice {
            put: |s, i| s.model.images = i.map(|i| Images::ALL[i]).unwrap_or_default(),
            default: Some(Images::Auto as usize),
            words: Images::WORDS,
        },
        "Whether subagents are shown the pictures of their tasks, or read their names: `auto` shows them to models of openai, \
         anthropic and gemini.",
    ),
    key(
        "delegation.model",
        Field::Text { slot: |s| &mut s.delegation.block.model },
        "The model of all children, by its plain name; empty: the parent's.",
    ),
    key(
        "delegation.provider",
        Field::Text { slot: |s| &mut s.delegation.block.provider },
        "The provider of all children; empty: the parent's.",
    ),
    key(
        "delegation.base_url",
        Field::Url { slot: |s| &mut s.delegation.block.base_url },
        "The address that all children talk to; empty: the parent's or the provider's own.",
    ),
    key(
        "delegation.api_key",
        Field::Secret { slot: |s| &mut s.delegation.block.api_key },
        "The key for `base_url` or `provider` beside it; never shown.",
    ),
    key(
        "delegation.api_mode",
        Field::Choice {
            put: |s, i| s.delegation.block.api_mode = i.map(|i| ApiMode::ALL[i]),
            default: None,
            words: ApiMode::WORDS,
        },
        "The protocol that all children speak, if not the usual one.",
    ),
    key(
        "delegation.request_overrides",
        Field::Overrides { slot: |s| &mut s.delegation.block.request_overrides },
        "Extra fields of every model request of a child, laid over what legwork sends and over the parent's; those in `extra_body` stand beside the others.",
    ),
    key(
        "delegation.reasoning_effort",
        Field::Choice {
            put: |s, i| s.delegation.block.reasoning_effort = i.map(|i| ReasoningEffort::ALL[i]),
            default: None,
            words: ReasoningEffort::WORDS,
        },
        "How hard children think; empty: as the parent. `none` or false turns it off.",
    ),
    key(
        "delegation.max_iterations",
        Field::Count { slot: |s| &mut s.delegation.max_iterations, default: 250, bounds: at_least(1) },
        "The model calls that one child may make.",
    )
    .project(Right::Lower),
    key(
        "delegation.max_concurrent_children",
        Field::Count {
            slot: |s| &mut s.delegation.max_concurrent_children,
            default: 10,
            bounds: at_least(1),
        },
        "The children that run at the same time in one process.",
    )
    .project(Right::Lower),
    key(
        "delegation.max_async_children",
        Field::Retired { instead: "delegation.max_concurrent_children" },
        "Has no effect; use `max_concurrent_children`.",
    ),
    key(
        "delegation.max_spawn_depth",
        Field::Count { slot: |s| &mut s.delegation.max_spawn_depth, default: 1, bounds: at_least(1) },
        "How deep the tree of subagents may grow below the conversation.",
    )
    .project(Right::Lower),
    key(
        "delegation.orchestrator_enabled",
        flag(|s| &mut s.delegation.orchestrator_enabled, true),
        "Whether a child may be given the right to delegate.",
    )
    .project(Right::Only(false)),
    key(
        "delegation.independent_completions",
        flag(|s| &mut s.delegation.independent_completions, false),
        "Whether each group of tasks comes back on its own instead of all together.",
    ),
    key(
        "delegation.child_timeout_seconds",
        Field::Deadline {
            slot: |s| &mut s.delegation.child_timeout,
            default: 0,
            unit: Unit::Seconds,
            bounds: Bounds { min: 30, max: YEAR, zero: Some("off") },
        },
        "How long a child may show no progress at all while it does not wait for its model; however long it runs in all.",
    )
    .project(Right::Lower),
    key(
        "delegation.max_summary_chars",
        Field::Limit {
            slot: |s| &mut s.delegation.max_summary_chars,
            default: 24_000,
            bounds: or_zero(1, "never cut"),
        },
        "How much of a child's answer stands in the conversation; the rest stays readable in a file.",
    )
    .project(Right::Lower),
    key(
        "delegation.compression_threshold_tokens",
        Field::Limit {
            slot: |s| &mut s.delegation.compression_threshold_tokens,
            default: 0,
            bounds: or_zero(16_000, "off"),
        },
        "The size of a child's history, in tokens, at which earlier messages are summarised although its model has room for more.",
    ),
    key(
        "delegation.inherit_mcp_toolsets",
        flag(|s| &mut s.delegation.inherit_mcp_toolsets, true),
        "Whether children get the MCP tools of their parent.",
    )
    .project(Right::Only(false)),
    key(
        "delegation.default_toolsets",
        Field::Toolsets { slot: |s| &mut s.delegation.default_toolsets },
        "The most that children may be given: `file`, `terminal`, `web`, `delegation`, `coding` (the first two), `all`, or names of tools; an empty list: no tools.",
    ),
    key(
        "delegation.subagent_auto_approve",
        flag(|s| &mut s.delegation.subagent_auto_approve, false),
        "Whether commands of children that need approval are approved.",
    )
    .project(Right::Only(false)),
    key(
        "delegation.surface_child_process_notifications",
        flag(|s| &mut s.delegation.surface_child_process_notifications, false),
        "Whether the end of a child's background process is told to the conversation.",
    ),
    key(
        "delegation.worktree_isolation",
        flag(|s| &mut s.delegation.worktree_isolation, false),
        "Whether each child works in a git worktree of its own.",
    )
    .project(Right::Only(true)),
    key(
        "delegation.oneshot_max_children",
        Field::Limit {
            slot: |s| &mut s.delegation.oneshot_max_children,
            default: 2,
            bounds: or_zero(1, "no limit"),
        },
        "The children that the model of a one-shot run may start in all.",
    )
    .project(Right::Lower),
    key(
        "delegation.routes",
        Field::Routes { slot: |s| &mut s.delegation.routes },
        "Named models that a call may choose from.",
    ),
    key(
        "delegation.fallback_providers",
        Field::Links { slot: |s| &mut s.delegation.block.fallback_providers },
        "What answers children when their model fails, in order; unset: the parent's, unless `model`, `provider` or `base_url` is set; an empty list: nothing.",
    ),
    key(
        "delegation.command",
        Field::Text { slot: |s| &mut s.delegation.command },
        "An external agent that runs every child.",
    ),
    key("delegation.args", Field::List { slot: |s| &mut s.delegation.args }, "The arguments of `command`."),
    key(
        "delegation.at_capacity",
        Field::Choice {
            put: |s, i| s.delegation.at_capacity = i.map(|i| AtCapacity::ALL[i]).unwrap_or_default(),
            default: Some(AtCapacity::Queue as usize),
            words: AtCapacity::WORDS,
        },
        "What a call does when all slots are taken: wait, run inside the call, or be refused.",
    ),
    key(
        "delegation.queue_max",
        Field::Count { slot: |s| &mut s.delegation.queue_max, default: 1000, bounds: at_least(0) },
        "The children that may wait for a slot in one process; with 0 a call starts whole or not at all.",
    )
    .project(Right::Lower),
    key(
        "delegation.on_crash",
        Field::Choice {
            put: |s, i| s.delegation.on_crash = i.map(|i| OnCrash::ALL[i]).unwrap_or_default(),
            default: Some(OnCrash::Resume as usize),
            words: OnCrash::WORDS,
        },
        "Whether work whose process died goes on from its last finished step or is reported as it stands.",
    ),
    key(
        "delegation.stall_idle_seconds",
        seconds(|s| &mut s.delegation.stall_idle, 450),
        "How long a child may show no progress while it waits for its model.",
    )
    .project(Right::Lower),
    key(
        "delegation.stall_tool_seconds",
        seconds(|s| &mut s.delegation.stall_tool, 1200),
        "How long a child may show no progress inside a tool.",
    )
    .project(Right::Lower),
    key(
        "delegation.stall_grace_seconds",
        seconds(|s| &mut s.delegation.stall_grace, 120),
        "How long a stalled child has between the request to stop and the abort.",
    )
    .project(Right::Lower),
    key(
        "delegation.throttled_seconds",
        Field::Time {
            slot: |s| &mut s.delegation.throttled,
            default: 900,
            unit: Unit::Seconds,
            bounds: between(0, YEAR),
        },
        "How long a child, or the agent of a `run`, goes on asking a model that limits its callers (429) or is overloaded, once no other \
         stands in for it; with 0 it has the few tries of any other failure, about a minute.",
    )
    .project(Right::Lower),
    key(
        "delegation.stop_grace_ms",
        Field::Time {
            slot: |s| &mut s.delegation.stop_grace,
            default: 1500,
            unit: Unit::Millis,
            bounds: between(0, 3_600_000),
        },
        "How long running steps have when work is stopped or released.",
    ),
    key(
        "delegation.lease_seconds",
        Field::Time {
            slot: |s| &mut s.delegation.lease,
            default: 10,
            unit: Unit::Seconds,
            bounds: between(1, 3600),
        },
        "How long a process owns its children without renewing; it renews every third of it.",
    ),
    key(
        "delegation.goal_max_bytes",
        Field::Count { slot: |s| &mut s.delegation.goal_max_bytes, default: 1 << 20, bounds: at_least(1) },
        "The size of one goal.",
    )
    .project(Right::Lower),
    key(
        "delegation.retention_days",
        Field::Time {
            slot: |s| &mut s.delegation.retention,
            default: 30,
            unit: Unit::Days,
            bounds: between(1, 36_500),
        },
        "How long results are kept after they were delivered or dismissed; undelivered ones are kept for ever.",
    ),
    key(
        "tools.fetch_private_addresses",
        flag(|s| &mut s.tools.fetch_private_addresses, false),
        "Whether `web_fetch` may go to this machine and its networks, not only to public addresses.",
    ),
    key(
        "hooks.subagent_start",
        Field::List { slot: |s| &mut s.hooks.subagent_start },
        "Command lines that hear of each subagent that begins, as JSON on stdin.",
    ),
    key(
        "hooks.subagent_stop",
        Field::List { slot: |s| &mut s.hooks.subagent_stop },
        "Command lines that hear of each subagent that has ended, as JSON on stdin.",
    ),
    key(
        "hooks.delegation_finished",
        Field::List { slot: |s| &mut s.hooks.delegation_finished },
        "Command lines that hear of the results of each unit, as JSON on stdin.",
    ),
    key("auxiliary.review", Field::Table, "The model of the review command."),
];

const fn seconds(slot: fn(&mut Settings) -> &mut std::time::Duration, default: u64) -> Field {
    Field::Time { slot, default, unit: Unit::Seconds, bounds: between(1, YEAR) }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn cfg_01_to_22_and_our_own_keys_are_in_the_table() {
        let names = "model provider base_url api_key api_mode request_overrides reasoning_effort max_iterations \
            max_concurrent_children max_async_children max_spawn_depth orchestrator_enabled independent_completions \
            child_timeout_seconds max_summary_chars compression_threshold_tokens inherit_mcp_toolsets default_toolsets \
            subagent_auto_approve surface_child_process_notifications worktree_isolation oneshot_max_children routes \
            fallback_providers command args at_capacity queue_max on_crash stall_idle_seconds stall_tool_seconds \
            stall_grace_seconds throttled_seconds stop_grace_ms lease_seconds goal_max_bytes retention_days";
        for name in names.split_whitespace() {
            assert!(find(&format!("delegation.{name}")).is_some(), "{name}");
        }
        assert!(find("auxiliary.review").is_some());
    }

    #[test]
    fn names_and_variables_are_unique_and_sections_stand_together() {
        let names: BTreeSet<_> = KEYS.iter().map(|key| key.name).collect();
        let variables: Vec<_> = KEYS.iter().flat_map(Key::variables).collect();
        assert_eq!(names.len(), KEYS.len());
        assert_eq!(variables.iter().collect::<BTreeSet<_>>().len(), variables.len());
        assert_eq!(sections(), ["model", "delegation", "tools", "hooks", "auxiliary"]);
    }

    #[test]
    fn a_project_may_tighten_only_what_can_be_tightened() {
        for key in KEYS {
            match key.project {
                None => {}
                Some(Right::Lower) => assert!(
                    matches!(
                        key.field,
                        Field::Count { .. }
                            | Field::Limit { .. }
                            | Field::Time { .. }
                            | Field::Deadline { .. }
                    ),
                    "{}",
                    key.name
                ),
                Some(Right::Only(_)) => assert!(matches!(key.field, Field::Flag { .. }), "{}", key.name),
                Some(Right::Any) => panic!("{} would let a project do anything", key.name),
            }
            assert!(key.project.is_none() || key.section() == "delegation", "{}", key.name);
        }
    }

    /// Proves REG-9.
    #[test]
    fn cfg_defaults_are_those_of_the_table() {
        let mut settings = Settings::default();
        for key in KEYS {
            key.field.reset(&mut settings);
        }
        let delegation = settings.delegation;
        assert_eq!(delegation.max_iterations, 250);
        assert_eq!(delegation.max_concurrent_children, 10);
        assert_eq!(delegation.max_spawn_depth, 1);
        assert!(delegation.orchestrator_enabled && delegation.inherit_mcp_toolsets);
        assert_eq!(delegation.child_timeout, None);
        assert_eq!(delegation.max_summary_chars, Some(24_000));
        assert_eq!(delegation.compression_threshold_tokens, None);
        assert_eq!(delegation.oneshot_max_children, Some(2));
        assert_eq!(delegation.default_toolsets, None);
        assert_eq!(delegation.queue_max, 1000);
        assert_eq!(delegation.at_capacity, AtCapacity::Queue);
        assert_eq!(delegation.on_crash, OnCrash::Resume);
        assert_eq!(delegation.stall_idle.as_secs(), 450);
        assert_eq!(delegation.stall_tool.as_secs(), 1200);
        assert_eq!(delegation.stall_grace.as_secs(), 120);
        assert_eq!(delegation.throttled.as_secs(), 900);
        assert_eq!(delegation.stop_grace.as_millis(), 1500);
        assert_eq!(delegation.lease.as_secs(), 10);
        assert_eq!(delegation.goal_max_bytes, 1 << 20);
        assert_eq!(delegation.retention.as_secs(), 30 * 86_400);
    }
}
