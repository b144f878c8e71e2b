//! The engine's limits and patience, validated once at the start. There are no hidden defaults: whoever builds the
//! engine states every number.

pub use legwork_core::batch::AtCapacity;
use legwork_core::batch::Completions;
use std::time::Duration;
use thiserror::Error;

/// Every limit of the engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Children that run at once in this process (`delegation.max_concurrent_children`).
    pub children_max: usize,
    /// Children that may wait for a slot in this process (`delegation.queue_max`).
    pub queue_max: usize,
    /// How deep agents may be (`delegation.max_spawn_depth`); a session has depth 0.
    pub depth_max: u32,
    /// What happens to a call when all slots are taken (`delegation.at_capacity`).
    pub at_capacity: AtCapacity,
    /// How the tasks of a call come back (`delegation.independent_completions`).
    pub completions: Completions,
    /// How long a child may be without progress.
    pub patience: Patience,
    /// From a stop request to the abort (`delegation.stop_grace_ms`).
    pub stop_grace: Duration,
    /// For how long this process owns its work without renewing that (`delegation.lease_seconds`); it renews every third
    /// of it.
    pub lease: Duration,
}

/// How long a child may be without progress, by phase (STALL-4, STALL-5).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Patience {
    /// Outside a tool (`delegation.stall_idle_seconds`).
    pub idle: Duration,
    /// Inside a tool (`delegation.stall_tool_seconds`).
    pub tool: Duration,
    /// From the stop of a stalled child to its abort (`delegation.stall_grace_seconds`).
    pub grace: Duration,
    /// In any phase in which it does not wait for its model, if such a limit is set (`delegation.child_timeout_seconds`).
    pub inactivity: Option<Duration>,
}

/// An option that makes no sense.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{key} is {value}; it must be at least {least}")]
pub struct OptionsError {
    /// The configuration key.
    pub key: &'static str,
    /// Its value.
    pub value: String,
    /// The smallest value that makes sense.
    pub least: &'static str,
}

impl Options {
    /// The options themselves, when all of them make sense.
    ///
    /// # Errors
    /// The first option that does not.
    pub fn validated(self) -> Result<Options, OptionsError> {
        let at_least = |fits: bool, key, value: String, least| {
            if fits { Ok(()) } else { Err(OptionsError { key, value, least }) }
        };
        at_least(
            self.children_max >= 1,
            "delegation.max_concurrent_children",
            self.children_max.to_string(),
            "1",
        )?;
        at_least(self.depth_max >= 1, "delegation.max_spawn_depth", self.depth_max.to_string(), "1")?;
        let idle = self.patience.idle;
        at_least(
            idle >= Duration::from_secs(1),
            "delegation.stall_idle_seconds",
            format!("{idle:?}"),
            "1 second",
        )?;
        let tool = self.patience.tool;
        at_least(
            tool >= Duration::from_secs(1),
            "delegation.stall_tool_seconds",
            format!("{tool:?}"),
            "1 second",
        )?;
        let lease = self.lease;
        at_least(
            lease >= Duration::from_secs(1),
            "delegation.lease_seconds",
            format!("{lease:?}"),
            "1 second",
        )?;
        Ok(self)
    }
}
