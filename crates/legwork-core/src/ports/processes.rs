//! Port `Processes`: what recovery must know and do about operating-system processes, and about what they left. Asked by
//! recovery, answered by the agent's process module.

use crate::aftermath::Worktree;
use crate::ids::ChildId;
use crate::record::{Process, ProcessGroup};

/// Looks at processes and ends groups of them.
pub trait Processes: Send + Sync {
    /// This process.
    fn myself(&self) -> Process;

    /// Whether `process` still lives. A zombie counts as dead.
    fn liveness(&self, process: &Process) -> Liveness;

    /// Kills what is left of a group, if its leader is still the one that was stored or the group outlived it. A
    /// group id that was used again by somebody else is left alone.
    fn kill_group(&self, group: &ProcessGroup);

    /// Now, as start times are counted: in clock ticks since boot. Nothing began before 0, where that cannot be read.
    fn ticks(&self) -> u64;

    /// The worktree that a child of a delegation in `folder` had of its own, if it is still there (WT-5). It is named, and not
    /// looked into.
    fn worktree_of(&self, _child: &ChildId, _folder: &str) -> Option<Worktree> {
        None
    }

    /// Kills whatever else carries the mark of one of `children` and began before `before`, wherever it went, and says how
    /// many that were. A mark does not tell one attempt of a child from the next; their beginnings do.
    fn kill_marked(&self, children: &[ChildId], before: u64) -> usize;
}

/// Whether a process lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Liveness {
    /// It does.
    Alive,
    /// It is proved dead.
    Dead,
    /// It cannot be told; nothing may be taken from it (invariant 30).
    Unclear,
}
