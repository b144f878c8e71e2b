//! What stays of a run besides its answer: why it was ended for want of progress, its worktree, and its background
//! processes. All of it is measured or looked up; nothing comes from a child's text (invariant 19).

use crate::record::ProcessGroup;
use serde::{Deserialize, Serialize};

/// Hand-overs that one child may make (PROC-2).
pub const HAND_OVERS_MAX: usize = 3;

/// Why the supervisor ended a child (RUN-14…16, STALL-6).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inactivity {
    /// The limit that fired, in milliseconds.
    pub limit_ms: u64,
    /// How long nothing had moved when it fired, in milliseconds.
    pub quiet_ms: u64,
    /// How long the child had run by then, in milliseconds.
    pub ran_ms: u64,
    /// Whether it was inside a tool.
    pub phase: QuietPhase,
    /// Model calls begun by then.
    pub model_calls: u32,
    /// From the request to stop to the abort, in milliseconds.
    pub grace_ms: u64,
}

/// What a child was doing while nothing moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QuietPhase {
    /// Anything but a tool.
    Idle,
    /// A tool.
    InTool,
}

/// The worktree of a child as it was found at its end (WT-5).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Worktree {
    /// Its folder, as an absolute path.
    pub path: String,
    /// Its branch.
    pub branch: String,
    /// Commits that are on the branch and not on what it began from; zero when that could not be told.
    pub commits: u64,
    /// Whether something is changed or untracked; true when that could not be told.
    pub dirty: bool,
    /// Whether folder and branch were removed, because it was proved that they held nothing.
    pub pruned: bool,
    /// Whether it could not be looked into, so that it was kept.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub inspection_failed: bool,
    /// What a reader has to know about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// The background processes of a child at its end (PROC-1…5).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ChildProcesses {
    /// Given to whoever asked for the child. Those that had ended by then, with an attempt whose process died, stand last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub handed_off: Vec<HandedOff>,
    /// The process groups of the first of them in the same order, by which it can be told whether they still run; for nobody's
    /// eyes. What had ended has none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub handed_groups: Vec<ProcessGroup>,
    /// Still running at the end, and ended with the child.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub orphaned: Vec<Orphaned>,
    /// Ended before, and nobody has looked at how.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unread: Vec<UnreadCompletion>,
}

/// A process that was given to a new owner.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandedOff {
    /// How its new owner calls it.
    pub session_id: String,
    /// What it runs, at most 200 characters.
    pub command: String,
    /// What for, in one sentence of the child.
    pub purpose: String,
    /// It was looked for when this was read, and runs no longer.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ended: bool,
    /// The process of legwork that it ran under has died, and nobody has ended it since: it is nobody's, and is ended as soon as
    /// somebody works with the state folder again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub left: bool,
}

/// A process that was ended with its child.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Orphaned {
    /// How the child called it.
    pub session_id: String,
    /// What it ran, at most 200 characters.
    pub command: String,
    /// How long it had run, two decimals.
    pub runtime_seconds: f64,
}

/// A process whose end nobody has looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnreadCompletion {
    /// How the child called it.
    pub session_id: String,
    /// What it ran, at most 200 characters.
    pub command: String,
    /// Its exit code; null when a signal or a limit ended it.
    pub exit_code: Option<i32>,
    /// The end of its output, at most 600 characters.
    pub output_tail: String,
}

impl ChildProcesses {
    /// Notes which of those that were handed over run no longer. One of which nothing is known counts as running.
    pub fn note_ended(&mut self, runs: impl Fn(&ProcessGroup) -> bool) {
        for (process, group) in self.handed_off.iter_mut().zip(&self.handed_groups) {
            process.ended = !runs(group);
        }
    }

    /// Notes that the process of legwork has died under which those ran that were handed over.
    pub fn note_left(&mut self) {
        self.handed_off.iter_mut().for_each(|process| process.left = !process.ended);
    }

    /// Whether there is nothing to tell.
    pub fn is_empty(&self) -> bool {
        self.handed_off.is_empty() && self.orphaned.is_empty() && self.unread.is_empty()
    }
}

impl Inactivity {
    /// The `timeout_phase` (RUN-16).
    pub fn timeout_phase(&self) -> &'static str {
        if self.model_calls == 0 { "before_first_llm_call" } else { "after_llm_calls" }
    }

    /// The `stall_phase` (STALL-6).
    pub fn stall_phase(&self) -> &'static str {
        match self.phase {
            QuietPhase::Idle => "idle",
            QuietPhase::InTool => "in_tool",
        }
    }
}

/// Milliseconds as seconds with two decimals.
pub fn seconds(milliseconds: u64) -> f64 {
    (milliseconds as f64 / 10.0).round() / 100.0
}
